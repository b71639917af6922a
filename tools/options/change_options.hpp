// The flags of what-if changes to a plan.

#pragma once

#include <string>
#include <vector>

#include "planner/analysis/changes.hpp"
#include "tools/console.hpp"
#include "tools/options/conditions.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct ChangeFlags {
  std::vector<std::string> set;
  bool replan = false;
  bool any() const { return replan || !set.empty(); }
};

/// --set and --replan.
void declare_changes(CLI::App& app, ChangeFlags& flags);

/// All combinations of the values in lists and ranges, the last key varying fastest; a single empty
/// combination if nothing is set. Throws Error (usage) for malformed values, and for more than
/// 10,000 combinations.
std::vector<std::vector<Change>> change_sets(const ChangeFlags& flags);

/// The single combination. Throws Error (usage) for lists, which `verb` does not accept.
std::vector<Change> one_change_set(const ChangeFlags& flags, const std::string& verb);

/// The plan with these changes.
ChangedPlan apply(const ChangeFlags& flags, const std::vector<Change>& changes, LoadedPlan loaded);

/// The conditions, and the slow devices of a changed plan as conditions.
ConditionOptions with_slow_devices(ConditionOptions conditions, const ChangedPlan& changed);

}  // namespace stagecraft
