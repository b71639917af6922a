// What kernels compute element by element: each of these is called for i in [0, count), for one
// element or for `n` side by side, which a lane then reads and writes at once (see packs.hpp). A
// functor `takes` so many where its memory is aligned and its rows divide.
//
// Free of CUDA, so that tests call the same functions on the CPU. Numbers are stored as T (float or
// Bfloat16) and computed with as floats; gradients of weights and all that the optimizer keeps are
// floats. What each means is said at Backend.

#pragma once

#include <math.h>

#include <cstdint>

#include "executor/backends/cuda/packs.hpp"
#include "executor/values/bfloat16.hpp"

namespace stagecraft::cuda {

template <class T>
STAGECRAFT_ON_BOTH inline float number(T value) {
  return static_cast<float>(value);
}

template <class T>
struct Add {
  using Element = T;
  const T* x;
  T* y;
  bool takes(int) const { return takes_packs(x) && takes_packs(y); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> a(x + i), b(y + i);
    store<n>(y + i, [&](int j) { return a[j] + b[j]; });
  }
};

template <class T>
struct Largest {
  using Element = T;
  const T* x;
  T* y;
  bool takes(int) const { return takes_packs(x) && takes_packs(y); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> a(x + i), b(y + i);
    store<n>(y + i, [&](int j) { return a[j] > b[j] ? a[j] : b[j]; });
  }
};

template <class From, class To>
struct Convert {
  using Element = float;  ///< as many as fit in a pack of the wider
  const From* from;
  To* to;
  bool takes(int) const { return takes_packs(from) && takes_packs(to); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, From> numbers(from + i);
    store<n>(to + i, [&](int j) { return numbers[j]; });
  }
};

/// Sets the flag if an element is infinite or not a number.
template <class T>
struct FindInfinite {
  using Element = T;
  const T* x;
  std::int32_t* flag;
  bool takes(int) const { return takes_packs(x); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> numbers(x + i);
    for (int j = 0; j < n; ++j) {
      // The difference is 0 for every finite number, and no number for the others.
      if (!(numbers[j] - numbers[j] == 0.0f)) *flag = 1;
    }
  }
};

template <class T>
struct AddBias {
  using Element = T;
  const T* bias;
  T* x;
  std::int64_t columns;
  bool takes(int n) const { return columns % n == 0 && takes_packs(bias) && takes_packs(x); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> numbers(x + i), added(bias + i % columns);
    store<n>(x + i, [&](int j) { return numbers[j] + added[j]; });
  }
};

// --- Activations ---------------------------------------------------------------------------------

STAGECRAFT_ON_BOTH inline float sigmoid(float x) {
  return 1.0f / (1.0f + expf(-x));
}

// gelu(x) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form, without a tanh.
inline constexpr float gelu_linear = 1.5957691216057308f;  // 2 sqrt(2/pi)
inline constexpr float gelu_cubic = 0.044715f * gelu_linear;

STAGECRAFT_ON_BOTH inline float gelu_gate(float x) {
  return sigmoid(x * (gelu_linear + gelu_cubic * x * x));
}

STAGECRAFT_ON_BOTH inline float gelu_slope(float x) {
  const float gate = gelu_gate(x);
  const float complement = gelu_gate(-x);  // 1 - gate, without cancellation
  return gate + x * (gelu_linear + 3.0f * gelu_cubic * x * x) * (gate * complement);
}

template <class T>
struct Gelu {
  using Element = T;
  const T* x;
  T* y;
  bool takes(int) const { return takes_packs(x) && takes_packs(y); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> numbers(x + i);
    store<n>(y + i, [&](int j) { return numbers[j] * gelu_gate(numbers[j]); });
  }
};

template <class T>
struct GeluInput {
  using Element = T;
  const T* dy;
  const T* x;
  T* dx;
  bool takes(int) const { return takes_packs(dy) && takes_packs(x) && takes_packs(dx); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> gradient(dy + i), numbers(x + i);
    store<n>(dx + i, [&](int j) { return gradient[j] * gelu_slope(numbers[j]); });
  }
};

/// x = [gate | up] in each row; i counts the elements of y.
template <class T>
struct Swiglu {
  using Element = T;
  const T* x;
  T* y;
  std::int64_t width;
  bool takes(int n) const { return width % n == 0 && takes_packs(x) && takes_packs(y); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const T* first = x + i / width * 2 * width + i % width;
    const Floats<n, T> gate(first), up(first + width);
    store<n>(y + i, [&](int j) { return gate[j] * sigmoid(gate[j]) * up[j]; });
  }
};

template <class T>
struct SwigluInput {
  using Element = T;
  const T* dy;
  const T* x;
  T* dx;
  std::int64_t width;
  bool takes(int n) const {
    return width % n == 0 && takes_packs(dy) && takes_packs(x) && takes_packs(dx);
  }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const std::int64_t first = i / width * 2 * width + i % width;
    const Floats<n, T> gate(x + first), up(x + first + width), gradient(dy + i);
    store<n>(dx + first, [&](int j) {
      const float s = sigmoid(gate[j]);
      return gradient[j] * up[j] * (s + gate[j] * s * sigmoid(-gate[j]));
    });
    store<n>(dx + first + width, [&](int j) { return gradient[j] * gate[j] * sigmoid(gate[j]); });
  }
};

