// The flags that ask what if: a plan with other values than its own.

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

/// The combinations of what lists and ranges give, the last key fastest; one without changes where
/// nothing is set. Throws Error (usage) for what does not read, and for more than 10,000.
std::vector<std::vector<Change>> change_sets(const ChangeFlags& flags);

/// The only combination. Throws Error (usage) for lists, which `verb` does not take.
std::vector<Change> one_change_set(const ChangeFlags& flags, const std::string& verb);

/// The plan as `flags` change it.
ChangedPlan apply(const ChangeFlags& flags, const std::vector<Change>& changes, LoadedPlan loaded);

/// The conditions, and the slow devices of a changed plan as conditions.
ConditionOptions with_slow_devices(ConditionOptions conditions, const ChangedPlan& changed);

}  // namespace stagecraft
