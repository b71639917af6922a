#include "planner/relaxations/block_walk.hpp"

#include <numeric>

#include "planner/relaxations/block_packing.hpp"
#include "planner/timing/critical_path.hpp"
#include "tests/catch.hpp"
#include "tests/planner/columns_cases.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr std::int64_t walk_effort = 100'000'000;

/// A pipeline of few blocks, and everything its devices can have.
struct Case {
  const Space& space;
  const PipelineCosts& costs;
  const BlockPacking& packing;
  FastClock& fast;
  StageClock& clock;
  CriticalPasses& passes;
  std::vector<std::vector<BlockChoice>> choices;
  std::vector<BlockWalk::Device> devices;
  int blocks = 0;

  Layout layout(const std::vector<int>& row) const {
    std::vector<const BlockChoice*> chosen;
    for (std::size_t d = 0; d < row.size(); ++d)
      chosen.push_back(&choices[d][static_cast<std::size_t>(row[d])]);
    return packing.layout_of(chosen);
  }
  double step(const std::vector<int>& row) const {
    double step = 0;
    passes.of(layout(row), step);
    return step;
  }
};

std::vector<BlockWalk::Device> devices_of(const PipelineCosts& costs, const TimedOrder& order,
                                          const BlockPacking& packing,
                                          const std::vector<std::vector<BlockChoice>>& choices) {
  std::vector<BlockWalk::Device> devices;
  for (std::size_t d = 0; d < choices.size(); ++d) {
    BlockWalk::Device& device = devices.emplace_back();
    device.stages = packing.stages_of(static_cast<int>(d));
    for (const BlockChoice& choice : choices[d]) {
      WalkItem& item = device.items.emplace_back();
      item.blocks = choice.all_blocks();
      for (std::size_t t = 0; t < device.stages.size(); ++t) {
        const LayerRange layers = packing.range(device.stages[t], choice.blocks[t]);
        const StageCosts& stage = costs.stage(device.stages[t], layers.first, layers.end);
        const bool again = choice.recompute[t] == Recompute::full && !order.places_recompute;
        item.stages.push_back(StageTimes::of(stage, again ? stage.forward : 0));
      }
    }
  }
  return devices;
}

template <class Visit>
void for_each_walk(const Visit& visit) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    const Problem problem = with_blocks(seed, 9);
    const Space space(problem);
    for_each_columns(space, [&](const Setting& setting, FastClock& fast, const TimedOrder& order) {
      const BlockPacking packing(space, setting, order, never / 4);
      const auto choices = packing.all_choices();
      if (!choices) return;
      const PipelineCosts costs(space, setting, never / 4);
      StageClock clock(costs, order, setting.microbatches);
      CriticalPasses passes(costs, order, setting.microbatches);
      visit(Case{.space = space,
                 .costs = costs,
                 .packing = packing,
                 .fast = fast,
                 .clock = clock,
                 .passes = passes,
                 .choices = *choices,
                 .devices = devices_of(costs, order, packing, *choices),
                 .blocks = space.layers() - 2});
    });
  }
}

/// Of one item for each device, with all blocks.
std::vector<std::vector<int>> all_rows(const Case& given) {
  std::vector<std::vector<int>> rows;
  std::vector<int> row;
  const std::function<void(int)> extend = [&](int have) {
    if (row.size() == given.devices.size()) {
      if (have == given.blocks) rows.push_back(row);
      return;
    }
    const auto& items = given.devices[row.size()].items;
    for (std::size_t i = 0; i < items.size(); ++i) {
      row.push_back(static_cast<int>(i));
      extend(have + items[i].blocks);
      row.pop_back();
    }
  };
  extend(0);
  return rows;
}

void put(const Case& given, int lane, const std::vector<int>& row) {
  for (std::size_t d = 0; d < row.size(); ++d) {
    const BlockWalk::Device& device = given.devices[d];
    const WalkItem& item = device.items[static_cast<std::size_t>(row[d])];
    for (std::size_t t = 0; t < device.stages.size(); ++t)
      given.clock.put(lane, device.stages[t], item.stages[t]);
  }
}

double least_step(const Case& given, const std::vector<std::vector<int>>& rows) {
  double least = std::numeric_limits<double>::infinity();
  for (const auto& row : rows) least = std::min(least, given.step(row));
  return least;
}

