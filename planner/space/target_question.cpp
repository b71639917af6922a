#include "planner/space/target_question.hpp"

#include <algorithm>
#include <charconv>

#include "planner/problem/defaults.hpp"
#include "planner/space/schedule_choices.hpp"
#include "profiles/error.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

template <class... Parts>
[[noreturn]] void refuse(const Target& target, const Parts&... parts) {
  fail_usage("--for ", target.name, ": ", parts...);
}

std::string schedules_of(const Target& target) {
  std::vector<std::string> names;
  for (const std::string_view name : target.schedules) names.emplace_back(name);
  return join_words(names);
}

/// Adds more virtual stages, which the framework's recipes use for large models.
void add_finer_stages(Problem& problem) {
  const auto interleaves = [](const ScheduleChoice& choice) {
    return choice.name == "interleaved";
  };
  if (std::ranges::none_of(problem.schedules, interleaves)) return;
  for (ScheduleChoice& choice : finer_schedule_choices())
    problem.schedules.push_back(std::move(choice));
}

void set_schedules(Problem& problem, const Target& target, bool said) {
  if (!said && !target.trains) problem.schedules = schedule_choices(target.schedules.front());
  const auto is_strange = [&](const ScheduleChoice& choice) {
    return !has_schedule(target, choice.name);
  };
  const auto strange = std::ranges::find_if(problem.schedules, is_strange);
  if (said && strange != problem.schedules.end()) {
    refuse(target, target.system, " has no schedule ", strange->name, "; it has ",
           schedules_of(target));
  }
  std::erase_if(problem.schedules, is_strange);
  if (!said) add_finer_stages(problem);
  if (!problem.schedules.empty()) return;
  refuse(target, target.system, target.trains ? " trains" : " only serves", "; its schedules are ",
         schedules_of(target), target.trains ? "" : ": plan with --objective latency");
}

/// Whether the problem allows this recomputation in all stages.
bool is_asked(const Problem& problem, RecomputeEverywhere what) {
  using enum RecomputeEverywhere;
  const auto has = [&](Recompute choice) {
    return std::ranges::find(problem.recompute, choice) != problem.recompute.end();
  };
  if (!problem.recompute_layers.empty()) return what == none || what == selective;
  if (what == none) return has(Recompute::none);
  return has(Recompute::full) && (what != selective || has(Recompute::none));
}

/// Restricts recomputation to what both the framework and the problem allow.
void set_recompute(Problem& problem, const Target& target) {
  if (!target.trains) problem.recompute = {Recompute::none};
  if (target.recompute.empty()) return;
  if (problem.recompute_layers.size() > 1) {
    refuse(target, target.system,
           " recomputes alike in all stages, and --recompute layers chooses ",
           "for each layer; use auto, none, selective or full");
  }
  auto& everywhere = problem.recompute_everywhere;
  everywhere.clear();
  for (const RecomputeEverywhere what : target.recompute) {
    if (is_asked(problem, what)) everywhere.push_back(what);
  }
  if (everywhere.empty()) refuse(target, target.system, " does not recompute so");
  problem.recompute_layers.clear();
  problem.recompute.clear();
  const auto whole = std::ranges::count(everywhere, RecomputeEverywhere::stages);
  if (whole < std::ssize(everywhere)) problem.recompute.push_back(Recompute::none);
  if (whole > 0) problem.recompute.push_back(Recompute::full);
}

void set_degrees(Problem& problem, const Target& target, const SaidOfPlans& said) {
  const auto drop = [&](auto is_strange, bool was_said, std::string_view flag) {
    std::vector<Parallelism> choices = parallelism_choices(problem);
    const auto removed = std::erase_if(choices, is_strange);
    if (choices.empty() || (removed > 0 && was_said))
      refuse(target, target.system, " has no plans for ", flag, " above 1");
    problem.parallelism = choices.front();
    problem.other_parallelism.assign(choices.begin() + 1, choices.end());
  };
  if (!target.context_parallel) {
    drop([](const Parallelism& choice) { return choice.context > 1; }, said.context_parallel,
         "--context-parallel");
  }
  if (!target.expert_parallel) {
    drop([](const Parallelism& choice) { return choice.expert > 1 || choice.expert_tensor > 0; },
         said.expert_parallel || said.expert_tensor_parallel, "--expert-parallel");
  }
  if (target.sequence_parallel || !problem.parallelism.sequence) return;
  if (said.sequence_parallel) refuse(target, target.system, " has no --sequence-parallel on");
  problem.parallelism.sequence = false;
  for (Parallelism& choice : problem.other_parallelism) choice.sequence = false;
}

