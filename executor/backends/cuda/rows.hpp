// What kernels compute row by row, each row by a team of lanes: a warp, or a block.
//
//   lane()         0 … size() - 1; lane i takes the columns i, i + size(), i + 2 size() …
//   sum(x)         over all lanes, the same bits on each and always in the same order
//   largest(x)     over all lanes
//
// `sum` and `largest` are also where lanes meet: what was written before is seen behind them. Free
// of CUDA, so that tests carry out the same functions with a team of threads on the CPU.

#pragma once

#include <math.h>

#include <cstdint>

#include "executor/backends/cuda/elements.hpp"

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
    if (team.lane() != 0) return;
    if (mean != nullptr) mean[row] = m;
    scale[row] = s;
  }
};

/// With z = (x - mean) scale and g = dy weight: dx = scale (g - mean(g) - z mean(g z)) + residual,
/// without the first mean for RMSNorm.
template <class T>
struct NormInputRows {
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
};

// --- Softmax -------------------------------------------------------------------------------------

/// Leaves the scaled gradient in the logits' place, and the row's loss.
template <class T>
struct CrossEntropyRows {
  T* logits;
  const std::int32_t* targets;
  double* losses;
  std::int64_t columns;
  float scale;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    T* values = logits + row * columns;
    const std::int64_t target = targets[row];
    const float target_logit = number(values[target]);
    float top = -INFINITY;
    each_column(team, columns, [&](std::int64_t i) { top = fmaxf(top, number(values[i])); });
    top = team.largest(top);
    const float sum =
        row_sum(team, columns, [&](std::int64_t i) { return expf(number(values[i]) - top); });
    each_column(team, columns, [&](std::int64_t i) {
      const float hit = i == target ? 1.0f : 0.0f;
      values[i] = T(scale * (expf(number(values[i]) - top) / sum - hit));
    });
    if (team.lane() != 0) return;
    losses[row] = log(static_cast<double>(sum)) + static_cast<double>(top - target_logit);
  }
};

template <class T>
struct LargestRows {
  const T* logits;
  float* tops;
  std::int64_t columns;

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    float top = -INFINITY;
    each_column(team, columns,
                [&](std::int64_t i) { top = fmaxf(top, number(logits[row * columns + i])); });
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

  template <class Team>
  STAGECRAFT_ON_BOTH void operator()(const Team& team, std::int64_t row) const {
    T* values = logits + row * columns;
    const float top = tops[row];
    const std::int64_t at = targets[row] - first;
    const bool here = 0 <= at && at < columns;
    const float target = here ? number(values[at]) - top : 0.0f;
    const float sum =
        row_sum(team, columns, [&](std::int64_t i) { return expf(number(values[i]) - top); });
    each_column(team, columns,
                [&](std::int64_t i) { values[i] = T(expf(number(values[i]) - top)); });
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
    const UpdatedTensor& tensor = table.with_part(part);
    const std::int64_t first = (part - tensor.first_part) * part_elements;
    const std::int64_t left = tensor.elements - first;
    const Step numbers = *step;
    each_column(team, left < part_elements ? left : part_elements,
                [&](std::int64_t i) { numbers(tensor, first + i); });
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
    const std::int64_t left = tensor.elements - first;
    const float* numbers = tensor.gradient + first;
    const float sum = row_sum(team, left < part_elements ? left : part_elements,
                              [&](std::int64_t i) { return numbers[i] * numbers[i]; });
    if (team.lane() == 0) sums[part] = sum;
  }
};

// --- Sums of columns, in two stages --------------------------------------------------------------

/// How rows fall into chunks whose sums are added up behind: the same for the same number of rows.
struct RowChunks {
  std::int64_t rows = 0;
  STAGECRAFT_ON_BOTH std::int64_t size() const {
    const std::int64_t share = (rows + 127) / 128;
    return share < 32 ? 32 : share;
  }
  STAGECRAFT_ON_BOTH std::int64_t count() const { return (rows + size() - 1) / size(); }
  STAGECRAFT_ON_BOTH std::int64_t end_of(std::int64_t chunk) const {
    const std::int64_t end = (chunk + 1) * size();
    return end < rows ? end : rows;
  }
};

/// Terms of bias_gradient: the number itself.
template <class T>
struct BiasTerm {
  const T* dy;
  std::int64_t columns;
  STAGECRAFT_ON_BOTH float operator()(std::int64_t row, std::int64_t column) const {
    return number(dy[row * columns + column]);
  }
};

/// Terms of a norm's weight gradient; without `mean`, of RMSNorm's.
template <class T>
struct NormWeightTerm {
  const T* dy;
  const T* x;
  const float* mean;
  const float* scale;
  std::int64_t columns;
  STAGECRAFT_ON_BOTH float operator()(std::int64_t row, std::int64_t column) const {
    const std::int64_t at = row * columns + column;
    const float m = mean != nullptr ? mean[row] : 0.0f;
    return number(dy[at]) * (number(x[at]) - m) * scale[row];
  }
};

/// The terms of rows first, first + step … below end.
template <class Term>
STAGECRAFT_ON_BOTH float column_sum(const Term& term, std::int64_t column, std::int64_t first,
                                    std::int64_t end, std::int64_t step) {
  float sum = 0;
  for (std::int64_t row = first; row < end; row += step) sum += term(row, column);
  return sum;
}

}  // namespace stagecraft::cuda
