// What layers of transformers ask of the CPU backend: norms, activations, experts, attention,
// embeddings and losses.

#include <cassert>
#include <utility>

#include "executor/backends/cpu/cpu_backend.hpp"
#include "executor/backends/cpu/kernels.hpp"
#include "executor/backends/cpu/typed_tensors.hpp"

namespace stagecraft::cpu {

namespace {

bool fits(const Tensor& qkv, const AttentionShape& shape, std::int64_t past) {
  return shape.heads % shape.key_value_heads == 0 &&
         row_count(qkv) == shape.samples * (past + shape.sequence) &&
         column_count(qkv) == (shape.heads + 2 * shape.key_value_heads) * shape.head_width;
}

/// Where the keys begin in a row of queries and keys.
std::int64_t first_key(const AttentionShape& shape) {
  return shape.heads * shape.head_width;
}

/// The norms of queries and those of keys.
std::pair<NormsOfRows, NormsOfRows> norms_of(const AttentionShape& shape,
                                             const Tensor& query_weight, const Tensor& key_weight) {
  const std::int64_t queries = first_key(shape);
  const std::int64_t keys = shape.key_value_heads * shape.head_width;
  assert(queries % query_weight.elements() == 0 && keys % key_weight.elements() == 0);
  NormsOfRows query{.rows = shape.samples * shape.sequence,
                    .norms = queries / query_weight.elements(),
                    .width = query_weight.elements(),
                    .stride = queries + 2 * keys,
                    .raw_stride = queries + keys};
  NormsOfRows key = query;
  key.norms = keys / key_weight.elements();
  key.width = key_weight.elements();
  query.scale_stride = key.scale_stride = query.norms + key.norms;
  return {query, key};
}

template <class T>
ExpertRows<T> rows_of_experts(const ExpertChoice& choice) {
  return {matrix<T>(choice.probabilities), matrix<T>(choice.chosen), choice.shares_add_up};
}

template <class T>
std::vector<const T*> data_of(std::span<const Tensor> tensors) {
  std::vector<const T*> all;
  for (const Tensor& tensor : tensors) all.push_back(tensor.data<T>());
  return all;
}

template <class T>
std::vector<T*> data_of(std::span<Tensor> tensors) {
  std::vector<T*> all;
  for (Tensor& tensor : tensors) all.push_back(tensor.data<T>());
  return all;
}

}  // namespace

void CpuBackend::layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            double epsilon, Tensor& y, Tensor& mean, Tensor& scale) {
  assert(same_size(x, y) && weight.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) {
    cpu::layer_norm(matrix<T>(x), weight.data<T>(), bias.data<T>(), static_cast<T>(epsilon),
                    y.data<T>(), mean.data<T>(), scale.data<T>());
  });
}

void CpuBackend::layer_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                  const Tensor& mean, const Tensor& scale, Tensor& dx) {
  assert(same_size(x, dy) && same_size(x, dx));
  with_type(x.precision, [&]<class T>(T) {
    cpu::layer_norm_input(dy.data<T>(), matrix<T>(x), weight.data<T>(), mean.data<T>(),
                          scale.data<T>(), dx.data<T>());
  });
}

void CpuBackend::layer_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& mean,
                                   const Tensor& scale, Tensor& dweight, Tensor& dbias) {
  assert(same_size(x, dy) && dweight.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) {
    cpu::layer_norm_weight(dy.data<T>(), matrix<T>(x), mean.data<T>(), scale.data<T>(),
                           dweight.data<T>(), dbias.data<T>());
  });
}

void CpuBackend::rms_norm(const Tensor& x, const Tensor& weight, double epsilon, Tensor& y,
                          Tensor& scale) {
  assert(same_size(x, y) && weight.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) {
    cpu::rms_norm(matrix<T>(x), weight.data<T>(), static_cast<T>(epsilon), y.data<T>(),
                  scale.data<T>());
  });
}

void CpuBackend::rms_norm_input(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                const Tensor& scale, Tensor& dx) {
  assert(same_size(x, dy) && same_size(x, dx));
  with_type(x.precision, [&]<class T>(T) {
    cpu::rms_norm_input(dy.data<T>(), matrix<T>(x), weight.data<T>(), scale.data<T>(),
                        dx.data<T>());
  });
}

