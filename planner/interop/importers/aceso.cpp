// Plans that Aceso (Liu et al., EuroSys 2024) found, as its search writes them and its runtime
// reads them, operator by operator:
//
//   {"model_name": "gpt", "model_size": "1_3B", "global_batch_size": 32, "micro_batch_size": 1,
//    "num_stages": 2, "num_gpus": [1, 2], "num_ops_in_each_stage": [159, 156],
//    "model_parallel_size_of_each_op": [[1, …], [2, …]],
//    "data_parallel_size_of_each_op": [[1, …], [1, …]], "algo_of_each_op": [[0, …], [0, …]],
//    "recompute_ops": [[0, 1, 1, …], [0, …]], "checkpoint_activations": [true, false], …}
//
// MODEL is a table of Aceso's profile database, whose operators these are. Operators in a row that
// recompute do so together, up to the end of their transformer layer or block, which is where its
// runtime ends a checkpoint.

#include <algorithm>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

/// How all operators of a stage are split.
struct AcesoDegrees {
  int tensor = 1;
  int data = 1;
  bool operator==(const AcesoDegrees&) const = default;
};

/// One number for each operator of the stage.
std::vector<int> read_operators(const Json& json, std::size_t operators, int least, int most) {
  std::vector<int> numbers;
  for (const Json& element : json.elements()) numbers.push_back(element.small_integer(least, most));
  if (numbers.size() == operators) return numbers;
  json.fail(
      concat("the stage has ", operators, " operators, but ", numbers.size(), " are listed here"));
}

AcesoDegrees read_degrees(const Json& json, std::size_t stage, std::size_t operators) {
  const Json tensor = json["model_parallel_size_of_each_op"][stage];
  const std::vector<int> tensors = read_operators(tensor, operators, 1, most_devices);
  const std::vector<int> replicas =
      read_operators(json["data_parallel_size_of_each_op"][stage], operators, 1, most_devices);
  const AcesoDegrees first{tensors.front(), replicas.front()};
  for (std::size_t i = 0; i < operators; ++i) {
    const AcesoDegrees own{tensors[i], replicas[i]};
    if (own == first) continue;
    tensor[i].fail(concat("this operator is split over ", own.tensor, " x ", own.data,
                          " devices, the first of its stage over ", first.tensor, " x ", first.data,
                          " (tensor x data); a plan's stage is split one way"));
  }
  const int devices = json["num_gpus"][stage].small_integer(1, most_devices);
  if (devices == first.tensor * first.data) return first;
  json["num_gpus"][stage].fail(concat("the stage's operators are split over ", first.tensor, " x ",
                                      first.data, " devices, not ", devices));
}

/// The runtime ends a checkpoint before such an operator.
bool begins_layer(std::string_view name) {
  return name.substr(0, name.find('.')) == "enc-1st-layernorm" ||
         name.find("-conv1") != std::string_view::npos;
}

void read_recompute(const Json& json, std::size_t which, const Model& model, Stage& stage) {
  const auto operators = static_cast<std::size_t>(stage.layers.size());
  const std::vector<int> does = read_operators(json["recompute_ops"][which], operators, 0, 1);
  if (!json["checkpoint_activations"][which].boolean()) return;
  if (std::ranges::count(does, 1) == 0) return;
  stage.again.assign(operators, Recomputed::none);
  for (std::size_t i = 0; i < operators; ++i) {
    if (does[i] == 0) continue;
    const auto next = static_cast<std::size_t>(stage.layers.first) + i + 1;
    const bool goes_on =
        i + 1 < operators && does[i + 1] == 1 && !begins_layer(model.layers[next].name);
    stage.again[i] = goes_on ? Recomputed::with_next : Recomputed::full;
  }
}

void require_database(const Json& json, const PlanQuestion& question) {
  const std::string model = concat(json["model_name"].string(), "_", json["model_size"].string());
  if (!looks_like_aceso(question.model_content)) {
    fail(
        "a plan of Aceso's names operators of its profile database; name a table of that as "
        "--model, such as ",
        model, "_mbs1_tp1_algo0.csv, not \"", question.model_name, "\"");
  }
  if (question.profile.model.name == model) return;
  fail("the plan is for ", model, ", but \"", question.model_name, "\" is of ",
       question.profile.model.name);
}

/// Operators that are split in the way of which the database's other tables tell.
int count_other_ways(const Json& json) {
  int count = 0;
  for (const Json& stage : json["algo_of_each_op"].elements()) {
    for (const Json& element : stage.elements()) count += element.small_integer(0, 1);
  }
  return count;
}

}  // namespace

bool looks_like_aceso_plan(std::string_view content) {
  return content.find("\"num_ops_in_each_stage\"") != std::string_view::npos;
}

ImportedPlan import_aceso_plan(std::string_view content, const std::string& file,
                               const PlanQuestion& question) {
  const Json json = Json::parse(std::string(content), file);
  require_database(json, question);
  if (!question.options.replicas.empty())
    fail_usage("the file has the replicas of each stage already; leave --replicas away");
  const Model& model = question.profile.model;
  const auto count = static_cast<std::size_t>(json["num_stages"].small_integer(1, most_devices));
  const Json sizes = json["num_ops_in_each_stage"];
  const auto operators = static_cast<int>(model.layers.size());
  std::vector<ForeignStage> stages;
  int first = 0;
  for (std::size_t s = 0; s < count; ++s) {
    const int size = sizes[s].small_integer(1, operators - first);
    const AcesoDegrees degrees = read_degrees(json, s, static_cast<std::size_t>(size));
    stages.push_back({.layers = layers_between(first, first + size),
                      .replicas = degrees.data,
                      .tensor_parallel = degrees.tensor,
                      .devices = {}});
    first += size;
  }
  if (first != operators) {
    sizes.fail(concat("the stages have ", first, " operators, but ", model.name, " has ", operators,
                      ": the last ones would never be trained"));
  }
  ImportedPlan imported{.plan = begin_plan(question)};
  set_stages(imported.plan, stages);
  for (std::size_t s = 0; s < count; ++s) read_recompute(json, s, model, imported.plan.stages[s]);
  if (const int others = count_other_ways(json); others > 0) {
    imported.notes.push_back(concat(others,
                                    " operators are split in Aceso's second way; the "
                                    "profile has the times of the first"));
  }
  set_schedule(imported.plan, schedule_name(question, "1f1b"));
  const auto samples = [&](std::string_view member, const std::optional<std::int64_t>& option,
                           std::string_view flag) {
    return said_once(std::optional(json[member].integer(1, most_samples)), member, option, flag);
  };
  imported.plan.batch =
      batch_of(question, samples("global_batch_size", question.options.batch, "--batch"),
               samples("micro_batch_size", question.options.microbatch, "--microbatch"));
  return imported;
}

}  // namespace stagecraft
