#include "planner/analysis/advice.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <set>

#include "planner/analysis/advice/edits.hpp"
#include "planner/analysis/advice/kept.hpp"
#include "planner/analysis/advice/pairs.hpp"
#include "planner/analysis/advice/ranking.hpp"
#include "planner/analysis/frameworks.hpp"
#include "planner/costs/device_limits.hpp"
#include "planner/space/workers.hpp"
#include "profiles/abandonment.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

using advising::ChangeSet;

/// The edits that were made before, then one more in each set; each set once.
std::vector<ChangeSet> one_more(const std::vector<Change>& before,
                                const std::vector<ChangeSet>& edits) {
  std::vector<ChangeSet> sets;
  std::set<ChangeSet> known;
  for (const ChangeSet& edit : edits) {
    if (advising::is_balanced(edit)) continue;
    ChangeSet set;
    for (const Change& change : before) set[change.key] = change.value;
    for (const auto& [key, value] : edit) set[key] = value;
    if (known.insert(set).second) sets.push_back(std::move(set));
  }
  return sets;
}

/// Whether the framework has words for what the edit changes of how devices share work: reasons
/// against the plan as it is are no leave to go further that way.
bool has_words_for(const Target& target, const Parallelism& before, const Parallelism& after) {
  const auto may_be = [](bool has_it, int was, int is) { return has_it || is == was || is <= 1; };
  return may_be(target.context_parallel, before.context, after.context) &&
         may_be(target.expert_parallel, before.expert, after.expert) &&
         (target.sequence_parallel || before.sequence || !after.sequence);
}

/// Tries edits of one plan, each of them once.
class Advisor {
 public:
  Advisor(const LoadedPlan& loaded, const AdviceQuestion& question)
      : question_(question),
        keep_(advising::keys_to_keep(question.keep)),
        workers_(question.threads) {
    plain_ = loaded;
    plain_.plan.predicted.reset();
    plain_.plan.search.reset();
    if (question.target != nullptr) known_reasons_ = reasons_against(*question.target, plain_);
  }

  Advice answer() {
    Advice advice;
    advice.now = predict(plain_.plan, plain_.profile, plain_.cluster);
    now_ = advice.now.step;
    const std::vector<ChangeSet> edits = advising::edits_to_try(plain_, question_.target);
    std::vector<ChangeSet> sets = edits;
    std::erase_if(sets, advising::is_balanced);
    const std::vector<AdvisedEdit> singles = tried(sets);
    for (const AdvisedEdit& edit : singles) {
      if (advising::is_advice(edit, advice.now)) advice.singles.push_back(edit);
    }
    settle(advice.singles);
    advice.tried = tried_;
    if (question_.singles_found) question_.singles_found(advice);
    std::vector<AdvisedEdit> parts = singles;
    std::ranges::sort(parts, advising::is_better);
    advising::leave_few_without_pipeline(parts, 4);
    std::vector<ChangeSet> further = advising::pairs_to_try(parts, advice.now);
    std::ranges::copy_if(edits, std::back_inserter(further), advising::is_balanced);
    std::vector<AdvisedEdit> pairs = tried(further);
    std::ranges::sort(pairs, advising::is_better);
    std::optional<AdvisedEdit> best = advising::best_of(singles, pairs);
    for (const AdvisedEdit& edit : pairs) {
      if (advising::is_advice(edit, advice.now) && advising::beats_its_parts(edit, singles) &&
          !advising::is_among(edit, singles))
        advice.pairs.push_back(edit);
    }
    settle(advice.pairs);
    if (best && question_.depth > 2) add_together(advice, std::move(*best));
    if (!advice.now.fits && advice.singles.empty() && advice.pairs.empty() && !advice.together)
      advice.closest = closest_;
    advice.tried = tried_;
    return advice;
  }

 private:
  /// Those that go, in their order; what makes a plan that another one made before is left out.
  std::vector<AdvisedEdit> tried(const std::vector<ChangeSet>& sets) {
    std::vector<std::optional<AdvisedEdit>> found(sets.size());
    std::atomic<int> done{0};
    const int all = static_cast<int>(sets.size());
    workers_.run(all, [&](int worker, int task) {
      if (question_.stop.stop_requested()) return;
      found[index(task)] = evaluate(advising::as_changes(sets[index(task)]));
      ++done;
      if (worker == 0 && question_.progress) question_.progress(done, all);
    });
    std::vector<AdvisedEdit> edits;
    for (auto& edit : found) {
      if (!edit) continue;
      ++tried_;
      const auto same = std::ranges::find(edits, edit->plan, &AdvisedEdit::plan);
      if (same != edits.end()) {
        if (edit->changes.size() < same->changes.size()) *same = std::move(*edit);
        continue;
      }
      edits.push_back(std::move(*edit));
    }
    return edits;
  }

