#include "planner/analysis/advice.hpp"

#include <algorithm>
#include <set>

#include "planner/analysis/advice/edits.hpp"
#include "planner/analysis/frameworks.hpp"
#include "planner/analysis/stage_recomputation.hpp"
#include "planner/costs/compile.hpp"
#include "planner/plan/plan_words.hpp"
#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"
#include "simulator/simulate.hpp"
#include "tests/catch.hpp"
#include "tests/planner/analysis/gpt2_plan.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// With the 36 blocks in equal stages.
LoadedPlan even_plan(int pipeline, int data, int tensor, const std::string& cluster) {
  LoadedPlan loaded = gpt2_plan(pipeline, data, tensor, cluster);
  for (int p = 0; p < pipeline; ++p) {
    loaded.plan.stages[static_cast<std::size_t>(p)].layers = {
        p == 0 ? 0 : 1 + 36 / pipeline * p, p + 1 == pipeline ? 38 : 1 + 36 / pipeline * (p + 1)};
  }
  return loaded;
}

LoadedPlan with(LoadedPlan loaded, const std::vector<std::string>& texts) {
  std::vector<Change> changes;
  for (const std::string& text : texts) changes.push_back(read_change(text));
  return changed(std::move(loaded), changes).loaded;
}

/// As `simulate PLAN --set …` has it.
Duration simulated(const LoadedPlan& loaded, const std::vector<Change>& changes) {
  const LoadedPlan after = changed(loaded, changes).loaded;
  const Compiled compiled = compile_to_read(after.plan, after.profile, after.cluster);
  return step_time(simulate(compiled.program, compiled.costs));
}

std::vector<AdvisedEdit> rows_of(const Advice& advice) {
  std::vector<AdvisedEdit> rows = advice.singles;
  rows.insert(rows.end(), advice.pairs.begin(), advice.pairs.end());
  if (advice.together) rows.push_back(*advice.together);
  return rows;
}

}  // namespace

TEST_CASE("every advised edit takes the step that its row says") {
  const LoadedPlan plan =
      with(even_plan(4, 1, 2, "2x4xa100@100Gb/s"), {"recompute=full", "batch=16"});
  const Target* target = GENERATE(static_cast<const Target*>(nullptr), &megatron_target);
  const Advice advice = advise(plan, {.target = target, .keep = {}, .top = 4});
  CHECK(advice.now.step == simulated(plan, {}));
  const std::vector<AdvisedEdit> rows = rows_of(advice);
  REQUIRE(rows.size() > 4);
  for (const AdvisedEdit& row : rows) {
    INFO(to_string(row.changes));
    CHECK(simulated(plan, row.changes) == row.prediction.step);
    CHECK(changed(plan, row.changes).loaded.plan == row.plan);
    CHECK(row.prediction.step < advice.now.step);
    CHECK(row.prediction.fits);
    CHECK_FALSE(row.flags.empty());
    // Other training is no advice.
    CHECK(row.plan.batch.global == plan.plan.batch.global);
    CHECK(row.plan.batch.sequence == plan.plan.batch.sequence);
    CHECK(row.plan.optimizer.kind == plan.plan.optimizer.kind);
    CHECK(row.plan.precision == plan.plan.precision);
    LoadedPlan after = plan;
    after.plan = row.plan;
    if (target != nullptr) CHECK(reasons_against(*target, after).empty());
  }
  CHECK(std::is_sorted(advice.singles.begin(), advice.singles.end(),
                       [](const AdvisedEdit& a, const AdvisedEdit& b) {
                         return a.prediction.step < b.prediction.step;
                       }));
  if (advice.together && !advice.pairs.empty())
    CHECK(advice.together->prediction.step < advice.pairs.front().prediction.step);
}

TEST_CASE("layers are balanced under every schedule that has equal stages to start from",
          "[seconds]") {
  int balanced = 0;
  for (const ScheduleKind& kind : schedule_kinds) {
    if (kind.weights != WeightPolicy::flush) continue;  // they do not share weights
    INFO(kind.name);
    LoadedPlan plan = even_plan(4, 1, 1, "4xa100@100Gb/s");
    try {
      if (kind.name == "seq1f1b") {
        plan.plan.schedule = {.name = "seq1f1b", .sequence_chunks = 4};
      } else {
        plan = with(std::move(plan), {"batch=16", concat("schedule=", kind.name)});
      }
    } catch (const Error&) {
      continue;
    }
    CHECK(simulated(plan, {read_change("layers=balanced")}) <= simulated(plan, {}) * 5 / 4);
    ++balanced;
  }
  CHECK(balanced > 15);
}

