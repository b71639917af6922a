// Attention, one sample and head at a time, in blocks of query rows. A block looks at the keys up
// to its last row only, so causal attention costs little more than half of the full square:
//
//             keys
//          ┌──┐
//   query  │##├──┐         # computed; above the diagonal inside a block the probabilities are set
//   to zero blocks │#####├──┐
//          │########│
//
// Forward keeps the log of each row's sum of exponentials; backward gets the probabilities back
// from it.

#include <algorithm>
#include <vector>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

namespace {

constexpr std::int64_t block_rows = 64;

// Rows of each sample: those before the first query have keys and values only.
std::int64_t key_rows(const AttentionShape& shape) {
  return shape.past + shape.sequence;
}

// Where one sample and head's parts lie inside packed rows: the first query, the first key.
struct Places {
  std::int64_t query = 0, key = 0, value = 0;  // in the packed rows
  std::int64_t output = 0;                     // in the rows of y
  std::int64_t log_sum = 0;
};

std::int64_t packed_width(const AttentionShape& shape) {
  return (shape.heads + 2 * shape.key_value_heads) * shape.head_width;
}

std::int64_t output_width(const AttentionShape& shape) {
  return shape.heads * shape.head_width;
}

Places places_of(const AttentionShape& shape, std::int64_t sample, std::int64_t head) {
  const std::int64_t group = head / (shape.heads / shape.key_value_heads);
  const std::int64_t start = sample * key_rows(shape) * packed_width(shape);
  const std::int64_t key = start + (shape.heads + group) * shape.head_width;
  return {.query = start + shape.past * packed_width(shape) + head * shape.head_width,
          .key = key,
          .value = key + shape.key_value_heads * shape.head_width,
          .output = sample * shape.sequence * output_width(shape) + head * shape.head_width,
          .log_sum = (sample * shape.heads + head) * shape.sequence};
}

// Query rows [first, end) and the keys [first_key, first_key + keys) they look at.
struct Block {
  std::int64_t first = 0, end = 0, first_key = 0, keys = 0, past = 0, window = 0;
  bool causal = true;
  std::int64_t rows() const { return end - first; }
  // Of query row `row`, counted from the block's first: the keys [hidden, visible), counted from
  // the block's first key.
  std::int64_t visible(std::int64_t row) const {
    return causal ? past + first + row + 1 - first_key : keys;
  }
  std::int64_t hidden(std::int64_t row) const {
    return window == 0 ? 0 : std::max<std::int64_t>(0, visible(row) - window);
  }
};

template <class Visit>
void for_each_block(const AttentionShape& shape, Visit visit) {
  for (std::int64_t first = 0; first < shape.sequence; first += block_rows) {
    const std::int64_t end = std::min(first + block_rows, shape.sequence);
    const std::int64_t end_key = shape.causal ? shape.past + end : key_rows(shape);
    const std::int64_t first_key =
        shape.window == 0 ? 0 : std::max<std::int64_t>(0, shape.past + first + 1 - shape.window);
    visit(
        Block{first, end, first_key, end_key - first_key, shape.past, shape.window, shape.causal});
  }
}

template <class Visit>
void for_each_head(const AttentionShape& shape, Visit visit) {
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) visit(places_of(shape, sample, head));
  }
}

double score_scale(const AttentionShape& shape) {
  return 1.0 / std::sqrt(shape.score_width > 0 ? shape.score_width
                                               : static_cast<double>(shape.head_width));
}

// The block's scores become exponentials relative to the row's largest, zero where hidden; returns
// nothing but leaves the log of their sum and its inverse.
template <class T>
STAGECRAFT_VECTORISED void exponentials(T* scores, Block block, T* log_sum, T* inverse_sum) {
  for (std::int64_t row = 0; row < block.rows(); ++row) {
    T* values = scores + row * block.keys;
    const std::int64_t visible = block.visible(row);
    const std::int64_t hidden = block.hidden(row);
    const T top = largest(values + hidden, visible - hidden);
    for (std::int64_t i = 0; i < hidden; ++i) values[i] = 0;
    for (std::int64_t i = hidden; i < visible; ++i) values[i] = exponential(values[i] - top);
    for (std::int64_t i = visible; i < block.keys; ++i) values[i] = 0;
    const T* seen = values + hidden;
    const T sum = ordered_sum<T>(visible - hidden, [&](std::int64_t i) { return seen[i]; });
    log_sum[row] = top + std::log(sum);
    inverse_sum[row] = T(1) / sum;
  }
}

