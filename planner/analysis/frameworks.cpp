#include "planner/analysis/frameworks.hpp"

#include <algorithm>
#include <map>

#include "planner/interop/exporters.hpp"
#include "planner/problem/incumbents.hpp"
#include "planner/search/exact.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// By its own name, or by the one whose format it reads.
const Exporter& exporter_for(const Target& target) {
  for (const Exporter& exporter : exporters) {
    if (exporter.name == target.name) return exporter;
  }
  return find_exporter(target.format);
}

/// None where nobody is there to share with.
Sharding shared_states(const Plan& plan) {
  const bool shares =
      plan.parallelism.context > 1 ||
      std::ranges::any_of(plan.stages, [](const Stage& stage) { return stage.devices.size() > 1; });
  return shares ? plan.optimizer.sharding : Sharding::none;
}

/// What its row says of the plan, but for what the exporter has said already.
void add_reasons_of_row(const Target& target, const Plan& plan, std::vector<std::string>& reasons) {
  const std::vector<std::string> known = reasons;
  const auto is_said = [&](std::string_view word) {
    return std::ranges::any_of(
        known, [&](const std::string& reason) { return reason.find(word) != std::string::npos; });
  };
  const auto has = [](const auto& list, auto value) {
    return std::ranges::find(list, value) != list.end();
  };
  const std::string pipeline = refusal(target, {.schedule = plan.schedule,
                                                .devices = pipeline_devices(plan),
                                                .microbatches = plan.batch.microbatches,
                                                .sharding = shared_states(plan),
                                                .exchanges_beside = exchanges_beside(plan)});
  if (!pipeline.empty() && !is_said(pipeline)) reasons.push_back(pipeline);
  if (!has_schedule(target, plan.schedule.name) && !is_said("schedule"))
    reasons.push_back(concat(target.system, " has no schedule ", plan.schedule.name));
  if (!has(target.sharding, plan.optimizer.sharding) && !is_said("ZeRO")) {
    reasons.push_back(
        concat(target.system, " has no sharding \"", to_string(plan.optimizer.sharding), "\""));
  }
  if (!has(target.precision, plan.precision) && !is_said(to_string(plan.precision)))
    reasons.push_back(concat(target.system, " has no ", to_string(plan.precision)));
  if (plan.optimizer.gradient_bucket > 0 && !target.gradient_buckets && !is_said("gradient")) {
    reasons.push_back(
        concat(target.system, " sums gradients of pipelines behind the last backward"));
  }
}

/// Rows that ask the same of a plan have the same answer.
bool ask_the_same(const Problem& a, const Problem& b) {
  return has_equal_stages(a) == has_equal_stages(b) && a.schedules == b.schedules &&
         a.recompute_everywhere == b.recompute_everywhere && a.parallelism == b.parallelism &&
         a.other_parallelism == b.other_parallelism && a.tensor_parallel == b.tensor_parallel &&
         a.kernels == b.kernels && a.optimizer.sharding == b.optimizer.sharding &&
         a.other_sharding == b.other_sharding && a.target->keeps_ends == b.target->keeps_ends &&
         a.target->predicts_last == b.target->predicts_last &&
         a.target->refuses == b.target->refuses;
}

/// The plans with the kernels of another question about the same.
std::vector<Candidate> with_kernels(Problem problem, const LayerKernels& kernels,
                                    std::vector<Candidate> plans) {
  if (problem.kernels == kernels) return plans;
  problem.kernels = kernels;
  const Space space(problem);
  for (Candidate& plan : plans) {
    Candidate other = space.evaluate(plan.name, plan.plan);
    plan.plan = std::move(other.plan);
    plan.prediction = std::move(other.prediction);
    plan.rejected = std::move(other.rejected);
  }
  std::erase_if(plans, [](const Candidate& plan) { return !plan.prediction; });
  return plans;
}

