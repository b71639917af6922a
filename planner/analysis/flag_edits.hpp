// What of a plan is told to a framework in other words after a change: the difference of two
// launches, flag by flag.

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

/// Of the target's launch, in its own words; without a target, and where it has none for one of the
/// plans, `--set KEY VALUE` of our own. What stands in the way is not said here.
std::vector<FlagEdit> flag_edits(const Target* target, const LoadedPlan& before,
                                 const LoadedPlan& after, const std::vector<Change>& changes);

/// Whether the target, which has a format, has words for the plan.
bool has_launch(const Target& target, const LoadedPlan& loaded);

/// Whether all are changes of the plan, for want of other words.
bool is_in_own_words(const std::vector<FlagEdit>& edits);

/// Flags of a launch script as it has them, by name with dashes; a switch is "on".
using ScriptFlags = std::map<std::string, std::string>;

/// The same beside a script that says some things otherwise: what it does not say is added or needs
/// no word, and flags that exclude a new one are left out.
std::vector<FlagEdit> as_in_script(std::vector<FlagEdit> edits, const ScriptFlags& script);

/// "--tensor-model-parallel-size 4 → 2", "add --sequence-parallel", "drop --recompute-method
/// uniform". `unicode` false: with ->.
std::string to_string(const FlagEdit& edit, bool unicode = true);

}  // namespace stagecraft