double sum_of(const Passes& passes, const StageTimes& stage) {
  return passes.forward * stage.forward + passes.backward * stage.backward +
         passes.backward_input * stage.backward_input +
         passes.backward_weight * stage.backward_weight + passes.sum * stage.sum +
         passes.update * stage.update + passes.collect * stage.collect;
}

/// What a path passes of stages, without messages.
double sum_of(const PassCounts& path, const std::vector<StageTimes>& stages) {
  double sum = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) sum += sum_of(path.stages[s], stages[s]);
  return sum;
}

double sum_of(const BlockWalk::Costs& costs, const std::vector<int>& row) {
  double sum = 0;
  for (std::size_t d = 0; d < row.size(); ++d) sum += costs[d][static_cast<std::size_t>(row[d])];
  return sum;
}

/// Of each item: what the path passes of its stages.
BlockWalk::Costs costs_of(const Case& given, const PassCounts& path) {
  BlockWalk::Costs costs;
  for (const BlockWalk::Device& device : given.devices) {
    std::vector<double>& own = costs.emplace_back();
    for (const WalkItem& item : device.items) {
      double& cost = own.emplace_back();
      for (std::size_t t = 0; t < device.stages.size(); ++t)
        cost += sum_of(path.stages[static_cast<std::size_t>(device.stages[t])], item.stages[t]);
    }
  }
  return costs;
}

}  // namespace

