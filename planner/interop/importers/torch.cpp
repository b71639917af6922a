// Stages as users of torch.distributed.pipelining have them: modules per stage, or the modules that
// stages begin with.
//
//   {"stages": [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]],
//    "schedule": "1F1B", "microbatches": 8}
//
//   {"split_points": ["layers.8", "layers.16", "layers.24"],
//    "schedule": "Interleaved1F1B", "pipeline_parallel_degree": 2, "microbatches": 8}
//
// Also "context_parallel_degree", "expert_parallel_degree", "expert_tensor_parallel_degree",
// "sequence_parallel", "tensor_parallel_degree", "data_parallel_degree" (what devices are left
// over, if not said), "global_batch_size". Stage s is on rank s mod p, or there and back again for
// schedules that fold into a V, as torch places them; meshes count pipeline ranks slowest.
// `microbatches` is torch's n_microbatches.
//
// Beside "schedule": "_PipelineScheduleRuntime", which reads its order from a file, "order" says
// which one it is: {"name": "zb-h1"}, with "group" as in a plan; "schedule_csv" has that file's
// text, as our exporter writes it, and says the same.
//
// "activation_checkpoint" is torchtitan's mode: "none"; "full", every transformer block in a
// wrapper of its own; "selective" with "selective_ac_option": "2", every second block of a rank.
// What it calls "op", results of chosen operators, plans have no words for. And "stage", which is
// not torchtitan's: each stage's module in one wrapper.

#include <algorithm>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "planner/interop/torch_checkpoints.hpp"
#include "planner/interop/torch_names.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

/// The value that `find` returns for the string; complaints are put at its place.
template <class Find>
auto at_place(const Json& json, Find find) {
  try {
    return find(json.string());
  } catch (const Error& error) {
    if (error.place()) throw;
    json.fail(error.message(), error.help());
  }
}

int layer_at(const Json& json, const Model& model) {
  return at_place(json, [&](const std::string& name) { return find_layer(model, name); });
}

/// Several modules may be one layer, but not in several stages.
std::vector<std::vector<int>> read_stages(const Json& json, const Model& model) {
  std::vector<std::vector<int>> stages;
  std::vector<int> owner(model.layers.size(), -1);
  for (const Json& element : json.elements()) {
    const int stage = static_cast<int>(stages.size());
    std::vector<int>& layers = stages.emplace_back();
    for (const Json& name : element.elements()) {
      const int layer = layer_at(name, model);
      int& before = owner[static_cast<std::size_t>(layer)];
      if (before == stage) continue;
      if (before >= 0) {
        name.fail(concat("\"", name.string(), "\" is in layer ", layer, " (",
                         model.layers[static_cast<std::size_t>(layer)].name, "), which stage ",
                         before, " has already"));
      }
      before = stage;
      layers.push_back(layer);
    }
    if (layers.empty()) element.fail(concat("stage ", stage, " has no modules"));
  }
  const auto missing = std::find(owner.begin(), owner.end(), -1);
  if (missing != owner.end()) {
    const auto layer = static_cast<std::size_t>(missing - owner.begin());
    json.fail(concat("layer ", layer, " (", model.layers[layer].name, ") is in no stage"));
  }
  return stages;
}

std::vector<std::vector<int>> read_split_points(const Json& json, const Model& model) {
  std::vector<std::vector<int>> stages;
  int first = 0;
  for (const Json& name : json.elements()) {
    const int begin = layer_at(name, model);
    if (begin <= first) {
      name.fail(concat("the stage would begin at layer ", begin,
                       first == 0 && begin == 0 ? ", where the first one does"
                                                : concat(", but the one before begins at ", first),
                       "; split points follow the model's order"));
    }
    stages.push_back(layers_between(first, begin));
    first = begin;
  }
  stages.push_back(layers_between(first, static_cast<int>(model.layers.size())));
  return stages;
}

std::vector<std::vector<int>> read_layers(const Json& json, const Model& model) {
  json.allow_only({"stages", "split_points", "schedule", "order", "schedule_csv", "microbatches",
                   "pipeline_parallel_degree", "tensor_parallel_degree", "data_parallel_degree",
                   "activation_checkpoint", "selective_ac_option", "global_batch_size",
                   "sequence_parallel", "context_parallel_degree", "expert_parallel_degree",
                   "expert_tensor_parallel_degree"});
  if (json.contains("stages") && json.contains("split_points")) {
    json["split_points"].fail("expected either stages or split_points, found both");
  }
  return json.contains("split_points") ? read_split_points(json["split_points"], model)
                                       : read_stages(json["stages"], model);
}

