// Experts of which tokens pass some. Rows of an expert are its tokens in their order, and experts
// follow each other; an expert's rows are gathered, multiplied at once, and added to where they
// came from, in the order of experts.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <vector>

#include "executor/backends/cpu/kernels.hpp"

namespace stagecraft::cpu {

namespace {

/// A row of an expert: the token, and which of its choices it is.
struct Row {
  std::int64_t token = 0;
  std::int64_t rank = 0;
};

/// The rows of all experts, and where each expert's start. (A few bytes for each row, beside its
/// numbers.)
struct Rows {
  std::vector<Row> rows;
  std::vector<std::int64_t> starts;  // one more than there are experts

  std::span<const Row> of(std::int64_t expert) const {
    const auto at = static_cast<std::size_t>(expert);
    return std::span(rows).subspan(static_cast<std::size_t>(starts[at]),
                                   static_cast<std::size_t>(starts[at + 1] - starts[at]));
  }
};

template <class T>
Rows rows_by_expert(const ExpertRows<T>& choice) {
  Rows all;
  all.rows.resize(static_cast<std::size_t>(choice.chosen.rows * choice.chosen.columns));
  all.starts.assign(static_cast<std::size_t>(choice.probabilities.columns) + 1, 0);
  const auto visit = [&](auto use) {
    for (std::int64_t token = 0; token < choice.chosen.rows; ++token) {
      for (std::int64_t rank = 0; rank < choice.chosen.columns; ++rank)
        use(token, rank, static_cast<std::size_t>(choice.chosen.row(token)[rank]));
    }
  };
  visit([&](std::int64_t, std::int64_t, std::size_t expert) { ++all.starts[expert + 1]; });
  std::partial_sum(all.starts.begin(), all.starts.end(), all.starts.begin());
  std::vector<std::int64_t> next(all.starts.begin(), all.starts.end() - 1);
  visit([&](std::int64_t token, std::int64_t rank, std::size_t expert) {
    all.rows[static_cast<std::size_t>(next[expert]++)] = {token, rank};
  });
  return all;
}

/// Of all experts that a token passes.
template <class T>
T chosen_sum(const ExpertRows<T>& choice, std::int64_t token) {
  T sum = 0;
  for (std::int64_t rank = 0; rank < choice.chosen.columns; ++rank)
    sum += choice.probability(token, rank);
  return sum;
}

template <class T>
T share(const ExpertRows<T>& choice, Row row) {
  const T probability = choice.probability(row.token, row.rank);
  return choice.shares_add_up ? probability / chosen_sum(choice, row.token) : probability;
}

template <class T>
void gather(const T* x, std::int64_t width, std::span<const Row> rows, T* gathered) {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(gathered + static_cast<std::int64_t>(i) * width, x + rows[i].token * width,
                static_cast<std::size_t>(width) * sizeof(T));
  }
}

template <class T>
STAGECRAFT_VECTORISED void add_times(T factor, const T* x, T* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) y[i] += factor * x[i];
}

template <class T>
STAGECRAFT_VECTORISED T dot(const T* x, const T* y, std::int64_t count) {
  return ordered_sum<T>(count, [&](std::int64_t i) { return x[i] * y[i]; });
}

/// From the gradients of a token's shares, `dshares`, to those of its logits.
template <class T>
void logit_gradients(const ExpertRows<T>& choice, std::int64_t token, const T* dshares,
                     T* dlogits) {
  const std::int64_t experts = choice.probabilities.columns;
  const T* p = choice.probabilities.row(token);
  const T sum = choice.shares_add_up ? chosen_sum(choice, token) : T(1);
  T mean = 0;  // of the gradients, by shares
  if (choice.shares_add_up) {
    for (std::int64_t rank = 0; rank < choice.chosen.columns; ++rank)
      mean += dshares[rank] * choice.probability(token, rank) / sum;
  }
  T weighted = 0;
  std::fill(dlogits, dlogits + experts, T(0));
  for (std::int64_t rank = 0; rank < choice.chosen.columns; ++rank) {
    const auto expert = static_cast<std::int64_t>(choice.chosen.row(token)[rank]);
    dlogits[expert] = (dshares[rank] - mean) / sum;
    weighted += p[expert] * dlogits[expert];
  }
  for (std::int64_t i = 0; i < experts; ++i) dlogits[i] = p[i] * (dlogits[i] - weighted);
}

}  // namespace