void CpuBackend::rms_norm_weight(const Tensor& dy, const Tensor& x, const Tensor& scale,
                                 Tensor& dweight) {
  assert(same_size(x, dy) && dweight.elements() == column_count(x));
  with_type(x.precision, [&]<class T>(T) {
    cpu::rms_norm_weight(dy.data<T>(), matrix<T>(x), scale.data<T>(), dweight.data<T>());
  });
}

void CpuBackend::norm_input_and_residual(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                         const Tensor& mean, const Tensor& scale,
                                         const Tensor& residual, Tensor& dx) {
  assert(same_size(x, dy) && same_size(x, dx) && same_size(x, residual));
  with_type(x.precision, [&]<class T>(T) {
    for_each_part(row_count(x), column_count(x), [&](std::int64_t first, std::int64_t end) {
      const Matrix<const T> part = rows_of(matrix<T>(x), first, end);
      const T* gradient = matrix<T>(dy).row(first);
      T* out = matrix<T>(dx).row(first);
      mean.empty()
          ? cpu::rms_norm_input(gradient, part, weight.data<T>(), scale.data<T>() + first, out)
          : cpu::layer_norm_input(gradient, part, weight.data<T>(), mean.data<T>() + first,
                                  scale.data<T>() + first, out);
      cpu::add(matrix<T>(residual).row(first), out, part.rows * part.columns);
    });
  });
}

void CpuBackend::norm_queries_and_keys(Tensor& qkv, const AttentionShape& shape,
                                       const Tensor& query_weight, const Tensor& key_weight,
                                       double epsilon, Tensor& raw, Tensor& scale) {
  assert(fits(qkv, shape, 0));
  with_type(qkv.precision, [&]<class T>(T) {
    const auto [query, key] = norms_of(shape, query_weight, key_weight);
    cpu::norms_of_rows(qkv.data<T>(), query, query_weight.data<T>(), static_cast<T>(epsilon),
                       raw.data<T>(), scale.data<T>());
    const std::int64_t keys = first_key(shape);
    cpu::norms_of_rows(qkv.data<T>() + keys, key, key_weight.data<T>(), static_cast<T>(epsilon),
                       raw.data<T>() + keys, scale.data<T>() + query.norms);
  });
}

void CpuBackend::norm_queries_and_keys_input(Tensor& dqkv, const AttentionShape& shape,
                                             const Tensor& raw, const Tensor& scale,
                                             const Tensor& query_weight, const Tensor& key_weight,
                                             Tensor& dnormed) {
  assert(fits(dqkv, shape, 0) && same_size(raw, dnormed));
  with_type(dqkv.precision, [&]<class T>(T) {
    const auto [query, key] = norms_of(shape, query_weight, key_weight);
    cpu::norms_of_rows_input(dqkv.data<T>(), query, raw.data<T>(), scale.data<T>(),
                             query_weight.data<T>(), dnormed.data<T>());
    const std::int64_t keys = first_key(shape);
    cpu::norms_of_rows_input(dqkv.data<T>() + keys, key, raw.data<T>() + keys,
                             scale.data<T>() + query.norms, key_weight.data<T>(),
                             dnormed.data<T>() + keys);
  });
}

void CpuBackend::norm_queries_and_keys_weight(const Tensor& dnormed, const AttentionShape& shape,
                                              const Tensor& raw, const Tensor& scale,
                                              Tensor& dquery_weight, Tensor& dkey_weight) {
  assert(same_size(raw, dnormed));
  with_type(raw.precision, [&]<class T>(T) {
    const auto [query, key] = norms_of(shape, dquery_weight, dkey_weight);
    cpu::norms_of_rows_weight(dnormed.data<T>(), query, raw.data<T>(), scale.data<T>(),
                              dquery_weight.data<T>());
    const std::int64_t keys = first_key(shape);
    cpu::norms_of_rows_weight(dnormed.data<T>() + keys, key, raw.data<T>() + keys,
                              scale.data<T>() + query.norms, dkey_weight.data<T>());
  });
}

void CpuBackend::gelu(const Tensor& x, Tensor& y) {
  assert(same_size(x, y));
  with_type(x.precision, [&]<class T>(T) { cpu::gelu(x.data<T>(), y.data<T>(), x.elements()); });
}

void CpuBackend::gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  assert(same_size(x, dy) && same_size(x, dx));
  with_type(x.precision, [&]<class T>(T) {
    cpu::gelu_input(dy.data<T>(), x.data<T>(), dx.data<T>(), x.elements());
  });
}

