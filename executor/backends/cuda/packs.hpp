// Numbers in packs of 16 bytes, which a lane reads and writes at once: what memory on a GPU is
// fastest with. Free of CUDA, like elements.hpp.

#pragma once

#include <cstdint>
#include <cstring>

#include "executor/values/bfloat16.hpp"

// Before a loop that is unrolled on the GPU, so that what it indexes stays in registers.
#ifdef __CUDA_ARCH__
#define STAGECRAFT_UNROLLED _Pragma("unroll")
#else
#define STAGECRAFT_UNROLLED
#endif

namespace stagecraft::cuda {

inline constexpr int pack_bytes = 16;

/// How many numbers a pack has: 4 floats, or 8 in bf16.
template <class T>
inline constexpr int in_pack = pack_bytes / static_cast<int>(sizeof(T));

/// The numbers of a pack as they lie in memory, which otherwise is looked at as single ones. Index
/// them by constants or in loops that the compiler unrolls, so that they stay in registers.
template <class T>
struct alignas(pack_bytes) Pack;

template <>
struct alignas(pack_bytes) [[gnu::may_alias]] Pack<float> {
  float numbers[4];

  STAGECRAFT_ON_BOTH float operator[](int i) const { return numbers[i]; }
  STAGECRAFT_ON_BOTH void set(int i, float value) { numbers[i] = value; }
};

template <>
struct alignas(pack_bytes) [[gnu::may_alias]] Pack<Bfloat16> {
  std::uint32_t pairs[4];  ///< the first of a pair in the lower half

  STAGECRAFT_ON_BOTH float operator[](int i) const {
    const std::uint32_t pair = pairs[i / 2];
    const std::uint32_t wide = i % 2 == 0 ? pair << 16 : pair & 0xffff0000u;
    float value = 0;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
  STAGECRAFT_ON_BOTH void set(int i, float value) {
    const int shift = 16 * (i % 2);
    const std::uint32_t bits = Bfloat16(value).bits;
    pairs[i / 2] = (pairs[i / 2] & ~(0xffffu << shift)) | bits << shift;
  }
};

/// Two numbers as bf16, the first in the lower half.
STAGECRAFT_ON_BOTH inline std::uint32_t pair_of(float first, float second) {
#ifdef __CUDA_ARCH__
  std::uint32_t pair = 0;  // as Bfloat16 rounds, but in one instruction
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
#else
  return Bfloat16(first).bits | static_cast<std::uint32_t>(Bfloat16(second).bits) << 16;
#endif
}

/// `from`: aligned to 16 bytes, as below.
template <class T>
STAGECRAFT_ON_BOTH inline Pack<T> pack_at(const T* from) {
  return *reinterpret_cast<const Pack<T>*>(from);
}

/// Stores number(i) for every i in [0, in_pack<T>).
template <class Number>
STAGECRAFT_ON_BOTH inline void store_pack(float* to, const Number& number) {
  Pack<float> pack;
  STAGECRAFT_UNROLLED
  for (int i = 0; i < 4; ++i) pack.numbers[i] = number(i);
  *reinterpret_cast<Pack<float>*>(to) = pack;
}
template <class Number>
STAGECRAFT_ON_BOTH inline void store_pack(Bfloat16* to, const Number& number) {
  Pack<Bfloat16> pack;
  STAGECRAFT_UNROLLED
  for (int i = 0; i < 4; ++i) pack.pairs[i] = pair_of(number(2 * i), number(2 * i + 1));
  *reinterpret_cast<Pack<Bfloat16>*>(to) = pack;
}

/// Half a pack in bf16: as many numbers as a pack of floats has.
struct alignas(pack_bytes / 2) [[gnu::may_alias]] HalfPack {
  std::uint32_t pairs[2];
};

/// Numbers side by side: one, read as it is, or some that fill packs, or half a pack in bf16.
template <int n, class T>
class Floats {
 public:
  Floats() = default;  ///< zeros
  STAGECRAFT_ON_BOTH explicit Floats(const T* from) { read(from); }

