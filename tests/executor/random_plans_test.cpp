// Every row of the table of schedules against training without programs, bit by bit.

#include <map>
#include <random>
#include <tuple>

#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

#ifdef STAGECRAFT_TRIES_ALL  // tests_random, where the compiler optimizes
constexpr bool tries_all = true;
#else
constexpr bool tries_all = false;
#endif

/// References by what they depend on: not on the order of work, and not on where a model without
/// replicas is cut.
class References {
 public:
  std::string difference(const Setting& setting) {
    const RunOptions options{.steps = 2};
    const Prepared prepared = prepare(setting);
    const Schedule& schedule = prepared.compiled.schedule;
    const bool is_cut = !setting.replicas.empty() || schedule.weights != WeightPolicy::flush;
    const auto key =
        std::tuple(std::pair(setting.microbatches, setting.rows), setting.replicas, setting.policy,
                   std::pair(schedule.pipes, schedule.parts), schedule.trains, setting.optimizer,
                   schedule.weights, is_cut ? schedule.device_of_stage : std::vector<int>{});
    const auto [found, is_new] = results_.try_emplace(key);
    if (is_new) found->second = reference(prepared, options);
    return first_difference(run(prepared, options), found->second);
  }

 private:
  using Key = std::tuple<std::pair<int, int>, std::vector<int>, ReplicaPolicy, std::pair<int, int>,
                         bool, OptimizerKind, WeightPolicy, std::vector<int>>;
  std::map<Key, RunResult> results_;
};

/// One, two, and unequal numbers in turn: 2-1-2-1, 3-1-3-1.
std::vector<int> replicas_in_turn(int first, int second, int devices) {
  std::vector<int> replicas;
  for (int i = 0; i < devices; ++i) replicas.push_back(i % 2 == 0 ? first : second);
  return first == 1 && second == 1 ? std::vector<int>{} : replicas;
}

/// What lowering refuses with a reason: partners with unequal replicas, evictions with
/// recomputation.
bool is_lowered(const Setting& setting) {
  if (setting.schedule != "bpipe" || setting.devices < 4) return true;
  const bool even = setting.replicas.empty() || setting.replicas.front() == setting.replicas.back();
  return even && setting.recompute == Recompute::none;
}

/// All that one row owes.
std::vector<Setting> matrix(const ScheduleKind& kind) {
  std::vector<Setting> settings;
  for (const int devices : {1, 2, 3, 4}) {
    for (const int microbatches : {1, 2, 4, 6, 8, 12}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        for (const auto& [first, second] : {std::pair(1, 1), {2, 2}, {2, 1}, {3, 1}}) {
          for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
            if (first == 1 && policy == ReplicaPolicy::round_robin) continue;
            const Setting setting{.schedule = std::string(kind.name),
                                  .devices = devices,
                                  .virtual_stages = fewest_virtual_stages(kind.placement),
                                  .microbatches = microbatches,
                                  .rows = first == 3 ? 6 : 4,
                                  .replicas = replicas_in_turn(first, second, devices),
                                  .policy = policy,
                                  .recompute = recompute};
            if (is_legal(setting) && is_lowered(setting)) settings.push_back(setting);
          }
        }
      }
    }
  }
  return settings;
}

template <class Values>
auto one_of(std::mt19937& generator, const Values& values) {
  return *(std::begin(values) + generator() % std::size(values));
}

/// Any plan of any row.
Setting random_setting(unsigned seed) {
  std::mt19937 generator(seed);
  for (;;) {
    const ScheduleKind& kind = schedule_kinds[generator() % schedule_kinds.size()];
    Setting setting{
        .schedule = std::string(kind.name),
        .devices = one_of(generator, std::vector{1, 2, 3, 4}),
        .virtual_stages = fewest_virtual_stages(kind.placement),
        .microbatches = one_of(generator, std::vector{1, 2, 3, 4, 5, 6, 8, 12}),
        .rows = one_of(generator, std::vector{1, 2, 4, 6}),
        .policy = one_of(generator, std::vector{ReplicaPolicy::split, ReplicaPolicy::round_robin}),
        .recompute = one_of(generator, std::vector{Recompute::none, Recompute::full}),
        .optimizer = one_of(generator, std::vector{OptimizerKind::adamw, OptimizerKind::sgd}),
        .sharding = one_of(generator, std::vector{Sharding::none, Sharding::zero1})};
    if (kind.placement == StagePlacement::loop) setting.virtual_stages = 2;
    if (kind.weights != WeightPolicy::flush) {  // what else is refused with a reason
      setting.tied = false;
      setting.policy = ReplicaPolicy::split;
    }
    if (generator() % 2 == 0) {
      for (int i = 0; i < setting.devices; ++i) {
        setting.replicas.push_back(one_of(generator, std::vector{1, 1, 2, 3}));
      }
    }
    const bool shards_line_up = setting.sharding == Sharding::none ||
                                kind.placement != StagePlacement::bidirectional ||
                                setting.replicas.empty();
    if (shards_line_up && is_legal(setting) && is_lowered(setting)) return setting;
  }
}

}  // namespace

TEST_CASE("every schedule that flushes ends with the reference's bits, however replicated") {
  References references;
  for (std::size_t row = 0; row < schedule_kinds.size(); ++row) {
    if (schedule_kinds[row].weights != WeightPolicy::flush) continue;
    const std::vector<Setting> settings = matrix(schedule_kinds[row]);
    REQUIRE(!settings.empty());
    // Every other one, elsewhere a few of each row, other ones of each.
    const std::size_t stride = tries_all ? 2 : settings.size() / 3 + 1;
    for (std::size_t i = 11 * row % stride; i < settings.size(); i += stride) {
      INFO(describe(settings[i]));
      CHECK(references.difference(settings[i]) == "");
    }
  }
}

TEST_CASE("random plans neither hang nor compute anything else than the reference") {
  References references;
  for (unsigned seed = 0; seed < (tries_all ? 4'000U : 40U); ++seed) {
    const Setting setting = random_setting(seed);
    INFO("seed " << seed << ": " << describe(setting));
    CHECK(references.difference(setting) == "");
  }
}
