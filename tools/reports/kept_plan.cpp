#include "tools/reports/kept_plan.hpp"

#include <filesystem>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// Where `load_plan` found it.
std::string from_here(const std::string& name, const std::string& plan_path) {
  namespace files = std::filesystem;
  std::error_code unreadable;
  if (name.empty() || files::exists(name, unreadable)) return name;
  const files::path neighbour = files::path(plan_path).parent_path() / name;
  return files::exists(neighbour, unreadable) ? neighbour.string() : name;
}

}  // namespace

void require_in_plan(const ChangedPlan& changed, const std::string& flag) {
  const std::string& cluster = changed.loaded.plan.cluster;
  if (changed.changes_cluster) {
    fail_usage(flag, ": links are the cluster's, which a plan's file only names (", cluster,
               "); `stagecraft cluster show ", cluster,
               " -o cluster.json` writes it to a file: change the links there, and name that file "
               "as the plan's \"cluster\"");
  }
  if (changed.slow.empty()) return;
  const SlowDevice& slow = changed.slow.front();
  fail_usage(flag, ": a plan does not say how slow its devices are; leave --set device",
             slow.device, ".slow away, and simulate the new plan with --slow ", slow.device, ":",
             slow.percent);
}

std::string text_of_kept_plan(Plan plan, const std::string& path, const Prediction& prediction) {
  plan.model = from_here(plan.model, path);
  plan.cluster = from_here(plan.cluster, path);
  plan.predicted = predicted_figures(plan, prediction);
  return write_plan(plan);
}

std::string memory_not_kept(const Cluster& named, const LoadedPlan& simulated) {
  for (const int device : used_devices(simulated.plan)) {
    const DeviceKind& before = kind_of(named, device);
    const DeviceKind& now = kind_of(simulated.cluster, device);
    if (before.memory == now.memory && before.memory_unlimited == now.memory_unlimited) continue;
    return concat("a plan's file does not say how much memory there is: --memory ",
                  exact_bytes(now.memory), " asks about this one again");
  }
  return {};
}

std::string target_not_kept(const Target* target, const std::string& file) {
  if (target == nullptr) return {};
  return concat("the plan was made for ", target->system,
                ", which the changed one does not say: ", "`stagecraft check ", file, " --for ",
                target->name, "` tells whether it runs there");
}

}  // namespace stagecraft
