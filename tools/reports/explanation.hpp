// What limits a step, as JSON fields and as text: shared by `simulate` and `explain`.

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

/// Why a program takes as long as it does.
struct Explanation {
  Duration step{0};
  std::optional<CriticalPath> path;  ///< of the clock; the event engine knows none
  std::vector<Attribution> devices;
  /// What sentences and tables call the program's devices; empty: their own numbers. JSON has the
  /// program's (see `name_cluster_devices`).
  std::vector<int> device_names = {};
};

/// On the fast clock without an environment.
Explanation explain(const Program& program, const Costs& costs,
                    const std::optional<Environment>& environment = {});

/// By span of the clock's timeline: is it on the longest chain? Empty with an environment.
std::vector<char> longest_chain(const Program& program, const Costs& costs,
                                const std::optional<Environment>& environment,
                                const Timeline& timeline);

/// critical_path[] (if there is one) and attribution[].
void add_explanation(nlohmann::ordered_json& result, const Explanation& explanation);

/// What the step would be if one thing took longer, and with room for one more microbatch.
struct WhatIf {
  Duration step{0};
  std::vector<Effect> effects;  ///< of 1 % more time
  /// Room for one more microbatch; none where nobody asked, empty where the schedule has no
  /// setting.
  std::optional<std::vector<OneMore>> one_more;
};

/// Effects of the program's devices as effects of those that these names say.
std::vector<Effect> renamed(std::vector<Effect> effects, const std::vector<int>& device_names);

/// sensitivities[], one_more_in_flight[] and one_more_in_flight_step_ns[] (per device).
void add_what_if(nlohmann::ordered_json& result, const WhatIf& what_if);

/// "device 3 limits the step: …": who the critical path stays with, and why devices are idle.
std::string limits_sentence(const Explanation& explanation);
/// The critical path, which there is, one row per run. Together, of more than 32 runs those of a
/// stay on one device have one row for each kind of work, and a way through the stages has one row.
std::string critical_path_table(const Explanation& explanation, TableRows rows, bool unicode);
/// What 1 % more time of stages, kinds of work, links and collectives of the program does, where it
/// does anything to speak of; together, the sixteen largest effects.
std::string effects_table(const WhatIf& what_if, const Program& program, TableRows rows,
                          bool unicode);
/// Who gains most from room for one more microbatch; empty where nobody asked.
std::string one_more_sentence(const WhatIf& what_if);
/// Device by part; parts that are nowhere are left out. Together, of more than 16 devices those
/// with the same times share a row ("0 ×8").
std::string attribution_table(const Explanation& explanation, TableRows rows, bool unicode);

/// "where the time goes: compute 77.8 %, …": of all devices together; parts that are nowhere are
/// left out.
std::string shares_sentence(const std::vector<Attribution>& devices);

}  // namespace stagecraft
