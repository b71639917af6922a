// A plan file:
//
// clang-format off
//   {
//     "format": "stagecraft-plan/1",
//     "model": "gpt2-124m",                MODEL and CLUSTER as on the command line; files are looked
//     "cluster": "4xcpu",                  up as given, then beside the plan
//     "profile": "xxh3:9f0c…",             hash of the costs the plan was made with; "" if none
//     "precision": "fp32",
//     "kernels": "megatron",               of layers whose costs are estimated; or "torch"
//     "dispatcher": "alltoall",            of tokens to experts; or "deepep", "hybridep"
//     "cuda_graphs": "none",               or "layers", "step": what the host sends at once
//     "fused_loss": "none",                or "native", "te": Megatron-LM's loss kernel
//     "router_fusion": "off",              or "on": three kernels choose experts
//     "overlap": "none",                   or "tensor", "experts", "tensor+experts": peers'
//                                          messages beside a layer's kernels
//     "recompute_modules": "moe_act",      of Megatron-LM's layers, done again by "selective"
//                                          stages in place of attention; several with "+"
//     "fp8_recipe": "delayed",             or "tensorwise", "blockwise", "mxfp8": how fp8 numbers
//                                          get their scale; without it what the device usually has
//     "batch": {"global": 64, "microbatch": 2, "microbatches": 32, "sequence": 1024},
//     "requests": {"prompt": 1024, "output": 256, "chunk": 8192,   of inference: tokens of each, and
//                  "memory": 0.92},                                of a pass; part of memory in use
//     "schedule": {"name": "1f1b", "virtual_stages": 1},           also "group": 4, "warm_up": [4, 3],
//     "weights": "flush",                                          "pipes": 4, "sequence_chunks": 2
//     "replicas": "split",                                         or "round_robin"
//     "optimizer": {"kind": "adamw", "sharding": "none"},          also "gradient_bucket": "25MiB"
//     "stages": [
//       {"layers": [0, 4], "devices": [[0], [1]], "recompute": "none"},   layers 0 to 3 on two replicas
//       {"layers": [4, 9], "devices": [[2]], "recompute": "full"},           [4, 4]: none, it only passes on
//       {"layers": [9, 14], "devices": [[3]], "recompute": {"full": [[9, 11]], "selective": [[11, 13]]}}
//     ],
//     "predicted": {"step": "181.2ms", "bubble": 0.27,
//                   "peak_memory": ["61MiB", "61MiB", "48MiB", "57MiB"]},      one per used device
//     "search": {"strategy": "exact", "lower_bound": "180.1ms", "gap": 0.006,
//                "proved_optimal": false, "candidates": 1312,
//                "question": {…}}                           see question_json.cpp
//   }
// clang-format on
//
// "parallelism": {"sequence": true, "context": 2, "expert": 8} beside "optimizer" says how devices
// share the work otherwise (profiles/parallelism.hpp; what is left out has its default). With
// "context", a replica's devices are its tensor x context peers, tensor fastest.
//
// "order": [0, 2, 1, …] beside "stages" lists the model's layers in the order that "layers" counts,
// where a branching model is cut otherwise than in its own.
//
// "recompute": "full" keeps the stage's input only, and runs the whole stage again before its
// backward. Layers that an object lists (half open ranges, counted as in "layers") each do so for
// themselves: a "full" one keeps its own input, a "selective" one has its attention again, and does
// nothing if it has none. "selective" alone means all layers of the stage. Each range of "together"
// is a run: of its layers only the first one's input is kept, and all run again before the backward
// of the last.
//
// "format", "model", "cluster", "batch" with its first three members, and "stages" with layers and
// devices must be there; the others have the defaults of plan.hpp.

#include <algorithm>
#include <climits>
#include <nlohmann/json.hpp>

#include "planner/plan/plan.hpp"
#include "planner/plan/question_json.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/parallelism_json.hpp"

