#include "planner/plan/parallelism_fault.hpp"

#include <array>
#include <numeric>

#include "profiles/error.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

using Fault = std::optional<PlanFault>;

struct ParallelSubject {
  const Plan& plan;
  const Model& model;

  const Parallelism& degrees() const { return plan.parallelism; }
  std::int64_t tokens() const {
    return plan.batch.sequence > 0 ? plan.batch.sequence : model.sequence;
  }
};

PlanFault fault_at(const char* member, std::string message, std::vector<std::string> help = {}) {
  return {{"parallelism", member}, std::move(message), std::move(help)};
}

Fault check_degrees(const ParallelSubject& subject) {
  const Parallelism& degrees = subject.degrees();
  if (degrees.context < 1) {
    return fault_at("context", concat("a degree is at least 1, found ", degrees.context));
  }
  if (degrees.expert < 1) {
    return fault_at("expert", concat("a degree is at least 1, found ", degrees.expert));
  }
  if (degrees.expert_tensor < 0) {
    return fault_at("expert_tensor",
                    concat("a degree is at least 1, found ", degrees.expert_tensor));
  }
  if (degrees.expert_nodes < 0) {
    return fault_at("expert_nodes",
                    concat("a token has experts on at least 1 node, found ", degrees.expert_nodes));
  }
  if (!(degrees.expert_load >= 1)) {
    return fault_at("expert_load", "the busiest device has at least as many tokens as the mean");
  }
  return {};
}

Fault check_model(const ParallelSubject& subject) {
  const Parallelism& degrees = subject.degrees();
  const auto& transformer = subject.model.transformer;
  if (!transformer && degrees != Parallelism{}) {
    return PlanFault{{"parallelism"},
                     concat("\"", subject.model.name,
                            "\" is not known as a transformer, whose "
                            "tokens and experts could be shared"),
                     {"leave \"parallelism\" out"}};
  }
  const char* const said = degrees.expert > 1          ? "expert"
                           : degrees.expert_tensor > 0 ? "expert_tensor"
                           : degrees.expert_nodes > 0  ? "expert_nodes"
                           : degrees.expert_load > 1   ? "expert_load"
                                                       : nullptr;
  if (said == nullptr) return {};
  if (!transformer->experts) {
    return fault_at(said, concat("the model \"", subject.model.name, "\" has no experts"),
                    {concat("leave \"", said, "\" out")});
  }
  const std::int64_t experts = transformer->experts->count;
  if (experts % degrees.expert != 0) {
    return fault_at("expert",
                    concat(degrees.expert, " devices cannot share ", experts, " experts evenly"),
                    {concat("use a divisor of ", experts)});
  }
  return {};
}

std::vector<std::variant<std::string, int>> at_devices(std::size_t stage) {
  return {"stages", static_cast<int>(stage), "devices"};
}

/// Peers are tensor x context, and divide heads and tokens.
Fault check_peers(const ParallelSubject& subject) {
  const Parallelism& degrees = subject.degrees();
  if (!subject.model.transformer) return {};
  const Transformer& transformer = *subject.model.transformer;
  for (std::size_t s = 0; s < subject.plan.stages.size(); ++s) {
    for (const auto& peers : subject.plan.stages[s].devices) {
      if (peers.size() % static_cast<std::size_t>(degrees.context) != 0) {
        return PlanFault{
            at_devices(s),
            concat("stage ", s, " has replicas of ", peers.size(),
                   peers.size() == 1 ? " device" : " devices",
                   ", which is no multiple of the context-parallel degree ", degrees.context),
            {}};
      }
      const int tensor = tensor_degree(degrees, peers.size());
      if (transformer.heads % tensor != 0) {
        return PlanFault{at_devices(s),
                         concat(tensor, " tensor-parallel peers of stage ", s, " cannot share ",
                                transformer.heads, " attention heads evenly"),
                         {concat("use a tensor-parallel degree that divides ", transformer.heads)}};
      }
      const std::int64_t parts = std::int64_t{degrees.context} * (degrees.sequence ? tensor : 1);
      if (subject.tokens() % parts != 0) {
        return fault_at(degrees.context > 1 ? "context" : "sequence",
                        concat(parts, " devices cannot share ", subject.tokens(),
                               " tokens of a sequence evenly"),
                        {concat("use degrees whose product divides ", subject.tokens())});
      }
    }
  }
  return {};
}

