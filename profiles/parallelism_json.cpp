#include "profiles/parallelism_json.hpp"

#include <nlohmann/json.hpp>

namespace stagecraft {

Parallelism read_parallelism(const Json& json) {
  constexpr int most = 1 << 20;
  constexpr double most_load = 1000;
  json.allow_only(
      {"sequence", "context", "expert", "expert_tensor", "expert_load", "expert_nodes"});
  Parallelism parallelism;
  if (json.contains("sequence")) parallelism.sequence = json["sequence"].boolean();
  if (json.contains("context")) parallelism.context = json["context"].small_integer(1, most);
  if (json.contains("expert")) parallelism.expert = json["expert"].small_integer(1, most);
  if (json.contains("expert_tensor")) {
    parallelism.expert_tensor = json["expert_tensor"].small_integer(1, most);
  }
  if (json.contains("expert_nodes")) {
    parallelism.expert_nodes = json["expert_nodes"].small_integer(1, most);
  }
  if (json.contains("expert_load")) {
    parallelism.expert_load = json["expert_load"].number();
    if (!(parallelism.expert_load >= 1 && parallelism.expert_load <= most_load)) {
      json["expert_load"].fail(
          "expected the busiest device's tokens over the mean of all, a number from 1 to 1000");
    }
  }
  return parallelism;
}

nlohmann::ordered_json parallelism_value(const Parallelism& parallelism) {
  nlohmann::ordered_json value = nlohmann::ordered_json::object();
  if (parallelism.sequence) value["sequence"] = true;
  if (parallelism.context != 1) value["context"] = parallelism.context;
  if (parallelism.expert != 1) value["expert"] = parallelism.expert;
  if (parallelism.expert_tensor != 0) value["expert_tensor"] = parallelism.expert_tensor;
  if (parallelism.expert_load != 1) value["expert_load"] = parallelism.expert_load;
  if (parallelism.expert_nodes != 0) value["expert_nodes"] = parallelism.expert_nodes;
  return value;
}

}  // namespace stagecraft
