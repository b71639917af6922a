#include "planner/certificate.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include "planner/column_search.hpp"
#include "planner/strategies.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// How much one setting may be listed before the search has to answer.
constexpr std::int64_t most_steps_listed = 400'000;
constexpr int most_simulated = 2'000;
/// Of the search, at most; it needs little where the bound is right.
constexpr std::int64_t effort_again = 4'000'000'000;

/// A faster plan than there should be.
struct Counterexample {
  Candidate candidate;
};

/// All plans of one setting without columns.
class Listing {
 public:
  Listing(const Space& space, const Setting& setting, Duration bound)
      : space_(space), setting_(setting), bound_(bound.count()) {}

  /// Whether the list came to its end.
  bool run() {
    for (int p = 1; p <= space_.most_pipeline_devices(setting_); ++p) {
      layout_ = {};
      choose_replicas(p, 0);
    }
    return !gave_up_;
  }

 private:
  void choose_replicas(int left, int used) {
    if (gave_up_) return;
    if (left == 0) {
      if (space_.may_end_at(setting_, used) && space_.wants(setting_, layout_.replicas)) begin();
      return;
    }
    const int most =
        std::min(space_.most_replicas(setting_), space_.devices(setting_) - used - (left - 1));
    for (int count = 1; count <= most; ++count) {
      layout_.replicas.push_back(count);
      choose_replicas(left - 1, used + count);
      layout_.replicas.pop_back();
    }
  }

  void begin() {
    const int p = layout_.pipeline_devices();
    stages_ = p * std::max(setting_.schedule.virtual_stages, 1);
    if (!space_.allows_stages(stages_) || !space_.schedule(setting_, layout_.replicas)) return;
    first_device_.assign(index(p), 0);
    std::exclusive_scan(layout_.replicas.begin(), layout_.replicas.end(), first_device_.begin(), 0);
    loads_.assign(index(p), 0);
    begins_.assign(index(p), -1);
    layout_.cuts = {0};
    layout_.recompute.clear();
    add_stage(0);
  }

  /// The slowest replica's part of a microbatch; `of` times a range of layers.
  template <class Of>
  Time slowest(int device, const Of& of) const {
    Time slowest = 0;
    for_each_replica(device, [&](const CostTable& table) {
      slowest = std::max<Time>(slowest, of(table).count());
    });
    return slowest;
  }

  template <class Visit>
  void for_each_replica(int device, const Visit& visit) const {
    const int replicas = layout_.replicas[index(device)];
    for (int replica = 0; replica < replicas; ++replica) {
      visit(space_.table(setting_, first_device_[index(device)] + replica,
                         share_of_rows(setting_, replica, replicas)));
    }
  }

  int own_microbatches(int device) const {
    const int replicas = layout_.replicas[index(device)];
    const bool split = setting_.replicas == ReplicaPolicy::split;
    return split ? setting_.microbatches : (setting_.microbatches + replicas - 1) / replicas;
  }

  void add_stage(Time fill) {
    const int s = static_cast<int>(layout_.recompute.size()), first = layout_.cuts.back();
    if (s == stages_) return judge();
    const int device = setting_.device_of(s, layout_.pipeline_devices());
    const bool last = s + 1 == stages_;
    for (int end = last ? space_.layers() : first + 1;
         end <= space_.layers() - (stages_ - 1 - s) && !gave_up_; ++end) {
      const LayerRange layers{first, end};
      if (!space_.allows(s, layers)) continue;
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        if (space_.allows(recompute)) try_stage(device, layers, recompute, fill);
      }
    }
  }

  void try_stage(int device, const LayerRange& layers, Recompute recompute, Time fill) {
    if (++steps_ > most_steps_listed) gave_up_ = true;
    if (gave_up_) return;
    Time& load = loads_[index(device)];
    Time& begin = begins_[index(device)];
    const Time load_before = load, begin_before = begin;
    const bool again = recompute == Recompute::full && setting_.trains;
    load += own_microbatches(device) * slowest(device, [&](const CostTable& table) {
              const Duration forward = table.forward(layers);
              return (again ? 2 * forward : forward) +
                     (setting_.trains ? table.backward(layers) : Duration{0});
            });
    if (begin < 0) begin = setting_.drains ? fill : 0;
    if (begin + load < bound_ && has_room_for(layers.end)) {
      Time pass = never;
      for_each_replica(device, [&](const CostTable& table) {
        pass = std::min<Time>(pass, table.forward(layers).count());
      });
      layout_.cuts.push_back(layers.end);
      layout_.recompute.push_back(recompute);
      add_stage(fill + pass);
      layout_.recompute.pop_back();
      layout_.cuts.pop_back();
    }
    load = load_before;
    begin = begin_before;
  }

  /// Whether what is left could be done below the bound by what devices have left of it.
  bool has_room_for(int first) {
    double room = 0;
    for (int d = 0; d < layout_.pipeline_devices(); ++d) {
      room += static_cast<double>(bound_ - loads_[index(d)]) * layout_.replicas[index(d)];
    }
    return static_cast<double>(work_from(first)) * setting_.microbatches <= room;
  }

  /// Device time of the layers from `first` on for a microbatch, at the least.
  Time work_from(int first) {
    if (work_from_.empty()) {
      work_from_.assign(index(space_.layers()) + 1, 0);
      for (int layer = space_.layers() - 1; layer >= 0; --layer) {
        work_from_[index(layer)] = work_from_[index(layer) + 1] + least_work(layer);
      }
    }
    return work_from_[index(first)];
  }

  Time least_work(int layer) const;

  void judge() {
    if (++simulated_ > most_simulated) gave_up_ = true;
    if (gave_up_) return;
    Candidate candidate = space_.evaluate("listed", space_.plan(setting_, layout_));
    if (!candidate.prediction || !candidate.prediction->fits) return;
    if (pace(*candidate.prediction).count() < bound_) throw Counterexample{std::move(candidate)};
  }

  const Space& space_;
  const Setting& setting_;
  Time bound_ = 0;
  Layout layout_;
  int stages_ = 0;
  std::vector<int> first_device_;
  std::vector<Time> loads_, begins_;  ///< per pipeline device
  std::vector<Time> work_from_;
  std::int64_t steps_ = 0;
  int simulated_ = 0;
  bool gave_up_ = false;
};

