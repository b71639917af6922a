// How many ranks a launch starts, as its launcher, its scheduler and its environment say. For the
// importer of launches.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/interop/importers/launch_parser.hpp"

namespace stagecraft {

/// Collects the words about ranks, then determines the number of ranks from them.
class LaunchRanks {
 public:
  /// Takes a word about ranks (`is_about_ranks`). A value that is not a number leaves the number
  /// open.
  void take(const FlagWord& word, FlagReading::Kind kind, ParsedLaunch& parsed);
  /// All words of a section: "launcher", "scheduler".
  void take_section(const FlagLaunch& launch, std::string_view section, FlagReading::Kind kind,
                    ParsedLaunch& parsed);
  /// The variables of ms-swift, which starts torchrun itself.
  void take_environment(const FlagLaunch& launch, FlagReading::Kind kind, ParsedLaunch& parsed);
  /// Where torchrun does not say how many processes a node has, the scheduler does.
  void settle(ParsedLaunch& parsed) const;

 private:
  std::vector<std::string> unknown_;  ///< notes of values that are no numbers
  std::optional<int> ranks_;          ///< of the scheduler
  std::string nodes_setting_;         ///< of a recipe that says what devices a node has
  bool are_known_ = true;
};

}  // namespace stagecraft
