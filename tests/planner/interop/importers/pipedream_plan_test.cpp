// Plans of PipeDream's runtime and optimizer, on a small graph and on the published ones.

#include <filesystem>
#include <nlohmann/json.hpp>

#include "planner/costs/predict.hpp"
#include "planner/space/space.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/values/turns.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/questions.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::string node(int number, const std::string& stage = "") {
  return concat("node", number, " -- Layer", number,
                " -- forward_compute_time=1, backward_compute_time=2, activation_size=8, "
                "parameter_size=4",
                stage.empty() ? "" : " -- stage_id=" + stage, "\n");
}

/// node1 to node4 in a row.
std::string graph(const std::vector<std::string>& stages) {
  std::string text;
  for (int i = 1; i <= 4; ++i) text += node(i, stages[static_cast<std::size_t>(i) - 1]);
  for (int i = 1; i < 4; ++i) text += concat("\tnode", i, " -- node", i + 1, "\n");
  return text;
}

const std::string annotated = graph({"0", "0", "1", "2"});

PlanQuestion question_about(const std::string& model, const std::string& cluster,
                            PlanOptions options) {
  PlanQuestion question = question_of(1, cluster, std::move(options));
  question.model_name = "graph.txt";
  question.profile = import_pipedream(model, "graph.txt");
  question.model_content = model;
  return question;
}

Plan from_conf(const std::string& conf, const std::string& model = annotated,
               PlanOptions options = {.batch = 8}) {
  return imported("pipedream", conf, question_about(model, "4xgeneric@1GB/s", options));
}

}  // namespace

TEST_CASE("PipeDream's conf.json: modules by the graph that they were generated from") {
  const std::string conf =
      R"({"module_to_stage_map": [0, 1, 1, 1], "stage_to_rank_map": {"0": [0, 1, 2], "1": [3]}})";
  const Plan plan = from_conf(conf, annotated, {.batch = 9});
  CHECK(sizes_of(plan) == std::vector{2, 2});
  CHECK(plan.stages[0].devices == std::vector<std::vector<int>>{{0}, {1}, {2}});
  CHECK(plan.replicas == ReplicaPolicy::round_robin);
  CHECK(plan.schedule == ScheduleChoice{.name = "pipedream", .warm_up = {4, 1}});
  CHECK(plan.weights == WeightPolicy::stashing);
  CHECK(plan.batch.microbatches == 9);
  CHECK_THAT(message_of([&] { from_conf(conf); }),
             ContainsSubstring("update after rounds of 3, but 8 microbatches are no whole number"));
  const Plan flushing = from_conf(conf, annotated, {.batch = 8, .schedule = "1f1b"});
  CHECK(flushing.schedule == ScheduleChoice{.name = "1f1b", .warm_up = {4, 1}});
}

TEST_CASE("PipeDream's conf.json: a module per layer where the graph has no stages") {
  const Plan plan = from_conf(
      R"({"module_to_stage_map": [0, 1, 2, 3, 3],
          "stage_to_rank_map": {"0": [0], "1": [1], "2": [2], "3": [3]},
          "stage_to_depth_map": {"0": 3, "1": 2, "2": 1, "3": 0}})",
      graph({"", "", "", ""}));
  CHECK(sizes_of(plan) == std::vector{1, 1, 1, 1});
  CHECK(plan.schedule == ScheduleChoice{.name = "pipedream"});
  CHECK(plan.weights == WeightPolicy::stashing);
}

TEST_CASE("PipeDream's conf.json: depths are minibatches ahead on each replica") {
  const std::string depths =
      R"({"module_to_stage_map": [0, 0, 1], "stage_to_rank_map": {"0": [0, 1], "1": [2]},
          "stage_to_depth_map": {"0": 2, "1": 0}})";
  CHECK(from_conf(depths).schedule == ScheduleChoice{.name = "pipedream", .warm_up = {6, 1}});
  const std::string usual =
      R"({"module_to_stage_map": [0, 0, 1], "stage_to_rank_map": {"0": [0, 1], "1": [2]},
          "stage_to_depth_map": {"0": 0, "1": 0}})";
  CHECK_THAT(message_of([&] { from_conf(usual, annotated, {.batch = 12}); }),
             !ContainsSubstring("circle"));
}

TEST_CASE("the graph that PipeDream's optimizer wrote is a plan once replicas are known") {
  const auto from_graph = [](PlanOptions options) {
    return imported("pipedream", annotated,
                    question_about(annotated, "4xgeneric@1GB/s", std::move(options)));
  };
  const Plan plan = from_graph({.batch = 8, .replicas = {2, 1, 1}});
  CHECK(sizes_of(plan) == std::vector{2, 1, 1});
  CHECK(plan.stages[2].devices == std::vector<std::vector<int>>{{3}});
  CHECK(message_of([&] {
          from_graph({.batch = 8});
        }).find("has 3 stages and the cluster 4 devices; add --replicas") != std::string::npos);
  CHECK(exit_code_of([&] { from_graph({.batch = 8}); }) == 2);
}

