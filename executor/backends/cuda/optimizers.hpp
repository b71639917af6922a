// Numbers and tables that an optimizer's kernels are given.

#pragma once

#include <span>
#include <vector>

#include "executor/backends/backend.hpp"
#include "executor/backends/cuda/elements.hpp"

namespace stagecraft::cuda {

/// Step number `step`, from 1: the CPU's numbers.
AdamWStep step_numbers(const AdamW& options, int step, double factor);
SgdStep step_numbers(const Sgd& options, double factor);

/// One row for each update; those without elements are left out.
std::vector<UpdatedTensor> table_of(std::span<WeightUpdate> updates);
/// The same of tensors to be looked at only.
std::vector<UpdatedTensor> table_of(std::span<const Tensor> tensors);

/// Of all tensors together.
std::int64_t part_count(std::span<const UpdatedTensor> table);

/// From the sums of parts those of tensors, each part's added in its order; `tensors` may have
/// tensors without elements.
std::vector<double> sums_of_tensors(std::span<const Tensor> tensors, std::span<const float> sums);

}  // namespace stagecraft::cuda