// --- Positions and heads -------------------------------------------------------------------------

/// What a pair is turned by at one position.
struct Turn {
  float cosine;
  float sine;
};

/// i counts tokens x heads turned x pairs; `turns` are those of [positions, pairs].
template <class T>
struct Rotary {
  using Element = T;
  T* qkv;
  const Turn* turns;
  std::int64_t sequence;
  std::int64_t heads;  ///< queries and keys
  std::int64_t pairs;
  std::int64_t width;  ///< of a packed row
  float direction;     ///< -1 turns back
  bool takes(int n) const { return pairs % n == 0 && width % n == 0 && takes_packs(qkv); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const std::int64_t token = i / (heads * pairs);
    const std::int64_t head = i / pairs % heads;
    const std::int64_t pair = i % pairs;
    const Turn* turn = turns + token % sequence * pairs + pair;
    T* first = qkv + token * width + head * 2 * pairs + pair;
    const Floats<n, T> a(first), b(first + pairs);
    store<n>(first,
             [&](int j) { return a[j] * turn[j].cosine - b[j] * (direction * turn[j].sine); });
    store<n>(first + pairs,
             [&](int j) { return a[j] * (direction * turn[j].sine) + b[j] * turn[j].cosine; });
  }
};

/// Between rows of one sample [position, heads x width] and [head, position, width]; i counts the
/// elements of the latter.
template <class T>
struct HeadsApart {
  using Element = T;
  const T* rows;
  T* apart;
  std::int64_t sequence;
  std::int64_t width;   ///< of a head
  std::int64_t stride;  ///< of a row
  STAGECRAFT_ON_BOTH std::int64_t place(std::int64_t i) const {
    return i / width % sequence * stride + i / (width * sequence) * width + i % width;
  }
  bool divides(int n) const { return width % n == 0 && stride % n == 0; }
  bool takes(int n) const { return divides(n) && takes_packs(rows) && takes_packs(apart); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> numbers(rows + place(i));
    store<n>(apart + i, [&](int j) { return numbers[j]; });
  }
};
template <class T>
struct HeadsTogether {
  using Element = T;
  HeadsApart<T> shape;  ///< its pointers are not looked at
  const T* apart;
  T* rows;
  bool takes(int n) const { return shape.divides(n) && takes_packs(apart) && takes_packs(rows); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> numbers(apart + i);
    store<n>(rows + shape.place(i), [&](int j) { return numbers[j]; });
  }
};

// --- Embedding -----------------------------------------------------------------------------------

