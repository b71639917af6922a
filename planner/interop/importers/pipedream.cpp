// Plans of PipeDream (Narayanan et al., SOSP 2019): what its runtime executes, and what its
// optimizer wrote before.
//
//   {"module_to_stage_map": [0, 1, 1],                      conf.json: generated modules, the last
//    "stage_to_rank_map": {"0": [0, 1, 2], "1": [3]},       of them the criterion
//    "stage_to_depth_map": {"0": 1, "1": 0}}                minibatches ahead; may be left out
//
//   node4 -- Conv2d(3, 64, …) -- forward_compute_time=…, … -- stage_id=0      gpus=N.txt
//
// Modules are what the optimizer's stages became. So MODEL says which layers a module has: by the
// stage_id of its nodes, if it is such a graph; else each of its layers is a module. The graph does
// not say how many devices a stage has; its optimizer printed that (--replicas).
//
// Replicas take turns at minibatches, and each stage updates after a round of its own, without a
// flush (simulator/values/turns.hpp); the batch must be a whole number of every stage's rounds.

#include <algorithm>
#include <map>

#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/pipedream_graph.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "simulator/values/turns.hpp"

namespace stagecraft {

namespace {

constexpr int most_modules = 100'000;

/// The stage_id of each layer; empty if the text is no graph that has them.
std::vector<int> stage_ids(std::string_view content, const std::string& file, const Model& model) {
  if (!looks_like_pipedream(content)) return {};
  const PipedreamGraph graph = read_pipedream_graph(content, file);
  std::map<std::string, int> ids;
  for (const PipedreamNode& node : graph.nodes) {
    if (node.stage) ids[pipedream_layer_name(node)] = *node.stage;
  }
  if (ids.empty()) return {};
  std::vector<int> result;
  for (const Layer& layer : model.layers) {
    const auto id = ids.find(layer.name);
    if (id == ids.end()) {
      fail("the graph gives no stage_id to layer \"", layer.name, "\" of the model \"", model.name,
           "\"");
    }
    result.push_back(id->second);
  }
  return result;
}

/// Layers by the stage or module that has them.
std::vector<std::vector<int>> grouped_by(const std::vector<int>& owner) {
  std::vector<std::vector<int>> groups;
  for (std::size_t layer = 0; layer < owner.size(); ++layer) {
    const auto group = static_cast<std::size_t>(owner[layer]);
    if (group >= groups.size()) groups.resize(group + 1);
    groups[group].push_back(static_cast<int>(layer));
  }
  return groups;
}

// --- conf.json ---

/// The layers of each module but the criterion.
std::vector<std::vector<int>> modules_of(const PlanQuestion& question, const Json& map) {
  const Model& model = question.profile.model;
  const std::size_t count = map.elements().size();
  std::vector<int> owner = stage_ids(question.model_content, question.model_name, model);
  const bool has_ids = !owner.empty();
  if (!has_ids) owner = layers_between(0, static_cast<int>(model.layers.size()));
  std::vector<std::vector<int>> modules = grouped_by(owner);
  if (count == modules.size() || count == modules.size() + 1) return modules;
  const std::string found =
      has_ids ? concat("the graph of \"", model.name, "\" has ", modules.size(), " (stage_id)")
              : concat("the model \"", model.name, "\" has ", modules.size(), " layers");
  map.fail(concat("the map has ", count, " modules, the last of them the criterion, but ", found),
           {"name as --model the graph that the modules were generated from, gpus=N.txt of "
            "PipeDream's optimizer: its stage_id says which layers a module has"});
}

/// Per stage, the ranks; "0", "1", … must all be there.
std::vector<std::vector<int>> read_ranks(const Json& json) {
  std::vector<std::vector<int>> ranks;
  for (std::size_t stage = 0; stage < json.names().size(); ++stage) {
    const Json of_stage = json[std::to_string(stage)];
    std::vector<int>& list = ranks.emplace_back();
    for (const Json& rank : of_stage.elements()) {
      list.push_back(rank.small_integer(0, most_devices));
    }
    if (list.empty()) of_stage.fail(concat("stage ", stage, " has no ranks"));
  }
  if (ranks.empty()) json.fail("expected the ranks of each stage, for example {\"0\": [0]}");
  return ranks;
}

/// Minibatches ahead of the first backward, of all replicas of a stage together.
std::vector<int> read_warm_up(const Json& json, const std::vector<ForeignStage>& stages,
                              int microbatches) {
  std::vector<int> warm_up;
  for (std::size_t stage = 0; stage < stages.size(); ++stage) {
    const int depth = json[std::to_string(stage)].small_integer(0, most_modules);
    const std::int64_t ahead = (std::int64_t{depth} + 1) * stages[stage].replicas;
    warm_up.push_back(static_cast<int>(std::min<std::int64_t>(ahead, microbatches)));
  }
  return warm_up;
}

std::vector<ForeignStage> read_conf_stages(const Json& json, const PlanQuestion& question) {
  if (!question.options.replicas.empty())
    fail_usage("the file has the ranks of each stage already; leave --replicas away");
  const Json map = json["module_to_stage_map"];
  const std::vector<std::vector<int>> modules = modules_of(question, map);
  const std::vector<std::vector<int>> ranks = read_ranks(json["stage_to_rank_map"]);
  std::vector<ForeignStage> stages(ranks.size());
  for (std::size_t s = 0; s < ranks.size(); ++s) {
    stages[s].replicas = static_cast<int>(ranks[s].size());
    stages[s].devices = ranks[s];
  }
  for (std::size_t m = 0; m < map.elements().size(); ++m) {
    const int stage = map[m].small_integer(0, static_cast<int>(ranks.size()) - 1);
    if (m >= modules.size()) continue;  // the criterion
    std::vector<int>& layers = stages[static_cast<std::size_t>(stage)].layers;
    layers.insert(layers.end(), modules[m].begin(), modules[m].end());
  }
  return stages;
}

// --- gpus=N.txt ---

std::vector<ForeignStage> read_graph_stages(std::string_view content, const std::string& file,
                                            const PlanQuestion& question) {
  const std::vector<int> owner = stage_ids(content, file, question.profile.model);
  if (owner.empty()) {
    fail(
        "no node has a stage_id; expected the graph that PipeDream's optimizer writes, gpus=N.txt");
  }
  const std::vector<std::vector<int>> layers = grouped_by(owner);
  std::vector<int> replicas = question.options.replicas;
  const int devices = device_count(question.cluster);
  if (replicas.empty() && static_cast<int>(layers.size()) == devices)
    replicas.assign(layers.size(), 1);
  if (replicas.size() != layers.size()) {
    fail_usage("the graph has ", layers.size(), " stages and the cluster ", devices,
               " devices; add --replicas with as many numbers as stages, as PipeDream's optimizer "
               "printed them");
  }
  std::vector<ForeignStage> stages;
  for (std::size_t s = 0; s < layers.size(); ++s) {
    stages.push_back({.layers = layers[s], .replicas = replicas[s]});
  }
  return stages;
}

/// The file's depths, where the schedule can have them.
void set_depths(ImportedPlan& imported, const Json& json, const std::vector<ForeignStage>& stages) {
  const bool has_depths =
      json.contains("stage_to_depth_map") && !json["stage_to_depth_map"].is_null();
  if (!has_depths) return;
  Plan& plan = imported.plan;
  const std::vector<int> warm_up =
      read_warm_up(json["stage_to_depth_map"], stages, plan.batch.microbatches);
  const bool is_own = plan.schedule.name == "pipedream";
  if (is_own && warm_up == round_robin_warm_up(replicas_of_stages(plan), plan.batch.microbatches)) {
    return;  // as the schedule has it
  }
  if (is_own || plan.schedule.name == "1f1b") {
    plan.schedule.warm_up = warm_up;
  } else {
    imported.notes.push_back(concat("stage_to_depth_map is passed over: ", plan.schedule.name,
                                    " has its own number of minibatches in flight"));
  }
}

}  // namespace

bool looks_like_pipedream_plan(std::string_view content) {
  return content.find("\"module_to_stage_map\"") != std::string_view::npos ||
         (looks_like_pipedream(content) && content.find("stage_id=") != std::string_view::npos);
}

ImportedPlan import_pipedream_plan(std::string_view content, const std::string& file,
                                   const PlanQuestion& question) {
  const bool is_graph = looks_like_pipedream(content);
  std::optional<Json> conf;
  if (!is_graph) conf = Json::parse(std::string(content), file);
  const std::vector<ForeignStage> stages =
      is_graph ? read_graph_stages(content, file, question) : read_conf_stages(*conf, question);
  ImportedPlan imported{.plan = begin_plan(question)};
  set_stages(imported.plan, stages);
  set_schedule(imported.plan, schedule_name(question, "pipedream"));
  imported.plan.batch = batch_of(question, question.options.batch, question.options.microbatch);
  take_turns(imported.plan);
  if (conf) set_depths(imported, *conf, stages);
  if (imported.plan.weights == WeightPolicy::flush) {
    imported.notes.emplace_back(
        "PipeDream updates after each minibatch; this plan flushes after each batch, which costs "
        "the less the more microbatches a batch has");
  }
  return imported;
}

}  // namespace stagecraft
