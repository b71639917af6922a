#include "planner/analysis/changes/cuts.hpp"

#include <algorithm>

#include "planner/analysis/stage_recomputation.hpp"
#include "planner/layouts/layouts.hpp"
#include "planner/plan/layer_names.hpp"
#include "planner/problem/question.hpp"
#include "planner/space/schedule_choices.hpp"
#include "planner/space/space.hpp"
#include "planner/timing/fast_clock.hpp"
#include "profiles/index.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft::what_if {

namespace {

/// What the planner would be asked for just this shape.
Problem problem_for(const LoadedPlan& loaded, const Shape& shape) {
  const Plan& plan = loaded.plan;
  Problem problem = problem_about(plan, loaded.profile, loaded.cluster);
  problem.microbatches = {plan.batch.microbatch};
  ScheduleChoice choice = plan.schedule;
  choice.warm_up.clear();
  problem.schedules = {choice};
  problem.tensor_parallel = {shape.tensor};
  problem.devices = shape.devices();
  if (plan.schedule.name != "1f1b" &&
      find_schedule(plan.schedule.name).weights != WeightPolicy::flush)
    problem.objective = ObjectiveKind::throughput;
  return problem;
}

/// The best that moving layers one by one makes of the layouts; nothing where the clock does not
/// know the schedule.
std::optional<Layout> improved(const Space& space, const Setting& setting,
                               const std::vector<Layout>& layouts) {
  if (!setting.trains || !setting.drains || is_only_simulated(setting.schedule)) return {};
  FastClock clock(space, setting);
  if (clock.order_for(layouts.front().replicas) == nullptr) return {};
  std::optional<Layout> best;
  for (const Layout& start : layouts) {
    constexpr std::int64_t steps = 20'000'000;
    Effort effort{.left = steps};
    Layout layout = improve(clock, space, setting, start, effort);
    const auto rank = [&](const Layout& of) {
      return std::pair(!may_fit(clock, of), clock.step(of));
    };
    if (!best || rank(layout) < rank(*best)) best = std::move(layout);
  }
  return best;
}

/// "12-12-12-10", layers of each stage, as cuts; nothing for the words that `layers` knows.
std::optional<std::vector<int>> counted_cuts(const Change& change, int layers, int stages) {
  if (change.value.find_first_not_of("0123456789-") != std::string::npos) return {};
  std::vector<int> cuts{0};
  for (const std::string& word : split(change.value, '-')) {
    const Change count{change.key, word};
    cuts.push_back(cuts.back() + small_number(count, layers));
    if (cuts.back() > layers) break;
  }
  if (cuts.back() != layers || static_cast<int>(cuts.size()) != stages + 1) {
    fail_usage("--set layers=", change.value, ": expected the layers of each of ", stages,
               " stages, ", layers, " together");
  }
  return cuts;
}

/// As many blocks in every stage; what is before the first with it, what is behind the last, too.
std::vector<int> even_block_cuts(const Model& model, int stages) {
  const int layers = static_cast<int>(model.layers.size());
  const LayerRange blocks = model.transformer ? decoder_layers(model) : LayerRange{0, layers};
  if (blocks.size() % stages != 0) {
    fail("--set layers=even: ", blocks.size(), model.transformer ? " blocks" : " layers", " over ",
         stages, " stages are no whole number each; say layers=balanced, or each stage's: 9-10-…");
  }
  std::vector<int> cuts{0};
  for (int stage = 1; stage < stages; ++stage)
    cuts.push_back(blocks.first + blocks.size() / stages * stage);
  cuts.push_back(layers);
  return cuts;
}

}  // namespace

std::vector<int> cuts_of(const Plan& plan) {
  std::vector<int> cuts{0};
  for (const Stage& stage : plan.stages) cuts.push_back(stage.layers.end);
  return cuts;
}

std::optional<std::vector<int>> wished_cuts(const Wishes& wishes, const Model& model, int stages) {
  const Change* change = wishes.find("layers");
  if (change == nullptr || change->value == "balanced") return {};
  if (change->value == "even") return even_block_cuts(model, stages);
  if (auto cuts = counted_cuts(*change, static_cast<int>(model.layers.size()), stages)) return cuts;
  fail_usage("--set layers: expected even, balanced or the layers of each stage as 9-10-10-9, ",
             "found \"", change->value, "\"");
}

std::vector<int> cuts_for(const LoadedPlan& loaded, const Shape& shape,
                          const std::optional<std::vector<int>>& now) {
  const int layers = static_cast<int>(loaded.profile.model.layers.size());
  if (shape.stages() > layers) {
    fail(shape.stages(), " stages (pp ", shape.pipeline, " x vpp ", shape.virtual_stages,
         ") are more than the ", layers, " layers of \"", loaded.plan.model, "\"");
  }
  const Problem problem = problem_for(loaded, shape);
  const Space space(problem);
  const auto& settings = space.settings();
  const auto setting = std::ranges::find_if(settings, [&](const Setting& candidate) {
    return candidate.peers == shape.tensor * shape.context && candidate.columns == 1 &&
           candidate.replicas == loaded.plan.replicas;
  });
  if (setting == settings.end()) return even_cuts(layers, shape.stages());
  Layout layout = balanced(space, *setting, std::vector<int>(index(shape.pipeline), shape.data));
  const bool all = recompute_of_all(loaded.plan, loaded.profile.model) == "full";
  layout.recompute.assign(index(shape.stages()), all ? Recompute::full : Recompute::none);
  if (!now) return layout.cuts;
  std::vector<Layout> starts{layout};
  if (now->size() == layout.cuts.size()) {
    starts.push_back(layout);
    starts.back().cuts = *now;
  }
  if (auto best = improved(space, *setting, starts)) return best->cuts;
  return layout.cuts;
}

std::string words_for(const std::vector<int>& cuts) {
  std::string text;
  for (std::size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    if (stage == 16) return text + " ...";
    text += concat(stage == 0 ? "" : " ", cuts[stage + 1] - cuts[stage]);
  }
  return text;
}

}  // namespace stagecraft::what_if
