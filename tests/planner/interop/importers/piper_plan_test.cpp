// Piper's plans, on its published inputs.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/costs/predict.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

PlanQuestion question_about(const std::string& input, const std::string& cluster) {
  const LoadedProfile loaded = load_profile(input);
  PlanQuestion question = question_of(1, cluster);
  question.model_name = input;
  question.profile = loaded.profile;
  question.model_content = loaded.content;
  return question;
}

std::string way(const std::string& name, const std::string& time, const std::string& in,
                const std::string& out) {
  return R"({"id": ")" + name + R"(", "timePerSample": )" + time +
         R"(, "parameterSize": 4, "memoryUsageA": 8, "memoryUsageB": 8, "syncTimeFw": {)" + in +
         R"(}, "syncTimeBw": {)" + out + "}}";
}

/// Node 9 reads node 5; both can recompute.
const std::string input =
    R"({"maxMemoryPerDevice": 1e9, "maxDevices": 3, "bandwidth": 1e9, "mbsInBatch": 6, "nodes": [
{"id": 9, "name": "b", "TMPCs": {"1": [)" +
    way("vanilla", "0.003", "\"5\": 0", "") + ", " + way("slow", "0.004", "\"5\": 0", "") + R"(]}},
{"id": 5, "name": "a", "TMPCs": {"1": [)" +
    way("vanilla", "0.003", "", "\"9\": 0") + ", " + way("slow", "0.004", "", "\"9\": 0") + R"(]}}],
"edges": [{"sourceId": 5, "destId": 9, "communicationCost": 8}]})";

std::string piper_plan_text(const std::string& a, const std::string& b) {
  return R"({"stages": [
{"nodes": [5], "dataParallelDegree": 2, "tensorParallelDegree": 1, "TMPCids": {"5": ")" +
         a + R"("}},
{"nodes": [9], "dataParallelDegree": 1, "tensorParallelDegree": 1, "TMPCids": {"9": ")" +
         b + "\"}}]}";
}

/// Its compute for one microbatch, on one of its replicas in turn.
Duration slowest_stage(const Plan& plan, const Profile& profile) {
  Duration slowest{0};
  for (const Stage& stage : plan.stages) {
    const int tensor_parallel = static_cast<int>(stage.devices.front().size());
    const ProfileEntry* entry = find_entry(
        profile, {.device = "generic", .microbatch = 1, .tensor_parallel = tensor_parallel});
    REQUIRE(entry != nullptr);
    Duration sum{0};
    for (int layer = stage.layers.first; layer < stage.layers.end; ++layer) {
      const LayerCost& cost = entry->layers[static_cast<std::size_t>(layer)];
      sum += cost.forward + cost.backward();
    }
    slowest = std::max(slowest, sum / static_cast<int>(stage.devices.size()));
  }
  return slowest;
}

}  // namespace

TEST_CASE("a plan of Piper: nodes by their identifiers, replicas in turns, what recomputes") {
  const TemporaryFolder folder;
  const PlanQuestion question = question_about(folder.file("net.json", input), "3xgeneric@1GB/s");
  const Plan plan = imported("piper", piper_plan_text("vanilla", "slow"), question);
  CHECK(plan.stages[0].devices == std::vector<std::vector<int>>{{0}, {1}});
  CHECK(plan.stages[0].recompute == Recompute::none);
  CHECK(plan.stages[1].recompute == Recompute::full);
  CHECK(plan.replicas == ReplicaPolicy::round_robin);
  CHECK(plan.batch.microbatches == 6);
  CHECK(plan.schedule == ScheduleChoice{.name = "1f1b", .warm_up = {3, 1}});
  const auto complaint = [&](const std::string& text) {
    return message_of([&] { imported("piper", text, question); });
  };
  CHECK(
      complaint(piper_plan_text("fast", "slow")).find("expected \"vanilla\" or \"slow\", found") !=
      std::string::npos);
  CHECK(complaint(R"({"stages": [{"nodes": [7], "dataParallelDegree": 1,
        "tensorParallelDegree": 1, "TMPCids": {}}]})")
            .find("the input has no node 7 among its 2") != std::string::npos);
  CHECK(complaint(R"({"stages": [{"nodes": [5], "dataParallelDegree": 1,
        "tensorParallelDegree": 2, "TMPCids": {"5": "vanilla"}}]})")
            .find("cannot run on 2 tensor-parallel devices") != std::string::npos);
  CHECK(complaint(R"({"stages": [{"nodes": [5], "dataParallelDegree": 1,
        "tensorParallelDegree": 1, "TMPCids": {"5": "vanilla"}}]})")
            .find("1 of 2 layers are placed") != std::string::npos);
  CHECK(complaint(R"({"stages": [{"nodes": [5, 5], "dataParallelDegree": 1,
        "tensorParallelDegree": 1, "TMPCids": {"5": "vanilla"}}]})")
            .find("the order names layer 0 twice") != std::string::npos);
  CHECK(message_of([&] {
          imported("piper", piper_plan_text("a", "b"), question_of(2, "3xh100"));
        }).find("name that input as --model") != std::string::npos);
}

TEST_CASE("Piper's published plans for 8 devices run in our evaluator") {
  const std::string folder = shared_folder() + "/data/";
  if (!std::filesystem::exists(folder + "reference")) SKIP("no data at " + shared_folder());
  int plans = 0;
  for (const char* const memory : {"8GiB", "80GiB"}) {
    const Json reference =
        Json::read(concat(folder, "reference/piper_bert32_", memory, "_k8_N1920_full.json"));
    INFO(reference["case"].string());
    PlanQuestion question = question_about(folder + "piper/bert32a100.json", "8xgeneric@25GiB/s");
    question.options.batch = 32;
    const std::string stages = reference["plan"]["stages"].raw().dump();
    const Plan plan = imported("piper", "{\"stages\": " + stages + "}", question);
    CHECK(plan.stages.size() == reference["plan"]["stages"].elements().size());
    const Prediction prediction =
        predict(plan, in_plan_order(question.profile, plan), question.cluster);
    CHECK(prediction.step >= 32 * slowest_stage(plan, question.profile));
    ++plans;
  }
  CHECK(plans == 2);
}
