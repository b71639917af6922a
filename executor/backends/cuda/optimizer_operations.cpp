// Steps of optimizers, and what they need of gradients: many tensors at once.

#include <algorithm>

#include "executor/backends/cuda/cuda_backend_parts.hpp"
#include "executor/backends/cuda/optimizers.hpp"

namespace stagecraft::cuda {

namespace {

/// One for each version of a chunk's weights, and more than any run has of them.
constexpr std::size_t most_tables = 256;

}  // namespace

TensorTable CudaBackend::on_device(const std::vector<UpdatedTensor>& table) {
  auto kept = std::ranges::find(tables_, table, [](const auto& each) { return each.first; });
  if (kept == tables_.end()) {
    // Graphs that were recorded with the one that goes keep its address. They are launched again
    // only for a list with a table that has been uploaded there since.
    if (tables_.size() == most_tables) tables_.erase(tables_.begin());
    tables_.emplace_back(table, kept_on_device(std::span<const UpdatedTensor>(table)));
    kept = tables_.end() - 1;
  }
  return {kept->second.get(), static_cast<std::int32_t>(table.size())};
}

template <class Step>
void CudaBackend::take_step(const Step& step, std::span<WeightUpdate> updates) {
  assert(std::ranges::all_of(updates, [](const WeightUpdate& each) {
    return each.updated.precision == Precision::float32;
  }));
  for (const WeightUpdate& each : updates) settle(each.gradient);
  const std::vector<UpdatedTensor> table = table_of(updates);
  const auto numbers = on_device(std::span<const Step>(&step, 1));
  for_each_row(commands_, part_count(table), part_elements,
               StepOfParts<Step>{on_device(table), numbers.get()});
}

void CudaBackend::adamw_step(const AdamW& options, int step, double factor,
                             std::span<WeightUpdate> updates) {
  take_step(step_numbers(options, step, factor), updates);
}

void CudaBackend::sgd_step(const Sgd& options, double factor, std::span<WeightUpdate> updates) {
  take_step(step_numbers(options, factor), updates);
}

void CudaBackend::adamw(const AdamW& options, int step, const Tensor& gradient,
                        Tensor& first_moment, Tensor& second_moment, const Tensor& weight,
                        Tensor& updated) {
  WeightUpdate update{.gradient = gradient,
                      .first_moment = first_moment,
                      .second_moment = second_moment,
                      .weight = weight,
                      .updated = updated,
                      .rounded = {}};
  take_step(step_numbers(options, step, 1), {&update, 1});
}

void CudaBackend::sgd(const Sgd& options, const Tensor& gradient, const Tensor& weight,
                      Tensor& updated) {
  WeightUpdate update{.gradient = gradient,
                      .first_moment = {},
                      .second_moment = {},
                      .weight = weight,
                      .updated = updated,
                      .rounded = {}};
  take_step(step_numbers(options, 1), {&update, 1});
}

void CudaBackend::scale(double factor, Tensor& x) {
  settle(x);
  with_type(x.precision, [&]<class T>(T) {
    each_element(x.elements(), Scale<T>{x.data<T>(), static_cast<float>(factor)});
  });
}

std::vector<double> CudaBackend::sums_of_squares(std::span<const Tensor> tensors) {
  assert(std::ranges::all_of(
      tensors, [](const Tensor& each) { return each.precision == Precision::float32; }));
  for (const Tensor& each : tensors) settle(each);
  const std::vector<UpdatedTensor> table = table_of(tensors);
  const std::int64_t parts = part_count(table);
  const auto sums = room<float>(parts);
  for_each_row(commands_, parts, part_elements, SquaresOfParts{on_device(table), sums.get()});
  return sums_of_tensors(tensors, on_host(sums.get(), parts));
}

}  // namespace stagecraft::cuda
