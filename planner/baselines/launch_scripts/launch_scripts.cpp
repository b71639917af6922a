// What people type into launch scripts: DeepSpeed's `partition_method`, Megatron-LM's pipeline
// flags, Galvatron's even division. The number of stages, which those leave to the user, is the one
// our evaluator likes best.

#include <algorithm>
#include <regex>

#include "planner/baselines/baselines.hpp"
#include "planner/baselines/launch_scripts/grid.hpp"
#include "planner/baselines/launch_scripts/partition.hpp"
#include "planner/plan/layer_names.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

int layer_count(const Problem& problem) {
  return static_cast<int>(problem.profile.model.layers.size());
}

Objective largest_stage(const std::vector<int>& cuts) {
  int largest = 0;
  for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
    largest = std::max(largest, cuts[s + 1] - cuts[s]);
  }
  const auto stages = static_cast<int>(cuts.size()) - 1;
  const int least = (cuts.back() + stages - 1) / stages;
  return {.name = "largest stage",
          .value = static_cast<double>(largest),
          .unit = "layers",
          .lower_bound = static_cast<double>(least)};
}

/// The difference between the heaviest and the lightest stage, which DeepSpeed keeps small. Nothing
/// is known about the least but that it is not negative.
CutQuality spread_of(std::vector<double> weights, std::string unit) {
  return [weights = std::move(weights), unit = std::move(unit)](const std::vector<int>& cuts) {
    double heaviest = 0, lightest = 0;
    for (std::size_t s = 0; s + 1 < cuts.size(); ++s) {
      double sum = 0;
      for (int layer = cuts[s]; layer < cuts[s + 1]; ++layer) {
        sum += weights[static_cast<std::size_t>(layer)];
      }
      heaviest = s == 0 ? sum : std::max(heaviest, sum);
      lightest = s == 0 ? sum : std::min(lightest, sum);
    }
    return Objective{.name = "heaviest stage minus lightest",
                     .value = heaviest - lightest,
                     .unit = unit,
                     .lower_bound = 0};
  };
}

SearchResult search_balanced(const Problem& problem, const SearchControl& control,
                             std::string_view name, const std::vector<double>& weights,
                             const std::string& unit) {
  const CutRule cuts = [&](int stages) {
    std::vector<std::vector<int>> one{partition_balanced(weights, stages, control.stop)};
    if (control.stop.stop_requested()) one.clear();
    return one;
  };
  return search_grid(problem, control, name, cuts, spread_of(weights, unit));
}

/// What DeepSpeed's `type:` pattern is matched with: the layer's kind, or for imported layers what
/// their profiler called them.
bool matches(const Layer& layer, const std::regex& pattern) {
  return std::regex_search(std::string(to_string(layer.kind)), pattern) ||
         std::regex_search(layer.name, pattern);
}

// --- Megatron-LM ---

/// The settings of the flags worth trying: even, with embedding or loss as a layer, and the first
/// or last stage up to `reach` layers shorter or longer than the others.
std::vector<MegatronSplit> megatron_splits(int layers, int stages, int reach) {
  std::vector<MegatronSplit> splits;
  for (const bool embedding : {false, true}) {
    for (const bool loss : {false, true}) splits.push_back({embedding, loss, {}, {}});
  }
  if (stages < 2) return splits;
  const int even = layers / stages;
  for (int first = std::max(even - reach, 1); first <= even + reach; ++first) {
    splits.push_back({false, false, first, {}});
    splits.push_back({false, false, {}, first});
    for (int last = std::max(even - reach, 1); last <= even + reach; ++last) {
      if (stages > 2) splits.push_back({false, false, first, last});
    }
  }
  return splits;
}

std::vector<std::vector<int>> megatron_cuts(const Model& model, int stages, int reach) {
  const LayerRange counted = transformer_layers(model);
  std::vector<std::vector<int>> all;
  for (const MegatronSplit& split : megatron_splits(counted.size(), stages, reach)) {
    const auto counts = megatron_layers(counted.size(), stages, split);
    if (!counts) continue;
    std::vector<int> cuts{0};
    int layer = counted.first;
    for (const int count : *counts) cuts.push_back(layer += count);
    cuts.back() = static_cast<int>(model.layers.size());
    if (std::find(all.begin(), all.end(), cuts) == all.end()) all.push_back(std::move(cuts));
  }
  return all;
}

/// A few layers more or less at the ends; where that leaves no equal stages between, as many as it
/// takes: 42 layers on 16 stages are 7, fourteen times 2, and 7.
std::vector<std::vector<int>> megatron_cuts(const Model& model, int stages) {
  constexpr int usual_reach = 3;
  const int most = transformer_layers(model).size() - stages + 1;
  for (int reach = usual_reach; reach <= std::max(most, usual_reach); ++reach) {
    auto cuts = megatron_cuts(model, stages, reach);
    std::erase_if(cuts, has_empty_stage);
    if (!cuts.empty()) return cuts;
  }
  return {};
}

// --- Galvatron ---

/// Its layers are transformer layers (`pp_division_even` of hetu-galvatron 2.4.0); embedding and
/// head come with the first and the last stage.
std::vector<int> galvatron_cuts(const Model& model, int stages) {
  const LayerRange counted = transformer_layers(model);
  std::vector<int> cuts = partition_rest_last(counted.size(), stages);
  for (int& cut : cuts) cut += counted.first;
  cuts.front() = 0;
  cuts.back() = static_cast<int>(model.layers.size());
  return cuts;
}

}  // namespace

SearchResult search_deepspeed_uniform(const Problem& problem, const SearchControl& control) {
  const CutRule cuts = [&](int stages) {
    return std::vector<std::vector<int>>{partition_uniform(layer_count(problem), stages)};
  };
  return search_grid(problem, control, "deepspeed-uniform", cuts, largest_stage);
}

SearchResult search_deepspeed_parameters(const Problem& problem, const SearchControl& control) {
  return search_balanced(problem, control, "deepspeed-parameters",
                         deepspeed_parameters(problem.profile.model), "parameters");
}

SearchResult search_deepspeed_type(const Problem& problem, const SearchControl& control) {
  std::optional<std::regex> pattern;
  try {
    pattern.emplace(control.argument, std::regex::icase);
  } catch (const std::regex_error&) {
    fail_usage("--strategy deepspeed-type: \"", control.argument,
               "\" is not a regular expression; expected one such as transformer or conv.*");
  }
  std::vector<double> weights;
  for (const Layer& layer : problem.profile.model.layers) {
    weights.push_back(matches(layer, *pattern) ? 1 : 0);
  }
  if (std::count(weights.begin(), weights.end(), 1.0) == 0) {
    fail_usage("--strategy deepspeed-type: no layer's kind or name matches \"", control.argument,
               "\"; `stagecraft model show` lists them");
  }
  return search_balanced(problem, control, "deepspeed-type", weights, "matching layers");
}

SearchResult search_megatron(const Problem& problem, const SearchControl& control) {
  const CutRule cuts = [&](int stages) { return megatron_cuts(problem.profile.model, stages); };
  return search_grid(problem, control, "megatron", cuts, largest_stage);
}

SearchResult search_galvatron(const Problem& problem, const SearchControl& control) {
  const CutRule cuts = [&](int stages) {
    std::vector<std::vector<int>> one;
    const bool power_of_two = (stages & (stages - 1)) == 0;
    if (power_of_two) one.push_back(galvatron_cuts(problem.profile.model, stages));
    return one;
  };
  return search_grid(problem, control, "galvatron", cuts, largest_stage);
}

}  // namespace stagecraft
