// What kernels compute element by element: each of these is called once for every i in [0, count).
//
// Free of CUDA, so that tests call the same functions on the CPU. Numbers are stored as T (float or
// Bfloat16) and computed with as floats; gradients of weights and all that the optimizer keeps are
// floats. What each means is said at Backend.

#pragma once

#include <math.h>

#include <cstdint>

#include "executor/backends/cuda/packs.hpp"
#include "executor/bfloat16.hpp"

namespace stagecraft::cuda {

template <class T>
STAGECRAFT_ON_BOTH inline float number(T value) {
  return static_cast<float>(value);
}

template <class T>
struct Add {
  const T* x;
  T* y;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    y[i] = T(number(x[i]) + number(y[i]));
  }
};

template <class T>
struct Largest {
  const T* x;
  T* y;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    if (number(x[i]) > number(y[i])) y[i] = x[i];
  }
};

template <class From, class To>
struct Convert {
  const From* from;
  To* to;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const { to[i] = To(number(from[i])); }
};

/// Sets the flag if an element is infinite or not a number.
template <class T>
struct FindInfinite {
  const T* x;
  std::int32_t* flag;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const float value = number(x[i]);
    // The difference is 0 for every finite number, and no number for the others.
    if (!(value - value == 0.0f)) *flag = 1;
  }
};

template <class T>
struct AddBias {
  const T* bias;
  T* x;
  std::int64_t columns;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    x[i] = T(number(x[i]) + number(bias[i % columns]));
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

template <class T>
struct Gelu {
  const T* x;
  T* y;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const float value = number(x[i]);
    y[i] = T(value * gelu_gate(value));
  }
};

template <class T>
struct GeluInput {
  const T* dy;
  const T* x;
  T* dx;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const float value = number(x[i]);
    const float gate = gelu_gate(value);
    const float complement = gelu_gate(-value);  // 1 - gate, without cancellation
    const float slope = gelu_linear + 3.0f * gelu_cubic * value * value;
    dx[i] = T(number(dy[i]) * (gate + value * slope * (gate * complement)));
  }
};

/// x = [gate | up] in each row; i counts the elements of y.
template <class T>
struct Swiglu {
  const T* x;
  T* y;
  std::int64_t width;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const T* gate = x + i / width * 2 * width + i % width;
    const float value = number(gate[0]);
    y[i] = T(value * sigmoid(value) * number(gate[width]));
  }
};

template <class T>
struct SwigluInput {
  const T* dy;
  const T* x;
  T* dx;
  std::int64_t width;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const std::int64_t at = i / width * 2 * width + i % width;
    const float gate = number(x[at]);
    const float up = number(x[at + width]);
    const float s = sigmoid(gate);
    const float gradient = number(dy[i]);
    dx[at] = T(gradient * up * (s + gate * s * sigmoid(-gate)));
    dx[at + width] = T(gradient * gate * s);
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
  T* qkv;
  const Turn* turns;
  std::int64_t sequence;
  std::int64_t heads;  ///< queries and keys
  std::int64_t pairs;
  std::int64_t width;  ///< of a packed row
  float direction;     ///< -1 turns back
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const std::int64_t token = i / (heads * pairs);
    const std::int64_t head = i / pairs % heads;
    const std::int64_t pair = i % pairs;
    const Turn turn = turns[token % sequence * pairs + pair];
    T* first = qkv + token * width + head * 2 * pairs + pair;
    const float a = number(first[0]);
    const float b = number(first[pairs]);
    const float sine = direction * turn.sine;
    first[0] = T(a * turn.cosine - b * sine);
    first[pairs] = T(a * sine + b * turn.cosine);
  }
};

/// Between rows of one sample [position, heads x width] and [head, position, width]; i counts the
/// elements of the latter.
template <class T>
struct HeadsApart {
  const T* rows;
  T* apart;
  std::int64_t sequence;
  std::int64_t width;   ///< of a head
  std::int64_t stride;  ///< of a row
  STAGECRAFT_ON_BOTH std::int64_t place(std::int64_t i) const {
    return i / width % sequence * stride + i / (width * sequence) * width + i % width;
  }
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const { apart[i] = rows[place(i)]; }
};
template <class T>
struct HeadsTogether {
  HeadsApart<T> shape;  ///< its pointers are not looked at
  const T* apart;
  T* rows;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const { rows[shape.place(i)] = apart[i]; }
};

// --- Embedding -----------------------------------------------------------------------------------