void CpuBackend::swiglu(const Tensor& x, Tensor& y) {
  assert(column_count(x) == 2 * column_count(y) && row_count(x) == row_count(y));
  with_type(x.precision, [&]<class T>(T) { cpu::swiglu(matrix<T>(x), y.data<T>()); });
}

void CpuBackend::swiglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  assert(column_count(x) == 2 * column_count(dy) && same_size(x, dx));
  with_type(x.precision,
            [&]<class T>(T) { cpu::swiglu_input(dy.data<T>(), matrix<T>(x), dx.data<T>()); });
}

void CpuBackend::exact_gelu(const Tensor& x, Tensor& y) {
  assert(same_size(x, y));
  with_type(x.precision,
            [&]<class T>(T) { cpu::exact_gelu(x.data<T>(), y.data<T>(), x.elements()); });
}

void CpuBackend::exact_gelu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  assert(same_size(x, dy) && same_size(x, dx));
  with_type(x.precision, [&]<class T>(T) {
    cpu::exact_gelu_input(dy.data<T>(), x.data<T>(), dx.data<T>(), x.elements());
  });
}

void CpuBackend::geglu(const Tensor& x, Tensor& y) {
  assert(column_count(x) == 2 * column_count(y) && row_count(x) == row_count(y));
  with_type(x.precision, [&]<class T>(T) { cpu::geglu(matrix<T>(x), y.data<T>()); });
}

void CpuBackend::geglu_input(const Tensor& dy, const Tensor& x, Tensor& dx) {
  assert(column_count(x) == 2 * column_count(dy) && same_size(x, dx));
  with_type(x.precision,
            [&]<class T>(T) { cpu::geglu_input(dy.data<T>(), matrix<T>(x), dx.data<T>()); });
}

void CpuBackend::one_more(const Tensor& x, Tensor& y) {
  assert(same_size(x, y));
  with_type(x.precision,
            [&]<class T>(T) { cpu::one_more(x.data<T>(), y.data<T>(), x.elements()); });
}

void CpuBackend::choose_experts(Tensor& logits, Tensor& chosen) {
  assert(row_count(logits) == row_count(chosen));
  with_type(logits.precision, [&]<class T>(T) {
    cpu::choose_experts(matrix<T>(logits), column_count(chosen), chosen.data<T>());
  });
}

void CpuBackend::experts(const Tensor& x, const ExpertChoice& choice, std::span<const Tensor> up,
                         std::span<const Tensor> down, Tensor& before, Tensor& active, Tensor& y) {
  assert(same_size(x, y) && row_count(active) == choice.chosen.elements());
  const cpu::ExpertSizes sizes = sizes_of(x, choice, active);
  Tensor workspace = allocate({cpu::experts_workspace(sizes)}, x.precision);
  with_type(x.precision, [&]<class T>(T) {
    cpu::experts<T>(x.data<T>(), sizes, rows_of_experts<T>(choice), data_of<T>(up),
                    data_of<T>(down), before.data<T>(), active.data<T>(), y.data<T>(),
                    workspace.data<T>());
  });
}

void CpuBackend::experts_input(const Tensor& dy, const ExpertChoice& choice,
                               std::span<const Tensor> up, std::span<const Tensor> down,
                               const Tensor& before, const Tensor& active, Tensor& dbefore,
                               Tensor& dx, Tensor& dlogits) {
  assert(same_size(dy, dx) && same_size(before, dbefore));
  assert(same_size(choice.probabilities, dlogits));
  const cpu::ExpertSizes sizes = sizes_of(dy, choice, active);
  Tensor workspace = allocate({cpu::experts_input_workspace(sizes)}, dy.precision);
  with_type(dy.precision, [&]<class T>(T) {
    cpu::experts_input<T>(dy.data<T>(), sizes, rows_of_experts<T>(choice), data_of<T>(up),
                          data_of<T>(down), before.data<T>(), active.data<T>(), dbefore.data<T>(),
                          dx.data<T>(), dlogits.data<T>(), workspace.data<T>());
  });
}

void CpuBackend::experts_weight(const Tensor& x, const Tensor& dy, const ExpertChoice& choice,
                                const Tensor& active, const Tensor& dbefore, std::span<Tensor> dup,
                                std::span<Tensor> ddown) {
  assert(same_size(x, dy) && dup.size() == ddown.size());
  const cpu::ExpertSizes sizes = sizes_of(x, choice, active);
  Tensor workspace = allocate({cpu::experts_workspace(sizes)}, x.precision);
  with_type(x.precision, [&]<class T>(T) {
    cpu::experts_weight<T>(x.data<T>(), dy.data<T>(), sizes, rows_of_experts<T>(choice),
                           active.data<T>(), dbefore.data<T>(), data_of<T>(dup), data_of<T>(ddown),
                           workspace.data<T>());
  });
}

