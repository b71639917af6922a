// The causes of a step's length, as JSON fields and as text, for `simulate` and `explain`.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "simulator/analyses/attribution.hpp"
#include "simulator/analyses/critical_path.hpp"
#include "simulator/analyses/sensitivity.hpp"
#include "tools/table.hpp"

namespace stagecraft {

/// The critical path and the attribution of a program's step.
struct Explanation {
  Duration step{0};
  std::optional<CriticalPath> path;  ///< from the fast clock; the event engine has none
  std::vector<Attribution> devices;
  /// Names of the program's devices in sentences and tables; empty: their own numbers. JSON has the
  /// program's numbers (see `name_cluster_devices`).
  std::vector<int> device_names = {};
};

/// By the fast clock if there is no environment.
Explanation explain(const Program& program, const Costs& costs,
                    const std::optional<Environment>& environment = {});

/// By span of the fast clock's timeline: whether it is on the critical path. Empty with an
/// environment.
std::vector<char> longest_chain(const Program& program, const Costs& costs,
                                const std::optional<Environment>& environment,
                                const Timeline& timeline);

/// critical_path[] (if there is one) and attribution[].
void add_explanation(nlohmann::ordered_json& result, const Explanation& explanation);

/// Sensitivities of the step, and its value with memory for one more microbatch.
struct WhatIf {
  Duration step{0};
  std::vector<Effect> effects;  ///< effects of 1 % more time
  /// One more microbatch in memory; nothing if not requested, empty if the schedule has no such
  /// parameter.
  std::optional<std::vector<OneMore>> one_more;
};

/// The effects with device numbers replaced by these names.
std::vector<Effect> renamed(std::vector<Effect> effects, const std::vector<int>& device_names);

/// sensitivities[], one_more_in_flight[] and one_more_in_flight_step_ns[] (per device).
void add_what_if(nlohmann::ordered_json& result, const WhatIf& what_if);

/// "device 3 limits the step: …": the device that the critical path passes most, and the reasons
/// why devices are idle.
std::string limits_sentence(const Explanation& explanation);
/// The critical path, which must exist, one row per run. With merged rows and more than 32 runs,
/// consecutive runs on one device have one row per kind of work, and a passage through the stages
/// has one row.
std::string critical_path_table(const Explanation& explanation, TableRows rows, bool unicode);
/// The effects of 1 % more time of stages, kinds of work, links and collectives, if they are not
/// negligible; with merged rows, the sixteen largest.
std::string effects_table(const WhatIf& what_if, const Program& program, TableRows rows,
                          bool unicode);
/// The device that gains most from memory for one more microbatch; empty if not requested.
std::string one_more_sentence(const WhatIf& what_if);
/// A table of devices by part of the step; parts that are zero everywhere are left out. With merged
/// rows and more than 16 devices, devices with equal times share a row ("0 ×8").
std::string attribution_table(const Explanation& explanation, TableRows rows, bool unicode);

/// "where the time goes: compute 77.8 %, …", over all devices; parts that are zero everywhere are
/// left out.
std::string shares_sentence(const std::vector<Attribution>& devices);

}  // namespace stagecraft