/// i counts the elements of y.
template <class T>
struct Embedding {
  const std::int32_t* tokens;
  const T* table;
  const T* positions;  ///< null: none
  T* y;
  std::int64_t first;
  std::int64_t rows;  ///< of the table
  std::int64_t columns;
  std::int64_t sequence;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const std::int64_t index = i / columns;
    const std::int64_t column = i % columns;
    const std::int64_t row = tokens[index] - first;
    float value = 0 <= row && row < rows ? number(table[row * columns + column]) : 0.0f;
    if (positions != nullptr) value += number(positions[index % sequence * columns + column]);
    y[i] = T(value);
  }
};

/// i counts distinct tokens x columns, and lists without rows that may follow. Each token's rows of
/// dy are added up in their order by one thread: `rows` lists them token by token (see
/// `TokenLists`).
template <class T>
struct EmbeddingWeight {
  const T* dy;
  const std::int32_t* places;  ///< rows of dtable
  const std::int32_t* starts;  ///< in `rows`, and its end
  const std::int32_t* rows;
  float* dtable;
  std::int64_t columns;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const std::int64_t list = i / columns;
    const std::int64_t column = i % columns;
    if (starts[list] == starts[list + 1]) return;
    float sum = 0;
    for (std::int32_t at = starts[list]; at < starts[list + 1]; ++at) {
      sum += number(dy[rows[at] * columns + column]);
    }
    dtable[places[list] * columns + column] += sum;
  }
};

/// i counts positions x columns.
template <class T>
struct PositionWeight {
  const T* dy;
  float* dpositions;
  std::int64_t columns;
  std::int64_t sequence;
  std::int64_t samples;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    float sum = 0;
    for (std::int64_t sample = 0; sample < samples; ++sample) {
      sum += number(dy[sample * sequence * columns + i]);
    }
    dpositions[i] += sum;
  }
};

// --- Loss and optimizers -------------------------------------------------------------------------

/// From e^(logit - top) to the gradient; i counts the logits of a part of the vocabulary.
template <class T>
struct GradientOfPart {
  T* logits;
  const float* sums;
  const std::int32_t* targets;
  std::int64_t first;
  std::int64_t columns;
  float scale;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const {
    const std::int64_t row = i / columns;
    const float hit = targets[row] - first == i % columns ? 1.0f : 0.0f;
    logits[i] = T(scale * (number(logits[i]) / sums[2 * row] - hit));
  }
};

template <class T>
struct Scale {
  T* x;
  float factor;
  STAGECRAFT_ON_BOTH void operator()(std::int64_t i) const { x[i] = T(number(x[i]) * factor); }
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

/// How many numbers a lane steps at a time: those of one pack in bf16.
inline constexpr int numbers_at_once = in_pack<Bfloat16>;

/// numbers_at_once floats side by side.
struct StepFloats {
  Pack<float> halves[2];
  STAGECRAFT_ON_BOTH explicit StepFloats(const float* from)
      : halves{pack_at(from), pack_at(from + in_pack<float>)} {}
  STAGECRAFT_ON_BOTH float operator[](int i) const {
    return halves[i / in_pack<float>][i % in_pack<float>];
  }
};

template <class Number>
STAGECRAFT_ON_BOTH inline void store_floats(float* to, const Number& number) {
  store_pack(to, number);
  store_pack(to + in_pack<float>, [&](int i) { return number(i + in_pack<float>); });
}

STAGECRAFT_ON_BOTH inline void set_updated(const UpdatedTensor& tensor, std::int64_t i,
                                           float value) {
  tensor.updated[i] = value;
  if (tensor.rounded != nullptr) tensor.rounded[i] = Bfloat16(value);
}

template <class Number>
STAGECRAFT_ON_BOTH inline void set_many_updated(const UpdatedTensor& tensor, std::int64_t first,
                                                const Number& number) {
  store_floats(tensor.updated + first, number);
  if (tensor.rounded != nullptr) store_pack(tensor.rounded + first, number);
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
    const StepFloats gradient(tensor.gradient + first), weight(tensor.weight + first);
    const StepFloats m_before(tensor.first + first), v_before(tensor.second + first);
    float m[numbers_at_once], v[numbers_at_once];
    for (int i = 0; i < numbers_at_once; ++i) {
      const float g = gradient[i] * factor;
      m[i] = first_moment(m_before[i], g);
      v[i] = second_moment(v_before[i], g);
    }
    store_floats(tensor.first + first, [&](int i) { return m[i]; });
    store_floats(tensor.second + first, [&](int i) { return v[i]; });
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
    const StepFloats gradient(tensor.gradient + first), weight(tensor.weight + first);
    set_many_updated(tensor, first,
                     [&](int i) { return weight[i] - rate * (gradient[i] * factor); });
  }
};

}  // namespace stagecraft::cuda