TEST_CASE("the clock of stages says of each lane's layout what the other clocks say",
          "[stage_clock]") {
  int timed = 0;
  for_each_walk([&](const Case& given) {
    const auto rows = all_rows(given);
    for (std::size_t first = 0; first < rows.size(); first += StageClock::lanes) {
      const std::size_t some = std::min<std::size_t>(StageClock::lanes, rows.size() - first);
      for (std::size_t l = 0; l < some; ++l) put(given, static_cast<int>(l), rows[first + l]);
      const auto steps = given.clock.run();
      for (std::size_t l = 0; l < some; ++l) {
        CHECK(steps[l] == given.step(rows[first + l]));
        CHECK(steps[l] <= static_cast<double>(given.fast.step(given.layout(rows[first + l]))));
        ++timed;
      }
    }
  });
  CHECK(timed > 1'000);
}

TEST_CASE("stages that take no more than those of several layouts give no longer step than any",
          "[stage_clock]") {
  for_each_walk([&](const Case& given) {
    const auto rows = all_rows(given);
    if (rows.size() < 2) return;
    const auto &one = rows.front(), &other = rows.back();
    for (std::size_t d = 0; d < one.size(); ++d) {
      const BlockWalk::Device& device = given.devices[d];
      for (std::size_t t = 0; t < device.stages.size(); ++t) {
        StageTimes least = device.items[static_cast<std::size_t>(one[d])].stages[t];
        least.lower_to(device.items[static_cast<std::size_t>(other[d])].stages[t]);
        given.clock.put(0, device.stages[t], least);
      }
    }
    const double step = given.clock.run().front();
    CHECK(step <= given.step(one));
    CHECK(step <= given.step(other));
  });
}

TEST_CASE("a walk finds the fastest row of choices, and that nothing is faster", "[block_walk]") {
  int cases = 0, by_neighbours = 0;
  for_each_walk([&](const Case& given) {
    const auto rows = all_rows(given);
    if (rows.empty()) return;
    ++cases;
    const double best = least_step(given, rows);
    for (const double limit : {best, best * 1.2}) {
      BlockWalk walk(given.clock, given.devices, given.blocks);
      CHECK(walk.thin_out(limit, walk_effort));
      double found = std::numeric_limits<double>::infinity();
      CHECK(walk.walk(limit, walk_effort, [&](const std::vector<int>& row, double step) {
        CHECK(step == given.step(row));
        CHECK(step < found);
        found = step;
      }));
      CHECK(found == best);
    }
    BlockWalk walk(given.clock, given.devices, given.blocks);
    const bool is_left = walk.thin_out(best - 1, walk_effort);
    by_neighbours += is_left ? 0 : 1;
    CHECK((!is_left || walk.walk(best - 1, walk_effort, [](const auto&, double) { FAIL(); })));
  });
  CHECK(cases > 200);
  CHECK(by_neighbours > cases / 2);
}

TEST_CASE("what a walk leaves out by neighbours or by sums is above the limit", "[block_walk]") {
  Random random(5);
  int weighed = 0, left_out = 0;
  for_each_walk([&](const Case& given) {
    const auto rows = all_rows(given);
    if (rows.empty()) return;
    BlockWalk walk(given.clock, given.devices, given.blocks);
    const double limit = least_step(given, rows) * 1.1;
    REQUIRE(walk.thin_out(limit, walk_effort));
    std::vector<std::vector<int>> kept;
    for (const auto& row : rows) {
      if (given.step(row) <= limit) CHECK(walk.allows(row));
      if (walk.allows(row)) kept.push_back(row);
    }
    BlockWalk::Costs costs;
    for (const BlockWalk::Device& device : given.devices) {
      std::vector<double>& own = costs.emplace_back();
      for (std::size_t i = 0; i < device.items.size(); ++i) own.push_back(random.between(0, 20));
    }
    double least = std::numeric_limits<double>::infinity();
    for (const auto& row : kept) least = std::min(least, sum_of(costs, row));
    CHECK_FALSE(walk.weigh(costs, least - 1));
    const auto row = walk.weigh(costs, least + 3);
    REQUIRE(row);
    ++weighed;
    CHECK(row->sum == least);
    CHECK(sum_of(costs, row->items) == least);
    CHECK(walk.allows(row->items));
    for (const auto& other : kept) {
      if (sum_of(costs, other) <= least + 3) CHECK(walk.allows(other));
      left_out += walk.allows(other) ? 0 : 1;
    }
    // The walk keeps to both.
    double best = std::numeric_limits<double>::infinity();
    for (const auto& other : kept) {
      if (sum_of(costs, other) <= least + 3) best = std::min(best, given.step(other));
    }
    double found = std::numeric_limits<double>::infinity();
    CHECK(walk.walk(limit, walk_effort, [&](const auto&, double step) { found = step; }));
    CHECK((best > limit || found <= best));
  });
  CHECK(weighed > 200);
  CHECK(left_out > 200);
}

TEST_CASE("the critical path of stages is as long as their step, and no row is faster than its sum",
          "[block_walk]") {
  int lessons = 0;
  for_each_walk([&](const Case& given) {
    const auto rows = all_rows(given);
    if (rows.empty()) return;
    const double best = least_step(given, rows);
    for (const double limit : {best - 1, best}) {
      BlockWalk walk(given.clock, given.devices, given.blocks);
      walk.learn_by([&](const std::vector<StageTimes>& stages) {
        ++lessons;
        double step = 0;
        const PassCounts path = given.passes.of(stages, step);
        CHECK(step > limit);
        const double of_messages = step - sum_of(path, stages);
        BlockWalk::Lesson lesson{.costs = costs_of(given, path), .most = limit - of_messages};
        for (const auto& row : rows)
          CHECK(of_messages + sum_of(lesson.costs, row) <= given.step(row));
        return lesson;
      });
      double found = std::numeric_limits<double>::infinity();
      // Nothing was left out before, so that there is much to learn.
      CHECK(walk.walk(limit, walk_effort, [&](const auto&, double step) { found = step; }));
      CHECK(found == (limit < best ? std::numeric_limits<double>::infinity() : best));
    }
  });
  CHECK(lessons > 200);
}

TEST_CASE("a walk ends when its effort is spent, or a stop is requested", "[block_walk]") {
  for_each_walk([&](const Case& given) {
    const auto rows = all_rows(given);
    if (rows.empty()) return;
    const double best = least_step(given, rows);
    BlockWalk walk(given.clock, given.devices, given.blocks);
    CHECK(walk.thin_out(best, -1));
    std::stop_source stop;
    stop.request_stop();
    CHECK(walk.thin_out(best, walk_effort, stop.get_token()));
    CHECK_FALSE(walk.walk(
        best, walk_effort, [](const auto&, double) {}, stop.get_token()));
    CHECK_FALSE(walk.walk(best, -1, [](const auto&, double) {}));
    for (const auto& row : rows) {
      if (given.step(row) <= best) CHECK(walk.allows(row));
    }
  });
}