/// Device time of a layer and microbatch: r replicas that share it keep r devices for as long as
/// the largest share takes; those that take turns keep one.
Time layer_work(const Space& space, const Setting& setting, int layer) {
  const LayerRange one{layer, layer + 1};
  const bool split = setting.replicas == ReplicaPolicy::split;
  Time least = never;
  std::int64_t before = 0;
  for (int replicas = 1; replicas <= (split ? space.most_replicas(setting) : 1); ++replicas) {
    const std::int64_t rows = (setting.microbatch + replicas - 1) / replicas;
    if (rows == before) continue;
    before = rows;
    for (int device = 0; device < space.devices(setting); ++device) {
      const CostTable& table = space.table(setting, device, rows);
      const Duration time =
          table.forward(one) + (setting.trains ? table.backward(one) : Duration{0});
      least = std::min<Time>(least, replicas * time.count());
      if (device > 0) continue;
      // Kinds come in blocks: one look at each kind is enough where all are of one.
      if (space.cluster().kinds.size() == 1) break;
    }
  }
  return least;
}

Time Listing::least_work(int layer) const {
  return layer_work(space_, setting_, layer);
}

class Verifier {
 public:
  Verifier(const Problem& problem, Duration bound, Verification& verification)
      : problem_(problem), space_(problem), bound_(bound), verification_(verification) {}

  void run() {
    bool open = false;
    for (const Setting& setting : space_.settings()) {
      const bool wide = is_wide(space_, setting) && setting.trains && setting.drains;
      // The bound of large clusters speaks of columns.
      if (wide && setting.replicas != ReplicaPolicy::split) continue;
      for (const Setting& each : wide ? space_.columns(setting) : std::vector{setting}) {
        ++verification_.settings;
        if (has_work(each)) {
          ++verification_.by_work;
        } else if (!wide && Listing(space_, each, bound_).run()) {
          ++verification_.by_listing;
        } else {
          ++verification_.by_search;
          open = true;
        }
      }
    }
    if (open) search();
  }

 private:
  /// Whether the layers' time alone, spread over the devices, reaches the bound.
  bool has_work(const Setting& setting) {
    const int devices = setting.depth.value_or(space_.devices(setting));
    const auto key = std::tuple(setting.tensor_parallel, setting.microbatch, setting.columns,
                                setting.replicas, setting.trains);
    const auto [known, fresh] = works_.try_emplace(key, 0);
    if (fresh) {
      for (int layer = 0; layer < space_.layers(); ++layer) {
        known->second += layer_work(space_, setting, layer);
      }
    }
    return known->second * setting.microbatches / devices >= bound_.count();
  }

