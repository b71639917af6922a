// What if: a plan with one value of it, or of its cluster, set to another.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/load_plan.hpp"

namespace stagecraft {

/// `--set KEY=VALUE`. A value is a single one here; lists are several changes, one after another.
struct Change {
  std::string key;
  std::string value;
  bool operator==(const Change&) const = default;
};

/// What can be set, with an example and what it means; `N` in a key is a number.
struct ChangeKind {
  std::string_view key;
  std::string_view example;
  std::string_view summary;
  bool is_list_of_integers = false;  ///< ranges are understood
};
const std::vector<ChangeKind>& change_kinds();

/// "KEY=VALUE", with the key as `change_kinds` spells it or by an alias of the field (`mbs`, `gbs`,
/// `pipeline-parallel`, …). Throws Error (usage) for a key that nothing has, naming the nearest.
Change read_change(std::string_view text);
/// Of a key whose values are integers, where a range may stand.
bool takes_integers(const Change& change);

/// One device that computes slower than the plan's costs say.
struct SlowDevice {
  int device = 0;       ///< the cluster's number
  std::string percent;  ///< longer, as it was given: "20%"
};

struct ChangedPlan {
  LoadedPlan loaded;
  std::vector<SlowDevice> slow;    ///< conditions of the simulation, not of the plan
  bool changes_cluster = false;    ///< links are not those that the plan's cluster is named for
  std::vector<std::string> notes;  ///< what else had to change, and how
};

/// The plan with all the changes. What is not said stays: layers stay where they are unless the
/// number of stages changes or `balance` asks for it, then they are cut for equal time on every
/// device; replicas take the devices that other degrees leave; samples per microbatch and replica
/// stay. The plan's prediction and bound are dropped. Throws Error (usage) for values that do not
/// read, and Error (input) saying which change is impossible and why.
ChangedPlan changed(LoadedPlan loaded, const std::vector<Change>& changes, bool balance = false);

/// What all stages of a plan do again, as `recompute` names it; nothing where they differ, or where
/// no value of it makes what they do. The model is in the plan's order.
std::optional<std::string_view> recompute_of_all(const Plan& plan, const Model& model);

/// "tp=4 batch=64"
std::string to_string(const std::vector<Change>& changes);

}  // namespace stagecraft