template <class T>
STAGECRAFT_VECTORISED void scale_rows(T* y, std::int64_t stride, std::int64_t rows,
                                      std::int64_t width, const T* factors) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < width; ++i) y[row * stride + i] *= factors[row];
  }
}

// The probabilities from the scores and what forward kept.
template <class T>
STAGECRAFT_VECTORISED void probabilities(T* scores, Block block, const T* log_sum) {
  for (std::int64_t row = 0; row < block.rows(); ++row) {
    T* values = scores + row * block.keys;
    const std::int64_t visible = block.visible(row);
    const std::int64_t hidden = block.hidden(row);
    const T shift = log_sum[row];
    for (std::int64_t i = 0; i < hidden; ++i) values[i] = 0;
    for (std::int64_t i = hidden; i < visible; ++i) values[i] = exponential(values[i] - shift);
    for (std::int64_t i = visible; i < block.keys; ++i) values[i] = 0;
  }
}

// Softmax's gradient: gradients of probabilities become those of scores, P (dP - sum P dP); the sum
// is dy · y.
template <class T>
STAGECRAFT_VECTORISED void score_gradients(const T* probability, T* gradient, Block block,
                                           const T* dy, const T* y, std::int64_t stride,
                                           std::int64_t width) {
  for (std::int64_t row = 0; row < block.rows(); ++row) {
    const T* p = probability + row * block.keys;
    T* g = gradient + row * block.keys;
    const T* out = y + row * stride;
    const T* dout = dy + row * stride;
    const T sum = ordered_sum<T>(width, [&](std::int64_t i) { return out[i] * dout[i]; });
    for (std::int64_t i = 0; i < block.keys; ++i) g[i] = p[i] * (g[i] - sum);
  }
}

// One head's tensors, and the products between them that both passes are made of.
template <class T>
struct Head {
  const T* qkv;
  Places at;
  std::int64_t packed;
  std::int64_t width;

  Factor<T> query(Block block) const { return {qkv + at.query + block.first * packed, packed}; }
  Factor<T> key(Block block, bool transposed) const {
    return {qkv + at.key + block.first_key * packed, packed, transposed};
  }
  Factor<T> value(Block block, bool transposed) const {
    return {qkv + at.value + block.first_key * packed, packed, transposed};
  }
};

template <class T>
Product<T> square(T* data, Block block) {
  return {data, block.keys, block.rows(), block.keys};
}

template <class T>
Factor<T> square_factor(const T* data, Block block, bool transposed) {
  return {data, block.keys, transposed};
}

// Key and value gradients are sums over blocks and heads, so they start at zero; queries before the
// first have none.
template <class T>
void zero_sums(const AttentionShape& shape, T* dqkv) {
  const std::int64_t packed = packed_width(shape);
  for (std::int64_t row = 0; row < shape.samples * key_rows(shape); ++row) {
    const bool is_past = row % key_rows(shape) < shape.past;
    std::fill(dqkv + row * packed + (is_past ? 0 : output_width(shape)), dqkv + (row + 1) * packed,
              T(0));
  }
}

// Cosine and sine of position × frequency for each pair of a head, moved on from position to
// position by the addition theorem, in double: far cheaper than calling cos and sin, and off by
// less than 1e-12 after thousands of steps.
template <class T>
class Angles {
 public:
  explicit Angles(std::span<const double> frequencies) {
    for (const double angle : frequencies) steps_.push_back({std::cos(angle), std::sin(angle)});
    restart();
  }

  void restart() { now_.assign(steps_.size(), {1.0, 0.0}); }

  void advance() {
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      const Turn now = now_[i];
      now_[i] = {now.cosine * steps_[i].cosine - now.sine * steps_[i].sine,
                 now.sine * steps_[i].cosine + now.cosine * steps_[i].sine};
    }
  }

  // Turns the pairs (i, i + half) of one head.
  void turn(T* head, bool inverse) const {
    const std::size_t half = now_.size();
    for (std::size_t i = 0; i < half; ++i) {
      const T cosine = static_cast<T>(now_[i].cosine);
      const T sine = static_cast<T>(inverse ? -now_[i].sine : now_[i].sine);
      const T first = head[i];
      const T second = head[i + half];
      head[i] = first * cosine - second * sine;
      head[i + half] = second * cosine + first * sine;
    }
  }

 private:
  struct Turn {
    double cosine;
    double sine;
  };
  std::vector<Turn> steps_;
  std::vector<Turn> now_;
};

}  // namespace