TEST_CASE("what is to be kept is kept") {
  const LoadedPlan plan =
      with(even_plan(4, 1, 2, "2x4xa100@100Gb/s"), {"recompute=full", "batch=16"});
  const Advice advice = advise(plan, {.keep = {"tp", "pp", "schedule", "mbs"}, .depth = 3});
  REQUIRE_FALSE(advice.singles.empty());
  for (const AdvisedEdit& row : rows_of(advice)) {
    CHECK(tensor_degree(row.plan) == 2);
    CHECK(pipeline_devices(row.plan) == 4);
    CHECK(row.plan.schedule.name == "1f1b");
  }
  CHECK_THROWS_WITH(advise(plan, {.keep = {"speed"}}), Catch::Contains("unknown change"));
  CHECK_THROWS_WITH(advise(plan, {.keep = {"link0"}}),
                    Catch::Contains("no edit changes the cluster"));
}

TEST_CASE("of a plan that does not fit, what makes it fit is advised") {
  LoadedPlan plan = with(even_plan(2, 4, 1, "2x4xa100@100Gb/s"), {"mbs=8"});
  for (DeviceKind& kind : plan.cluster.kinds) kind.memory = Bytes{14} << 30;
  const Advice advice = advise(plan, {.keep = {}, .depth = 2});
  REQUIRE_FALSE(advice.now.fits);
  REQUIRE_FALSE(rows_of(advice).empty());
  for (const AdvisedEdit& row : rows_of(advice)) {
    CHECK(row.prediction.fits);
    CHECK(row.plan.optimizer.kind == plan.plan.optimizer.kind);
  }
  SECTION("nothing does: the closest") {
    for (DeviceKind& kind : plan.cluster.kinds) kind.memory = Bytes{1} << 30;
    const Advice none = advise(plan, {.keep = {"tp"}, .depth = 3});
    CHECK(rows_of(none).empty());
    REQUIRE(none.closest);
    CHECK(fullest_device(none.closest->prediction).peak < fullest_device(none.now).peak);
  }
}

TEST_CASE("flags differ in the target's own words") {
  const LoadedPlan plan = with(even_plan(4, 1, 2, "2x4xa100@100Gb/s"), {"recompute=blocks"});
  const std::vector<Change> changes{{"tp", "1"}, {"recompute", "selective"}};
  const LoadedPlan after = changed(plan, changes).loaded;
  std::set<std::string> words;
  const auto edits = flag_edits(&megatron_target, plan, after, changes);
  for (const FlagEdit& edit : edits) words.insert(to_string(edit));
  CHECK(words.contains("--tensor-model-parallel-size 2 → 1"));
  CHECK(words.contains("--recompute-granularity full → selective"));
  SECTION("beside a script that says it otherwise") {
    const ScriptFlags script{{"--tensor-model-parallel-size", "2"},
                             {"--recompute-method", "uniform"}};
    words.clear();
    for (const FlagEdit& edit : as_in_script(edits, script)) words.insert(to_string(edit, false));
    CHECK(words.contains("add --recompute-granularity selective"));
    CHECK(words.contains("drop --recompute-method uniform"));
    CHECK_FALSE(words.contains("drop --recompute-num-layers 9"));
  }
  SECTION("our own") {
    const auto own = flag_edits(nullptr, plan, after, changes);
    REQUIRE(own.size() == 2);
    CHECK(to_string(own.front()) == "--set tp=1");
  }
}

TEST_CASE("layers, order and gradient sums can be set") {
  const LoadedPlan plan = even_plan(2, 2, 2, "2x4xa100@100Gb/s");
  const auto sizes = [](const LoadedPlan& of) {
    std::vector<int> all;
    for (const Stage& stage : of.plan.stages) all.push_back(stage.layers.size());
    return all;
  };
  CHECK(sizes(with(plan, {"layers=20-18"})) == std::vector<int>{20, 18});
  CHECK(sizes(with(plan, {"pp=4", "layers=even"})) == std::vector<int>{10, 9, 9, 10});
  CHECK(with(plan, {"layers=even"}).plan == plan.plan);
  CHECK(with(plan, {"gradient-bucket=25MiB"}).plan.optimizer.gradient_bucket == Bytes{25} << 20);
  CHECK(with(plan, {"gradient-bucket=auto"}).plan.optimizer.gradient_bucket == 160'000'000);
  const LoadedPlan inside = with(plan, {"order=tp-cp-pp-dp"});
  CHECK(inside.plan.stages[0].devices == std::vector<std::vector<int>>{{0, 1}, {4, 5}});
  CHECK(inside.plan.stages[1].devices == std::vector<std::vector<int>>{{2, 3}, {6, 7}});
  CHECK(with(inside, {"order=tp-cp-dp-pp"}).plan == plan.plan);
  CHECK(recompute_of_all(with(plan, {"recompute=blocks"}).plan, plan.profile.model) == "blocks");
  CHECK_THROWS_WITH(with(plan, {"layers=20-20"}), Catch::Contains("38 together"));
  CHECK_THROWS_WITH(with(plan, {"pp=8", "tp=1", "layers=even"}),
                    Catch::Contains("36 blocks over 8 stages"));
  CHECK_THROWS_WITH(with(plan, {"layers=some"}), Catch::Contains("even, balanced or"));
  CHECK_THROWS_WITH(with(plan, {"order=pp"}), Catch::Contains("unknown order of devices"));
}

