// What people would have chosen, and what limits the choice made.

#include "planner/search.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <numeric>

#include "planner/column_search.hpp"
#include "planner/space.hpp"
#include "planner/strategies/pipedream/pipedream_problem.hpp"
#include "planner/walk.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules.hpp"

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// Cuts where the parameters before them come closest to equal shares.
std::vector<int> cuts_by_parameters(const CostTable& table, int layers, int parts) {
  std::vector<int> cuts{0};
  const auto total = static_cast<double>(table.parameters({0, layers}));
  for (int part = 1; part < parts; ++part) {
    const double goal = total * part / parts;
    const auto distance = [&](int cut) {
      return std::abs(static_cast<double>(table.parameters({0, cut})) - goal);
    };
    int cut = cuts.back() + 1;
    const int last = layers - (parts - part);
    while (cut < last && distance(cut + 1) < distance(cut)) ++cut;
    cuts.push_back(cut);
  }
  cuts.push_back(layers);
  return cuts;
}

/// A usual choice, still without schedule and microbatch size.
struct Choice {
  std::string name;
  std::vector<int> replicas;
  std::vector<int> cuts;
  bool replicated = false;
};

/// Everything recomputes, if nothing fits otherwise: what a person would try next.
Candidate evaluate_with_remedy(const Space& space, const Setting& setting, const Choice& choice) {
  Layout layout{.replicas = choice.replicas, .cuts = choice.cuts, .recompute = {}};
  layout.recompute.assign(choice.cuts.size() - 1, Recompute::none);
  const Candidate plain = space.evaluate(choice.name, space.plan(setting, layout));
  const bool fits = plain.prediction && plain.prediction->fits;
  if (fits || !plain.prediction || !space.allows(Recompute::full)) return plain;
  layout.recompute.assign(choice.cuts.size() - 1, Recompute::full);
  const Candidate recomputing =
      space.evaluate(choice.name + ", recomputing", space.plan(setting, layout));
  return recomputing.prediction && recomputing.prediction->fits ? recomputing : plain;
}

bool is_preferred(const Candidate& a, const Candidate& b) {
  if (a.prediction.has_value() != b.prediction.has_value()) return a.prediction.has_value();
  if (!a.prediction) return false;
  if (a.prediction->fits != b.prediction->fits) return a.prediction->fits;
  return a.prediction->step < b.prediction->step;
}

std::vector<Choice> choices_for(const Space& space, const Setting& setting) {
  const int layers = space.layers();
  const int devices = space.devices(setting);
  const int stages = std::min(devices, layers);
  std::vector<Choice> choices;
  if (stages > 1) {
    const CostTable& table = space.whole_microbatch(setting, 0);
    const std::vector<int> straight(index(stages), 1);
    choices.push_back({"even split", straight, even_cuts(layers, stages)});
    choices.push_back({"even parameters", straight, cuts_by_parameters(table, layers, stages)});
  }
  if (devices > 1) choices.push_back({"data parallelism", {devices}, {0, layers}, true});
  const bool alone = setting.tensor_parallel == 1;
  choices.push_back({alone ? "one device" : "tensor parallelism", {1}, {0, layers}});
  return choices;
}

/// What a choice gives under this setting, against the best so far of its name.
void compare(std::vector<Candidate>& best, Candidate candidate) {
  const auto same = std::find_if(best.begin(), best.end(), [&](const Candidate& other) {
    return other.name.starts_with(candidate.name) || candidate.name.starts_with(other.name);
  });
  if (same == best.end()) {
    best.push_back(std::move(candidate));
  } else if (is_preferred(candidate, *same)) {
    *same = std::move(candidate);
  }
}

}  // namespace

std::vector<Candidate> usual_choices(const Problem& problem) {
  // Whether they would be allowed is not the question: they are what to compare with.
  Problem free = problem;
  free.straight = false;
  const Space space(free);
  std::vector<Candidate> candidates;
  bool wide = false;
  for (const Setting& setting : space.settings()) {
    wide = wide || is_wide(space, setting);
    if (is_wide(space, setting)) continue;
    const bool takes_turns = setting.replicas == ReplicaPolicy::round_robin;
    for (const Choice& choice : choices_for(space, setting)) {
      if (takes_turns && !choice.replicated) continue;
      compare(candidates, setting.schedule.virtual_stages == 1
                              ? evaluate_with_remedy(space, setting, choice)
                              : Candidate{.name = choice.name,
                                          .plan = {},
                                          .prediction = {},
                                          .objective = {},
                                          .rejected = "the schedules asked for need several stages "
                                                      "per device"});
    }
  }
  if (wide) {
    for (Candidate& choice : usual_columns(space)) compare(candidates, std::move(choice));
  } else if (auto choice = pipedream_choice(free)) {
    candidates.push_back(*std::move(choice));
  }
  return candidates;
}