/// If experts require sequence parallelism and the user turned it off, there are no tensor-parallel
/// peers.
void set_peers_of_experts(Problem& problem, const Target& target, const SaidOfPlans& said) {
  const auto& transformer = problem.profile.model.transformer;
  if (!target.experts_want_sequence_parallel || problem.parallelism.sequence || !transformer ||
      !transformer->experts)
    return;
  const auto dropped =
      std::erase_if(problem.tensor_parallel, [](int degree) { return degree > 1; });
  if (problem.tensor_parallel.empty() || (dropped > 0 && said.tensor_parallel)) {
    refuse(target, target.system, " trains experts beside --tensor-parallel above 1 with ",
           "--sequence-parallel on only");
  }
}

/// Restricts tensor-parallel degrees to those that the framework supports.
void set_peers(Problem& problem, const Target& target, const SaidOfPlans& said) {
  if (target.against_peers == nullptr) return;
  std::string reason;
  const auto dropped = std::erase_if(problem.tensor_parallel, [&](int degree) {
    const std::string why = target.against_peers(problem.profile.model, degree);
    if (reason.empty()) reason = why;
    return !why.empty();
  });
  if (problem.tensor_parallel.empty() || (dropped > 0 && said.tensor_parallel))
    refuse(target, reason);
}

/// Sets the framework's default sharding, and those that shard more as alternatives.
void set_sharding(Problem& problem, const Target& target) {
  problem.optimizer.sharding = usual_sharding(target);
  problem.other_sharding.clear();
  for (const Sharding sharding : target.sharding) {
    if (shards_gradients(sharding)) problem.other_sharding.push_back(sharding);
  }
}

void require_states(const Problem& problem, const Target& target) {
  const auto& sharding = target.sharding;
  if (std::ranges::find(sharding, problem.optimizer.sharding) == sharding.end()) {
    std::vector<std::string> names;
    for (const Sharding known : sharding) names.emplace_back(to_string(known));
    refuse(target, target.system, " has no --sharding ", to_string(problem.optimizer.sharding),
           "; it has ", join_words(names));
  }
  const auto& precision = target.precision;
  if (std::ranges::find(precision, problem.precision) == precision.end()) {
    std::vector<std::string> names;
    for (const Precision known : precision) names.emplace_back(to_string(known));
    refuse(target, target.system, " has no --precision ", to_string(problem.precision), "; it has ",
           join_words(names));
  }
  const auto& optimizers = target.optimizers;
  if (!optimizers.empty() &&
      std::ranges::find(optimizers, problem.optimizer.kind) == optimizers.end()) {
    refuse(target, target.system, " has no --optimizer ", to_string(problem.optimizer.kind),
           "; it has ", to_string(optimizers.front()));
  }
  if (problem.optimizer.gradient_bucket > 0 && !target.gradient_buckets) {
    refuse(target, target.system, " sums gradients of pipelines behind the last backward; plan ",
           "without --gradient-bucket");
  }
}

/// Checks token dispatch and kernel launches (CUDA graphs). Throws Error (usage).
void require_launching(const LayerKernels& kernels, const Target& target) {
  if (sends_once(kernels.dispatcher) && !target.dispatchers) {
    refuse(target, "plans for ", target.system,
           " have the dispatcher alltoall alone; plan without ", "--dispatcher ",
           to_string(kernels.dispatcher));
  }
  if (kernels.graphs != CudaGraphs::none && !target.cuda_graphs) {
    refuse(target, "plans for ", target.system, " have no CUDA graphs; plan without ",
           "--cuda-graphs ", to_string(kernels.graphs));
  }
  if (kernels.fused_loss > target.fused_loss) {
    const bool has_other = target.fused_loss != FusedLoss::none;
    refuse(target, target.system, " has no --fused-loss ", to_string(kernels.fused_loss),
           has_other ? concat("; it has ", to_string(target.fused_loss)) : "; plan without it");
  }
  if (kernels.router_fusion == RouterFusion::on && !target.router_fusion)
    refuse(target, target.system, " has no fused router; plan without --router-fusion");
  if (!kernels.overlap.empty() && !target.overlaps) {
    refuse(target, "plans for ", target.system, " have no messages beside kernels; plan without ",
           "--overlap ", to_string(kernels.overlap));
  }
  if (!kernels.again.empty() && !target.recompute_modules) {
    refuse(target, target.system, " does not recompute by Megatron-LM's modules; plan without ",
           "--recompute-modules");
  }
}