/// i counts the elements of y.
template <class T>
struct Embedding {
  using Element = T;
  const std::int32_t* tokens;
  const T* table;
  const T* positions;  ///< null: none
  T* y;
  std::int64_t first;
  std::int64_t rows;  ///< of the table
  std::int64_t columns;
  std::int64_t sequence;
  bool takes(int n) const {
    return columns % n == 0 && takes_packs(table) && takes_packs(positions) && takes_packs(y);
  }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const std::int64_t index = i / columns;
    const std::int64_t column = i % columns;
    const std::int64_t row = tokens[index] - first;
    Floats<n, T> sum, added;
    if (0 <= row && row < rows) sum.read(table + row * columns + column);
    if (positions != nullptr) added.read(positions + index % sequence * columns + column);
    store<n>(y + i, [&](int j) { return sum[j] + added[j]; });
  }
};

/// i counts distinct tokens x columns, and lists without rows that may follow. Each token's rows of
/// dy are added up in their order by one lane: `rows` lists them token by token (see `TokenLists`).
template <class T>
struct EmbeddingWeight {
  using Element = float;  ///< of which as many are added at once as a pack has
  const T* dy;
  const std::int32_t* places;  ///< rows of dtable
  const std::int32_t* starts;  ///< in `rows`, and its end
  const std::int32_t* rows;
  float* dtable;
  std::int64_t columns;
  bool takes(int n) const { return columns % n == 0 && takes_packs(dy) && takes_packs(dtable); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const std::int64_t list = i / columns;
    const std::int64_t column = i % columns;
    if (starts[list] == starts[list + 1]) return;
    float sum[n] = {};
    for (std::int32_t next = starts[list]; next < starts[list + 1]; ++next) {
      const Floats<n, T> gradient(dy + rows[next] * columns + column);
      for (int j = 0; j < n; ++j) sum[j] += gradient[j];
    }
    float* to = dtable + places[list] * columns + column;
    const Floats<n, float> before(to);
    store<n>(to, [&](int j) { return before[j] + sum[j]; });
  }
};

/// i counts positions x columns.
template <class T>
struct PositionWeight {
  using Element = float;  ///< of which as many are added at once as a pack has
  const T* dy;
  float* dpositions;
  std::int64_t columns;
  std::int64_t sequence;
  std::int64_t samples;
  bool takes(int n) const { return columns % n == 0 && takes_packs(dy) && takes_packs(dpositions); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    float sum[n] = {};
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      const Floats<n, T> gradient(dy + sample * sequence * columns + i);
      for (int j = 0; j < n; ++j) sum[j] += gradient[j];
    }
    const Floats<n, float> before(dpositions + i);
    store<n>(dpositions + i, [&](int j) { return before[j] + sum[j]; });
  }
};

// --- Loss and optimizers -------------------------------------------------------------------------

/// From e^(logit - top) to the gradient; i counts the logits of a part of the vocabulary, with what
/// lies between rows.
template <class T>
struct GradientOfPart {
  using Element = T;
  T* logits;
  const float* sums;
  const std::int32_t* targets;
  std::int64_t first;
  std::int64_t stride;  ///< from a row to the next
  float scale;
  bool takes(int n) const { return stride % n == 0 && takes_packs(logits); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const std::int64_t row = i / stride;
    const std::int64_t target = targets[row] - first - i % stride;
    const Floats<n, T> numbers(logits + i);
    store<n>(logits + i, [&](int j) {
      return scale * (numbers[j] / sums[2 * row] - (j == target ? 1.0f : 0.0f));
    });
  }
};

template <class T>
struct Scale {
  using Element = T;
  T* x;
  float factor;
  bool takes(int) const { return takes_packs(x); }
  template <int n>
  STAGECRAFT_ON_BOTH void at(std::int64_t i) const {
    const Floats<n, T> numbers(x + i);
    store<n>(x + i, [&](int j) { return numbers[j] * factor; });
  }
};

/// One tensor of those that an optimizer's kernel goes through. Where `rounded` is not null, the
/// new numbers go there in bf16, too.
struct UpdatedTensor {
  const float* gradient;
  float* first;
  float* second;
  const float* weight;
  float* updated;
  Bfloat16* rounded;
  std::int64_t elements;
  std::int64_t first_part;  ///< how many parts the tensors before have (see rows.hpp)
  bool operator==(const UpdatedTensor&) const = default;

