#include "tools/options/degree_choices.hpp"

#include "planner/space/space.hpp"
#include "profiles/error.hpp"
#include "tools/options/arguments.hpp"

namespace stagecraft {

namespace {

constexpr int most_degree = 1 << 20;

/// A list of degrees. Throws Error (usage).
std::vector<int> listed(std::string_view flag, const std::string& text) {
  if (text.find("auto") != std::string::npos || text == "0")
    fail_usage(flag, " ", text, ": expected auto, or degrees from 1 up: 1,2,4");
  return read_small_integers(flag, text, 1, most_degree);
}

/// None to serve with, as no framework here does. Powers of two: of sequences of 8,192 tokens and
/// more as long as each peer keeps 2,048 of them. Of shorter ones, pipelines and replicas share the
/// samples at less cost.
std::vector<int> context_choices(const PlanningOptions& options, const Problem& problem) {
  if (options.context_parallel != "auto")
    return listed("--context-parallel", options.context_parallel);
  constexpr std::int64_t least_shared = 8192;
  constexpr std::int64_t least_tokens = 2048;
  const std::vector<Level>& levels = problem.cluster.levels;
  std::vector<int> degrees{1};
  if (serves(problem) || !may_share_layers(problem) || levels.empty() ||
      problem.sequence < least_shared)
    return degrees;
  const int devices = problem.devices.value_or(available_devices(problem));
  for (int degree = 2; degree <= devices; degree *= 2) {
    if (problem.sequence % degree != 0 || problem.sequence / degree < least_tokens) break;
    degrees.push_back(degree);
  }
  return degrees;
}

/// What divides the experts, and the devices.
std::vector<int> expert_choices(const PlanningOptions& options, const Problem& problem) {
  if (options.expert_parallel != "auto")
    return listed("--expert-parallel", options.expert_parallel);
  std::vector<int> degrees{1};
  const auto& transformer = problem.profile.model.transformer;
  if (!may_share_layers(problem) || !transformer->experts) return degrees;
  const int devices = problem.devices.value_or(available_devices(problem));
  for (int degree = 2; degree <= devices; ++degree) {
    if (devices % degree == 0 && transformer->experts->count % degree == 0)
      degrees.push_back(degree);
  }
  return degrees;
}

/// As all else (0), or whole experts on each device, which tensor-parallel peers then share out.
std::vector<int> expert_tensor_choices(const PlanningOptions& options, const Problem& problem,
                                       int expert) {
  if (options.expert_tensor_parallel != "auto")
    return listed("--expert-tensor-parallel", options.expert_tensor_parallel);
  const bool searches = options.expert_parallel == "auto" && expert > 1;
  const bool has_peers = problem.tensor_parallel.back() > 1;
  return searches && has_peers ? std::vector{0, 1} : std::vector{0};
}

/// The flag behind what only models with experts have; empty if nothing of it is asked.
std::string_view expert_flag(const Parallelism& parallelism) {
  if (parallelism.expert > 1) return "--expert-parallel";
  if (parallelism.expert_tensor > 0) return "--expert-tensor-parallel";
  if (parallelism.expert_nodes > 0) return "--expert-nodes";
  return parallelism.expert_load > 1 ? "--expert-load" : "";
}

/// Degrees that divide what they are to divide. Throws Error (usage).
void require_degrees(const Problem& problem, const Parallelism& parallelism) {
  if (parallelism == Parallelism{}) return;
  const auto& transformer = problem.profile.model.transformer;
  if (!transformer) {
    fail_usage(
        "--sequence-parallel, --context-parallel and --expert-parallel are for "
        "transformers; \"",
        problem.model_name, "\" is not known as one");
  }
  if (!expert_flag(parallelism).empty()) {
    if (!transformer->experts) {
      fail_usage(expert_flag(parallelism), ": the model \"", problem.model_name,
                 "\" has no experts");
    }
    if (transformer->experts->count % parallelism.expert != 0) {
      fail_usage("--expert-parallel: ", parallelism.expert, " devices cannot share ",
                 transformer->experts->count, " experts evenly; use a divisor of them");
    }
  }
  if (problem.sequence % parallelism.context != 0) {
    fail_usage("--context-parallel: ", parallelism.context, " devices cannot share ",
               problem.sequence, " tokens of a sequence evenly");
  }
}

}  // namespace

bool may_share_layers(const Problem& problem) {
  const DeviceKind& kind = problem.cluster.kinds.front();
  return problem.profile.model.transformer && problem.profile.entries.empty() &&
         kind.name != "cpu" && !kind.generic;
}

void set_parallelism(Problem& problem, const PlanningOptions& options) {
  const std::string& word = options.sequence_parallel;
  std::vector<Parallelism> choices;
  for (const int context : context_choices(options, problem)) {
    for (const int expert : expert_choices(options, problem)) {
      for (const int expert_tensor : expert_tensor_choices(options, problem, expert)) {
        choices.push_back(
            {.sequence = word == "on" || (word == "auto" && may_share_layers(problem)),
             .context = context,
             .expert = expert,
             .expert_tensor = expert_tensor,
             .expert_load = options.expert_load,
             .expert_nodes = options.expert_nodes});
      }
    }
  }
  problem.parallelism = choices.front();
  problem.other_parallelism.assign(choices.begin() + 1, choices.end());
  for (const Parallelism& choice : choices) require_degrees(problem, choice);
}

}  // namespace stagecraft
