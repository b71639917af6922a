// The memory of devices: --memory and --mem-limit, with the same meaning for every verb.

#pragma once

#include <string>

#include "planner/interop/load_plan.hpp"
#include "planner/plan/plan.hpp"
#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

/// Flags as they were given.
struct MemoryOptions {
  std::string memory;  ///< empty: the devices' own
  std::string part;    ///< usable fraction of it; empty: the plan's fraction, or all
  bool operator==(const MemoryOptions&) const = default;
};

/// --memory and --mem-limit for a plan's devices; `of` begins their help, and says for which plans.
void declare_memory(CLI::App& app, MemoryOptions& options, const std::string& of);

/// Whether one of the flags was given.
bool is_given(const MemoryOptions& options);

/// The flags as text, for a command with the same memory: " --memory 40GiB"; empty without flags.
std::string words_of(const MemoryOptions& options);

/// Gives every device the memory of --memory. Throws Error (usage) if nothing would be left after
/// the reserve.
void give_memory_of_flag(Cluster& cluster, const std::string& text);

/// Reads "90%" as 0.9, and an empty text as 1. Throws Error (usage) for 0.
double read_memory_part(const std::string& text);

/// A note if --mem-limit has no effect, since the memory is unlimited; else empty.
std::string why_no_memory_limit(const std::vector<DeviceKind>& kinds, double part);

/// Sets the memory of the plan's devices by the flags. Without --memory, devices of unlimited
/// memory get the memory that the plan was made for. Prints notes on unexpected effects.
void set_memory(const MemoryOptions& options, LoadedPlan& loaded, Console& console);

}  // namespace stagecraft