TEST_CASE("PipeDream's plans: what is wrong is said") {
  const auto complaint = [](const std::string& conf, const std::string& model = annotated) {
    return message_of([&] { from_conf(conf, model); });
  };
  const std::string plain = graph({"", "", "", ""});
  CHECK(
      complaint(R"({"module_to_stage_map": [0, 1], "stage_to_rank_map": {"0": [0], "1": [1]}})",
                plain) ==
      "plan.txt:1:25: module_to_stage_map: the map has 2 modules, the last of them the criterion, "
      "but the model \"graph\" has 4 layers");
  CHECK(
      complaint(R"({"module_to_stage_map": [0, 2, 1], "stage_to_rank_map": {"0": [0], "1": [1]}})")
          .find("module_to_stage_map[1]") != std::string::npos);
  CHECK(
      complaint(R"({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0], "2": [1]}})")
          .find("\"1\" is missing") != std::string::npos);
  CHECK(
      complaint(R"({"module_to_stage_map": [1, 0, 0], "stage_to_rank_map": {"0": [0], "1": [1]}})")
          .find("whose output it reads") != std::string::npos);
  CHECK(
      complaint(R"({"module_to_stage_map": [0, 1, 1], "stage_to_rank_map": {"0": [0], "1": [0]}})")
          .find("device 0 is used by stage 0 and by stage 1") != std::string::npos);
  // As published for VGG-16 on four straight GPUs.
  CHECK(complaint(R"({"module_to_stage_map": [0, 1], "stage_to_rank_map": {"0": [0], 1: [1]}})")
            .starts_with("plan.txt:1:"));
  CHECK(message_of([&] {
          imported("pipedream", plain, question_about(plain, "4xgeneric@1GB/s", {.batch = 4}));
        }).find("no node has a stage_id") != std::string::npos);
}

TEST_CASE("the graph that PipeDream's optimizer would write for VGG-16 is the plan it found",
          "[seconds]") {
  const std::string file = shared_folder() + "/data/pipedream/vgg16/graph.txt";
  if (!std::filesystem::exists(file)) SKIP("no data at " + shared_folder());
  const LoadedProfile loaded = load_profile(file);
  Problem problem = problem_of(loaded.profile, parse_cluster("4xgeneric@1GB/s"), 24, {1});
  problem.source = {.path = loaded.path, .content = loaded.content};
  const Plan found = search_pipedream_released(problem, {}).plans.front().plan;
  std::string written;
  for (const std::string& line : split(loaded.content, '\n')) {
    written += line;
    for (std::size_t s = 0; s < found.stages.size(); ++s) {
      const LayerRange& range = found.stages[s].layers;
      for (int layer = range.first; layer < range.end; ++layer) {
        const std::string& name = loaded.profile.model.layers[static_cast<std::size_t>(layer)].name;
        const std::string node = name.substr(0, name.find('.'));
        if (line.starts_with(node + " -- ")) written += concat(" -- stage_id=", s);
      }
    }
    written += "\n";
  }
  PlanOptions options{.batch = 24};
  for (const Stage& stage : found.stages)
    options.replicas.push_back(static_cast<int>(stage.devices.size()));
  CHECK(options.replicas == std::vector{3, 1});  // as published
  const PlanQuestion question = question_about(written, "4xgeneric@1GB/s", options);
  const Plan plan = imported("pipedream", written, question);
  CHECK(plan.stages == found.stages);
  CHECK(plan.schedule == ScheduleChoice{.name = "pipedream", .warm_up = {4, 1}});

  // As its runtime executes it: three replicas in turn, checked, and its steady state; the search
  // finds a plan that is at least as good.
  CHECK(check(compile(plan, question.profile, question.cluster).program).safe());
  problem.schedules = {{.name = "pipedream"}};
  problem.objective = ObjectiveKind::throughput;
  const Candidate own = Space(problem).evaluate("imported", plan);
  REQUIRE(own.prediction);
  REQUIRE(own.prediction->steady);
  SearchControl control;
  control.explain = false;
  const SearchResult result = search_exact(problem, control);
  REQUIRE(!result.plans.empty());
  CHECK(result.plans.front().plan.replicas == ReplicaPolicy::round_robin);
  CHECK(*result.plans.front().prediction->steady <= *own.prediction->steady);
  CHECK(result.lower_bound <= *result.plans.front().prediction->steady);
}

TEST_CASE("PipeDream's published executed plans are taken for models of as many modules") {
  const std::string file =
      shared_folder() + "/data/reference/pipedream_published_executed_plans.json";
  if (!std::filesystem::exists(file)) SKIP("no reference data at " + shared_folder());
  int plans = 0;
  for (const Json& row : Json::read(file)["rows"].elements()) {
    if (row.contains("error")) continue;
    INFO(row["file"].string());
    std::vector<int> replicas;
    std::string ranks;
    int devices = 0;
    for (const Json& count : row["stage_replication"].elements()) {
      ranks += concat(ranks.empty() ? "" : ", ", "\"", replicas.size(), "\": [");
      replicas.push_back(count.small_integer(1, 16));
      for (int i = 0; i < replicas.back(); ++i) ranks += concat(i == 0 ? "" : ", ", devices++);
      ranks += "]";
    }
    const std::string map = row["module_to_stage_map"].raw().dump();
    const std::size_t modules = row["module_to_stage_map"].elements().size() - 1;
    PlanQuestion question =
        question_of(1, concat(devices, "xgeneric@1GB/s"), {.batch = 3 * common_multiple(replicas)});
    question.profile =
        profile_of(std::vector<LayerCost>(modules, layer_cost(Duration{1000}, Duration{2000})));
    const Plan plan = imported(
        "pipedream",
        "{\"module_to_stage_map\": " + map + ", \"stage_to_rank_map\": {" + ranks + "}}", question);
    REQUIRE(plan.stages.size() == replicas.size());
    for (std::size_t s = 0; s < replicas.size(); ++s)
      CHECK(static_cast<int>(plan.stages[s].devices.size()) == replicas[s]);
    CHECK(predict(plan, question.profile, question.cluster).step > Duration{0});
    ++plans;
  }
  CHECK(plans == 49);
}