int read_degree(const Json& json, std::string_view name, int otherwise) {
  return json.contains(name) ? json[name].small_integer(1, most_devices) : otherwise;
}

/// The file's schedule, or the option's.
std::string_view read_schedule(const Json& json, const PlanQuestion& question) {
  const bool in_file = json.contains("schedule");
  if (in_file && !question.options.schedule.empty())
    fail_usage("the file has a schedule already; leave --schedule away");
  if (!in_file) return find_torch_schedule(schedule_name(question, "1f1b"));
  if (json["schedule"].string() == torch_runtime) {
    if (!json.contains("order")) {
      json["schedule"].fail("expected which order it is, as in \"order\": {\"name\": \"zb-h1\"}");
    }
    json["order"].allow_only({"name", "group"});
    return at_place(json["order"]["name"],
                    [](const std::string& name) { return find_schedule(name).name; });
  }
  if (json.contains("order")) {
    json["order"].fail(concat("says something of \"schedule\": \"", torch_runtime,
                              "\", which reads it from a file"));
  }
  return at_place(json["schedule"],
                  [](const std::string& name) { return find_torch_schedule(name); });
}

/// As many ranks as stages, or half of them for a V, unless the file says it.
int read_ranks(const Json& json, const ScheduleKind& schedule, int stages) {
  const bool is_loop =
      schedule.placement == StagePlacement::loop || schedule.placement == StagePlacement::wave;
  if (is_loop && !json.contains("pipeline_parallel_degree")) {
    json.fail(concat("the member \"pipeline_parallel_degree\" is missing: ", schedule.name,
                     " has several stages on each rank"));
  }
  const int per_rank = schedule.placement == StagePlacement::vee ? 2 : 1;
  const int ranks = read_degree(json, "pipeline_parallel_degree", std::max(stages / per_rank, 1));
  if (stages % ranks == 0) return ranks;
  json.fail(concat(stages, " stages are no multiple of ", ranks, " pipeline ranks"));
}

Degrees read_degrees(const Json& json, const PlanQuestion& question, int ranks) {
  const int tensor = read_degree(json, "tensor_parallel_degree", 1);
  const int context = read_degree(json, "context_parallel_degree", 1);
  if (!json.contains("data_parallel_degree"))
    return degrees_of("torch", device_count(question.cluster), ranks, tensor, context);
  return {.pipeline = ranks,
          .data = read_degree(json, "data_parallel_degree", 1),
          .tensor = tensor,
          .context = context};
}

/// As torchtitan names them.
Parallelism read_torch_parallelism(const Json& json, const Degrees& degrees) {
  const bool sequence = json.contains("sequence_parallel") && json["sequence_parallel"].boolean();
  return {.sequence = sequence && degrees.tensor > 1,
          .context = degrees.context,
          .expert = read_degree(json, "expert_parallel_degree", 1),
          .expert_tensor = json.contains("expert_tensor_parallel_degree")
                               ? read_degree(json, "expert_tensor_parallel_degree", 1)
                               : 0};
}

/// What is wrapped: each stage's module, or every so many-th block.
struct TorchCheckpoints {
  Recompute stages = Recompute::none;
  std::optional<int> every;
};

/// A number of blocks, as a number or as torchtitan has it, a word.
int read_frequency(const Json& json) {
  constexpr std::string_view member = "selective_ac_option";
  constexpr std::string_view expected =
      "plans recompute whole blocks: expected every how many of them, as in "
      "\"selective_ac_option\": \"2\"";
  if (!json.contains(member)) json["activation_checkpoint"].fail(std::string(expected));
  const Json option = json[member];
  if (!option.is_string()) return option.small_integer(1, INT32_MAX);
  const std::string word = option.string();
  constexpr std::size_t most_digits = 9;
  const bool is_number = !word.empty() && word.size() <= most_digits &&
                         word.find_first_not_of("0123456789") == std::string::npos;
  if (!is_number || std::stoi(word) < 1) option.fail(concat(expected, ", found \"", word, '"'));
  return std::stoi(word);
}

