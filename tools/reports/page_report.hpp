// The page of `stagecraft report`: one file that opens offline, and simulates the plan again when
// its sliders move. page/ has its text, style and scripts; here is what they are told.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "planner/interop/load_plan.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// A measured run of the plan.
struct PageRun {
  std::string path;
  std::string hash;
  Timeline timeline;                 ///< its median iteration
  bool is_of_other_version = false;  ///< of the plan's file
  std::string busy;                  ///< what else the machine did meanwhile; empty: nothing
};

struct PageQuestion {
  const LoadedPlan& loaded;
  std::optional<PageRun> measured;
  const LoadedPlan* against = nullptr;  ///< another plan to hold it against
  int threads = 0;                      ///< 0: one for each core
};

/// What the page's scripts read: plan (name, words, figures, stages, layers, devices), what_if,
/// waterfall, alternatives, advice, launch, measured, against. Throws Error (input) for a plan that
/// is not valid, and for a run of other instructions than the plan's.
nlohmann::ordered_json page_json(const PageQuestion& question);

/// The whole file. Text of the plan cannot end an element of it.
std::string page_text(const nlohmann::ordered_json& json);

}  // namespace stagecraft
