#include "planner/interop/exporters.hpp"

#include "profiles/text.hpp"

namespace stagecraft {

const Exporter& find_exporter(std::string_view name) {
  std::vector<std::string> known;
  for (const Exporter& exporter : exporters) {
    if (exporter.name == name) return exporter;
    known.emplace_back(exporter.name);
  }
  fail_unknown("export format", name, known);
}

std::vector<std::string> reasons_against(const Exporter& exporter, const Plan& plan,
                                         const Model& model, const Cluster& cluster) {
  if (exporter.reasons_against == nullptr) return {};
  return exporter.reasons_against(plan, model, cluster);
}

}  // namespace stagecraft
