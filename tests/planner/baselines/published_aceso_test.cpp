// Aceso's predictions as published, and as Mist ran its plans.

#include <algorithm>
#include <filesystem>
#include <map>

#include "planner/baselines/aceso/aceso_search.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/baselines/aceso_released.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::string data_folder = shared_folder() + "/data/";

AcesoDatabase published_database(const std::string& name) {
  const std::string file = data_folder + name + "_mbs1_tp1_algo0.csv";
  return read_aceso_database(read_file(file), file);
}

/// On so many V100s with 28,000 MB, in nodes of up to eight.
AcesoQuestion published_question(int devices) {
  return {
      .machine = {.devices = devices, .devices_per_node = std::min(devices, 8), .memory = 28000},
      .global_batch = 1024,
      .microbatches = {1, 2, 4, 8},
      .degrees = {1, 2, 4, 8},
      .most_stages = devices};
}

/// A plan file of Aceso's.
AcesoPlan read_aceso_plan(const Json& json) {
  AcesoPlan plan{.microbatch = json["micro_batch_size"].small_integer(1, 64), .stages = {}};
  int first = 0;
  for (std::size_t s = 0; s < json["num_ops_in_each_stage"].elements().size(); ++s) {
    const auto first_of = [&](const char* member) {
      return json[member][s][std::size_t{0}].small_integer(1, 64);
    };
    AcesoStage stage{first,
                     first + json["num_ops_in_each_stage"][s].small_integer(1, 1000),
                     first_of("model_parallel_size_of_each_op"),
                     first_of("data_parallel_size_of_each_op"),
                     {}};
    for (const Json& flag : json["recompute_ops"][s].elements())
      stage.recomputes.push_back(flag.integer() != 0);
    first = stage.end;
    plan.stages.push_back(stage);
  }
  return plan;
}

/// Seven eighths of what an L4 (23,034 MiB) or an A100 (40,960 MiB) has.
double memory_of(const std::string& device) {
  return device == "l4" ? 20154.75 : 35840;
}

}  // namespace

TEST_CASE("no plan that Aceso found for an L4 is faster in its model than ours", "[seconds]") {
  const std::string reference =
      data_folder + "reference/groundtruth_mist_aceso_measured_plans.json";
  if (!std::filesystem::exists(reference)) SKIP("no published data at " + reference);
  int plans = 0;
  std::map<std::string, AcesoAnswer> answers;
  for (const Json& row : Json::read(reference)["rows"].elements()) {
    const Json file = Json::read(data_folder + row["plan_file"].string());
    const std::string size = file["model_size"].string();
    if (row["device"].string() != "l4" || size == "13B" || size == "22B") continue;
    INFO(row["config"].string());
    AcesoQuestion question = published_question(0);
    for (const Json& count : row["num_gpus"].elements())
      question.machine.devices += count.small_integer(1, 64);
    question.machine.devices_per_node = question.machine.devices;
    question.machine.memory = memory_of("l4");
    question.global_batch = row["gbs"].integer(1, 1024);
    question.most_stages = question.machine.devices;
    // Plans of several numbers of stages answer the same question.
    const auto [place, is_new] = answers.try_emplace(size);
    if (is_new)
      place->second = search_by_aceso(published_database("mist/profiles/l4/gpt_" + size), question);
    const AcesoAnswer& answer = place->second;
    REQUIRE(answer.plan);
    CHECK(answer.figures.time * 1e3 <= row["aceso_predicted_ms"].number() + 0.0051);
    CHECK(answer.lower_bound == answer.figures.time);
    ++plans;
  }
  CHECK(plans == 8);
}

TEST_CASE("Aceso's predictions of executed plans are reproduced, with what it recomputes",
          "[seconds]") {
  const std::string reference =
      data_folder + "reference/groundtruth_mist_aceso_measured_plans.json";
  if (!std::filesystem::exists(reference)) SKIP("no published data at " + reference);
  int plans = 0;
  for (const Json& row : Json::read(reference)["rows"].elements()) {
    const std::string device = row["device"].string();
    const Json file = Json::read(data_folder + row["plan_file"].string());
    const std::string size = file["model_size"].string();
    if (size == "22B") continue;  // without tables
    INFO(row["config"].string());
    const AcesoDatabase database = published_database("mist/profiles/" + device + "/gpt_" + size);
    const AcesoPlan plan = read_aceso_plan(file);
    AcesoMachine machine = published_question(0).machine;
    for (const AcesoStage& stage : plan.stages) machine.devices += stage.devices();
    machine.devices_per_node = std::min(machine.devices, 8);
    const AcesoFigures figures =
        evaluate(database, machine, file["global_batch_size"].integer(1, 1024), plan);
    // Printed with two decimals: milliseconds, MB.
    CHECK(figures.time * 1e3 == Approx(row["aceso_predicted_ms"].number()).margin(0.0051));
    int behind = static_cast<int>(plan.stages.size());
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      const AcesoStage& stage = plan.stages[s];
      CHECK(figures.memory[s] ==
            Approx(row["predicted_total_by_stage"][s].number()).margin(0.0051));
      const auto table =
          std::find_if(database.tables.begin(), database.tables.end(), [&](const AcesoTable& it) {
            return it.microbatch == plan.microbatch && it.tensor_parallel == stage.tensor_parallel;
          });
      const AcesoRecompute chosen =
          AcesoCosts(database, *table)
              .recompute(stage.first, stage.end, --behind, memory_of(device) * 1000);
      std::vector<bool> flags(chosen.operators.begin(), chosen.operators.end());
      flags.resize(stage.recomputes.size(), false);
      CHECK(flags == stage.recomputes);
    }
    ++plans;
  }
  CHECK(plans == 13);
}

TEST_CASE("Aceso's published plans are found or beaten, and proved") {
  const std::string folder = data_folder + "aceso/profiled-time-eurosys/";
  if (!std::filesystem::exists(folder)) SKIP("no published data at " + folder);
  struct Published {
    std::string model;
    int devices, most_stages;
    double seconds, margin;
  };
  // Of results-ref, with two decimals, and of an exact program over Aceso's own functions.
  const std::vector<Published> rows{{"gpt_1_3B", 4, 4, 101.18459865, 1e-8},
                                    {"gpt_1_3B", 4, 3, 101.69, 5e-3},
                                    {"gpt_1_3B", 4, 2, 102.32, 5e-3},
                                    {"gpt_2_6B", 8, 8, 86.4388, 5e-5},
                                    {"gpt_2_6B", 8, 4, 87.1333, 5e-5}};
  for (const Published& row : rows) {
    INFO(row.model << " " << row.most_stages);
    AcesoQuestion question = published_question(row.devices);
    question.most_stages = row.most_stages;
    const AcesoDatabase database = published_database("aceso/profiled-time-eurosys/" + row.model);
    const AcesoAnswer answer = search_by_aceso(database, question);
    REQUIRE(answer.plan);
    CHECK(answer.figures.time <= row.seconds + row.margin);
    CHECK(answer.lower_bound == answer.figures.time);
    check_plan(database, question, answer);
  }
}
