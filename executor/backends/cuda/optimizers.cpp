#include "executor/backends/cuda/optimizers.hpp"

#include <cmath>

#include "executor/backends/cuda/rows.hpp"

namespace stagecraft::cuda {

namespace {

std::int64_t parts_of(std::int64_t elements) {
  return (elements + part_elements - 1) / part_elements;
}

void append(std::vector<UpdatedTensor>& table, UpdatedTensor tensor) {
  if (tensor.elements == 0) return;
  tensor.first_part = part_count(table);
  table.push_back(tensor);
}

}  // namespace

AdamWStep step_numbers(const AdamW& options, int step, double factor) {
  return {.keep_first = static_cast<float>(options.beta1),
          .take_first = static_cast<float>(1 - options.beta1),
          .keep_second = static_cast<float>(options.beta2),
          .take_second = static_cast<float>(1 - options.beta2),
          .rate = static_cast<float>(options.learning_rate / (1 - std::pow(options.beta1, step))),
          .correction = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step))),
          .epsilon = static_cast<float>(options.epsilon),
          .decay = static_cast<float>(options.learning_rate * options.weight_decay),
          .factor = static_cast<float>(factor)};
}

SgdStep step_numbers(const Sgd& options, double factor) {
  return {.rate = static_cast<float>(options.learning_rate), .factor = static_cast<float>(factor)};
}

std::vector<UpdatedTensor> table_of(std::span<WeightUpdate> updates) {
  std::vector<UpdatedTensor> table;
  for (WeightUpdate& each : updates) {
    append(table, {.gradient = each.gradient.data<float>(),
                   .first = each.first_moment.data<float>(),
                   .second = each.second_moment.data<float>(),
                   .weight = each.weight.data<float>(),
                   .updated = each.updated.data<float>(),
                   .rounded = each.rounded.data<Bfloat16>(),
                   .elements = each.updated.elements(),
                   .first_part = 0});
  }
  return table;
}

std::vector<UpdatedTensor> table_of(std::span<const Tensor> tensors) {
  std::vector<UpdatedTensor> table;
  for (const Tensor& each : tensors) {
    UpdatedTensor tensor{};
    tensor.gradient = each.data<float>();
    tensor.elements = each.elements();
    append(table, tensor);
  }
  return table;
}

std::int64_t part_count(std::span<const UpdatedTensor> table) {
  return table.empty() ? 0 : table.back().first_part + parts_of(table.back().elements);
}

std::vector<double> sums_of_tensors(std::span<const Tensor> tensors, std::span<const float> sums) {
  std::vector<double> result;
  std::size_t part = 0;
  for (const Tensor& tensor : tensors) {
    double sum = 0;
    for (std::int64_t i = 0; i < parts_of(tensor.elements()); ++i) {
      sum += static_cast<double>(sums[part++]);
    }
    result.push_back(sum);
  }
  return result;
}

}  // namespace stagecraft::cuda
