// What was asked, beside the bound it belongs to:
//
//   "question": {
//     "objective": "step",
//     "microbatches": [1, 2, 4],          sizes; each with every schedule and every degree
//     "microbatch_per_copy": true,        of a pipeline, too: then a plan's is that of all copies
//     "schedules": [{"name": "1f1b", "virtual_stages": 1}],
//     "tensor_parallel": [1, 2],
//     "recompute": ["none", "full"],      allowed per stage
//     "recompute_layers": ["selective"],  allowed per layer, beside nothing; none if left out
//     "recompute_everywhere": ["none"],   of which all stages do one alike, for a framework
//     "sharding": ["zero1", "zero3"],     of which all plans have one; the plan's own if left out
//     "for": "megatron@0.19.2",           the framework that plans are for, if any
//     "memory": [85899345920, null],      usable bytes of each device kind; null: no limit
//     "devices": 8, "max_stages": 4,      where they are limited
//     "excluded": [3],                    devices that no plan may use, where there are any
//     "min_layers_per_stage": 1, "straight": false, "use_fewer_devices": true,
//     "one_stage_alone": true,            a pipeline of one device has one stage
//     "pinned": {"pipeline": 4,           degrees that all stages have alike, where they were
//     given:
//                "replicas": 2,           pipeline devices, replicas of each stage, and whether
//                "samples_per_replica": true},    `microbatches` are of each replica
//     "fixed": [{"stage": 0, "layers": [0, 4]}]
//   }

#include "planner/plan/question_json.hpp"

#include <climits>
#include <nlohmann/json.hpp>

#include "profiles/parallelism_json.hpp"
#include "profiles/text.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

template <class Read>
auto read_list(const Json& json, const Read& read) {
  std::vector<decltype(read(json))> list;
  for (const Json& element : json.elements()) list.push_back(read(element));
  return list;
}

/// The same of what there must be one of.
template <class Read>
auto read_choices(const Json& json, const Read& read) {
  if (json.elements().empty()) json.fail("expected at least one");
  return read_list(json, read);
}

ScheduleChoice read_known_schedule(const Json& json) {
  const auto find = +[](std::string_view name) { return &find_schedule(name); };
  read_name(json["name"], find);
  return read_schedule(json);
}

std::optional<int> read_limit(const Json& json, const char* name) {
  if (!json.contains(name)) return {};
  return json[name].small_integer(1, INT_MAX);
}

std::optional<Bytes> read_memory(const Json& json) {
  if (json.is_null()) return {};
  return json.integer(0);
}

FixedStage read_fixed(const Json& json) {
  json.allow_only({"stage", "layers"});
  const Json layers = json["layers"];
  return {.stage = json["stage"].small_integer(0, INT_MAX),
          .layers = {layers[0].small_integer(0, INT_MAX), layers[1].small_integer(0, INT_MAX)}};
}

PinnedDegrees read_pinned(const Json& json) {
  json.allow_only({"pipeline", "replicas", "samples_per_replica"});
  const bool samples = json.contains("samples_per_replica");
  return {.pipeline = read_limit(json, "pipeline"),
          .replicas = read_limit(json, "replicas"),
          .samples_per_replica = samples && json["samples_per_replica"].boolean()};
}

Value pinned_value(const PinnedDegrees& pinned) {
  Value value = Value::object();
  if (pinned.pipeline) value["pipeline"] = *pinned.pipeline;
  if (pinned.replicas) value["replicas"] = *pinned.replicas;
  if (pinned.samples_per_replica) value["samples_per_replica"] = true;
  return value;
}

Recomputed read_layer_choice(std::string_view word) {
  return read_known("recomputation of layers", word, {Recomputed::selective, Recomputed::full});
}

void read_flag(const Json& json, std::string_view key, bool& flag) {
  if (json.contains(key)) flag = json[key].boolean();
}

/// What all plans that were searched have, or may have one of.
void read_question_of_steps(const Json& json, const Batch& batch, Question& question) {
  question.objective = read_name(json["objective"], read_objective_kind);
  question.microbatches = read_choices(json["microbatches"], [&](const Json& size) {
    if (batch.global % size.integer(1) == 0) return size.integer(1);
    size.fail(concat("does not divide the batch of ", batch.global, " samples"));
  });
  read_flag(json, "microbatch_per_copy", question.microbatch_per_copy);
  question.schedules = read_choices(json["schedules"], read_known_schedule);
  if (json.contains("for")) question.target = json["for"].string();
  if (json.contains("sharding")) {
    question.sharding = read_choices(
        json["sharding"], [](const Json& name) { return read_name(name, read_sharding); });
  }
}