template <class T>
void choose_experts(Matrix<T> logits, std::int64_t active, T* chosen) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(logits.columns));
  for (std::int64_t token = 0; token < logits.rows; ++token) {
    T* values = logits.row(token);
    const T top = largest(values, logits.columns);
    for (std::int64_t i = 0; i < logits.columns; ++i) values[i] = exponential(values[i] - top);
    const T sum = ordered_sum<T>(logits.columns, [&](std::int64_t i) { return values[i]; });
    for (std::int64_t i = 0; i < logits.columns; ++i) values[i] /= sum;
    std::iota(order.begin(), order.end(), 0);
    // Of equal ones the first.
    std::partial_sort(order.begin(), order.begin() + active, order.end(),
                      [&](std::int64_t a, std::int64_t b) {
                        return values[a] != values[b] ? values[a] > values[b] : a < b;
                      });
    std::copy(order.begin(), order.begin() + active, chosen + token * active);
  }
}

std::int64_t experts_workspace(const ExpertSizes& sizes) {
  return sizes.tokens * sizes.hidden;
}

std::int64_t experts_input_workspace(const ExpertSizes& sizes) {
  return sizes.tokens * (sizes.hidden + sizes.inner + sizes.active);
}

template <class T>
void experts(const T* x, const ExpertSizes& sizes, const ExpertRows<T>& choice,
             std::span<const T* const> up, std::span<const T* const> down, T* before, T* active,
             T* y, T* workspace) {
  const Rows all = rows_by_expert(choice);
  const auto [tokens, hidden, inner, chosen] = sizes;
  std::fill(y, y + tokens * hidden, T(0));
  for (std::size_t expert = 0; expert < up.size(); ++expert) {
    const std::span<const Row> rows = all.of(static_cast<std::int64_t>(expert));
    const auto count = static_cast<std::int64_t>(rows.size());
    if (count == 0) continue;
    T* own_before = before + all.starts[expert] * 2 * inner;
    T* own_active = active + all.starts[expert] * inner;
    gather(x, hidden, rows, workspace);
    multiply(1, Factor<T>{workspace, hidden}, Factor<T>{up[expert], 2 * inner}, hidden, 0,
             Product<T>{own_before, 2 * inner, count, 2 * inner});
    swiglu(Matrix<const T>{own_before, count, 2 * inner}, own_active);
    multiply(1, Factor<T>{own_active, inner}, Factor<T>{down[expert], hidden}, inner, 0,
             Product<T>{workspace, hidden, count, hidden});
    for (std::int64_t i = 0; i < count; ++i) {
      const Row row = rows[static_cast<std::size_t>(i)];
      add_times(share(choice, row), workspace + i * hidden, y + row.token * hidden, hidden);
    }
  }
}

