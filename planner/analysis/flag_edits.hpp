// The difference between the launches of two plans in a framework, flag by flag.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "planner/analysis/changes.hpp"
#include "planner/targets/targets.hpp"

namespace stagecraft {

/// A flag, or a line of a configuration, before and after. Empty `before`: it is added; empty
/// `after`: it is left out. A switch has the value "on".
struct FlagEdit {
  std::string name;  ///< "--tensor-model-parallel-size", "tensor_parallel_degree"
  std::string before;
  std::string after;
  bool operator==(const FlagEdit&) const = default;
};

/// The edits of the target's launch flags that turn the first plan into the second. Without a
/// target, or if it cannot express one of the plans, `--set KEY VALUE` of our own. Reasons against
/// a plan are not reported here.
std::vector<FlagEdit> flag_edits(const Target* target, const LoadedPlan& before,
                                 const LoadedPlan& after, const std::vector<Change>& changes);

/// Whether the target, which must have a format, can express the plan.
bool has_launch(const Target& target, const LoadedPlan& loaded);

/// Whether all edits are our own `--set`, since the target has no flags for them.
bool is_in_own_words(const std::vector<FlagEdit>& edits);

/// The flags of a launch script, by name with dashes; the value of a switch is "on".
using ScriptFlags = std::map<std::string, std::string>;

/// Adapts the edits to a launch script that uses other flags: flags that it lacks are added, or
/// dropped if unnecessary, and flags that exclude a new one are removed.
std::vector<FlagEdit> as_in_script(std::vector<FlagEdit> edits, const ScriptFlags& script);

/// "--tensor-model-parallel-size 4 → 2", "add --sequence-parallel", "drop --recompute-method
/// uniform". `unicode` false: with ->.
std::string to_string(const FlagEdit& edit, bool unicode = true);

}  // namespace stagecraft
