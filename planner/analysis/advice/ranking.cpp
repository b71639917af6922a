#include "planner/analysis/advice/ranking.hpp"

#include <algorithm>

namespace stagecraft::advising {

double part_of_memory(const Prediction& prediction) {
  const FullestDevice fullest = fullest_device(prediction);
  if (!fullest.limit || *fullest.limit <= 0) return 0;
  return static_cast<double>(fullest.peak) / static_cast<double>(*fullest.limit);
}

std::pair<double, Duration> rank(const Prediction& prediction) {
  return {prediction.fits ? 0 : part_of_memory(prediction), prediction.step};
}

bool is_better(const AdvisedEdit& a, const AdvisedEdit& b) {
  const auto one = rank(a.prediction), other = rank(b.prediction);
  if (one != other) return one < other;
  if (a.changes.size() != b.changes.size()) return a.changes.size() < b.changes.size();
  return to_string(a.changes) < to_string(b.changes);
}

bool is_advice(const AdvisedEdit& edit, const Prediction& now) {
  if (!edit.prediction.fits || !edit.is_told) return false;
  return !now.fits || edit.faster_by >= least_gain;
}

bool is_gain(const Prediction& next, const Prediction& before) {
  if (next.fits != before.fits) return next.fits;
  return rank(next) < rank(before) &&
         (!before.fits || seconds(next.step) < (1 - least_gain) * seconds(before.step));
}

bool beats_its_parts(const AdvisedEdit& pair, const std::vector<AdvisedEdit>& singles) {
  return std::ranges::none_of(singles, [&](const AdvisedEdit& single) {
    const bool is_part = std::ranges::all_of(single.changes, [&](const Change& change) {
      return std::ranges::find(pair.changes, change) != pair.changes.end();
    });
    return is_part && single.prediction.fits && single.is_told &&
           seconds(pair.prediction.step) > (1 - least_gain) * seconds(single.prediction.step);
  });
}

namespace {

bool is_same(const AdvisedEdit& a, const AdvisedEdit& b) {
  return a.prediction.step == b.prediction.step &&
         fullest_device(a.prediction).peak == fullest_device(b.prediction).peak;
}

}  // namespace

void leave_few_without_pipeline(std::vector<AdvisedEdit>& edits, int most) {
  int count = 0;
  std::erase_if(edits, [&](const AdvisedEdit& edit) {
    const auto& changes = edit.changes;
    const bool is_one = std::ranges::find(changes, Change{"pp", "1"}) != changes.end() &&
                        std::ranges::find(changes, "sharding", &Change::key) != changes.end();
    return is_one && ++count > most;
  });
}

bool is_among(const AdvisedEdit& edit, const std::vector<AdvisedEdit>& others) {
  return std::ranges::any_of(
      others, [&](const AdvisedEdit& other) { return other.is_told && is_same(edit, other); });
}

std::optional<AdvisedEdit> best_of(const std::vector<AdvisedEdit>& singles,
                                   const std::vector<AdvisedEdit>& pairs) {
  std::optional<AdvisedEdit> best;
  for (const auto* edits : {&singles, &pairs}) {
    for (const AdvisedEdit& edit : *edits) {
      if (edit.is_told && (!best || is_better(edit, *best))) best = edit;
    }
  }
  return best;
}

void keep_best(std::vector<AdvisedEdit>& edits, std::size_t most) {
  std::ranges::sort(edits, is_better);
  edits.erase(std::unique(edits.begin(), edits.end(), is_same), edits.end());
  leave_few_without_pipeline(edits, 2);
  if (edits.size() > most) edits.resize(most);
}

}  // namespace stagecraft::advising