/// Sets the overlap of tensor-parallel messages with matrix products as in the framework's
/// published recipes, unless the user set it.
void set_overlap(Problem& problem, const Target& target, bool said) {
  if (said || !target.overlaps || !target.trains || serves(problem)) return;
  if (!problem.parallelism.sequence || !estimates_kernels(problem.profile)) return;
  LayerKernels kernels = problem.kernels;
  kernels.overlap.tensor = true;
  const bool is_possible = std::ranges::all_of(problem.cluster.kinds, [&](const DeviceKind& kind) {
    return against_overlap(kernels, kind).empty();
  });
  if (is_possible) problem.kernels = kernels;
}

/// With token exchanges overlapped by another microbatch's work, layers cannot be recomputed as a
/// whole.
void leave_out_full_recomputation(Problem& problem, const Target& target) {
  if (problem.kernels.again.has(LayerModule::experts)) {
    refuse(target, target.system, " does not do experts again whose exchanges run beside other ",
           "work; plan without --overlap experts, or with other --recompute-modules than moe");
  }
  std::erase_if(problem.recompute_everywhere, [](RecomputeEverywhere what) {
    return what == RecomputeEverywhere::blocks || what == RecomputeEverywhere::stages;
  });
  std::erase(problem.recompute, Recompute::full);
  if (problem.recompute_everywhere.empty()) {
    refuse(target, target.system, " does not recompute layers in full whose exchanges run beside ",
           "other work; plan without --overlap experts, or with --recompute none");
  }
}

/// The name of the cluster without its excluded devices, as "3x8xh100" for 4x8xh100 without a node;
/// empty if there is no such name.
std::string cluster_left(const Problem& problem) {
  const std::string& name = problem.cluster_name;
  const std::size_t times = name.find('x');
  if (times == std::string::npos) return "";
  int parts = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + times, parts);
  if (error != std::errc() || end != name.data() + times || parts < 2) return "";
  const int devices = device_count(problem.cluster);
  if (devices % parts != 0) return "";
  const int size = devices / parts;
  std::vector<int> excluded(static_cast<std::size_t>(parts), 0);
  for (const int device : problem.excluded) ++excluded.at(static_cast<std::size_t>(device / size));
  int left = 0;
  for (const int count : excluded) {
    if (count != 0 && count != size) return "";
    if (count == 0) ++left;
  }
  const std::string part = name.substr(times + 1);
  return left == 1 ? part : concat(left, "x", part);
}

}  // namespace

Sharding usual_sharding(const Target& target) {
  const bool has_it = std::ranges::find(target.sharding, Sharding::zero1) != target.sharding.end();
  return has_it ? Sharding::zero1 : Sharding::none;
}

Problem for_target(Problem problem, const Target& target, const SaidOfPlans& said) {
  if (target.only_transformers && !problem.profile.model.transformer) {
    refuse(target, target.system, " is for transformers; the model \"", problem.model_name,
           "\" is not known as one");
  }
  for (const std::string& why : reasons_against_model(target, problem.profile.model))
    refuse(target, target.system, " ", why);
  if (target.equal_stages && !problem.excluded.empty()) {
    const std::string left = cluster_left(problem);
    refuse(target, target.system, " numbers its ranks over all of a cluster; instead of --exclude ",
           "name the CLUSTER that is left", left.empty() ? "" : ": ", left);
  }
  if (!target.empty_stages && problem.min_layers_per_stage == 0) {
    refuse(target, "no stage of ", target.system, " may be empty; plan with ",
           "--min-layers-per-stage 1");
  }
  set_schedules(problem, target, said.schedule);
  set_recompute(problem, target);
  set_degrees(problem, target, said);
  set_peers_of_experts(problem, target, said);
  set_peers(problem, target, said);
  if (!said.sharding && !serves(problem)) set_sharding(problem, target);
  if (!said.sharding && serves(problem))
    problem = with_sharding(std::move(problem), Sharding::none);
  require_states(problem, target);
  if (!target.trains) problem.straight = true;
  problem.target = &target;
  if (!said.kernels && estimates_kernels(problem.profile))
    problem.kernels.framework = target.kernels;
  set_overlap(problem, target, said.overlap);
  require_launching(problem.kernels, target);
  if (problem.kernels.overlap.experts) leave_out_full_recomputation(problem, target);
  return problem;
}

}  // namespace stagecraft
