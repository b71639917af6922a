// bf16 numbers: the upper half of a float, for memory only; arithmetic is in float.

#pragma once

#include <cstdint>
#include <cstring>

// nvcc compiles functions so marked for both the process and the GPU.
#ifdef __CUDACC__
#define STAGECRAFT_ON_BOTH __host__ __device__
#else
#define STAGECRAFT_ON_BOTH
#endif

namespace stagecraft {

struct Bfloat16 {
  std::uint16_t bits = 0;

  Bfloat16() = default;
  /// To nearest, ties to even; what is no number stays none.
  STAGECRAFT_ON_BOTH explicit Bfloat16(float value) {
    std::uint32_t wide = 0;
    memcpy(&wide, &value, sizeof wide);
    const bool is_number = (wide & 0x7fffffffu) <= 0x7f800000u;
    const std::uint32_t rounded = wide + 0x7fffu + (wide >> 16 & 1u);
    bits = static_cast<std::uint16_t>((is_number ? rounded : (wide | 0x400000u)) >> 16);
  }
  STAGECRAFT_ON_BOTH explicit operator float() const {
    const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
    float value = 0;
    memcpy(&value, &wide, sizeof value);
    return value;
  }
};

}  // namespace stagecraft
