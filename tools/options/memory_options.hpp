// How much memory devices are taken to have: --memory and --mem-limit, which mean the same to every
// verb.

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
  std::string memory;  ///< empty: their own
  std::string part;    ///< of that, may be used; empty: as much as the plan says, or all
  bool operator==(const MemoryOptions&) const = default;
};

/// --memory and --mem-limit, of a plan's devices; `of` says which plans.
void declare_memory(CLI::App& app, MemoryOptions& options, const std::string& of);

/// Whether either flag says anything.
bool is_given(const MemoryOptions& options);

/// The flags as they were given, for a command that asks the same again: " --memory 40GiB"; empty
/// without any.
std::string words_of(const MemoryOptions& options);

/// Every device has what --memory says. Throws Error (usage) unless that leaves something to
/// training.
void give_memory_of_flag(Cluster& cluster, const std::string& text);

/// "90%" as 0.9, and nothing as all. Throws Error (usage) unless some of the memory may be used.
double read_memory_part(const std::string& text);

/// Why --mem-limit changes nothing: it is a part of unlimited memory; empty where it does not.
std::string why_no_memory_limit(const std::vector<DeviceKind>& kinds, double part);

/// Judges the plan by the memory that the flags give its devices, in place of their own. Without
/// --memory, devices whose memory is unlimited have what the plan was made for. Notes say what may
/// surprise.
void set_memory(const MemoryOptions& options, LoadedPlan& loaded, Console& console);

}  // namespace stagecraft
