// What kernels compute row by row, each row by a team of lanes: a warp, or a block.
//
//   lane()         0 … size() - 1; lane i takes the columns i, i + size(), i + 2 size() …
//   sum(x)         over all lanes, the same bits on each and always in the same order
//   largest(x)     over all lanes
//
// `sum` and `largest` are also where lanes meet: what was written before is seen behind them. Free
// of CUDA, so that tests carry out the same functions with a team of threads on the CPU.
//
// A row whose functor `can_hold` it is kept in registers instead, in packs of 16 bytes: `held` then
// reads and writes every number once.

#pragma once

#include <math.h>

#include <cstdint>

#include "executor/backends/cuda/elements.hpp"
#include "executor/backends/cuda/packs.hpp"

namespace stagecraft::cuda {

template <class Team, class Term>
STAGECRAFT_ON_BOTH float row_sum(const Team& team, std::int64_t columns, const Term& term) {
  float sum = 0;
  for (std::int64_t i = team.lane(); i < columns; i += team.size()) sum += term(i);
  return team.sum(sum);
}

template <class Team, class Visit>
STAGECRAFT_ON_BOTH void each_column(const Team& team, std::int64_t columns, const Visit& visit) {
  for (std::int64_t i = team.lane(); i < columns; i += team.size()) visit(i);
}

// --- Norms ---------------------------------------------------------------------------------------

/// LayerNorm, or RMSNorm where `mean` is null (there is then no bias either).
template <class T>
struct NormRows {
  using Element = T;
  static constexpr int most_packs = 4;  ///< that a lane may hold
  const T* x;
  const T* weight;
  const T* bias;
  T* y;
  float* mean;
  float* scale;
  std::int64_t columns;
  float epsilon;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    const T* in = x + row * columns;
    T* out = y + row * columns;
    const float width = static_cast<float>(columns);
    float m = 0;
    if (mean != nullptr) {
      m = row_sum(team, columns, [&](std::int64_t i) { return number(in[i]); }) / width;
    }
    const float squares = row_sum(team, columns, [&](std::int64_t i) {
      const float z = number(in[i]) - m;
      return z * z;
    });
    const float s = 1.0f / sqrtf(squares / width + epsilon);
    each_column(team, columns, [&](std::int64_t i) {
      const float shift = bias != nullptr ? number(bias[i]) : 0.0f;
      out[i] = T((number(in[i]) - m) * s * number(weight[i]) + shift);
    });
    keep(team, row, m, s);
  }

  bool can_hold() const {
    return columns % in_pack<T> == 0 && takes_packs(x) && takes_packs(weight) &&
           takes_packs(bias) && takes_packs(y);
  }
  template <int most, class Team>
  STAGECRAFT_ON_BOTH void held(const Team& team, std::int64_t row) const {
    const HeldRow<T, most> in(team, x + row * columns, columns);
    const float width = static_cast<float>(columns);
    float m = 0;
    if (mean != nullptr) {
      m = held_sum<T, most>(team, columns, [&](int k, int i) { return in[k][i]; }) / width;
    }
    const float squares = held_sum<T, most>(team, columns, [&](int k, int i) {
      const float z = in[k][i] - m;
      return z * z;
    });
    const float s = 1.0f / sqrtf(squares / width + epsilon);
    each_pack<T, most>(team, columns, [&](int k, std::int64_t column) {
      const Pack<T> factor = pack_at(weight + column);
      const Pack<T> shift = bias != nullptr ? pack_at(bias + column) : Pack<T>{};
      store_pack(y + row * columns + column,
                 [&](int i) { return (in[k][i] - m) * s * factor[i] + shift[i]; });
    });
    keep(team, row, m, s);
  }

 private:
  template <class Team>
  STAGECRAFT_ON_BOTH void keep(const Team& team, std::int64_t row, float m, float s) const {
    if (team.lane() != 0) return;
    if (mean != nullptr) mean[row] = m;
    scale[row] = s;
  }
};