/// A stage's devices are whole sets of experts, each in as many copies.
Fault check_expert_devices(const ParallelSubject& subject) {
  const Parallelism& degrees = subject.degrees();
  if (degrees.expert == 1 && degrees.expert_tensor == 0) return {};
  for (std::size_t s = 0; s < subject.plan.stages.size(); ++s) {
    const auto& replicas = subject.plan.stages[s].devices;
    const int peers = static_cast<int>(replicas.front().size());
    const int devices = static_cast<int>(replicas.size()) * peers;
    const int share = expert_tensor_of(degrees, tensor_degree(degrees, replicas.front().size()));
    if (devices % (degrees.expert * share) == 0) continue;
    return PlanFault{
        at_devices(s),
        concat("stage ", s, " has ", devices, devices == 1 ? " device" : " devices",
               ", but its experts are over ", degrees.expert, " x ", share,
               " (expert-parallel x expert-tensor-parallel): expected a multiple"),
        {concat("use an expert-parallel degree that divides ", devices / std::max(share, 1))}};
  }
  return {};
}

/// Replicas do the same at the same time.
Fault check_equal_shares(const ParallelSubject& subject) {
  const Plan& plan = subject.plan;
  if (!needs_equal_shares(plan.parallelism, plan.optimizer.sharding)) return {};
  const std::string what = plan.parallelism.expert > 1
                               ? std::string("replicas that hold different experts")
                               : concat("replicas under ", to_string(plan.optimizer.sharding));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto count = static_cast<std::int64_t>(plan.stages[s].devices.size());
    if (count > 1 && plan.replicas == ReplicaPolicy::round_robin) {
      return PlanFault{{"replicas"},
                       concat(what,
                              " work on each microbatch together, but the plan has them "
                              "take turns (\"round_robin\")"),
                       {"write \"replicas\": \"split\""}};
    }
    if (plan.batch.microbatch % count == 0) continue;
    return PlanFault{at_devices(s),
                     concat(what, " take equal parts of a microbatch, but ", plan.batch.microbatch,
                            plan.batch.microbatch == 1 ? " sample" : " samples",
                            " do not divide over the ", count, " of stage ", s),
                     {concat("use a microbatch of a multiple of ", count, " samples")}};
  }
  return {};
}

/// Each microbatch's gradients are scattered where one copy of the model works on it whole.
Fault check_scattered(const ParallelSubject& subject) {
  const Plan& plan = subject.plan;
  if (!shards_gradients(plan.optimizer.sharding)) return {};
  const ScheduleKind& kind = find_schedule(plan.schedule.name);
  const char* reason = nullptr;
  if (kind.placement == StagePlacement::bidirectional)
    reason = "trains several copies of the model";
  if (kind.weights != WeightPolicy::flush) reason = "updates weights on the way";
  if (plan.schedule.sequence_chunks > 1) reason = "cuts sequences into pieces";
  if (reason == nullptr) return {};
  return PlanFault{{"optimizer", "sharding"},
                   concat("the schedule ", plan.schedule.name, " ", reason, ", and ",
                          to_string(plan.optimizer.sharding),
                          " scatters the gradients of each microbatch of one copy"),
                   {"use \"zero1\", or another schedule"}};
}

constexpr std::array checks{check_degrees,        check_model,        check_peers,
                            check_expert_devices, check_equal_shares, check_scattered};

}  // namespace

int replicas_of_experts(const Parallelism& parallelism, int peers) {
  if (parallelism.expert == 1 && parallelism.expert_tensor == 0) return 1;
  const int tensor = tensor_degree(parallelism, static_cast<std::size_t>(peers));
  const int set = parallelism.expert * expert_tensor_of(parallelism, tensor);
  return set / std::gcd(set, peers);
}

std::string against_exchanges_beside(std::string_view schedule, int microbatches) {
  if (find_schedule(schedule).hides_messages) {
    return concat("schedule ", schedule, " runs exchanges between experts beside other work by ",
                  "itself, and so does overlap experts");
  }
  if (microbatches > 1) return "";
  return "overlap experts runs exchanges beside another microbatch's work, and there is only one";
}

std::optional<PlanFault> find_parallelism_fault(const Plan& plan, const Model& model) {
  const ParallelSubject subject{plan, model};
  for (const auto check : checks) {
    if (Fault fault = check(subject)) return fault;
  }
  return {};
}

}  // namespace stagecraft
