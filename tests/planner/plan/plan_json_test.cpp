#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/planner/cases.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Plan random_plan(std::uint32_t seed) {
  Random random(seed);
  Plan plan;
  plan.model = "model" + std::to_string(random.between(0, 9));
  plan.cluster = "4xcpu";
  plan.profile = random.chance(50) ? "xxh3:0123" : "";
  plan.precision = random.chance(50) ? Precision::bfloat16 : Precision::float32;
  plan.batch = {random.between(0, 64), random.between(0, 8), random.between(0, 8),
                random.chance(50) ? 1024 : 0};
  plan.schedule.name = "interleaved";
  plan.schedule.virtual_stages = random.between(1, 3);
  if (random.chance(50)) plan.schedule.group = random.between(1, 9);
  if (random.chance(50)) plan.schedule.sequence_chunks = random.between(1, 9);
  if (random.chance(50)) plan.schedule.warm_up = {3, 2, 1};
  if (random.chance(50)) plan.schedule.pipes = 4;
  plan.replicas = random.chance(50) ? ReplicaPolicy::split : ReplicaPolicy::round_robin;
  plan.optimizer.kind = random.chance(50) ? OptimizerKind::adamw : OptimizerKind::sgd;
  plan.optimizer.sharding = random.chance(50) ? Sharding::none : Sharding::zero1;
  if (seed % 2 == 0) plan.optimizer.gradient_bucket = 26'214'400;
  if (seed % 3 == 0) plan.parallelism = {.sequence = true, .context = 2, .expert = 4};
  for (int s = random.between(0, 5); s > 0; --s) {
    const int first = random.between(0, 9);
    plan.stages.push_back({{first, random.between(first, 12)},
                           {{random.between(0, 3)}, {random.between(0, 3), 4}},
                           random.chance(50) ? Recompute::none : Recompute::full});
    Stage& stage = plan.stages.back();
    if (stage.recompute == Recompute::full) continue;
    stage.again = random_again(random, stage.layers.size());
    if (std::ranges::count(stage.again, Recomputed::none) == stage.layers.size()) {
      stage.again.clear();  // as a file says it
    }
  }
  if (random.chance(50)) {
    plan.predicted = PredictedFigures{Duration{random.between(0, 2'000'000'000)},
                                      random.between(0, 1000) / 997.0,
                                      {random.between(0, 1 << 30), random.between(0, 99)}};
  }
  if (random.chance(50)) {
    plan.search = SearchFigures{"exact", Duration{random.between(0, 1 << 30)},
                                random.between(0, 1000) / 3.0, random.chance(50), 1312};
  }
  return plan;
}

const std::string text = R"({
  "format": "stagecraft-plan/1",
  "model": "gpt2-124m",
  "cluster": "4xcpu",
  "batch": {"global": 8, "microbatch": 2, "microbatches": 4, "sequence": 128},
  "stages": [
    {"layers": [0, 4], "devices": [[0], [1]]},
    {"layers": [4, 9], "devices": [[2]], "recompute": "full"},
    {"layers": [9, 14], "devices": [[3]]}
  ]
}
)";

/// `text` with one part replaced.
std::string with(const std::string& part, const std::string& other) {
  std::string changed = text;
  const std::size_t at = changed.find(part);
  REQUIRE(at != std::string::npos);
  return changed.replace(at, part.size(), other);
}

std::string complaint_of_reading(const std::string& content) {
  try {
    read_plan(Json::parse(content, "a.plan.json"));
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string complaint_of_loading(const std::string& content) {
  const TemporaryFolder folder;
  try {
    load_plan(folder.file("a.plan.json", content));
    return "";
  } catch (const Error& error) {
    REQUIRE(error.place());
    return concat(error.place()->line, ":", error.place()->column, ": ", error.message());
  }
}

}  // namespace

TEST_CASE("what write_plan writes read_plan reads back", "[plan][seconds]") {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    const Plan plan = random_plan(seed);
    const std::string written = write_plan(plan);
    const Plan read = read_plan(Json::parse(written, "a.plan.json"));
    REQUIRE(read == plan);
    REQUIRE(write_plan(read) == written);
  }
}

TEST_CASE("members that may be left out have their defaults", "[plan]") {
  const Plan plan = read_plan(Json::parse(text, "a.plan.json"));
  CHECK(plan.schedule == ScheduleChoice{});
  CHECK(plan.precision == Precision::float32);
  CHECK(plan.replicas == ReplicaPolicy::split);
  CHECK(plan.optimizer == OptimizerChoice{});
  CHECK(plan.stages[0].recompute == Recompute::none);
  CHECK(plan.stages[1].recompute == Recompute::full);
  CHECK_FALSE(plan.predicted);
  CHECK_FALSE(plan.search);
}