TorchCheckpoints read_torch_checkpoints(const Json& json) {
  const bool has_mode = json.contains("activation_checkpoint");
  const std::string mode = has_mode ? json["activation_checkpoint"].string() : "none";
  if (mode != "selective" && json.contains("selective_ac_option")) {
    json["selective_ac_option"].fail(
        concat("says something of \"activation_checkpoint\": \"selective\", not of \"", mode, '"'));
  }
  if (mode == "none") return {};
  if (mode == "full") return {.every = 1};
  if (mode == "stage") return {.stages = Recompute::full};
  if (mode == "selective") return {.every = read_frequency(json)};
  json["activation_checkpoint"].fail(
      concat("expected none, full, selective or stage, found \"", mode, '"'));
}

/// n_microbatches of the batch.
Batch read_torch_batch(const Json& json, const PlanQuestion& question, int replicas) {
  std::optional<std::int64_t> global, microbatch = question.options.microbatch;
  if (json.contains("global_batch_size"))
    global = json["global_batch_size"].integer(1, most_samples);
  global = said_once(global, "global_batch_size", question.options.batch, "--batch");
  if (!json.contains("microbatches")) return batch_of(question, global, microbatch, replicas);
  const std::int64_t count = json["microbatches"].integer(1, INT32_MAX);
  if (microbatch && !global) global = *microbatch * count;
  if (!global) return batch_of(question, global, microbatch, replicas);
  if (*global % count != 0 || (microbatch && *microbatch * count != *global)) {
    json["microbatches"].fail(concat("a batch of ", *global, " samples is not ", count,
                                     " microbatches",
                                     microbatch ? concat(" of ", *microbatch) : ""));
  }
  return batch_of(question, global, *global / count);
}

/// Microbatches in a row through a stage: as the file says, or as torch's class takes them.
void set_group(Plan& plan, const Json& json) {
  if (json.contains("order")) {
    if (json["order"].contains("group")) {
      plan.schedule.group = json["order"]["group"].small_integer(1, INT32_MAX);
    }
    return;
  }
  const bool loops = plan.schedule.name == "interleaved" || plan.schedule.name == "interleaved-zb";
  if (!loops || plan.schedule.virtual_stages == 1) return;
  const int devices = pipeline_devices(plan);
  const std::optional<int> round = torch_round(devices, plan.batch.microbatches);
  if (!round) {
    fail("torch refuses: ", plan.batch.microbatches, " microbatches in ",
         plan.batch.microbatches / devices, " rounds, of which they are no multiple");
  }
  if (*round != devices) plan.schedule.group = *round;
}

}  // namespace

bool looks_like_torch(std::string_view content) {
  const auto has = [&](std::string_view name) {
    return content.find(name) != std::string_view::npos;
  };
  return has("\"split_points\"") ||
         (has("\"stages\"") && !has("stagecraft-plan") && !has("\"dataParallelDegree\""));
}

ImportedPlan import_torch(std::string_view content, const std::string& file,
                          const PlanQuestion& question) {
  const Json json = Json::parse(std::string(content), file);
  const std::vector<std::vector<int>> layers = read_layers(json, question.profile.model);
  if (!question.options.replicas.empty()) {
    fail_usage("replicas follow from the ranks and the number of devices; leave --replicas away");
  }
  const ScheduleKind& schedule = find_schedule(read_schedule(json, question));
  const int ranks = read_ranks(json, schedule, static_cast<int>(layers.size()));
  const Degrees degrees = read_degrees(json, question, ranks);
  const TorchCheckpoints checkpoints = read_torch_checkpoints(json);
  ImportedPlan imported{.plan = begin_plan(question, Framework::torch)};
  std::vector<ForeignStage> stages;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    const int rank = device_of_stage(schedule.placement, static_cast<int>(s), ranks);
    stages.push_back({.layers = layers[s],
                      .replicas = degrees.data,
                      .tensor_parallel = degrees.peers(),
                      .recompute = checkpoints.stages,
                      .devices = ranks_of(degrees, rank)});
  }
  set_stages(imported.plan, stages);
  imported.plan.parallelism = read_torch_parallelism(json, degrees);
  set_schedule(imported.plan, schedule.name, static_cast<int>(layers.size()) / ranks);
  if (checkpoints.every) {
    wrap_blocks(imported.plan, question.profile.model, *checkpoints.every);
  }
  imported.plan.batch = read_torch_batch(json, question, degrees.data);
  set_group(imported.plan, json);
  return imported;
}

}  // namespace stagecraft
