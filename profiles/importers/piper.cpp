// Inputs of Piper: nodes with one or two ways to run them per tensor-parallel degree, plain and
// recomputing, and the devices to plan for.
//
// Times are seconds in Piper's own arithmetic: it adds `timePerSample` to bytes over `bandwidth`.
// Two of its three published files hold milliseconds there; we read them as Piper does, and warn.
// One "sample" of ours is one of the file's microbatches, and a profile entry has the plain way to
// run each node. What the file does not say, we assume:
//
// - the forward takes what recomputing adds, or a third where there is no such choice; what is left
//   is backward, half of it for the weights where there are any;
// - a node's output is its largest edge, and what more it keeps per microbatch is saved for
//   backward;
// - of the fixed memory, weights and their gradient come first, and the rest is optimizer state.

#include <algorithm>
#include <cmath>

#include "profiles/gzip.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/figures.hpp"
#include "profiles/importers/piper_graph.hpp"

namespace stagecraft {

namespace {

/// A microbatch that takes longer on one device was hardly meant in seconds.
constexpr double longest_plausible = 10.0;

/// Between the choices, the one that does not recompute: the faster.
bool is_faster(const PiperChoice& a, const PiperChoice& b) {
  return a.time < b.time;
}

LayerCost cost_of(const std::vector<PiperChoice>& choices, double output) {
  const PiperChoice& plain = *std::min_element(choices.begin(), choices.end(), is_faster);
  const PiperChoice& slow = *std::max_element(choices.begin(), choices.end(), is_faster);
  const double added = slow.time - plain.time;
  const double forward = added > 0 && added < plain.time ? added : plain.time / 3;
  LayerCost cost;
  cost.forward = from_seconds(forward);
  const Duration backward = from_seconds(plain.time) - cost.forward;
  cost.parameters = whole_bytes(plain.parameters);
  cost.backward_weight = cost.parameters > 0 ? backward / 2 : Duration{0};
  cost.backward_input = backward - cost.backward_weight;
  cost.output = whole_bytes(output);
  cost.saved = std::max<Bytes>(0, whole_bytes(plain.memory_per_microbatch) - cost.output);
  const Bytes beside_weights =
      std::max<Bytes>(0, whole_bytes(plain.memory_fixed) - cost.parameters);
  cost.gradients = std::min(beside_weights, cost.parameters);
  cost.optimizer = beside_weights - cost.gradients;
  cost.provenance = Provenance::measured;
  return cost;
}

std::vector<double> outputs_of(const PiperGraph& graph) {
  std::vector<double> outputs(graph.nodes.size(), 0);
  for (const PiperEdge& edge : graph.edges) {
    double& output = outputs[static_cast<std::size_t>(edge.from)];
    output = std::max(output, edge.bytes);
  }
  return outputs;
}

/// Degrees that every node can run with.
std::vector<int> common_degrees(const PiperGraph& graph) {
  std::vector<int> degrees;
  for (const auto& [degree, choices] : graph.nodes.front().choices) {
    const auto has = [d = degree](const PiperNode& node) { return node.choices.contains(d); };
    if (std::all_of(graph.nodes.begin(), graph.nodes.end(), has)) degrees.push_back(degree);
  }
  return degrees;
}

Profile unordered_profile(const PiperGraph& graph, const std::string& file) {
  constexpr Bytes element = 4;
  Profile profile;
  profile.model.name = stem_of_content(file);
  const std::vector<double> outputs = outputs_of(graph);
  for (const int degree : common_degrees(graph)) {
    ProfileEntry& entry = profile.entries.emplace_back();
    entry.setting = {.device = "generic", .microbatch = 1, .tensor_parallel = degree};
    for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
      entry.layers.push_back(cost_of(graph.nodes[n].choices.at(degree), outputs[n]));
    }
  }
  for (std::size_t n = 0; n < graph.nodes.size(); ++n) {
    const LayerCost& cost = profile.entries.front().layers[n];
    profile.model.layers.push_back({.name = graph.nodes[n].name,
                                    .kind = LayerKind::opaque,
                                    .parameters = cost.parameters / element,
                                    .output_elements = cost.output / element});
  }
  for (const PiperEdge& edge : graph.edges) profile.model.edges.push_back({edge.from, edge.to});
  return profile;
}

std::vector<std::string> warnings_for(const PiperGraph& graph) {
  double total = 0;
  for (const PiperNode& node : graph.nodes) {
    const auto& choices = node.choices.at(1);
    total += std::min_element(choices.begin(), choices.end(), is_faster)->time;
  }
  if (total <= longest_plausible) return {};
  return {concat("timePerSample adds up to ", total,
                 " seconds per microbatch, which looks like milliseconds; Piper adds it to seconds "
                 "of communication, and so do we: multiply it by 0.001 if it is milliseconds")};
}

}  // namespace

std::vector<int> piper_layer_order(const PiperGraph& graph, const std::string& file) {
  return at_file(file, [&] {
    Profile profile = unordered_profile(graph, file);
    return put_in_order(profile);
  });
}

bool looks_like_piper(std::string_view content) {
  return content.find("\"TMPCs\"") != std::string_view::npos &&
         content.find("\"maxMemoryPerDevice\"") != std::string_view::npos;
}

Profile import_piper(std::string_view content, const std::string& file) {
  const PiperGraph graph = read_piper_graph(content, file);
  return at_file(file, [&] {
    Profile profile = unordered_profile(graph, file);
    put_in_order(profile);
    profile.devices = OwnDevices{.count = graph.devices,
                                 .bandwidth = {std::llround(graph.bandwidth)},
                                 .memory = whole_bytes(graph.memory),
                                 .microbatches = graph.microbatches};
    profile.warnings = warnings_for(graph);
    profile.source =
        "Piper input: seconds and bytes per microbatch; microbatch 1 stands for one of these; the "
        "forward takes what recomputing adds";
    return profile;
  });
}

}  // namespace stagecraft