/// The plans that a framework runs; the exporter has the last word, whose reasons the row does not
/// know.
class Runnable {
 public:
  Runnable(const Target& target, const Problem& problem) : target_(target), problem_(problem) {}

  /// What stands in the way is told of the last ones.
  void add(const std::vector<Candidate>& plans) {
    std::vector<std::string> first;
    for (const Candidate& plan : plans) {
      const auto reasons = reasons_against(target_, as_loaded(problem_, plan.plan));
      if (reasons.empty()) board_.add(plan);
      if (first.empty()) first = reasons;
    }
    if (!first.empty()) reason_ = first.front();
  }
  /// Nothing slower is of use.
  std::optional<Duration> worth() const {
    const auto best = board_.best();
    if (!best) return {};
    return *best - Duration{1};
  }
  void answer(FrameworkAnswer& answer) const {
    if (board_.front() != nullptr) {
      answer.best = *board_.front();
    } else {
      answer.reason = reason_.empty() ? "no plan was found in a short search" : reason_;
    }
  }

 private:
  const Target& target_;
  const Problem& problem_;
  Leaderboard board_{1};
  std::string reason_;
};

/// A question that was asked, and its answer.
struct Asked {
  Problem problem;
  std::optional<Duration> worth;
  std::vector<Candidate> plans;
};

}  // namespace

std::vector<std::string> reasons_against(const Target& target, const LoadedPlan& loaded) {
  if (target.format.empty()) return reasons_against_stagecraft(loaded.plan, loaded.profile.model);
  std::vector<std::string> reasons =
      reasons_against(exporter_for(target), loaded.plan, loaded.profile.model, loaded.cluster);
  add_reasons_of_row(target, loaded.plan, reasons);
  return reasons;
}

std::vector<const Target*> frameworks_of(const LoadedPlan& loaded) {
  std::vector<const Target*> found = newest_targets();
  std::erase_if(found,
                [&](const Target* target) { return !reasons_against(*target, loaded).empty(); });
  return found;
}

LoadedPlan as_loaded(const Problem& problem, const Plan& plan) {
  return {.plan = plan,
          .profile = in_plan_order(problem.profile, plan),
          .cluster = problem.cluster,
          .path = {},
          .hash = {}};
}

std::vector<FrameworkAnswer> answers_of_frameworks(const Problem& problem, const SaidOfPlans& said,
                                                   const std::vector<Candidate>& known,
                                                   const std::stop_token& stop, int threads) {
  std::vector<FrameworkAnswer> answers;
  std::vector<Asked> asked;
  std::map<LayerKernels, std::vector<Candidate>> known_with;
  for (const Target* target : newest_targets()) {
    // An answer without backwards is no step, and what only trains answers no requests.
    if (serves(problem) ? !has_schedule(*target, "inference") : !target->trains) continue;
    FrameworkAnswer& answer = answers.emplace_back();
    answer.target = target;
    try {
      Problem own = for_target(problem, *target, said);
      const auto [found, is_first] = known_with.try_emplace(own.kernels);
      if (is_first) found->second = with_kernels(problem, own.kernels, known);
      Runnable runnable(*target, problem);
      runnable.add(found->second);
      const std::optional<Duration> worth = runnable.worth();
      const auto same = std::ranges::find_if(asked, [&](const Asked& other) {
        return other.worth == worth && ask_the_same(other.problem, own);
      });
      if (same != asked.end()) {
        runnable.add(same->plans);
      } else if (!stop.stop_requested()) {
        const SearchControl control{.stop = stop,
                                    .threads = threads,
                                    .worth = worth,
                                    .effort = SearchControl::of_a_look,
                                    .explain = false};
        asked.push_back({own, worth, search_exact(own, control).plans});
        runnable.add(asked.back().plans);
      }
      runnable.answer(answer);
    } catch (const Error& error) {
      answer.reason = error.message();
    }
  }
  return answers;
}

}  // namespace stagecraft