TEST_CASE("layers that recompute by themselves are listed", "[plan]") {
  const auto again = [](const std::string& value) {
    const Plan plan = read_plan(Json::parse(with("\"full\"", value), "a.plan.json"));
    CHECK(plan.stages[1].recompute == Recompute::none);
    return plan.stages[1].again;
  };
  using enum Recomputed;
  CHECK(again("\"selective\"") == std::vector(5, selective));
  CHECK(again(R"({"full": [[4, 5], [7, 9]], "selective": [[5, 6]]})") ==
        std::vector{full, selective, none, full, full});
  CHECK(again(R"({"together": [[4, 6], [6, 9]]})") ==
        std::vector{with_next, full, with_next, with_next, full});
  CHECK(again(R"({"together": [[5, 7]], "full": [[7, 8]], "selective": [[4, 5]]})") ==
        std::vector{selective, with_next, full, full, none});
  CHECK(again(R"({"together": [[4, 5]]})") == std::vector{full, none, none, none, none});
  CHECK(again(R"({"full": []})").empty());
  const auto complaint = [](const std::string& value) {
    return complaint_of_reading(with("\"full\"", value));
  };
  CHECK_THAT(complaint(R"({"full": [[3, 5]]})"),
             ContainsSubstring("a.plan.json:8:") &&
                 ContainsSubstring("stages[1].recompute.full[0]: expected layers of the stage, "
                                   "which are [4, 9], found [3, 5]"));
  CHECK_THAT(complaint(R"({"full": [[4, 6]], "selective": [[5, 7]]})"),
             ContainsSubstring("recompute.full[0]: layer 5 is listed twice"));
  CHECK_THAT(complaint(R"({"together": [[4, 7]], "full": [[6, 7]]})"),
             ContainsSubstring("recompute.together[0]: layer 6 is listed twice"));
  CHECK_THAT(complaint(R"({"full": [4]})"), ContainsSubstring("for example [0, 4]"));
  CHECK_THAT(complaint(R"({"fully": []})"), ContainsSubstring("did you mean \"full\"?"));
  CHECK_THAT(complaint("[4, 5]"), ContainsSubstring("expected \"none\", \"selective\", \"full\""));
}

TEST_CASE("reading names the place of what is not a plan", "[plan]") {
  CHECK_THAT(complaint_of_reading(with("plan/1", "plan/2")),
             ContainsSubstring("expected the format \"stagecraft-plan/1\""));
  CHECK_THAT(complaint_of_reading(with("\"recompute\"", "\"recompte\"")),
             ContainsSubstring("a.plan.json:8:") &&
                 ContainsSubstring("unknown member \"recompte\"") &&
                 ContainsSubstring("did you mean \"recompute\"?"));
  CHECK_THAT(complaint_of_reading(with("\"full\"", "\"fully\"")),
             ContainsSubstring("a.plan.json:8:") && ContainsSubstring("stages[1].recompute"));
  CHECK_THAT(complaint_of_reading(with("[4, 9]", "[4, 9, 1]")),
             ContainsSubstring("expected the first layer and the one after the last"));
  CHECK_THAT(complaint_of_reading(with("[4, 9]", "[4, \"9\"]")),
             ContainsSubstring("stages[1].layers[1]"));
  CHECK_THAT(complaint_of_reading(with("\"cluster\": \"4xcpu\",", "")),
             ContainsSubstring("the member \"cluster\" is missing"));
  CHECK_THAT(complaint_of_reading(with("\"microbatches\": 4", "\"microbatches\": 4.5")),
             ContainsSubstring("batch.microbatches"));
}

TEST_CASE("a loaded plan comes with what it names", "[plan]") {
  const TemporaryFolder folder;
  const LoadedPlan loaded = load_plan(folder.file("a.plan.json", text));
  CHECK(loaded.plan.stages.size() == 3);
  CHECK(loaded.profile.model.layers.size() == 14);
  CHECK(device_count(loaded.cluster) == 4);
  CHECK(loaded.hash == content_hash(text));
}

TEST_CASE("files a plan names are found beside it", "[plan]") {
  const TemporaryFolder folder;
  folder.file("my.cluster.json", write_cluster(parse_cluster("4xcpu")));
  const LoadedPlan loaded = load_plan(folder.file("a.plan.json", with("4xcpu", "my.cluster.json")));
  CHECK(device_count(loaded.cluster) == 4);
}

TEST_CASE("a mistake in a plan file is put at its place", "[plan]") {
  CHECK(complaint_of_loading(with("[4, 9]", "[5, 9]")) ==
        "8:16: stages[1].layers: stage 1 starts at layer 5 but stage 0 ends at layer 4: layer 4 "
        "would never be trained; 13 of 14 layers are placed");
  CHECK_THAT(complaint_of_loading(with("[[3]]", "[[7]]")),
             ContainsSubstring("9:") && ContainsSubstring("stages[2].devices") &&
                 ContainsSubstring("the cluster has 4 devices: 0..3"));
  CHECK_THAT(complaint_of_loading(with("\"global\": 8", "\"global\": 9")),
             ContainsSubstring("5:") && ContainsSubstring("batch.global"));
  CHECK_THAT(
      complaint_of_loading(with("\"batch\"", "\"schedule\": {\"name\": \"f1b\"}, \"batch\"")),
      ContainsSubstring("schedule.name: unknown schedule \"f1b\""));
  CHECK_THAT(complaint_of_loading(with("gpt2-124m", "gtp2-124m")),
             ContainsSubstring("3:12: model:") && ContainsSubstring("gpt2-124m"));
  CHECK_THAT(complaint_of_loading(with("4xcpu", "4xcup")), ContainsSubstring("4:14: cluster:"));
}

TEST_CASE("a plan made with other costs says so", "[plan]") {
  CHECK_THAT(complaint_of_loading(with("\"batch\"", "\"profile\": \"xxh3:old\", \"batch\"")),
             ContainsSubstring("profile: the plan was made with other costs of \"gpt2-124m\""));
}