  /// Nothing for what the plan, the schedule or the target does not allow, and what changes
  /// nothing.
  std::optional<AdvisedEdit> evaluate(const std::vector<Change>& changes) const {
    const Abandonable may_be_given_up;
    try {
      const ChangedPlan changed = stagecraft::changed(plain_, changes);
      const LoadedPlan& after = changed.loaded;
      if (after.plan == plain_.plan || !keeps(changes, after.plan)) return {};
      if (!is_run(after)) return {};
      AdvisedEdit edit{.changes = changes,
                       .flags = {},
                       .plan = after.plan,
                       .prediction = predict(after.plan, after.profile, after.cluster)};
      edit.is_told = is_told(after, changes);
      edit.faster_by = 1 - seconds(edit.prediction.step) / seconds(now_);
      return edit;
    } catch (const Error& error) {
      if (error.kind() == ErrorKind::bug) throw;
      return {};
    }
  }

  bool keeps(const std::vector<Change>& changes, const Plan& plan) const {
    return std::ranges::all_of(keep_, [&](const std::string& key) {
      const bool is_said = std::ranges::find(changes, key, &Change::key) != changes.end();
      if (key == "order") return !is_said;
      return advising::value_of(key, plan) == advising::value_of(key, plain_.plan);
    });
  }

  /// What stands in the way of the plan as it is, a script's own oddities, is no reason.
  bool is_run(const LoadedPlan& after) const {
    if (question_.target == nullptr) return true;
    if (!has_words_for(*question_.target, plain_.plan.parallelism, after.plan.parallelism))
      return false;
    return std::ranges::all_of(
        reasons_against(*question_.target, after), [&](const std::string& reason) {
          return std::ranges::find(known_reasons_, reason) != known_reasons_.end();
        });
  }

  /// A framework knows nothing of what leaves its launch as it is, and has no launch for what it
  /// does not run; a script of its own it runs, whatever we have against it.
  bool is_told(const LoadedPlan& after, const std::vector<Change>& changes) const {
    const Target* target = question_.target;
    if (target == nullptr || target->format.empty()) return true;
    if (!question_.is_of_script && !has_launch(*target, after)) return false;
    return !flag_edits(target, plain_, after, changes).empty();
  }

  /// The best of them, with the flags that make them.
  void settle(std::vector<AdvisedEdit>& edits) const {
    advising::keep_best(edits, question_.top);
    for (AdvisedEdit& edit : edits) add_flags(edit);
  }

  void add_flags(AdvisedEdit& edit) const {
    LoadedPlan after = plain_;
    after.plan = edit.plan;
    edit.flags = flag_edits(question_.target, plain_, after, edit.changes);
    if (!question_.script.empty()) edit.flags = as_in_script(edit.flags, question_.script);
  }

  /// From the best so far, an edit at a time, each of the plan that the former ones made.
  void add_together(Advice& advice, AdvisedEdit best) {
    const AdvisedEdit first = best;
    for (int edits = 2; edits < question_.depth && !question_.stop.stop_requested(); ++edits) {
      LoadedPlan at = plain_;
      at.plan = best.plan;
      std::vector<AdvisedEdit> further =
          tried(one_more(best.changes, advising::edits_to_try(at, question_.target)));
      std::erase_if(further, [](const AdvisedEdit& edit) { return !edit.is_told; });
      if (further.empty()) break;
      const auto next = std::ranges::min_element(further, advising::is_better);
      if (!advising::is_gain(next->prediction, best.prediction)) break;
      best = *next;
    }
    if (!best.prediction.fits) closest_ = best;
    if (best.changes == first.changes || !advising::is_advice(best, advice.now)) return;
    add_flags(best);
    advice.together = std::move(best);
  }

  const AdviceQuestion& question_;
  std::vector<std::string> keep_;
  Workers workers_;
  LoadedPlan plain_;  ///< without prediction and bound, as changed plans are
  std::vector<std::string> known_reasons_;
  Duration now_{1};
  int tried_ = 0;
  std::optional<AdvisedEdit> closest_;
};

}  // namespace

FullestDevice fullest_device(const Prediction& prediction) {
  FullestDevice fullest;
  double most = -1;
  for (std::size_t device = 0; device < prediction.peaks.size(); ++device) {
    const Bytes peak = prediction.peaks[device].bytes;
    const std::optional<Bytes> limit = limit_of(prediction, device);
    const double part = limit && *limit > 0
                            ? static_cast<double>(peak) / static_cast<double>(*limit)
                            : static_cast<double>(peak) * 1e-30;
    if (part <= most) continue;
    most = part;
    fullest = {peak, limit};
  }
  return fullest;
}

Advice advise(const LoadedPlan& loaded, const AdviceQuestion& question) {
  return Advisor(loaded, question).answer();
}

const Target* target_of(const Plan& plan) {
  if (!plan.search || !plan.search->question || plan.search->question->target.empty()) return {};
  return &find_target(plan.search->question->target);
}

}  // namespace stagecraft