  /// Asks for anything below the bound, which is quick; where relaxations stop short of it, for
  /// anything better than the plan, as the search that found it did.
  void search() {
    Duration proved{0};
    for (const Duration limit : {bound_, verification_.step}) {
      SearchControl control;
      control.worth = limit - Duration{1};
      control.explain = false;
      control.thorough = true;
      control.effort = effort_again;
      const SearchResult result = search_exact(problem_, control);
      if (!result.plans.empty() && pace(*result.plans.front().prediction) < bound_) {
        throw Counterexample{result.plans.front()};
      }
      proved = std::max(proved, result.lower_bound);
      if (proved >= bound_) return;
    }
    verification_.fault =
        concat("the bound is not confirmed: below ", format_duration(bound_),
               " nothing was found, but only ", format_duration(proved), " could be proved again");
  }

  const Problem& problem_;
  Space space_;
  Duration bound_;
  Verification& verification_;
  std::map<std::tuple<int, std::int64_t, int, ReplicaPolicy, bool>, Time> works_;
};

}  // namespace

Question question_of(const Problem& problem) {
  const Space space(problem);
  Question question{.microbatches = problem.microbatches,
                    .schedules = problem.schedules,
                    .tensor_parallel = problem.tensor_parallel,
                    .recompute = problem.recompute,
                    .memory = {},
                    .devices = problem.devices,
                    .max_stages = problem.max_stages,
                    .excluded = problem.excluded,
                    .min_layers_per_stage = problem.min_layers_per_stage,
                    .straight = problem.straight,
                    .use_fewer_devices = problem.use_fewer_devices,
                    .fixed = problem.fixed,
                    .objective = problem.objective};
  for (const DeviceKind& kind : space.cluster().kinds) {
    question.memory.push_back(kind.memory_unlimited ? std::nullopt : std::optional(kind.memory));
  }
  return question;
}

Problem problem_of(const Question& question, const Plan& plan, const Profile& profile,
                   const Cluster& cluster) {
  if (question.memory.size() != cluster.kinds.size()) {
    fail("the plan's question speaks of ", question.memory.size(), " kinds of device, ",
         plan.cluster, " has ", cluster.kinds.size(), "; make the plan again");
  }
  Problem problem;
  problem.model_name = plan.model;
  problem.cluster_name = plan.cluster;
  problem.profile_hash = plan.profile;
  problem.profile = profile;
  problem.order = plan.order;
  problem.cluster = cluster;
  for (std::size_t kind = 0; kind < cluster.kinds.size(); ++kind) {
    problem.cluster.kinds[kind].memory_unlimited = !question.memory[kind];
    if (question.memory[kind]) problem.cluster.kinds[kind].memory = *question.memory[kind];
  }
  problem.precision = plan.precision;
  problem.global_batch = plan.batch.global;
  problem.sequence = plan.batch.sequence;
  problem.optimizer = plan.optimizer;
  problem.microbatches = question.microbatches;
  problem.schedules = question.schedules;
  problem.tensor_parallel = question.tensor_parallel;
  problem.recompute = question.recompute;
  problem.devices = question.devices;
  problem.max_stages = question.max_stages;
  problem.excluded = question.excluded;
  problem.min_layers_per_stage = question.min_layers_per_stage;
  problem.straight = question.straight;
  problem.use_fewer_devices = question.use_fewer_devices;
  problem.fixed = question.fixed;
  // Steps stand for all objectives.
  problem.objective = ObjectiveKind::step;
  return problem;
}

Verification verify_bound(const Plan& plan, const Profile& profile, const Cluster& cluster) {
  if (!plan.search || !plan.search->question) {
    fail("the plan carries no proof: ",
         plan.search ? concat("strategy ", plan.search->strategy, " found it and bounds nothing")
                     : std::string("nobody searched for it"),
         "; `stagecraft plan` with the exact strategy writes one");
  }
  const Problem problem = problem_of(*plan.search->question, plan, profile, cluster);
  const Space space(problem);
  Verification verification{.bound = plan.search->lower_bound};
  const Candidate again = space.evaluate("again", plan);
  if (!again.prediction) fail("the plan cannot be simulated: ", again.rejected);
  verification.step = pace(*again.prediction);
  if (verification.bound > verification.step) {
    verification.fault = concat("the bound does not hold: the plan itself takes ",
                                format_duration(verification.step), ", less than the bound");
    return verification;
  }
  if (plan.search->proved_optimal && verification.bound != verification.step) {
    verification.fault =
        concat("the bound does not hold: the plan takes ", format_duration(verification.step),
               " and is called optimal, but the bound is ", format_duration(verification.bound));
    return verification;
  }
  try {
    Verifier(problem, verification.bound, verification).run();
  } catch (const Counterexample& found) {
    verification.fault =
        concat("a plan of ", found.candidate.plan.stages.size(), " stages under ",
               found.candidate.plan.schedule.name, " takes ",
               format_duration(pace(*found.candidate.prediction)), ", less than the bound");
  }
  return verification;
}

}  // namespace stagecraft
