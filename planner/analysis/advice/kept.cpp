#include "planner/analysis/advice/kept.hpp"

#include <algorithm>
#include <set>

#include "planner/analysis/advice/numbers.hpp"
#include "planner/analysis/change_kinds.hpp"
#include "profiles/error.hpp"

namespace stagecraft::advising {

std::vector<std::string> keys_to_keep(const std::vector<std::string>& names) {
  std::vector<std::string> keys;
  for (const std::string& name : names) {
    std::string key;
    try {
      key = read_change(concat(name, "=1")).key;
    } catch (const Error& error) {
      fail_usage("--keep ", name, ": ", error.message());
    }
    if (key.starts_with("link") || key.starts_with("device"))
      fail_usage("--keep ", name, ": no edit changes the cluster; it names what plans have: tp,pp");
    keys.push_back(key);
  }
  return keys;
}

std::string value_of(std::string_view key, const Plan& plan) {
  const auto of_stages = [&](auto part) {
    std::string text;
    for (const Stage& stage : plan.stages) text += concat(part(stage), " ");
    return text;
  };
  const Parallelism& parallelism = plan.parallelism;
  if (key == "batch") return std::to_string(plan.batch.global);
  if (key == "microbatch") return std::to_string(plan.batch.microbatch);
  if (key == "mbs") {
    const auto numbers = numbers_of(plan);
    return std::to_string(numbers ? numbers->samples : plan.batch.microbatch);
  }
  if (key == "sequence") return std::to_string(plan.batch.sequence);
  if (key == "pp") return std::to_string(pipeline_devices(plan));
  if (key == "vpp") return std::to_string(plan.schedule.virtual_stages);
  if (key == "tp") return std::to_string(tensor_degree(plan));
  if (key == "cp") return std::to_string(parallelism.context);
  if (key == "ep") return std::to_string(parallelism.expert);
  if (key == "dp") {
    const std::vector<int> replicas = replicas_of_stages(plan);
    return concat(*std::ranges::min_element(replicas), " ", *std::ranges::max_element(replicas));
  }
  if (key == "sp") return parallelism.sequence ? "on" : "off";
  if (key == "schedule") return plan.schedule.name;
  if (key == "sharding") return std::string(to_string(plan.optimizer.sharding));
  if (key == "precision") return std::string(to_string(plan.precision));
  if (key == "kernels") return std::string(to_string(plan.kernels.framework));
  if (key == "dispatcher") return std::string(to_string(plan.kernels.dispatcher));
  if (key == "cuda-graphs") return std::string(to_string(plan.kernels.graphs));
  if (key == "fused-loss") return std::string(to_string(plan.kernels.fused_loss));
  if (key == "router-fusion") return std::string(to_string(plan.kernels.router_fusion));
  if (key == "overlap") return std::string(to_string(plan.kernels.overlap));
  if (key == "recompute-modules") return to_string(plan.kernels.again);
  if (key == "fp8-recipe") {
    const std::optional<Float8Recipe> recipe = plan.kernels.float8_recipe;
    return recipe ? std::string(to_string(*recipe)) : "usual";
  }
  if (key == "gradient-bucket") return std::to_string(plan.optimizer.gradient_bucket);
  if (key == "layers") return of_stages([](const Stage& stage) { return stage.layers.end; });
  if (key == "recompute") {
    std::set<std::string> kinds;
    for (const Stage& stage : plan.stages) {
      kinds.insert(stage.recompute == Recompute::full ? "full" : "");
      for (const Recomputed what : stage.again)
        kinds.insert(what == Recomputed::none ? "" : std::to_string(static_cast<int>(what)));
    }
    kinds.insert("");
    std::string text;
    for (const std::string& kind : kinds) text += kind + " ";
    return text;
  }
  return "";
}

}  // namespace stagecraft::advising
