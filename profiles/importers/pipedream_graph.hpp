// The lines of a graph.txt as a graph, before anything is made of them.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/model.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

/// One line `NAME -- DESCRIPTION -- figures`, for one minibatch.
struct PipedreamNode {
  std::string name;
  std::string description;
  Duration forward{0};
  Duration backward{0};
  Bytes activation = 0;
  Bytes parameters = 0;
  std::optional<int> stage;  ///< `stage_id`, where the file is one that PipeDream's optimizer wrote
  int line = 0;
};

struct PipedreamGraph {
  std::vector<PipedreamNode> nodes;  ///< as the file lists them, which is any order
  std::vector<Edge> edges;           ///< indices into `nodes`
};

/// Throws Error (input) with the place of a line that cannot be understood.
PipedreamGraph read_pipedream_graph(std::string_view content, const std::string& file);

/// What the imported profile calls the node's layer, "node7.Conv2d": unique by its first part,
/// readable by its second.
std::string pipedream_layer_name(const PipedreamNode& node);

}  // namespace stagecraft
