// Plans of Piper (Tarnawski et al., NeurIPS 2021) for one of its own inputs, as its serialiser has
// them:
//
//   {"stages": [{"nodes": [0, 1, 2], "dataParallelDegree": 4, "tensorParallelDegree": 1,
//                "TMPCids": {"0": "vanilla", "1": "vanilla", "2": "activation recomp"}}, …]}
//
// MODEL is that input; nodes go by its identifiers. Replicas take turns at the input's microbatches
// (mbsInBatch, unless --batch says another number), under 1F1B.

#include <map>

#include "planner/baselines/piper/piper_stages.hpp"
#include "planner/interop/importers.hpp"
#include "planner/interop/importers/common.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

/// Node indices by the identifier in the file.
std::map<std::int64_t, int> nodes_by_id(const PiperGraph& graph) {
  std::map<std::int64_t, int> nodes;
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    nodes[graph.nodes[n].id] = static_cast<int>(n);
  }
  return nodes;
}

int read_node(const Json& json, const PiperGraph& graph,
              const std::map<std::int64_t, int>& numbers) {
  const auto entry = numbers.find(json.integer());
  if (entry != numbers.end()) return entry->second;
  json.fail(concat("the input has no node ", json.integer(), " among its ", graph.nodes.size()));
}

/// The way to run the node that goes by this name.
int read_way(const Json& json, const PiperNode& node, int tensor_parallel) {
  const auto choices = node.choices.find(tensor_parallel);
  if (choices == node.choices.end()) {
    json.fail(concat("node ", node.id, " cannot run on ", tensor_parallel,
                     " tensor-parallel devices in the input"));
  }
  std::string known;
  for (std::size_t c = 0; c < choices->second.size(); ++c) {
    if (choices->second[c].name == json.string()) return static_cast<int>(c);
    known += concat(known.empty() ? "\"" : "\" or \"", choices->second[c].name);
  }
  json.fail(concat("expected ", known, "\", found \"", json.string(), "\""));
}

PiperStage read_stage(const Json& json, const PiperGraph& graph,
                      const std::map<std::int64_t, int>& numbers) {
  json.allow_only({"nodes", "dataParallelDegree", "tensorParallelDegree", "TMPCids"});
  PiperStage stage;
  stage.data_parallel = json["dataParallelDegree"].small_integer(1, most_devices);
  stage.tensor_parallel = json["tensorParallelDegree"].small_integer(1, most_devices);
  for (const Json& element : json["nodes"].elements()) {
    const int node = read_node(element, graph, numbers);
    const Json way = json["TMPCids"][std::to_string(element.integer())];
    stage.nodes.push_back(node);
    stage.choices.push_back(
        read_way(way, graph.nodes[static_cast<std::size_t>(node)], stage.tensor_parallel));
  }
  if (stage.nodes.empty()) json["nodes"].fail("the stage has no nodes");
  return stage;
}

/// Stages whose nodes do not all recompute, or all not.
void note_mixed(const PiperGraph& graph, const std::vector<PiperStage>& stages,
                std::vector<std::string>& notes) {
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const PiperStage& stage = stages[s];
    std::size_t count = 0;
    for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
      const PiperNode& node = graph.nodes[static_cast<std::size_t>(stage.nodes[i])];
      if (recomputes(node, stage.tensor_parallel, stage.choices[i])) ++count;
    }
    if (count == 0 || count == stage.nodes.size()) continue;
    notes.push_back(concat("stage ", s, " recomputes ", count, " of its ", stage.nodes.size(),
                           " nodes in Piper's plan, and as a whole in this one"));
  }
}

}  // namespace

bool looks_like_piper_plan(std::string_view content) {
  return content.find("\"dataParallelDegree\"") != std::string_view::npos;
}

ImportedPlan import_piper_plan(std::string_view content, const std::string& file,
                               const PlanQuestion& question) {
  if (!looks_like_piper(question.model_content)) {
    fail("a plan of Piper names nodes of its input; name that input as --model, not \"",
         question.model_name, "\"");
  }
  if (!question.options.replicas.empty())
    fail_usage("the file has the replicas of each stage already; leave --replicas away");
  const PiperGraph graph = piper_graph_of_layers(question.model_content, question.model_name);
  const std::map<std::int64_t, int> numbers = nodes_by_id(graph);
  const Json json = Json::parse(std::string(content), file);
  json.allow_only({"stages"});
  std::vector<PiperStage> stages;
  for (const Json& stage : json["stages"].elements()) {
    stages.push_back(read_stage(stage, graph, numbers));
  }
  ImportedPlan imported{.plan = begin_plan(question)};
  note_mixed(graph, stages, imported.notes);
  set_stages(imported.plan, piper_stages(graph, stages));
  set_schedule(imported.plan, schedule_name(question, "1f1b"));
  const std::int64_t own =
      std::int64_t{graph.microbatches} * question.options.microbatch.value_or(1);
  imported.plan.batch =
      batch_of(question, question.options.batch.value_or(own), question.options.microbatch);
  take_turns(imported.plan);
  return imported;
}

}  // namespace stagecraft