void CpuBackend::rotary(Tensor& qkv, const AttentionShape& shape,
                        std::span<const double> frequencies, bool inverse) {
  assert(fits(qkv, shape, 0));
  assert(2 * static_cast<std::int64_t>(frequencies.size()) <= shape.head_width);
  with_type(qkv.precision,
            [&]<class T>(T) { cpu::rotary(qkv.data<T>(), shape, frequencies, inverse); });
}

void CpuBackend::attention(const Tensor& qkv, const AttentionShape& shape, Tensor& y,
                           Tensor& log_sum) {
  assert(fits(qkv, shape, shape.past));
  Tensor workspace = allocate({cpu::attention_workspace(shape)}, qkv.precision);
  with_type(qkv.precision, [&]<class T>(T) {
    cpu::attention(qkv.data<T>(), shape, y.data<T>(), log_sum.data<T>(), workspace.data<T>());
  });
}

void CpuBackend::attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y,
                                 const Tensor& log_sum, const AttentionShape& shape, Tensor& dqkv) {
  assert(fits(qkv, shape, shape.past) && same_size(y, dy) && same_size(qkv, dqkv));
  Tensor workspace = allocate({cpu::attention_input_workspace(shape)}, qkv.precision);
  with_type(qkv.precision, [&]<class T>(T) {
    cpu::attention_input(dy.data<T>(), qkv.data<T>(), y.data<T>(), log_sum.data<T>(), shape,
                         dqkv.data<T>(), workspace.data<T>());
  });
}

void CpuBackend::embedding(std::span<const std::int32_t> tokens, const Tensor& table,
                           std::int64_t first, const Tensor& positions, std::int64_t sequence,
                           Tensor& y) {
  assert(row_count(y) == static_cast<std::int64_t>(tokens.size()));
  assert(positions.empty() || sequence <= row_count(positions));
  with_type(table.precision, [&]<class T>(T) {
    cpu::embedding(tokens, matrix<T>(table), first, matrix<T>(positions), sequence, y.data<T>());
  });
}

void CpuBackend::embedding_weight(std::span<const std::int32_t> tokens, const Tensor& dy,
                                  std::int64_t first, std::int64_t sequence, Tensor& dtable,
                                  Tensor& dpositions) {
  assert(row_count(dy) == static_cast<std::int64_t>(tokens.size()));
  with_type(dtable.precision, [&]<class T>(T) {
    cpu::embedding_weight(tokens, dy.data<T>(), first, sequence, matrix<T>(dtable),
                          matrix<T>(dpositions));
  });
}

Late<double> CpuBackend::cross_entropy(Tensor& logits, std::span<const std::int32_t> targets,
                                       double scale) {
  assert(row_count(logits) == static_cast<std::int64_t>(targets.size()));
  return with_type(logits.precision, [&]<class T>(T) {
    return cpu::cross_entropy(matrix<T>(logits), targets, scale);
  });
}

void CpuBackend::largest_logits(const Tensor& logits, Tensor& tops) {
  assert(tops.elements() == row_count(logits));
  with_type(logits.precision,
            [&]<class T>(T) { cpu::largest_logits(matrix<T>(logits), tops.data<T>()); });
}

void CpuBackend::exponentials(Tensor& logits, const Tensor& tops,
                              std::span<const std::int32_t> targets, std::int64_t first,
                              Tensor& sums) {
  assert(sums.elements() == 2 * row_count(logits));
  with_type(logits.precision, [&]<class T>(T) {
    cpu::exponentials(matrix<T>(logits), tops.data<T>(), targets, first, matrix<T>(sums));
  });
}

Late<double> CpuBackend::cross_entropy_of_part(Tensor& logits, const Tensor& sums,
                                               std::span<const std::int32_t> targets,
                                               std::int64_t first, double scale) {
  return with_type(logits.precision, [&]<class T>(T) {
    return cpu::cross_entropy_of_part(matrix<T>(logits), matrix<T>(sums), targets, first, scale);
  });
}

}  // namespace stagecraft::cpu
