#include "planner/analysis/advice/change_sets.hpp"

namespace stagecraft::advising {

std::vector<Change> as_changes(const ChangeSet& set) {
  std::vector<Change> changes;
  for (const auto& [key, value] : set) changes.push_back({key, value});
  return changes;
}

std::optional<ChangeSet> merged(const std::vector<Change>& a, const std::vector<Change>& b) {
  ChangeSet set;
  for (const Change& change : a) set[change.key] = change.value;
  for (const Change& change : b) {
    const auto [place, is_new] = set.emplace(change.key, change.value);
    if (!is_new && place->second != change.value) return {};
  }
  return set;
}

bool is_balanced(const ChangeSet& set) {
  const auto layers = set.find("layers");
  return layers != set.end() && layers->second == "balanced";
}

}  // namespace stagecraft::advising