/// With z = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - z mean(g z)) + residual,
/// without the first mean for RMSNorm.
template <class T>
struct NormInputRows {
  using Element = T;
  static constexpr int most_packs = 4;  ///< that a lane may hold
  const T* dy;
  const T* x;
  const T* weight;
  const float* mean;
  const float* scale;
  const T* residual;  ///< null: none
  T* dx;
  std::int64_t columns;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    const T* in = x + row * columns;
    const T* gradient = dy + row * columns;
    T* out = dx + row * columns;
    const float width = static_cast<float>(columns);
    const float m = mean != nullptr ? mean[row] : 0.0f;
    const float s = scale[row];
    const auto g = [&](std::int64_t i) { return number(gradient[i]) * number(weight[i]); };
    const auto z = [&](std::int64_t i) { return (number(in[i]) - m) * s; };
    const float mean_g = mean != nullptr ? row_sum(team, columns, g) / width : 0.0f;
    const float mean_gz =
        row_sum(team, columns, [&](std::int64_t i) { return g(i) * z(i); }) / width;
    each_column(team, columns, [&](std::int64_t i) {
      const float past = residual != nullptr ? number(residual[row * columns + i]) : 0.0f;
      out[i] = T(s * (g(i) - mean_g - z(i) * mean_gz) + past);
    });
  }

  bool can_hold() const {
    return columns % in_pack<T> == 0 && takes_packs(dy) && takes_packs(x) && takes_packs(weight) &&
           takes_packs(residual) && takes_packs(dx);
  }
  /// What a row's team holds of it.
  template <int most>
  struct Held {
    HeldRow<T, most> gradient, in, past;
  };
  template <int most, class Team>
  STAGECRAFT_ON_BOTH Held<most> read(const Team& team, std::int64_t row) const {
    const std::int64_t at = row * columns;
    // Without a residual nobody looks at what stands for it.
    const T* added = residual != nullptr ? residual : x;
    return {{team, dy + at, columns}, {team, x + at, columns}, {team, added + at, columns}};
  }
  template <int most, class Team>
  STAGECRAFT_ON_BOTH void held(const Team& team, std::int64_t row) const {
    go_back<most>(team, row, read<most>(team, row), [](int, int, float, float, float) {});
  }
  /// Calls add(k, i, dy z, dy, dx as it is stored) for each number i of each of the lane's packs k.
  template <int most, class Team, class AddUp>
  STAGECRAFT_ON_BOTH void go_back(const Team& team, std::int64_t row, const Held<most>& here,
                                  const AddUp& add) const {
    const float width = static_cast<float>(columns);
    const float m = mean != nullptr ? mean[row] : 0.0f;
    const float s = scale[row];
    float sum_g = 0, sum_gz = 0;
    each_pack<T, most>(team, columns, [&](int k, std::int64_t column) {
      const Pack<T> factor = pack_at(weight + column);
      STAGECRAFT_UNROLLED
      for (int i = 0; i < in_pack<T>; ++i) {
        const float g = here.gradient[k][i] * factor[i];
        sum_g += g;
        sum_gz += g * ((here.in[k][i] - m) * s);
      }
    });
    const float mean_g = mean != nullptr ? team.sum(sum_g) / width : 0.0f;
    const float mean_gz = team.sum(sum_gz) / width;
    each_pack<T, most>(team, columns, [&](int k, std::int64_t column) {
      const Pack<T> factor = pack_at(weight + column);
      store_pack(dx + row * columns + column, [&](int i) {
        const float z = (here.in[k][i] - m) * s;
        const float past = residual != nullptr ? here.past[k][i] : 0.0f;
        const float out = s * (here.gradient[k][i] * factor[i] - mean_g - z * mean_gz) + past;
        add(k, i, here.gradient[k][i] * z, here.gradient[k][i], number(T(out)));
        return out;
      });
    });
  }
};

// --- Softmax -------------------------------------------------------------------------------------

/// e^x, as GPUs have it: 2^x is one instruction of theirs.
STAGECRAFT_ON_BOTH inline float power(float x) {
  return exp2f(x * 1.44269504f);
}

