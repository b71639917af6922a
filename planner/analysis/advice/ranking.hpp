// Which edits of a plan are better, and which are worth telling. For the sources of this folder.

#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planner/analysis/advice.hpp"

namespace stagecraft::advising {

/// Minimum relative gain of an edit.
inline constexpr double least_gain = 0.001;

/// The peak of the fullest device as a fraction of its usable memory; 0 if that is unlimited.
double part_of_memory(const Prediction& prediction);

/// Less is better: what does not fit by how full it is, what fits by its step.
std::pair<double, Duration> rank(const Prediction& prediction);

/// By rank, then the shorter list of changes.
bool is_better(const AdvisedEdit& a, const AdvisedEdit& b);

/// Whether the edit fits, has words, and is faster than the plan now if that fits.
bool is_advice(const AdvisedEdit& edit, const Prediction& now);

/// Whether the step is shorter than before by enough to be told, or fits where that did not.
bool is_gain(const Prediction& next, const Prediction& before);

/// Whether no edit within it does as well alone.
bool beats_its_parts(const AdvisedEdit& pair, const std::vector<AdvisedEdit>& singles);

/// Maximum number of edits to degrees without a pipeline, of which many are nearly equal; the first
/// ones are kept.
void leave_few_without_pipeline(std::vector<AdvisedEdit>& edits, int most);

/// Whether another edit makes the same step in the same memory.
bool is_among(const AdvisedEdit& edit, const std::vector<AdvisedEdit>& others);

std::optional<AdvisedEdit> best_of(const std::vector<AdvisedEdit>& singles,
                                   const std::vector<AdvisedEdit>& pairs);

/// The best `most` of them in their order, one of each step and peak: other ways to the same step
/// in as much memory tell nothing more.
void keep_best(std::vector<AdvisedEdit>& edits, std::size_t most);

}  // namespace stagecraft::advising
