#include "planner/problem/objective.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/engines/steady.hpp"
#include "simulator/schedules/schedules.hpp"

namespace stagecraft {

namespace {

bool trains(const ScheduleKind& kind) {
  return kind.generate != inference;
}

void require_searchable(const ScheduleKind& kind, ObjectiveKind objective) {
  const bool by_rate = objective == ObjectiveKind::throughput || objective == ObjectiveKind::cost;
  if (kind.weights != WeightPolicy::flush && !by_rate) {
    fail_usage(kind.name, " never drains, so that no ", to_string(objective),
               " is to be minimised; use --objective throughput or cost, or --schedule 1f1b");
  }
  if (objective == ObjectiveKind::latency && trains(kind)) {
    fail_usage("--objective latency is of requests, but ", kind.name,
               " trains; use --schedule inference, or --objective step");
  }
}

void require_prices(const Problem& problem) {
  for (const DeviceKind& kind : problem.cluster.kinds) {
    if (kind.price_per_hour) continue;
    throw Error(ErrorKind::usage,
                concat("--objective cost: what an hour of ", kind.name, " costs is not known"), {},
                {concat("--price ", kind.name, "=2.5/h"),
                 "write \"price_per_hour\": 2.5 to the kind in the cluster's file"});
  }
}

/// Tokens of a batch, or samples if there are no tokens.
double units_of(const Problem& problem) {
  return static_cast<double>(problem.global_batch) *
         static_cast<double>(std::max<std::int64_t>(problem.sequence, 1));
}

/// The objective for a plan whose iterations take `time` seconds.
double value_of(const Problem& problem, double price, double time) {
  switch (problem.objective) {
    case ObjectiveKind::step:
    case ObjectiveKind::latency: return time;
    case ObjectiveKind::throughput:
      return time > 0 ? static_cast<double>(problem.global_batch) / time : 0;
    case ObjectiveKind::cost: return price * time / 3600 / units_of(problem) * 1e6;
  }
  return time;
}

std::string unit_of(const Problem& problem) {
  switch (problem.objective) {
    case ObjectiveKind::step:
    case ObjectiveKind::latency: return "s";
    case ObjectiveKind::throughput: return "samples/s";
    case ObjectiveKind::cost:
      return problem.sequence > 0 ? "per million tokens" : "per million samples";
  }
  return "s";
}

}  // namespace

void require_searchable(const Problem& problem) {
  bool some_train = false, some_infer = false;
  for (const ScheduleChoice& choice : problem.schedules) {
    const ScheduleKind& kind = find_schedule(choice.name);
    require_searchable(kind, problem.objective);
    (trains(kind) ? some_train : some_infer) = true;
  }
  if (some_train && some_infer) {
    fail_usage("--schedule: inference does not train; search for it on its own");
  }
  if (problem.objective == ObjectiveKind::cost) require_prices(problem);
}

void add_steady_state(Prediction& prediction, const Plan& plan, const Compiled& compiled) {
  if (plan.weights == WeightPolicy::flush) return;
  const auto steady = steady_microbatches(find_schedule(plan.schedule.name), shape_of(plan),
                                          compiled.costs, compiled.lowering);
  if (!steady) return;
  // Quotient and remainder are separate, so that no product overflows.
  const std::int64_t time = steady->time.count(), period = steady->microbatches;
  const std::int64_t microbatches = plan.batch.microbatches;
  prediction.steady =
      Duration{time / period * microbatches + (time % period * microbatches + period - 1) / period};
  if (prediction.steady->count() == 0) return;
  prediction.samples_per_second =
      static_cast<double>(plan.batch.global) / seconds(*prediction.steady);
  prediction.tokens_per_second =
      prediction.samples_per_second * static_cast<double>(plan.batch.sequence);
}

bool is_undecided(const Candidate& candidate) {
  return candidate.prediction && candidate.plan.weights != WeightPolicy::flush &&
         !candidate.prediction->steady;
}

double price_per_hour(const Problem& problem, const Plan& plan) {
  double price = 0;
  for (const int device : used_devices(plan)) {
    price += kind_of(problem.cluster, device).price_per_hour.value_or(0);
  }
  return price;
}

Objective objective_of(const Problem& problem, const Candidate& candidate,
                       const SearchResult& search) {
  if (candidate.objective) return *candidate.objective;
  const double price = price_per_hour(problem, candidate.plan);
  return {.name = std::string(to_string(problem.objective)),
          .value = value_of(problem, price, seconds(pace(*candidate.prediction))),
          .unit = unit_of(problem),
          .lower_bound =
              search.cost_bound.value_or(value_of(problem, price, seconds(search.lower_bound)))};
}

Bytes largest_peak(const Candidate& candidate) {
  Bytes most = 0;
  for (const MemoryPeak& peak : candidate.prediction->peaks) most = std::max(most, peak.bytes);
  return most;
}

Bytes smaller_peak(Bytes peak, double spacing) {
  const auto less = static_cast<Bytes>(static_cast<double>(peak) * spacing);
  return peak - std::max<Bytes>(less, 1);
}

}  // namespace stagecraft
