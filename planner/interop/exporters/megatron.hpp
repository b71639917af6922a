// The flags of Megatron-LM for a plan, in order, by the names of its command line.

#pragma once

#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/exporters/reasons.hpp"
#include "planner/plan/plan.hpp"

namespace stagecraft {

struct MegatronSetting {
  std::string flag;   ///< "micro-batch-size"
  std::string value;  ///< a word of a shell; empty for a switch that is on
};

class MegatronSettings {
 public:
  void on(std::string_view flag) { settings_.push_back({std::string(flag), ""}); }
  template <class Value>
  void add(std::string_view flag, const Value& value) {
    settings_.push_back({std::string(flag), fmt::format("{}", value)});
  }
  const std::vector<MegatronSetting>& all() const { return settings_; }

 private:
  std::vector<MegatronSetting> settings_;
};

/// With all that stands in the plan's way among `reasons`; then the settings are no use.
MegatronSettings megatron_settings(Reasons& reasons, const Plan& plan, const Model& model,
                                   const Cluster& cluster);

}  // namespace stagecraft
