// Plans that Aceso made and Mist ran, predicted from profiles of single operators: nothing is
// fitted. `tests_planner "[measured_plans]" -s` prints what each takes.

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <numeric>

#include "planner/costs/predict.hpp"
#include "planner/interop/importers.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/planner/interop/importers/questions.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::string measured_data = shared_folder() + "/data/";
const std::string reference =
    measured_data + "reference/groundtruth_mist_aceso_measured_plans.json";

/// A measured run, and by how much predictions miss it, relative to what was measured.
struct Run {
  std::string name;
  bool several_nodes = false;
  double step = 0;
  double step_by_aceso = 0;
  std::vector<double> memory;  ///< of the stages that were measured
  std::vector<double> memory_by_aceso;
};

/// Nodes of eight, with the rates of large messages in Mist's own tables.
std::string cluster_of_run(const std::string& device, int devices) {
  const bool is_l4 = device == "l4";
  const std::string inside = is_l4 ? "9.4GB/s" : "172GB/s";
  if (devices <= 8) return concat(devices, "xgeneric@", inside);
  return concat(devices / 8, "x8xgeneric@", is_l4 ? "2.4GB/s" : "6.8GB/s", ",", inside);
}

Run compare(const Json& row) {
  const std::string file = measured_data + row["plan_file"].string();
  const std::string device = row["device"].string();
  const std::string size = Json::read(file)["model_size"].string();
  std::vector<int> devices;
  for (const Json& count : row["num_gpus"].elements()) devices.push_back(count.small_integer(1, 8));
  const int all = std::accumulate(devices.begin(), devices.end(), 0);
  const std::string table =
      concat(measured_data, "mist/profiles/", device, "/gpt_", size, "_mbs1_tp1_algo0.csv");
  LoadedProfile loaded = load_profile(table);
  // Measured is what was allocated; what the allocator held besides is in no tensor.
  for (ProfileEntry& entry : loaded.profile.entries) {
    for (LayerCost& cost : entry.layers) cost.workspace = 0;
  }
  const std::string cluster = cluster_of_run(device, all);
  const PlanQuestion question{.model_name = table,
                              .cluster_name = cluster,
                              .profile_hash = loaded.hash,
                              .profile = loaded.profile,
                              .model_content = loaded.content,
                              .cluster = parse_cluster(cluster),
                              .options = {}};
  const Plan plan = imported("aceso", read_file(file), question);
  const Prediction prediction = predict(plan, loaded.profile, question.cluster);
  const double measured = row["measured_ms"].number() / 1e3;
  Run run{.name = concat(device, " ", row["config"].string()),
          .several_nodes = all > 8,
          .step = static_cast<double>(prediction.step.count()) / 1e9 / measured - 1,
          .step_by_aceso = row["aceso_predicted_ms"].number() / 1e3 / measured - 1,
          .memory = {},
          .memory_by_aceso = {}};
  const Json allocated = row["measured_max_alloc_by_stage"];
  std::size_t lead = 0;
  for (std::size_t s = 0; s < devices.size(); ++s, ++lead) {
    if (!allocated.contains(std::to_string(s))) continue;
    const double bytes = allocated[std::to_string(s)].number() * (1 << 20);
    const MemoryPeak& peak = prediction.peaks[lead];
    run.memory.push_back(static_cast<double>(peak.bytes) / bytes - 1);
    run.memory_by_aceso.push_back(row["predicted_normal_by_stage"][s].number() * (1 << 20) / bytes -
                                  1);
  }
  return run;
}

double mean(const std::vector<double>& errors) {
  double sum = 0;
  for (const double error : errors) sum += std::abs(error);
  return sum / static_cast<double>(errors.size());
}

double median(std::vector<double> errors) {
  for (double& error : errors) error = std::abs(error);
  std::ranges::sort(errors);
  return errors[errors.size() / 2];
}

}  // namespace

TEST_CASE("Aceso's plans as Mist ran them: steps and memory from profiles of operators",
          "[measured_plans][seconds]") {
  if (!std::filesystem::exists(reference)) SKIP("no published data at " + reference);
  std::vector<double> steps, steps_by_aceso, several_nodes, memory, memory_by_aceso;
  for (const Json& row : Json::read(reference)["rows"].elements()) {
    if (row["config"].string().find("_22B_") != std::string::npos) continue;  // without tables
    const Run run = compare(row);
    INFO(run.name << ": step " << 100 * run.step << " %, Aceso " << 100 * run.step_by_aceso
                  << " %, memory " << 100 * mean(run.memory) << " %, Aceso "
                  << 100 * mean(run.memory_by_aceso) << " %");
    CHECK(std::abs(run.step) < 0.15);
    steps.push_back(run.step);
    steps_by_aceso.push_back(run.step_by_aceso);
    if (run.several_nodes) several_nodes.push_back(run.step);
    memory.insert(memory.end(), run.memory.begin(), run.memory.end());
    memory_by_aceso.insert(memory_by_aceso.end(), run.memory_by_aceso.begin(),
                           run.memory_by_aceso.end());
  }
  INFO("steps: median " << 100 * median(steps) << " %, mean " << 100 * mean(steps) << " %; Aceso "
                        << 100 * median(steps_by_aceso) << " %, " << 100 * mean(steps_by_aceso)
                        << " %; several nodes " << 100 * mean(several_nodes) << " %");
  INFO("memory of " << memory.size() << " stages: mean " << 100 * mean(memory) << " %; Aceso "
                    << 100 * mean(memory_by_aceso) << " %");
  CHECK(steps.size() == 13);
  CHECK(median(steps) < 0.071);
  CHECK(mean(steps) < 0.063);
  CHECK(mean(several_nodes) < 0.083);
  CHECK(memory.size() == 70);
  CHECK(mean(memory) < 0.028);
  // As published.
  CHECK(mean(steps_by_aceso) > 0.11);
  CHECK(mean(memory_by_aceso) > 0.032);
}