/// Leaves the scaled gradient in the logits' place, and the row's loss.
template <class T>
struct CrossEntropyRows {
  using Element = T;
  static constexpr int most_packs = 9;  ///< that a lane may hold
  T* logits;
  const std::int32_t* targets;
  double* losses;
  std::int64_t columns;
  std::int64_t stride;  ///< from a row to the next, as below
  float scale;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    T* values = logits + row * stride;
    const std::int64_t target = targets[row];
    const float target_logit = number(values[target]);
    float top = -INFINITY;
    each_column(team, columns, [&](std::int64_t i) { top = fmaxf(top, number(values[i])); });
    top = team.largest(top);
    const float sum =
        row_sum(team, columns, [&](std::int64_t i) { return power(number(values[i]) - top); });
    each_column(team, columns, [&](std::int64_t i) {
      const float hit = i == target ? 1.0f : 0.0f;
      values[i] = T(scale * (power(number(values[i]) - top) / sum - hit));
    });
    keep(team, row, sum, top - target_logit);
  }

  /// What lies behind a row's end, in its last pack, may be written to.
  bool can_hold() const { return stride % in_pack<T> == 0 && takes_packs(logits); }
  template <int most, class Team>
  STAGECRAFT_ON_BOTH void held(const Team& team, std::int64_t row) const {
    T* values = logits + row * stride;
    const std::int64_t target = targets[row];
    const float target_logit = number(values[target]);
    const HeldRow<T, most> in(team, values, columns, -INFINITY);
    float top = -INFINITY;
    each_pack<T, most>(team, columns, [&](int k, std::int64_t) {
      for (int i = 0; i < in_pack<T>; ++i) top = fmaxf(top, in[k][i]);
    });
    top = team.largest(top);
    const float sum =
        held_sum<T, most>(team, columns, [&](int k, int i) { return power(in[k][i] - top); });
    const float factor = scale / sum;
    each_pack<T, most>(team, columns, [&](int k, std::int64_t column) {
      store_pack(values + column, [&](int i) { return factor * power(in[k][i] - top); });
    });
    // Once more the one that is hit, by the lane that has just stored it.
    if (target / in_pack<T> % team.size() == team.lane()) {
      values[target] = T(factor * power(target_logit - top) - scale);
    }
    keep(team, row, sum, top - target_logit);
  }

 private:
  template <class Team>
  STAGECRAFT_ON_BOTH void keep(const Team& team, std::int64_t row, float sum,
                               float top_over_target) const {
    if (team.lane() != 0) return;
    losses[row] = log(static_cast<double>(sum)) + static_cast<double>(top_over_target);
  }
};

template <class T>
struct LargestRows {
  const T* logits;
  float* tops;
  std::int64_t columns;
  std::int64_t stride;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    float top = -INFINITY;
    each_column(team, columns,
                [&](std::int64_t i) { top = fmaxf(top, number(logits[row * stride + i])); });
    top = team.largest(top);
    if (team.lane() == 0) tops[row] = top;
  }
};

/// e^(logit - top) in the logits' place; their sum, and the target's logit - top if it is here.
template <class T>
struct ExponentialRows {
  T* logits;
  const float* tops;
  const std::int32_t* targets;
  float* sums;
  std::int64_t first;
  std::int64_t columns;
  std::int64_t stride;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    T* values = logits + row * stride;
    const float top = tops[row];
    const std::int64_t at = targets[row] - first;
    const bool here = 0 <= at && at < columns;
    const float target = here ? number(values[at]) - top : 0.0f;
    const float sum =
        row_sum(team, columns, [&](std::int64_t i) { return power(number(values[i]) - top); });
    each_column(team, columns,
                [&](std::int64_t i) { values[i] = T(power(number(values[i]) - top)); });
    if (team.lane() != 0) return;
    sums[2 * row] = sum;
    sums[2 * row + 1] = target;
  }
};

/// Rows of one sample's scores [head, query, key]: probabilities, 0 beyond the diagonal if causal,
/// and the log of the row's sum of exponentials.
template <class T>
struct AttentionRows {
  const float* scores;
  T* probabilities;
  float* log_sums;
  std::int64_t sequence;
  bool causal;
  float factor;  ///< 1 / sqrt(head width)

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    const float* in = scores + row * sequence;
    T* out = probabilities + row * sequence;
    const std::int64_t visible = causal ? row % sequence + 1 : sequence;
    float top = -INFINITY;
    each_column(team, visible, [&](std::int64_t i) { top = fmaxf(top, in[i] * factor); });
    top = team.largest(top);
    const float sum =
        row_sum(team, visible, [&](std::int64_t i) { return expf(in[i] * factor - top); });
    each_column(team, sequence, [&](std::int64_t i) {
      out[i] = T(i < visible ? expf(in[i] * factor - top) / sum : 0.0f);
    });
    if (team.lane() == 0) log_sums[row] = top + logf(sum);
  }
};