template <class T>
void experts_input(const T* dy, const ExpertSizes& sizes, const ExpertRows<T>& choice,
                   std::span<const T* const> up, std::span<const T* const> down, const T* before,
                   const T* active, T* dbefore, T* dx, T* dlogits, T* workspace) {
  const Rows all = rows_by_expert(choice);
  const auto [tokens, hidden, inner, chosen] = sizes;
  T* dactive = workspace + tokens * hidden;
  T* dshares = dactive + tokens * inner;
  std::fill(dx, dx + tokens * hidden, T(0));
  for (std::size_t expert = 0; expert < up.size(); ++expert) {
    const std::span<const Row> rows = all.of(static_cast<std::int64_t>(expert));
    const auto count = static_cast<std::int64_t>(rows.size());
    if (count == 0) continue;
    const T* own_active = active + all.starts[expert] * inner;
    T* own_dbefore = dbefore + all.starts[expert] * 2 * inner;
    gather(dy, hidden, rows, workspace);
    multiply(1, Factor<T>{workspace, hidden}, Factor<T>{down[expert], hidden, true}, hidden, 0,
             Product<T>{dactive, inner, count, inner});
    for (std::int64_t i = 0; i < count; ++i) {
      const Row row = rows[static_cast<std::size_t>(i)];
      T* gradient = dactive + i * inner;
      // <dy, active DOWN> = <dy DOWN transposed, active>
      dshares[row.token * chosen + row.rank] = dot(gradient, own_active + i * inner, inner);
      scale(share(choice, row), gradient, inner);
    }
    swiglu_input(dactive,
                 Matrix<const T>{before + all.starts[expert] * 2 * inner, count, 2 * inner},
                 own_dbefore);
    multiply(1, Factor<T>{own_dbefore, 2 * inner}, Factor<T>{up[expert], 2 * inner, true},
             2 * inner, 0, Product<T>{workspace, hidden, count, hidden});
    for (std::int64_t i = 0; i < count; ++i)
      add(workspace + i * hidden, dx + rows[static_cast<std::size_t>(i)].token * hidden, hidden);
  }
  for (std::int64_t token = 0; token < tokens; ++token) {
    logit_gradients(choice, token, dshares + token * chosen,
                    dlogits + token * choice.probabilities.columns);
  }
}

template <class T>
void experts_weight(const T* x, const T* dy, const ExpertSizes& sizes, const ExpertRows<T>& choice,
                    const T* active, const T* dbefore, std::span<T* const> dup,
                    std::span<T* const> ddown, T* workspace) {
  const Rows all = rows_by_expert(choice);
  const auto [tokens, hidden, inner, chosen] = sizes;
  for (std::size_t expert = 0; expert < dup.size(); ++expert) {
    const std::span<const Row> rows = all.of(static_cast<std::int64_t>(expert));
    const auto count = static_cast<std::int64_t>(rows.size());
    if (count == 0) continue;
    gather(x, hidden, rows, workspace);
    multiply(1, Factor<T>{workspace, hidden, true},
             Factor<T>{dbefore + all.starts[expert] * 2 * inner, 2 * inner}, count, 1,
             Product<T>{dup[expert], 2 * inner, hidden, 2 * inner});
    gather(dy, hidden, rows, workspace);
    for (std::int64_t i = 0; i < count; ++i)
      scale(share(choice, rows[static_cast<std::size_t>(i)]), workspace + i * hidden, hidden);
    multiply(1, Factor<T>{active + all.starts[expert] * inner, inner, true},
             Factor<T>{workspace, hidden}, count, 1,
             Product<T>{ddown[expert], hidden, inner, hidden});
  }
}

#define STAGECRAFT_INSTANTIATE(T)                                                              \
  template void choose_experts(Matrix<T>, std::int64_t, T*);                                   \
  template void experts(const T*, const ExpertSizes&, const ExpertRows<T>&,                    \
                        std::span<const T* const>, std::span<const T* const>, T*, T*, T*, T*); \
  template void experts_input(const T*, const ExpertSizes&, const ExpertRows<T>&,              \
                              std::span<const T* const>, std::span<const T* const>, const T*,  \
                              const T*, T*, T*, T*, T*);                                       \
  template void experts_weight(const T*, const T*, const ExpertSizes&, const ExpertRows<T>&,   \
                               const T*, const T*, std::span<T* const>, std::span<T* const>, T*);

STAGECRAFT_INSTANTIATE(float)
STAGECRAFT_INSTANTIATE(double)

#undef STAGECRAFT_INSTANTIATE

}  // namespace stagecraft::cpu
