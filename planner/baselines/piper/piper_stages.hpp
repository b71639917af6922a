// Between Piper's nodes and our layers: its graph numbered as the imported profile is, and its
// stages as foreign ones.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "planner/baselines/piper/piper_split.hpp"
#include "planner/plan/foreign_stage.hpp"

namespace stagecraft {

/// The graph of an input file of Piper, node n being layer n of the imported profile. Throws Error
/// (input) with the place.
PiperGraph piper_graph_of_layers(std::string_view content, const std::string& file);

/// Whether this choice of a node is one that recomputes: there is a faster one.
bool recomputes(const PiperNode& node, int tensor_parallel, int choice);

/// Our stages recompute as a whole; one does where Piper has any node of it do so.
std::vector<ForeignStage> piper_stages(const PiperGraph& graph,
                                       const std::vector<PiperStage>& stages);

}  // namespace stagecraft