/// The probabilities again, and the scores' gradient factor p (dp - sum of p dp), from the
/// probabilities' gradient dp.
template <class T>
struct AttentionInputRows {
  const float* scores;
  const float* dp;
  const float* log_sums;
  T* probabilities;
  T* dscores;
  std::int64_t sequence;
  bool causal;
  float factor;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    const std::int64_t start = row * sequence;
    const std::int64_t visible = causal ? row % sequence + 1 : sequence;
    const float log_sum = log_sums[row];
    const auto p = [&](std::int64_t i) { return expf(scores[start + i] * factor - log_sum); };
    const float sum = row_sum(team, visible, [&](std::int64_t i) { return p(i) * dp[start + i]; });
    each_column(team, sequence, [&](std::int64_t i) {
      const float here = i < visible ? p(i) : 0.0f;
      probabilities[start + i] = T(here);
      dscores[start + i] = T(i < visible ? factor * here * (dp[start + i] - sum) : 0.0f);
    });
  }
};

// --- Many tensors at once ------------------------------------------------------------------------

/// Each team takes a part of one tensor; parts of a tensor are this long, but for its last one.
inline constexpr std::int64_t part_elements = 1 << 14;

STAGECRAFT_ON_BOTH inline std::int64_t end_of_part(const UpdatedTensor& tensor,
                                                   std::int64_t first) {
  const std::int64_t left = tensor.elements - first;
  return first + (left < part_elements ? left : part_elements);
}

/// Tensors one behind the other, in the GPU's memory: their parts are numbered through.
struct TensorTable {
  const UpdatedTensor* tensors;
  std::int32_t count;

  STAGECRAFT_ON_BOTH const UpdatedTensor& with_part(std::int64_t part) const {
    std::int32_t first = 0, end = count;  // the last tensor that begins at the part or before
    while (end - first > 1) {
      const std::int32_t middle = first + (end - first) / 2;
      (tensors[middle].first_part <= part ? first : end) = middle;
    }
    return tensors[first];
  }
};

/// An optimizer's step of every element. Its numbers lie on the GPU, for they differ from step to
/// step, and a launch that was recorded does not.
template <class Step>
struct StepOfParts {
  TensorTable table;
  const Step* step;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t part) const {
    // Copies, for the compiler cannot know that what is written is not the table.
    const UpdatedTensor tensor = table.with_part(part);
    const Step numbers = *step;
    const std::int64_t first = (part - tensor.first_part) * part_elements;
    const std::int64_t end = end_of_part(tensor, first);
    const std::int64_t whole = tensor.takes_packs() ? (end - first) / numbers_at_once : 0;
    each_column(team, whole,
                [&](std::int64_t i) { numbers.of_many(tensor, first + i * numbers_at_once); });
    const std::int64_t rest = first + whole * numbers_at_once;
    each_column(team, end - rest, [&](std::int64_t i) { numbers(tensor, rest + i); });
  }
};

/// The squares of each part's gradients, added up.
struct SquaresOfParts {
  TensorTable table;
  float* sums;  ///< by part

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t part) const {
    const UpdatedTensor& tensor = table.with_part(part);
    const std::int64_t first = (part - tensor.first_part) * part_elements;
    const std::int64_t count = end_of_part(tensor, first) - first;
    const float* numbers = tensor.gradient + first;
    const std::int64_t whole = takes_packs(numbers) ? count / in_pack<float> : 0;
    float sum = 0;
    each_column(team, whole, [&](std::int64_t i) {
      const Pack<float> pack = pack_at(numbers + i * in_pack<float>);
      for (int j = 0; j < in_pack<float>; ++j) sum += pack[j] * pack[j];
    });
    const float* rest = numbers + whole * in_pack<float>;
    each_column(team, count - whole * in_pack<float>,
                [&](std::int64_t i) { sum += rest[i] * rest[i]; });
    sum = team.sum(sum);
    if (team.lane() == 0) sums[part] = sum;
  }
};

}  // namespace stagecraft::cuda
