#include "tools/options/memory_options.hpp"

#include <CLI/CLI.hpp>

#include "planner/costs/device_memory.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

namespace {

std::vector<DeviceKind> kinds_of(const LoadedPlan& loaded) {
  std::vector<DeviceKind> kinds;
  for (const int device : used_devices(loaded.plan))
    kinds.push_back(kind_of(loaded.cluster, device));
  return kinds;
}

}  // namespace

void declare_memory(CLI::App& app, MemoryOptions& options, const std::string& of) {
  app.add_option("--memory", options.memory,
                 of + ": memory of each device, including the memory that CUDA and NCCL take (the "
                      "cluster's; "
                      "if that is unlimited, the memory the plan was made for)")
      ->type_name("SIZE");
  app.add_option(
         "--mem-limit", options.part,
         of + ": part of each device's memory to use, including the memory that CUDA and NCCL take "
              "(100%; with requests, the plan's)")
      ->type_name("PERCENT");
}

bool is_given(const MemoryOptions& options) {
  return options != MemoryOptions{};
}

std::string words_of(const MemoryOptions& options) {
  const MemoryOptions usual;
  std::string words;
  if (options.memory != usual.memory) words += " --memory " + options.memory;
  if (options.part != usual.part) words += " --mem-limit " + options.part;
  return words;
}

void give_memory_of_flag(Cluster& cluster, const std::string& text) {
  give_memory(cluster, read_bytes("--memory", text));
  if (const std::string why = why_nothing_left(cluster); !why.empty())
    fail_usage("--memory: ", why);
}

double read_memory_part(const std::string& text) {
  if (text.empty()) return 1;
  const double part = read_percent("--mem-limit", text);
  if (part <= 0) {
    fail_usage("--mem-limit: expected more than 0% of the memory, found \"", text, "\"");
  }
  return part;
}

std::string why_no_memory_limit(const std::vector<DeviceKind>& kinds, double part) {
  if (part >= 1) return "";
  for (const DeviceKind& kind : kinds) {
    if (!kind.memory_unlimited) continue;
    return concat("--mem-limit: the memory of ", kind.name,
                  " devices is unlimited, and so is every part of it; --memory says how much there "
                  "is");
  }
  return "";
}

void set_memory(const MemoryOptions& options, LoadedPlan& loaded, Console& console) {
  Cluster& cluster = loaded.cluster;
  if (options.memory.empty()) {
    take_memory_of_question(cluster, loaded.plan);
  } else {
    give_memory_of_flag(cluster, options.memory);
  }
  const double part = read_memory_part(options.part);
  // What answers requests has a part of its own, which this one stands in for.
  if (std::optional<Requests>& requests = loaded.plan.requests) {
    if (!options.part.empty()) requests->memory = part;
  } else {
    for (DeviceKind& kind : cluster.kinds) take_part_of_memory(kind, part);
  }
  for (std::string note : {why_no_memory_limit(kinds_of(loaded), part),
                           is_given(options) ? "" : other_memory(cluster, loaded.plan)}) {
    if (!note.empty()) console.note(std::move(note));
  }
}

}  // namespace stagecraft