template <class T>
void rotary(T* qkv, const AttentionShape& shape, std::span<const double> frequencies,
            bool inverse) {
  Angles<T> angles(frequencies);
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    angles.restart();
    for (std::int64_t position = 0; position < shape.past; ++position) angles.advance();
    for (std::int64_t position = 0; position < shape.sequence; ++position) {
      T* row = qkv + (sample * shape.sequence + position) * packed_width(shape);
      for (std::int64_t head = 0; head < shape.heads + shape.key_value_heads; ++head) {
        angles.turn(row + head * shape.head_width, inverse);
      }
      angles.advance();
    }
  }
}

std::int64_t attention_workspace(const AttentionShape& shape) {
  return (key_rows(shape) + 1) * std::min(block_rows, shape.sequence);
}

std::int64_t attention_input_workspace(const AttentionShape& shape) {
  return 2 * key_rows(shape) * std::min(block_rows, shape.sequence);
}

template <class T>
void attention(const T* qkv, const AttentionShape& shape, T* y, T* log_sum, T* workspace) {
  const std::int64_t width = shape.head_width;
  const std::int64_t stride = output_width(shape);
  T* scores = workspace;
  T* inverse_sums = workspace + key_rows(shape) * std::min(block_rows, shape.sequence);
  for_each_head(shape, [&](Places at) {
    const Head<T> head{qkv, at, packed_width(shape), width};
    for_each_block(shape, [&](Block block) {
      T* out = y + at.output + block.first * stride;
      multiply(score_scale(shape), head.query(block), head.key(block, true), width, 0,
               square(scores, block));
      exponentials(scores, block, log_sum + at.log_sum + block.first, inverse_sums);
      multiply(1, square_factor<T>(scores, block, false), head.value(block, false), block.keys, 0,
               Product<T>{out, stride, block.rows(), width});
      scale_rows(out, stride, block.rows(), width, inverse_sums);
    });
  });
}

template <class T>
void attention_input(const T* dy, const T* qkv, const T* y, const T* log_sum,
                     const AttentionShape& shape, T* dqkv, T* workspace) {
  const std::int64_t width = shape.head_width;
  const std::int64_t stride = output_width(shape);
  const std::int64_t packed = packed_width(shape);
  const double scale = score_scale(shape);
  T* p = workspace;
  T* ds = workspace + key_rows(shape) * std::min(block_rows, shape.sequence);
  zero_sums(shape, dqkv);
  for_each_head(shape, [&](Places at) {
    const Head<T> head{qkv, at, packed, width};
    for_each_block(shape, [&](Block block) {
      const T* out = y + at.output + block.first * stride;
      const T* dout = dy + at.output + block.first * stride;
      T* dquery = dqkv + at.query + block.first * packed;
      multiply(scale, head.query(block), head.key(block, true), width, 0, square(p, block));
      probabilities(p, block, log_sum + at.log_sum + block.first);
      multiply(1, square_factor<T>(p, block, true), Factor<T>{dout, stride}, block.rows(), 1,
               Product<T>{dqkv + at.value + block.first_key * packed, packed, block.keys, width});
      multiply(1, Factor<T>{dout, stride}, head.value(block, true), width, 0, square(ds, block));
      score_gradients(p, ds, block, dout, out, stride, width);
      multiply(scale, square_factor<T>(ds, block, false), head.key(block, false), block.keys, 0,
               Product<T>{dquery, packed, block.rows(), width});
      multiply(scale, square_factor<T>(ds, block, true), head.query(block), block.rows(), 1,
               Product<T>{dqkv + at.key + block.first_key * packed, packed, block.keys, width});
    });
  });
}

#define STAGECRAFT_INSTANTIATE(T)                                                                  \
  template void rotary(T*, const AttentionShape&, std::span<const double>, bool);                  \
  template void attention(const T*, const AttentionShape&, T*, T*, T*);                            \
  template void attention_input(const T*, const T*, const T*, const T*, const AttentionShape&, T*, \
                                T*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
