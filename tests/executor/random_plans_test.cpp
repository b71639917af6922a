// Every row of the table of schedules against training without programs, bit by bit.

#include <algorithm>
#include <random>

#include "tests/catch.hpp"
#include "tests/executor/equality_matrix.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

#ifdef STAGECRAFT_TRIES_ALL  // tests_random, where the compiler optimizes
constexpr bool tries_all = true;
#else
constexpr bool tries_all = false;
#endif

/// What a run differs in from training without programs; empty if in nothing.
class Differences {
 public:
  std::string of(const Setting& setting) {
    const RunOptions options{.steps = 2};
    const Prepared prepared = prepare(setting);
    return first_difference(run(prepared, options), references_.of(setting, prepared, options));
  }

 private:
  References references_;
};

template <class Values>
auto one_of(std::mt19937& generator, const Values& values) {
  return *(std::begin(values) + generator() % std::size(values));
}

/// Of 8 layers; stages inside may be empty.
std::vector<int> random_cuts(std::mt19937& generator, int stages) {
  std::vector<int> cuts{0, 8};
  while (static_cast<int>(cuts.size()) <= stages)
    cuts.push_back(1 + static_cast<int>(generator() % 7));
  std::ranges::sort(cuts);
  return cuts;
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
    }
    if (setting.recompute == Recompute::none && generator() % 2 == 0) {
      for (int layer = 0; layer < 8; ++layer) {
        setting.again.push_back(
            one_of(generator, std::vector{Recomputed::none, Recomputed::selective, Recomputed::full,
                                          Recomputed::with_next}));
      }
    }
    if (generator() % 2 == 0) {
      for (int i = 0; i < setting.devices; ++i) {
        setting.replicas.push_back(one_of(generator, std::vector{1, 1, 2, 3}));
      }
    }
    if (generator() % 2 == 0) {
      setting.cuts = random_cuts(generator, setting.devices * setting.virtual_stages);
    }
    const bool shards_line_up = setting.sharding == Sharding::none ||
                                kind.placement != StagePlacement::bidirectional ||
                                setting.replicas.empty();
    if (shards_line_up && is_legal(setting) && is_lowered(setting)) return setting;
  }
}

}  // namespace

TEST_CASE("every schedule that flushes ends with the reference's bits, however replicated",
          "[seconds]") {
  Differences differences;
  for (std::size_t row = 0; row < schedule_kinds.size(); ++row) {
    if (schedule_kinds[row].weights != WeightPolicy::flush) continue;
    // Every other one in tests_random, elsewhere one of each row.
    std::vector<Setting> settings;
    const int every = tries_all ? 2 : 97;
    for (int first = 0; settings.empty() && first < every; ++first) {
      settings =
          equality_matrix(schedule_kinds[row], every, (11 * static_cast<int>(row) + first) % every);
    }
    REQUIRE(!settings.empty());
    if (!tries_all) settings.resize(1);
    for (const Setting& setting : settings) {
      INFO(describe(setting));
      CHECK(differences.of(setting) == "");
    }
  }
}

TEST_CASE("random plans neither hang nor compute anything else than the reference", "[seconds]") {
  Differences differences;
  for (unsigned seed = 0; seed < (tries_all ? 4'000U : 40U); ++seed) {
    const Setting setting = random_setting(seed);
    INFO("seed " << seed << ": " << describe(setting));
    CHECK(differences.of(setting) == "");
  }
}