  /// Whether all of it can be read and written in packs.
  STAGECRAFT_ON_BOTH bool takes_packs() const {
    return cuda::takes_packs(gradient) && cuda::takes_packs(first) && cuda::takes_packs(second) &&
           cuda::takes_packs(weight) && cuda::takes_packs(updated) && cuda::takes_packs(rounded);
  }
};

/// How many numbers a lane steps at a time: those of a pack of floats, so that the lanes of a warp
/// read and write whole sectors of memory with every instruction.
inline constexpr int numbers_at_once = in_pack<float>;
using ManyFloats = Floats<numbers_at_once, float>;

STAGECRAFT_ON_BOTH inline void set_updated(const UpdatedTensor& tensor, std::int64_t i,
                                           float value) {
  tensor.updated[i] = value;
  if (tensor.rounded != nullptr) tensor.rounded[i] = Bfloat16(value);
}

template <class Number>
STAGECRAFT_ON_BOTH inline void set_many_updated(const UpdatedTensor& tensor, std::int64_t first,
                                                const Number& number) {
  store<numbers_at_once>(tensor.updated + first, number);
  if (tensor.rounded != nullptr) store<numbers_at_once>(tensor.rounded + first, number);
}

/// Loshchilov & Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.
struct AdamWStep {
  float keep_first, take_first, keep_second, take_second;
  float rate;        ///< with the first moment's correction
  float correction;  ///< of the second moment's root
  float epsilon;
  float decay;
  float factor;  ///< of the gradient

  STAGECRAFT_ON_BOTH float first_moment(float before, float g) const {
    return keep_first * before + take_first * g;
  }
  STAGECRAFT_ON_BOTH float second_moment(float before, float g) const {
    return keep_second * before + take_second * g * g;
  }
  STAGECRAFT_ON_BOTH float updated(float weight, float m, float v) const {
    const float change = rate * m / (sqrtf(v) * correction + epsilon);
    return weight - (change + decay * weight);
  }

  STAGECRAFT_ON_BOTH void operator()(const UpdatedTensor& tensor, std::int64_t i) const {
    const float g = tensor.gradient[i] * factor;
    const float m = first_moment(tensor.first[i], g);
    const float v = second_moment(tensor.second[i], g);
    tensor.first[i] = m;
    tensor.second[i] = v;
    set_updated(tensor, i, updated(tensor.weight[i], m, v));
  }

  /// Of numbers_at_once from `first` on, which packs can be read at.
  STAGECRAFT_ON_BOTH void of_many(const UpdatedTensor& tensor, std::int64_t first) const {
    const ManyFloats gradient(tensor.gradient + first), weight(tensor.weight + first);
    const ManyFloats m_before(tensor.first + first), v_before(tensor.second + first);
    float m[numbers_at_once], v[numbers_at_once];
    for (int i = 0; i < numbers_at_once; ++i) {
      const float g = gradient[i] * factor;
      m[i] = first_moment(m_before[i], g);
      v[i] = second_moment(v_before[i], g);
    }
    store<numbers_at_once>(tensor.first + first, [&](int i) { return m[i]; });
    store<numbers_at_once>(tensor.second + first, [&](int i) { return v[i]; });
    set_many_updated(tensor, first, [&](int i) { return updated(weight[i], m[i], v[i]); });
  }
};

struct SgdStep {
  float rate;
  float factor;
  STAGECRAFT_ON_BOTH void operator()(const UpdatedTensor& tensor, std::int64_t i) const {
    set_updated(tensor, i, tensor.weight[i] - rate * (tensor.gradient[i] * factor));
  }

  STAGECRAFT_ON_BOTH void of_many(const UpdatedTensor& tensor, std::int64_t first) const {
    const ManyFloats gradient(tensor.gradient + first), weight(tensor.weight + first);
    set_many_updated(tensor, first,
                     [&](int i) { return weight[i] - rate * (gradient[i] * factor); });
  }
};

}  // namespace stagecraft::cuda
