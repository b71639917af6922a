// A row per stage, for spreadsheets; an empty one has no names. Devices: peers by blanks, replicas
// by bars.

#include <fmt/format.h>

#include "planner/costs/stage_recompute.hpp"
#include "planner/interop/exporters.hpp"

namespace stagecraft {

namespace {

/// As a cell; RFC 4180.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    quoted += c;
    if (c == '"') quoted += c;
  }
  return quoted + "\"";
}

/// "0 1|2 3".
std::string devices_in_words(const Stage& stage) {
  std::string replicas;
  for (const auto& peers : stage.devices) {
    replicas += fmt::format("{}{}", replicas.empty() ? "" : "|", fmt::join(peers, " "));
  }
  return replicas;
}

}  // namespace

std::string export_csv(const LoadedPlan& loaded) {
  const std::vector<Layer>& layers = loaded.profile.model.layers;
  std::string text =
      "stage,first_layer,end_layer,first_name,last_name,parameters,replicas,tensor_parallel,"
      "devices,recompute\n";
  for (std::size_t s = 0; s < loaded.plan.stages.size(); ++s) {
    const Stage& stage = loaded.plan.stages[s];
    const auto first = static_cast<std::size_t>(stage.layers.first);
    const auto end = static_cast<std::size_t>(stage.layers.end);
    std::int64_t parameters = 0;
    const bool is_empty = first == end;
    for (std::size_t layer = first; layer < end; ++layer) parameters += layers[layer].parameters;
    text += fmt::format(
        "{},{},{},{},{},{},{},{},{},{}\n", s, first, end, is_empty ? "" : cell(layers[first].name),
        is_empty ? "" : cell(layers[end - 1].name), parameters, stage.devices.size(),
        tensor_degree(loaded.plan.parallelism, stage.devices.front().size()),
        devices_in_words(stage), recompute_in_words(stage));
  }
  return text;
}

}  // namespace stagecraft