namespace stagecraft {

namespace {

using Value = nlohmann::ordered_json;

constexpr std::string_view plan_format = "stagecraft-plan/1";

int read_count(const Json& json) {
  return json.small_integer(0, INT_MAX);
}

LayerRange read_layers(const Json& json) {
  if (!json.is_array() || json.elements().size() != 2) {
    json.fail("expected the first layer and the one after the last, for example [0, 4]");
  }
  return {.first = read_count(json[0]), .end = read_count(json[1])};
}

std::vector<int> read_counts(const Json& json) {
  std::vector<int> counts;
  for (const Json& element : json.elements()) counts.push_back(read_count(element));
  return counts;
}

/// Key of the runs of layers that recompute together.
constexpr std::string_view together = "together";

/// The layers that the ranges list will do this again; each range of layers that do so together is
/// a run.
void read_again(const Json& ranges, Recomputed what, Stage& stage) {
  for (const Json& element : ranges.elements()) {
    const LayerRange range = read_layers(element);
    if (range.size() < 1 || range.first < stage.layers.first || range.end > stage.layers.end) {
      element.fail(concat("expected layers of the stage, which are [", stage.layers.first, ", ",
                          stage.layers.end, "], found [", range.first, ", ", range.end, "]"));
    }
    for (int layer = range.first; layer < range.end; ++layer) {
      Recomputed& choice = stage.again[static_cast<std::size_t>(layer - stage.layers.first)];
      if (choice != Recomputed::none) {
        element.fail(concat("layer ", layer, " is listed twice; a layer does one thing again"));
      }
      const bool ends_run = what == Recomputed::with_next && layer + 1 == range.end;
      choice = ends_run ? Recomputed::full : what;
    }
  }
}

void read_stage_recompute(const Json& json, Stage& stage) {
  const auto layers = static_cast<std::size_t>(std::max(stage.layers.size(), 0));
  if (json.is_object()) {
    json.allow_only({"selective", "full", std::string(together)});
    stage.again.assign(layers, Recomputed::none);
    for (const Recomputed what : {Recomputed::selective, Recomputed::full}) {
      const std::string_view name = to_string(what);
      if (json.contains(name)) read_again(json[name], what, stage);
    }
    if (json.contains(together)) read_again(json[together], Recomputed::with_next, stage);
    if (std::ranges::count(stage.again, Recomputed::none) == std::ssize(stage.again)) {
      stage.again.clear();
    }
    return;
  }
  if (json.is_string() && json.string() == to_string(Recomputed::selective)) {
    stage.again.assign(layers, Recomputed::selective);
    return;
  }
  if (json.is_string() && (json.string() == "none" || json.string() == "full")) {
    stage.recompute = read_recompute(json.string());
    return;
  }
  json.fail(R"(expected "none", "selective", "full", or layers, for example {"full": [[4, 6]]})");
}

Stage read_stage(const Json& json) {
  json.allow_only({"layers", "devices", "recompute"});
  Stage stage;
  stage.layers = read_layers(json["layers"]);
  for (const Json& replica : json["devices"].elements()) {
    stage.devices.push_back(read_counts(replica));
  }
  if (json.contains("recompute")) read_stage_recompute(json["recompute"], stage);
  return stage;
}

Batch read_batch(const Json& json) {
  json.allow_only({"global", "microbatch", "microbatches", "sequence"});
  return {.global = json["global"].integer(0),
          .microbatch = json["microbatch"].integer(0),
          .microbatches = read_count(json["microbatches"]),
          .sequence = json.contains("sequence") ? json["sequence"].integer(0) : 0};
}

/// Prompts are the batch's sequences: who says both says the same.
Requests read_requests(const Json& json, Batch& batch) {
  json.allow_only({"prompt", "output", "chunk", "memory"});
  Requests requests;
  if (json.contains("prompt")) {
    const std::int64_t prompt = json["prompt"].integer(1);
    if (batch.sequence != 0 && batch.sequence != prompt) {
      json["prompt"].fail(concat("prompts are the batch's sequences, of ", batch.sequence,
                                 " tokens, not ", prompt, "; change both, or leave one out"));
    }
    batch.sequence = prompt;
  }
  if (json.contains("output")) requests.output = json["output"].integer(0);
  if (json.contains("chunk")) requests.chunk = json["chunk"].integer(1);
  if (json.contains("memory")) requests.memory = json["memory"].number();
  return requests;
}

}  // namespace

ScheduleChoice read_schedule(const Json& json) {
  json.allow_only({"name", "virtual_stages", "group", "warm_up", "pipes", "sequence_chunks"});
  ScheduleChoice choice;
  choice.name = json["name"].string();
  if (json.contains("virtual_stages")) choice.virtual_stages = read_count(json["virtual_stages"]);
  if (json.contains("group")) choice.group = read_count(json["group"]);
  if (json.contains("warm_up")) choice.warm_up = read_counts(json["warm_up"]);
  if (json.contains("pipes")) choice.pipes = read_count(json["pipes"]);
  if (json.contains("sequence_chunks")) {
    choice.sequence_chunks = json["sequence_chunks"].small_integer(1, INT_MAX);
  }
  return choice;
}

namespace {

OptimizerChoice read_optimizer(const Json& json) {
  json.allow_only({"kind", "sharding", "gradient_bucket"});
  OptimizerChoice choice;
  if (json.contains("kind")) choice.kind = read_name(json["kind"], read_optimizer_kind);
  if (json.contains("sharding")) choice.sharding = read_name(json["sharding"], read_sharding);
  if (json.contains("gradient_bucket")) choice.gradient_bucket = json["gradient_bucket"].bytes();
  return choice;
}

PredictedFigures read_predicted(const Json& json) {
  json.allow_only({"step", "bubble", "peak_memory"});
  PredictedFigures figures;
  figures.step = json["step"].duration();
  figures.bubble = json["bubble"].number();
  for (const Json& peak : json["peak_memory"].elements()) {
    figures.peak_memory.push_back(peak.bytes());
  }
  return figures;
}

SearchFigures read_search(const Json& json, const Batch& batch) {
  json.allow_only(
      {"strategy", "lower_bound", "gap", "proved_optimal", "candidates", "question", "scope"});
  std::optional<Question> question;
  if (json.contains("question")) question = read_question(json["question"], batch);
  return {.strategy = json["strategy"].string(),
          .lower_bound = json["lower_bound"].duration(),
          .gap = json["gap"].number(),
          .proved_optimal = json["proved_optimal"].boolean(),
          .candidates = json["candidates"].integer(0),
          .question = std::move(question),
          .scope = json.contains("scope") ? json["scope"].string() : ""};
}

/// How the plan is carried out: each member may be left out.
void read_settings(const Json& json, Plan& plan) {
  if (json.contains("profile")) plan.profile = json["profile"].string();
  if (json.contains("precision")) plan.precision = read_name(json["precision"], read_precision);
  LayerKernels& kernels = plan.kernels;
  if (json.contains("kernels")) kernels.framework = read_name(json["kernels"], read_framework);
  if (json.contains("dispatcher"))
    kernels.dispatcher = read_name(json["dispatcher"], read_dispatcher);
  if (json.contains("cuda_graphs"))
    kernels.graphs = read_name(json["cuda_graphs"], read_cuda_graphs);
  if (json.contains("fused_loss"))
    kernels.fused_loss = read_name(json["fused_loss"], read_fused_loss);
  if (json.contains("router_fusion"))
    kernels.router_fusion = read_name(json["router_fusion"], read_router_fusion);
  if (json.contains("overlap")) kernels.overlap = read_name(json["overlap"], read_message_overlap);
  if (json.contains("recompute_modules"))
    kernels.again = read_name(json["recompute_modules"], read_layer_modules);
  if (json.contains("fp8_recipe"))
    kernels.float8_recipe = read_name(json["fp8_recipe"], read_float8_recipe);
  if (json.contains("schedule")) plan.schedule = read_schedule(json["schedule"]);
  if (json.contains("weights")) plan.weights = read_name(json["weights"], read_weight_policy);
  if (json.contains("replicas")) plan.replicas = read_name(json["replicas"], read_replica_policy);
  if (json.contains("optimizer")) plan.optimizer = read_optimizer(json["optimizer"]);
  if (json.contains("parallelism")) plan.parallelism = read_parallelism(json["parallelism"]);
  if (json.contains("predicted")) plan.predicted = read_predicted(json["predicted"]);
  if (json.contains("search")) plan.search = read_search(json["search"], plan.batch);
}

Value requests_value(const Requests& requests, const Batch& batch) {
  Value value = Value::object();
  if (batch.sequence != 0) value["prompt"] = batch.sequence;
  value["output"] = requests.output;
  value["chunk"] = requests.chunk;
  value["memory"] = requests.memory;
  return value;
}

Value batch_value(const Batch& batch) {
  Value value{{"global", batch.global},
              {"microbatch", batch.microbatch},
              {"microbatches", batch.microbatches}};
  if (batch.sequence != 0) value["sequence"] = batch.sequence;
  return value;
}

}  // namespace

Value schedule_value(const ScheduleChoice& choice) {
  Value value{{"name", choice.name}, {"virtual_stages", choice.virtual_stages}};
  if (choice.group) value["group"] = *choice.group;
  if (!choice.warm_up.empty()) value["warm_up"] = choice.warm_up;
  if (choice.pipes) value["pipes"] = *choice.pipes;
  if (choice.sequence_chunks > 1) value["sequence_chunks"] = choice.sequence_chunks;
  return value;
}

namespace {

Value range_value(const Stage& stage, int first, int end) {
  return Value::array({stage.layers.first + first, stage.layers.first + end});
}

Recomputed does_again(const Stage& stage, int i) {
  if (i < 0 || i >= static_cast<int>(stage.again.size())) return Recomputed::none;
  return stage.again[static_cast<std::size_t>(i)];
}

/// The layers that do this again by themselves, as ranges.
Value ranges_value(const Stage& stage, Recomputed what) {
  Value ranges = Value::array();
  const auto does = [&](int i) {
    return does_again(stage, i) == what && does_again(stage, i - 1) != Recomputed::with_next;
  };
  for (int i = 0; i < static_cast<int>(stage.again.size()); ++i) {
    if (!does(i)) continue;
    const int first = i;
    while (does(i)) ++i;
    ranges.push_back(range_value(stage, first, i));
  }
  return ranges;
}

/// The runs of layers that do so together.
Value runs_value(const Stage& stage) {
  Value runs = Value::array();
  for (int i = 0; i < static_cast<int>(stage.again.size()); ++i) {
    const int first = i;
    while (does_again(stage, i) == Recomputed::with_next) ++i;
    if (i > first) runs.push_back(range_value(stage, first, i + 1));
  }
  return runs;
}

Value recompute_value(const Stage& stage) {
  if (stage.again.empty()) return to_string(stage.recompute);
  const auto all = std::ranges::count(stage.again, Recomputed::selective);
  if (all == std::ssize(stage.again)) return to_string(Recomputed::selective);
  Value value = Value::object();
  for (const Recomputed what : {Recomputed::full, Recomputed::selective}) {
    Value ranges = ranges_value(stage, what);
    if (!ranges.empty()) value[std::string(to_string(what))] = std::move(ranges);
  }
  if (Value runs = runs_value(stage); !runs.empty()) value[std::string(together)] = std::move(runs);
  return value;
}

Value stages_value(const std::vector<Stage>& stages) {
  Value value = Value::array();
  for (const Stage& stage : stages) {
    Value layers = Value::array({stage.layers.first, stage.layers.end});
    value.push_back(Value{{"layers", std::move(layers)},
                          {"devices", stage.devices},
                          {"recompute", recompute_value(stage)}});
  }
  return value;
}

Value predicted_value(const PredictedFigures& figures) {
  Value peaks = Value::array();
  for (const Bytes peak : figures.peak_memory) peaks.push_back(exact_bytes(peak));
  return {{"step", exact_duration(figures.step)},
          {"bubble", figures.bubble},
          {"peak_memory", std::move(peaks)}};
}

Value search_value(const SearchFigures& figures) {
  Value value{{"strategy", figures.strategy},
              {"lower_bound", exact_duration(figures.lower_bound)},
              {"gap", figures.gap},
              {"proved_optimal", figures.proved_optimal},
              {"candidates", figures.candidates}};
  if (!figures.scope.empty()) value["scope"] = figures.scope;
  if (figures.question) value["question"] = question_value(*figures.question);
  return value;
}

}  // namespace

Plan read_plan(const Json& json) {
  json.expect_format(plan_format);
  json.allow_only({"format",        "model",      "cluster",           "profile",    "precision",
                   "kernels",       "dispatcher", "cuda_graphs",       "fp8_recipe", "fused_loss",
                   "router_fusion", "overlap",    "recompute_modules", "batch",      "requests",
                   "schedule",      "weights",    "replicas",          "optimizer",  "parallelism",
                   "order",         "stages",     "predicted",         "search"});
  Plan plan;
  plan.model = json["model"].string();
  plan.cluster = json["cluster"].string();
  plan.batch = read_batch(json["batch"]);
  if (json.contains("requests")) plan.requests = read_requests(json["requests"], plan.batch);
  if (json.contains("order")) plan.order = read_counts(json["order"]);
  for (const Json& stage : json["stages"].elements()) plan.stages.push_back(read_stage(stage));
  read_settings(json, plan);
  return plan;
}

std::string write_plan(const Plan& plan) {
  Value value{{"format", plan_format},
              {"model", plan.model},
              {"cluster", plan.cluster},
              {"profile", plan.profile},
              {"precision", to_string(plan.precision)}};
  const auto& [framework, dispatcher, graphs, float8_recipe, fused_loss, router_fusion, overlap,
               again] = plan.kernels;
  if (framework != Framework::megatron) value["kernels"] = to_string(framework);
  if (dispatcher != Dispatcher::alltoall) value["dispatcher"] = to_string(dispatcher);
  if (graphs != CudaGraphs::none) value["cuda_graphs"] = to_string(graphs);
  if (float8_recipe) value["fp8_recipe"] = to_string(*float8_recipe);
  if (fused_loss != FusedLoss::none) value["fused_loss"] = to_string(fused_loss);
  if (router_fusion != RouterFusion::off) value["router_fusion"] = to_string(router_fusion);
  if (!overlap.empty()) value["overlap"] = to_string(overlap);
  if (!again.empty()) value["recompute_modules"] = to_string(again);
  value["batch"] = batch_value(plan.batch);
  if (plan.requests) value["requests"] = requests_value(*plan.requests, plan.batch);
  value["schedule"] = schedule_value(plan.schedule);
  value["weights"] = to_string(plan.weights);
  value["replicas"] = to_string(plan.replicas);
  value["optimizer"] = {{"kind", to_string(plan.optimizer.kind)},
                        {"sharding", to_string(plan.optimizer.sharding)}};
  if (plan.optimizer.gradient_bucket > 0) {
    value["optimizer"]["gradient_bucket"] = exact_bytes(plan.optimizer.gradient_bucket);
  }
  if (plan.parallelism != Parallelism{}) {
    value["parallelism"] = parallelism_value(plan.parallelism);
  }
  if (!plan.order.empty()) value["order"] = plan.order;
  value["stages"] = stages_value(plan.stages);
  if (plan.predicted) value["predicted"] = predicted_value(*plan.predicted);
  if (plan.search) value["search"] = search_value(*plan.search);
  return to_text(value);
}

}  // namespace stagecraft