TEST_CASE("a plan in a line") {
  const LoadedPlan plan = even_plan(4, 1, 2, "2x4xa100@100Gb/s");
  const auto words = [](const LoadedPlan& of) { return plan_words(of.plan, of.profile.model); };
  CHECK(words(plan) == "TP2 PP4 DP1 · MBS 1 × 64 · recompute none · 1f1b");
  CHECK(words(with(plan, {"schedule=interleaved", "vpp=3", "layers=even", "sharding=zero1",
                          "recompute=selective", "sp=on"})) ==
        "TP2+SP PP4 VPP3 DP1 · MBS 1 × 64 · ZeRO-1 · recompute selective · interleaved");
  CHECK(words(with(plan, {"tp=1", "cp=2", "pp=2", "dp=2", "gradient-bucket=25MiB"})) ==
        "TP1 CP2 PP2 DP2 · MBS 1 × 32 · recompute none · gradients overlapped · 1f1b");
}

TEST_CASE("advice reaches plans without a pipeline, which need several changes at once") {
  LoadedPlan plan = even_plan(4, 2, 1, "2x4xa100@100Gb/s");
  plan.cluster.kinds.front().memory = Bytes{8} << 30;  // too little for larger microbatches
  const Advice advice = advise(plan, {.target = &megatron_target, .keep = {}});
  const auto without_pipeline = std::ranges::find_if(advice.singles, [](const AdvisedEdit& edit) {
    return edit.plan.stages.size() == 1 && edit.plan.optimizer.sharding == Sharding::zero2;
  });
  REQUIRE(without_pipeline != advice.singles.end());
  CHECK(simulated(plan, without_pipeline->changes) == without_pipeline->prediction.step);
}

TEST_CASE("kernels of GPUs are advised to GPUs only") {
  const auto keys_of = [](const std::string& cluster) {
    std::set<std::string> keys;
    const LoadedPlan plan = with(even_plan(2, 1, 2, cluster), {"recompute=full", "sp=on"});
    for (const advising::ChangeSet& edit : advising::edits_to_try(plan, nullptr)) {
      for (const auto& [key, value] : edit) keys.insert(key);
    }
    return keys;
  };
  const std::set<std::string> on_gpus = keys_of("4xa100"), on_cpus = keys_of("4xcpu");
  for (const char* key : {"fused-loss", "cuda-graphs", "overlap"}) {
    CAPTURE(key);
    CHECK(on_gpus.contains(key));
    CHECK_FALSE(on_cpus.contains(key));
  }
  CHECK(on_cpus.contains("recompute"));
}

TEST_CASE("a framework that does not run the plan is advised only what it runs") {
  const LoadedPlan plan =
      with(even_plan(4, 1, 2, "8xa100"), {"tp=1", "cp=2", "recompute=full", "batch=16"});
  const Target* target = GENERATE(&deepspeed_target, &torch_target);
  REQUIRE(reasons_against(*target, plan).empty() == target->context_parallel);
  const Advice advice = advise(plan, {.target = target, .keep = {}, .depth = 3});
  const std::vector<AdvisedEdit> rows = rows_of(advice);
  REQUIRE_FALSE(rows.empty());
  for (const AdvisedEdit& row : rows) {
    CAPTURE(std::string(target->name), to_string(row.changes));
    LoadedPlan after = plan;
    after.plan = row.plan;
    CHECK(reasons_against(*target, after).empty());
    CHECK((target->context_parallel || row.plan.parallelism.context == 1));
  }
}

TEST_CASE("no plan is advised twice, and no degree that stays is named") {
  const LoadedPlan plan =
      with(even_plan(4, 1, 2, "2x4xa100@100Gb/s"), {"recompute=full", "batch=16"});
  const std::vector<AdvisedEdit> rows = rows_of(advise(plan, {.target = nullptr, .keep = {}}));
  for (std::size_t a = 0; a < rows.size(); ++a) {
    INFO(to_string(rows[a].changes));
    for (const Change& change : rows[a].changes) CHECK(change.key != "dp");
    for (std::size_t b = 0; b < a; ++b) CHECK_FALSE(rows[a].plan == rows[b].plan);
  }
}