// --- What limits a plan
// ---------------------------------------------------------------------------

namespace {

std::string percent(double part) {
  return concat(std::fixed, std::setprecision(1), 100 * part, " %");
}

/// The part of the step that one changed cost would save.
class WhatIf {
 public:
  WhatIf(const Plan& plan, const Compiled& compiled) : compiled_(compiled) {
    step_ = predict(plan, compiled).step;
  }

  template <class Change>
  double saved_by(Change change) const {
    Costs costs = compiled_.costs;
    change(costs);
    const Duration changed = step_time(simulate(compiled_.program, costs));
    return step_ > Duration{0} ? seconds(step_ - changed) / seconds(step_) : 0;
  }

 private:
  const Compiled& compiled_;
  Duration step_{0};
};

constexpr double faster = 0.9;  // what costs are multiplied with to see how much they matter

Duration scaled(Duration time, double factor) {
  return Duration{static_cast<std::int64_t>(static_cast<double>(time.count()) * factor)};
}

/// The stage whose compute matters most.
Binding compute_binding(const Compiled& compiled, const WhatIf& what_if, int stages) {
  double most = -1;
  int slowest = 0;
  for (int stage = 0; stage < stages; ++stage) {
    const double saved = what_if.saved_by([&](Costs& costs) {
      for (std::size_t c = 0; c < costs.chunks.size(); ++c) {
        if (compiled.program.chunks[c].stage != stage) continue;
        ChunkCosts& chunk = costs.chunks[c];
        for (Duration* time : {&chunk.forward, &chunk.backward, &chunk.recompute}) {
          *time = scaled(*time, faster);
        }
      }
    });
    if (saved <= most) continue;
    most = saved;
    slowest = stage;
  }
  return {"compute", concat("stage ", slowest),
          concat("10 % faster there: step ", percent(most), " shorter")};
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
                 concat(percent(saved), " of the step waits for messages; twice the bandwidth: ",
                        percent(halved), " shorter")};
}

std::optional<Binding> replica_binding(const WhatIf& what_if, Sharding sharding) {
  const double saved = what_if.saved_by([](Costs& costs) {
    for (Duration& group : costs.groups) group = Duration{0};
  });
  if (saved <= 0) return {};
  return Binding{"replicas", "gradient sums",
                 concat(percent(saved), " of the step waits for gradients to be summed",
                        sharding == Sharding::zero1 ? " and parameters to be collected" : "")};
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
                    [](const Stage& stage) { return stage.recompute == Recompute::full; });
  if (fullest < 0.8 && recomputing == 0) return {};
  const std::string recompute =
      recomputing == 0
          ? ""
          : concat("; ", recomputing, " of ", plan.stages.size(), " stages recompute to fit");
  return Binding{"memory", concat("device ", lead_devices(plan)[device]),
                 concat(format_bytes(prediction.peaks[device].bytes), " of ",
                        format_bytes(prediction.memory_limits[device]), " in use", recompute)};
}

}  // namespace

std::vector<Binding> binding(const Problem& problem, const Candidate& best) {
  if (!best.prediction) return {};
  Problem ordered = problem;
  ordered.profile = in_plan_order(problem.profile, best.plan);
  const Space space(ordered);
  const Compiled compiled = compile_column(best.plan, space.book());
  const WhatIf what_if(best.plan, compiled);
  std::vector<Binding> bindings;
  bindings.push_back(compute_binding(compiled, what_if, static_cast<int>(best.plan.stages.size())));
  for (const auto& found : {memory_binding(best.plan, *best.prediction), transfer_binding(what_if),
                            replica_binding(what_if, best.plan.optimizer.sharding)}) {
    if (found) bindings.push_back(*found);
  }
  return bindings;
}

}  // namespace stagecraft
