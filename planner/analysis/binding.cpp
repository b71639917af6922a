// The plan itself under other costs.

#include "planner/analysis/binding.hpp"

#include <algorithm>

#include "planner/analysis/shadow_prices.hpp"
#include "planner/costs/compile.hpp"
#include "planner/costs/stage_recompute.hpp"
#include "planner/space/space.hpp"
#include "profiles/error.hpp"
#include "simulator/engines/compiled.hpp"

namespace stagecraft {

namespace {

/// The part of the step that changed costs would save.
class WhatIf {
 public:
  explicit WhatIf(const Compiled& compiled)
      : costs_(compiled.costs), program_(compiled.program), step_(program_.step(costs_)) {}

  const Costs& costs() const { return costs_; }
  /// A part of the step as time.
  Duration time(double part) const { return scaled(step_, part); }

  std::vector<double> saved_by_each(const std::vector<Costs>& tables) const {
    std::vector<double> saved;
    for (const Duration changed : program_.steps(tables)) {
      saved.push_back(step_ > Duration{0} ? seconds(step_ - changed) / seconds(step_) : 0);
    }
    return saved;
  }

  template <class Change>
  double saved_by(Change change) const {
    Costs costs = costs_;
    change(costs);
    return saved_by_each({costs}).front();
  }

 private:
  const Costs& costs_;
  CompiledProgram program_;
  Duration step_{0};
};

/// What costs are multiplied with to see how much they matter.
constexpr double factor_of_faster = 0.9;

/// In all copies of the model.
Costs with_faster_stage(const Compiled& compiled, int stage, int stages) {
  Costs costs = compiled.costs;
  for (std::size_t c = 0; c < costs.chunks.size(); ++c) {
    if (compiled.program.chunks[c].stage % stages != stage) continue;
    ChunkCosts& chunk = costs.chunks[c];
    for (Duration* time : {&chunk.forward, &chunk.backward, &chunk.backward_input,
                           &chunk.backward_weight, &chunk.recompute}) {
      *time = scaled(*time, factor_of_faster);
    }
  }
  return costs;
}

/// The stage whose compute matters most.
Binding compute_binding(const Compiled& compiled, const WhatIf& what_if, int stages) {
  std::vector<Costs> tables;
  for (int stage = 0; stage < stages; ++stage) {
    tables.push_back(with_faster_stage(compiled, stage, stages));
  }
  const std::vector<double> saved = what_if.saved_by_each(tables);
  const auto most = std::max_element(saved.begin(), saved.end());
  return {"compute", concat("stage ", most - saved.begin()),
          concat("10 % faster there: step ", percent_of(*most), " shorter"), what_if.time(*most)};
}

std::optional<Binding> replica_binding(const WhatIf& what_if, Sharding sharding) {
  const double saved = what_if.saved_by([](Costs& costs) {
    for (Duration& group : costs.groups) group = Duration{0};
  });
  if (saved <= 0) return {};
  return Binding{"replicas", "gradient sums",
                 concat(percent_of(saved), " of the step waits for gradients to be summed",
                        sharding == Sharding::zero1 || sharding == Sharding::zero2
                            ? " and parameters to be collected"
                            : ""),
                 what_if.time(saved)};
}

std::optional<Binding> transfer_binding(const WhatIf& what_if) {
  const double saved = what_if.saved_by([](Costs& costs) {
    for (ChannelCosts& channel : costs.channels) channel = {};
  });
  if (saved <= 0) return {};
  const double halved = what_if.saved_by([](Costs& costs) {
    for (ChannelCosts& channel : costs.channels) channel.occupancy /= 2;
  });
  return Binding{"transfer", "between stages",
                 concat(percent_of(saved), " of the step waits for messages; twice the bandwidth: ",
                        percent_of(halved), " shorter"),
                 what_if.time(halved)};
}

std::optional<Binding> memory_binding(const Plan& plan, const Prediction& prediction) {
  double fullest = 0;
  std::size_t device = 0;
  for (std::size_t d = 0; d < prediction.peaks.size(); ++d) {
    const double used = static_cast<double>(prediction.peaks[d].bytes) /
                        static_cast<double>(prediction.memory_limits[d]);
    if (used <= fullest) continue;
    fullest = used;
    device = d;
  }
  const auto recomputing =
      std::count_if(plan.stages.begin(), plan.stages.end(),
                    [](const Stage& stage) { return recompute_in_words(stage) != "none"; });
  if (fullest < 0.8 && recomputing == 0) return {};
  const std::string recompute =
      recomputing == 0
          ? ""
          : concat("; ", recomputing, " of ", plan.stages.size(), " stages recompute to fit");
  return Binding{"memory", concat("device ", lead_devices(plan)[device]),
                 concat(format_bytes(prediction.peaks[device].bytes), " of ",
                        format_bytes(prediction.memory_limits[device]), " in use", recompute),
                 Duration{0}};
}

/// As the plan stands; asking again would give another one.
std::vector<Binding> limits_of_plan(const Candidate& best, const WhatIf& what_if) {
  std::vector<Binding> bindings;
  for (const auto& found :
       {memory_binding(best.plan, *best.prediction), transfer_binding(what_if)}) {
    if (found) bindings.push_back(*found);
  }
  return bindings;
}

}  // namespace

std::vector<Binding> binding(const Problem& problem, const Candidate& best,
                             const std::stop_token& stop, int threads) {
  if (!best.prediction) return {};
  Problem ordered = problem;
  ordered.profile = in_plan_order(problem.profile, best.plan);
  const Space space(ordered);
  const Compiled compiled = compile_column(best.plan, space.book(best.plan));
  const WhatIf what_if(compiled);
  const auto stages = static_cast<int>(best.plan.stages.size());
  std::vector<Binding> bindings{compute_binding(compiled, what_if, stages)};
  const auto replicas = replica_binding(what_if, best.plan.optimizer.sharding);
  if (replicas) bindings.push_back(*replicas);
  const std::vector<Binding> others = best.objective || stop.stop_requested()
                                          ? limits_of_plan(best, what_if)
                                          : shadow_prices(problem, best, stop, threads);
  bindings.insert(bindings.end(), others.begin(), others.end());
  // A price that is told as nothing is none.
  constexpr double least_told = 0.0005;
  const double all = seconds(pace(*best.prediction));
  std::erase_if(bindings,
                [&](const Binding& limit) { return seconds(limit.saved) < least_told * all; });
  std::stable_sort(bindings.begin(), bindings.end(),
                   [](const Binding& a, const Binding& b) { return a.saved > b.saved; });
  return bindings;
}

}  // namespace stagecraft
