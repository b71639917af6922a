#include "executor/backends/backend.hpp"

#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

[[noreturn]] void refuse(std::string_view what) {
  throw Error(ErrorKind::execution,
              concat(what, " on CPUs only; run with --backend cpu, profile with --device cpu"));
}

[[noreturn]] void refuse_query_and_key_norms() {
  refuse("norms of queries and keys are computed");
}

}  // namespace

Tensor Backend::allocate_rows(std::vector<std::int64_t> shape, Precision precision) {
  const Bytes alignment = row_alignment(), element = element_bytes(precision);
  const std::int64_t columns = shape.back();
  const Bytes row = (columns * element + alignment - 1) / alignment * alignment;
  if (row == columns * element) return allocate(std::move(shape), precision);
  return allocate_like(
      {.storage = {}, .shape = std::move(shape), .precision = precision, .stride = row / element});
}

Tensor Backend::allocate_like(const Tensor& tensor) {
  std::vector<std::int64_t> in_memory = tensor.shape;
  in_memory.back() = tensor.row_stride();
  Tensor made = allocate(std::move(in_memory), tensor.precision);
  made.shape = tensor.shape;
  made.stride = tensor.stride;
  return made;
}

Tensor Backend::allocate(std::vector<std::int64_t> shape, Precision precision) {
  if (placement_ == nullptr) return allocate_apart(std::move(shape), precision);
  const Bytes bytes = elements_of(shape) * element_bytes(precision);
  return {.storage = placement_->place(bytes), .shape = std::move(shape), .precision = precision};
}

void Backend::linear(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& residual, Tensor& y) {
  matmul(x, false, weight, false, y, false);
  if (!bias.empty()) add_bias(bias, y);
  if (!residual.empty()) add(residual, y);
}

void Backend::linear_gelu(const Tensor& x, const Tensor& weight, const Tensor& bias, Tensor& before,
                          Tensor& y) {
  linear(x, weight, bias, {}, before);
  gelu(before, y);
}

void Backend::linear_gelu_input(const Tensor& dy, const Tensor& weight, const Tensor& before,
                                Tensor& dx) {
  matmul(dy, false, weight, true, dx, false);
  gelu_input(dx, before, dx);
}

void Backend::linear_weight(const Tensor& x, const Tensor& dy, Tensor& dweight, Tensor& dbias) {
  matmul(x, true, dy, false, dweight, true);
  if (!dbias.empty()) bias_gradient(dy, dbias);
}

void Backend::norm_input_and_residual(const Tensor& dy, const Tensor& x, const Tensor& weight,
                                      const Tensor& mean, const Tensor& scale,
                                      const Tensor& residual, Tensor& dx) {
  mean.empty() ? rms_norm_input(dy, x, weight, scale, dx)
               : layer_norm_input(dy, x, weight, mean, scale, dx);
  add(residual, dx);
}

void Backend::norm_queries_and_keys(Tensor&, const AttentionShape&, const Tensor&, const Tensor&,
                                    double, Tensor&, Tensor&) {
  refuse_query_and_key_norms();
}

void Backend::norm_queries_and_keys_input(Tensor&, const AttentionShape&, const Tensor&,
                                          const Tensor&, const Tensor&, const Tensor&, Tensor&) {
  refuse_query_and_key_norms();
}

void Backend::norm_queries_and_keys_weight(const Tensor&, const AttentionShape&, const Tensor&,
                                           const Tensor&, Tensor&, Tensor&) {
  refuse_query_and_key_norms();
}

void Backend::exact_gelu(const Tensor&, Tensor&) {
  refuse("GELU by the error function is computed");
}
void Backend::exact_gelu_input(const Tensor&, const Tensor&, Tensor&) {
  refuse("GELU by the error function is computed");
}
void Backend::geglu(const Tensor&, Tensor&) {
  refuse("GELU of a gate is computed");
}
void Backend::geglu_input(const Tensor&, const Tensor&, Tensor&) {
  refuse("GELU of a gate is computed");
}
void Backend::one_more(const Tensor&, Tensor&) {
  refuse("norms with weights from one on are computed");
}
void Backend::choose_experts(Tensor&, Tensor&) {
  refuse("experts are computed");
}
void Backend::experts(const Tensor&, const ExpertChoice&, std::span<const Tensor>,
                      std::span<const Tensor>, Tensor&, Tensor&, Tensor&) {
  refuse("experts are computed");
}
void Backend::experts_input(const Tensor&, const ExpertChoice&, std::span<const Tensor>,
                            std::span<const Tensor>, const Tensor&, const Tensor&, Tensor&, Tensor&,
                            Tensor&) {
  refuse("experts are computed");
}
void Backend::experts_weight(const Tensor&, const Tensor&, const ExpertChoice&, const Tensor&,
                             const Tensor&, std::span<Tensor>, std::span<Tensor>) {
  refuse("experts are computed");
}

void Backend::adamw_step(const AdamW& options, int step, double factor,
                         std::span<WeightUpdate> updates) {
  for (WeightUpdate& each : updates) {
    if (factor != 1) scale(factor, each.gradient);
    adamw(options, step, each.gradient, each.first_moment, each.second_moment, each.weight,
          each.updated);
    if (!each.rounded.empty()) convert(each.updated, each.rounded);
  }
}

void Backend::sgd_step(const Sgd& options, double factor, std::span<WeightUpdate> updates) {
  for (WeightUpdate& each : updates) {
    if (factor != 1) scale(factor, each.gradient);
    sgd(options, each.gradient, each.weight, each.updated);
    if (!each.rounded.empty()) convert(each.updated, each.rounded);
  }
}

}  // namespace stagecraft