void read_question_of_recomputation(const Json& json, Question& question) {
  question.recompute = read_choices(
      json["recompute"], [](const Json& name) { return read_name(name, read_recompute); });
  if (json.contains("recompute_everywhere")) {
    question.recompute_everywhere =
        read_choices(json["recompute_everywhere"],
                     [](const Json& name) { return read_name(name, read_recompute_everywhere); });
  }
  if (json.contains("recompute_layers")) {
    question.recompute_layers = read_choices(json["recompute_layers"], [](const Json& name) {
      return read_name(name, read_layer_choice);
    });
  }
}

void read_question_of_devices(const Json& json, Question& question) {
  const auto read_number = [](const Json& number, int least) {
    return number.small_integer(least, INT_MAX);
  };
  question.memory = read_list(json["memory"], read_memory);
  question.devices = read_limit(json, "devices");
  if (json.contains("excluded")) {
    question.excluded =
        read_list(json["excluded"], [&](const Json& device) { return read_number(device, 0); });
  }
  question.use_fewer_devices = json["use_fewer_devices"].boolean();
  question.tensor_parallel = read_choices(
      json["tensor_parallel"], [&](const Json& degree) { return read_number(degree, 1); });
  read_flag(json, "sequence_parallel", question.sequence_parallel);
  if (json.contains("parallelism"))
    question.parallelism = read_choices(json["parallelism"], read_parallelism);
  if (json.contains("pinned")) question.pinned = read_pinned(json["pinned"]);
}

void read_question_of_stages(const Json& json, Question& question) {
  question.max_stages = read_limit(json, "max_stages");
  question.min_layers_per_stage = json["min_layers_per_stage"].small_integer(0, INT_MAX);
  question.straight = json["straight"].boolean();
  read_flag(json, "one_stage_alone", question.one_stage_alone);
  question.fixed = read_list(json["fixed"], read_fixed);
}

}  // namespace

Question read_question(const Json& json, const Batch& batch) {
  json.allow_only({"objective",
                   "microbatches",
                   "microbatch_per_copy",
                   "schedules",
                   "tensor_parallel",
                   "recompute",
                   "recompute_layers",
                   "memory",
                   "devices",
                   "max_stages",
                   "min_layers_per_stage",
                   "straight",
                   "one_stage_alone",
                   "use_fewer_devices",
                   "sequence_parallel",
                   "parallelism",
                   "sharding",
                   "fixed",
                   "excluded",
                   "recompute_everywhere",
                   "for",
                   "pinned"});
  Question question;
  read_question_of_steps(json, batch, question);
  read_question_of_recomputation(json, question);
  read_question_of_devices(json, question);
  read_question_of_stages(json, question);
  return question;
}

nlohmann::ordered_json question_value(const Question& question) {
  Value schedules = Value::array(), recompute = Value::array(), memory = Value::array(),
        fixed = Value::array();
  for (const ScheduleChoice& schedule : question.schedules) {
    schedules.push_back(schedule_value(schedule));
  }
  for (const Recompute choice : question.recompute) recompute.push_back(to_string(choice));
  Value by_layer = Value::array();
  for (const Recomputed choice : question.recompute_layers) by_layer.push_back(to_string(choice));
  for (const std::optional<Bytes>& bytes : question.memory) {
    memory.push_back(bytes ? Value(*bytes) : Value());
  }
  for (const FixedStage& stage : question.fixed) {
    Value layers = Value::array({stage.layers.first, stage.layers.end});
    fixed.push_back(Value{{"stage", stage.stage}, {"layers", std::move(layers)}});
  }
  Value value{
      {"objective", to_string(question.objective)}, {"microbatches", question.microbatches},
      {"schedules", std::move(schedules)},          {"tensor_parallel", question.tensor_parallel},
      {"recompute", std::move(recompute)},          {"memory", std::move(memory)}};
  if (question.microbatch_per_copy) value["microbatch_per_copy"] = true;
  if (!by_layer.empty()) value["recompute_layers"] = std::move(by_layer);
  for (const RecomputeEverywhere choice : question.recompute_everywhere)
    value["recompute_everywhere"].push_back(to_string(choice));
  if (!question.target.empty()) value["for"] = question.target;
  if (question.devices) value["devices"] = *question.devices;
  if (question.max_stages) value["max_stages"] = *question.max_stages;
  if (!question.excluded.empty()) value["excluded"] = question.excluded;
  value["min_layers_per_stage"] = question.min_layers_per_stage;
  value["straight"] = question.straight;
  if (question.one_stage_alone) value["one_stage_alone"] = true;
  value["use_fewer_devices"] = question.use_fewer_devices;
  if (question.sequence_parallel) value["sequence_parallel"] = true;
  for (const Parallelism& choice : question.parallelism) {
    value["parallelism"].push_back(parallelism_value(choice));
  }
  for (const Sharding choice : question.sharding) value["sharding"].push_back(to_string(choice));
  if (question.pinned.any()) value["pinned"] = pinned_value(question.pinned);
  value["fixed"] = std::move(fixed);
  return value;
}

}  // namespace stagecraft