  STAGECRAFT_ON_BOTH void read(const T* from) {
    if constexpr (n == 1) {
      numbers_[0] = static_cast<float>(*from);
    } else if constexpr (n < in_pack<T>) {
      const HalfPack half = *reinterpret_cast<const HalfPack*>(from);
      const Pack<Bfloat16> pack{{half.pairs[0], half.pairs[1], 0, 0}};
      STAGECRAFT_UNROLLED
      for (int i = 0; i < n; ++i) numbers_[i] = pack[i];
    } else {
      STAGECRAFT_UNROLLED
      for (int k = 0; k < n / in_pack<T>; ++k) {
        const Pack<T> pack = pack_at(from + k * in_pack<T>);
        STAGECRAFT_UNROLLED
        for (int i = 0; i < in_pack<T>; ++i) numbers_[k * in_pack<T> + i] = pack[i];
      }
    }
  }

  STAGECRAFT_ON_BOTH float operator[](int i) const { return numbers_[i]; }

 private:
  float numbers_[n] = {};
};

/// Stores number(i) for every i in [0, n).
template <int n, class T, class Number>
STAGECRAFT_ON_BOTH inline void store(T* to, const Number& number) {
  if constexpr (n == 1) {
    *to = T(number(0));
  } else if constexpr (n < in_pack<T>) {
    *reinterpret_cast<HalfPack*>(to) = {
        {pair_of(number(0), number(1)), pair_of(number(2), number(3))}};
  } else {
    STAGECRAFT_UNROLLED
    for (int k = 0; k < n / in_pack<T>; ++k) {
      store_pack(to + k * in_pack<T>, [&](int i) { return number(k * in_pack<T> + i); });
    }
  }
}

/// Whether packs can be read there; of null, which is not read, too.
STAGECRAFT_ON_BOTH inline bool takes_packs(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % pack_bytes == 0;
}

/// Numbers of a row from the lane's first pack on, of so many columns; its k-th pack begins
/// `pack_step(team) * k` of them later. Rows that are held have fewer than 2^31.
template <class T, class Team>
STAGECRAFT_ON_BOTH int columns_left(const Team& team, std::int64_t columns) {
  return static_cast<int>(columns) - team.lane() * in_pack<T>;
}
template <class T, class Team>
STAGECRAFT_ON_BOTH int pack_step(const Team& team) {
  return team.size() * in_pack<T>;
}

/// A row as a team holds it in registers: lane i has the packs i, i + size …, `most` of them.
template <class T, int most>
class HeldRow {
 public:
  template <class Team>
  STAGECRAFT_ON_BOTH HeldRow(const Team& team, const T* row, std::int64_t columns) {
    const int left = columns_left<T>(team, columns), step = pack_step<T>(team);
    const T* first = row + team.lane() * in_pack<T>;
    STAGECRAFT_UNROLLED
    for (int k = 0; k < most; ++k) {
      if (k * step < left) packs_[k] = pack_at(first + k * step);
    }
  }
  /// Of a row whose last pack may be read beyond its end: there this number is put instead.
  template <class Team>
  STAGECRAFT_ON_BOTH HeldRow(const Team& team, const T* row, std::int64_t columns, float beyond)
      : HeldRow(team, row, columns) {
    if (columns % in_pack<T> == 0) return;
    const int left = columns_left<T>(team, columns), step = pack_step<T>(team);
    STAGECRAFT_UNROLLED
    for (int k = 0; k < most; ++k) {
      STAGECRAFT_UNROLLED
      for (int i = 1; i < in_pack<T>; ++i) {
        if (k * step + i >= left) packs_[k].set(i, beyond);
      }
    }
  }

  STAGECRAFT_ON_BOTH const Pack<T>& operator[](int k) const { return packs_[k]; }

 private:
  Pack<T> packs_[most];
};

/// Calls visit(k, column of its first number) for each pack of the lane.
template <class T, int most, class Team, class Visit>
STAGECRAFT_ON_BOTH void each_pack(const Team& team, std::int64_t columns, const Visit& visit) {
  const int left = columns_left<T>(team, columns), step = pack_step<T>(team);
  const int first = team.lane() * in_pack<T>;
  STAGECRAFT_UNROLLED
  for (int k = 0; k < most; ++k) {
    if (k * step < left) visit(k, static_cast<std::int64_t>(first + k * step));
  }
}

/// Over all lanes the sum of term(k, i) for each number i of each pack k.
template <class T, int most, class Team, class Term>
STAGECRAFT_ON_BOTH float held_sum(const Team& team, std::int64_t columns, const Term& term) {
  float sum = 0;
  each_pack<T, most>(team, columns, [&](int k, std::int64_t) {
    STAGECRAFT_UNROLLED
    for (int i = 0; i < in_pack<T>; ++i) sum += term(k, i);
  });
  return team.sum(sum);
}

}  // namespace stagecraft::cuda
