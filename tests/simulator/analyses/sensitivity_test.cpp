// What a change of times does to the step: against known elasticities, latency tables, and the
// simulator itself.

#include "simulator/analyses/sensitivity.hpp"

#include "profiles/error.hpp"
#include "simulator/engines/compiled.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::vector<double> elasticities(const std::vector<Effect>& effects, Lever lever) {
  std::vector<double> values;
  for (const Effect& effect : effects) {
    if (effect.lever == lever) values.push_back(effect.elasticity);
  }
  return values;
}

const Effect& find(const std::vector<Effect>& effects, const std::string& name) {
  for (const Effect& effect : effects) {
    if (to_string(effect) == name) return effect;
  }
  FAIL("no effect is called " << name);
  return effects.front();
}

}  // namespace

TEST_CASE("one per cent more of a device's compute: known elasticities") {
  // An independent simulator: p = 4, m = 8, f = 1, b = 2 (i = w = 1), rounded to two digits.
  struct Row {
    const char* name;
    int virtual_stages;
    std::vector<double> elasticities;
  };
  for (const Row& row :
       {Row{"gpipe", 1, {.73, .73, .73, .73}}, Row{"1f1b", 1, {.45, .55, .64, .73}},
        Row{"dapple-pb", 1, {.09, .09, .09, .73}}, Row{"interleaved", 2, {.26, .26, .26, .84}},
        Row{"zb-v", 2, {.29, .78, .78, .94}}}) {
    CAPTURE(row.name);
    const Program program = lower(find_schedule(row.name).generate(
        {.devices = 4, .microbatches = 8, .virtual_stages = row.virtual_stages}));
    const Costs costs = uniform(program, split_costs(10ms, 10ms, 10ms, row.virtual_stages));
    const std::vector<double> found = elasticities(sensitivities(program, costs), Lever::device);
    REQUIRE(found.size() == row.elasticities.size());
    for (std::size_t r = 0; r < found.size(); ++r) {
      CAPTURE(r);
      CHECK(found[r] == Approx(row.elasticities[r]).margin(0.0051));
    }
  }
}

TEST_CASE("latency on every edge: known multipliers") {
  // An independent simulator: p = 8, m = 32, f = i = w = 10, latencies 1, 2, 5, 10, 20.
  struct Row {
    const char* name;
    int virtual_stages;
    int group;
    std::vector<double> multipliers;
  };
  for (const Row& row :
       {Row{"gpipe", 1, 8, {14, 14, 14, 14, 14}}, Row{"1f1b", 1, 8, {68, 68, 68, 68, 68}},
        Row{"dapple-pb", 1, 8, {14, 14, 14, 14, 21}},
        Row{"interleaved", 2, 8, {30, 30, 30, 49, 65.5}},
        Row{"interleaved", 2, 16, {14, 14, 14, 28.5, 50}},
        Row{"interleaved", 4, 8, {62, 62, 105, 133, 148}},
        Row{"looped-bfs", 2, 8, {14, 14, 14, 14, 16}}, Row{"zb-h1", 1, 8, {28, 28, 28, 48, 58}},
        Row{"zb-h2", 1, 8, {7, 7, 7, 7, 17.5}}, Row{"zb-v", 2, 8, {33, 33, 34, 38, 60}},
        Row{"interleaved-zb", 2, 8, {36, 36, 77, 101, 114}}}) {
    CAPTURE(row.name, row.virtual_stages, row.group);
    ScheduleShape shape{
        .devices = 8, .microbatches = 32, .virtual_stages = row.virtual_stages, .group = {}};
    if (row.group != 8) shape.group = row.group;
    const Program program = lower(find_schedule(row.name).generate(shape));
    const ChunkCosts chunk = split_costs(10ms, 10ms, 10ms, row.virtual_stages);
    std::vector<Costs> tables;
    for (const Duration latency : {0ms, 1ms, 2ms, 5ms, 10ms, 20ms}) {
      tables.push_back(uniform(program, chunk, latency));
    }
    const std::vector<Duration> steps = CompiledProgram(program).steps(tables);
    for (std::size_t i = 1; i < tables.size(); ++i) {
      const Duration latency = tables[i].channels.front().latency;
      CAPTURE(latency.count());
      CHECK(static_cast<double>((steps[i] - steps[0]).count()) /
                static_cast<double>(latency.count()) ==
            Approx(row.multipliers[i - 1]).margin(0.501));  // three digits were published
    }
  }
}

TEST_CASE("each effect is what simulating the changed costs gives") {
  Random random(21);
  for (int round = 0; round < 30; ++round) {
    CAPTURE(round);
    const auto [program, costs] = random_case(random);
    for (const Effect& effect : sensitivities(program, costs, 3)) {
      CAPTURE(to_string(effect));
      Costs changed = costs;
      for (std::size_t i = 0; i < changed.chunks.size(); ++i) {
        const Chunk& place = program.chunks[i];
        ChunkCosts& chunk = changed.chunks[i];
        const bool all = (effect.lever == Lever::stage && place.stage == effect.index) ||
                         (effect.lever == Lever::device && place.device == effect.index);
        const auto times = [&](Op op) {
          return all || (effect.lever == Lever::op && effect.op == op) ? 3 : 1;
        };
        chunk = {.forward = chunk.forward * times(Op::forward),
                 .backward = chunk.backward * times(Op::backward),
                 .backward_input = chunk.backward_input * times(Op::backward_input),
                 .backward_weight = chunk.backward_weight * times(Op::backward_weight),
                 .recompute = chunk.recompute * times(Op::recompute),
                 .update = chunk.update * times(Op::update)};
      }
      for (int i = 0; i < static_cast<int>(changed.channels.size()); ++i) {
        const Channel& place = program.channels[index(i)];
        const bool linked = effect.lever == Lever::link &&
                            program.chunks[index(place.from)].device == effect.index &&
                            program.chunks[index(place.to)].device == effect.to;
        if (!linked && !(effect.lever == Lever::channel && effect.index == i)) continue;
        changed.channels[index(i)].latency *= 3;
        changed.channels[index(i)].occupancy *= 3;
      }
      if (effect.lever == Lever::group) changed.groups[index(effect.index)] *= 3;
      CHECK(effect.step == step_time(simulate(program, changed)));
    }
  }
}

TEST_CASE("elasticities of all compute add up to the share of compute in the step") {
  // Times a common factor, everything grows: on a chain without slack each per cent of all compute
  // is one per cent of the compute on it.
  const Program program = lower(one_f_one_b({.devices = 2, .microbatches = 1}));
  const Costs costs = uniform(program, chunk_costs(10ms, 20ms), 5ms);
  // F0 5 F1 B1 5 B0: 10 + 5 + 10 + 20 + 5 + 20 = 70.
  const std::vector<Effect> effects = sensitivities(program, costs, 2);
  CHECK(find(effects, "stage 0").elasticity == Approx(30.0 / 70));
  CHECK(find(effects, "device 1").elasticity == Approx(30.0 / 70));
  CHECK(find(effects, "forward").elasticity == Approx(20.0 / 70));
  CHECK(find(effects, "backward").elasticity == Approx(40.0 / 70));
  CHECK(find(effects, "link 0 -> 1").elasticity == Approx(5.0 / 70));
  CHECK(find(effects, "channel 1").step == 75ms);
  CHECK_THROWS_WITH(sensitivities(program, costs, 1), ContainsSubstring("and not 1"));
}

TEST_CASE("one more microbatch in flight is worth what it hides of the latency") {
  // 1F1B takes (m + p - 1)(f + b), and with latency c 2c more each time round; with one more
  // microbatch on device 0 only device 1's first F and last B wait.
  const ScheduleShape shape{.devices = 2, .microbatches = 8};
  const Program program = lower(one_f_one_b(shape));
  const Duration step = 9 * 30ms;
  const Costs prompt = uniform(program, chunk_costs(10ms, 20ms));
  // Alone on device 1 it does harm: from then on each microbatch goes to and fro before the next
  // one, f + b + b + f.
  CHECK(one_more_in_flight(shape, prompt) == std::vector<Duration>{step, 30ms + 7 * 60ms});
  const Costs late = uniform(program, chunk_costs(10ms, 20ms), 1ms);
  // N = m + p - 2 = 8: 2c(N - floor(N / p)) = 8c.
  CHECK(step_time(simulate(program, late)) == step + 8ms);
  CHECK(one_more_in_flight(shape, late).front() == step + 2ms);
}

TEST_CASE("where the devices before must not have fewer, they get one more as well") {
  const ScheduleShape level{.devices = 3, .microbatches = 6, .warm_up = {2, 2, 1}};
  const Program program = lower(one_f_one_b(level));
  const Costs costs = uniform(program, chunk_costs(10ms, 20ms), 1ms);
  ScheduleShape deeper = level;
  deeper.warm_up = {3, 3, 1};
  CHECK(one_more_in_flight(level, costs)[1] ==
        step_time(simulate(lower(one_f_one_b(deeper)), costs)));
}
TEST_CASE("One more in flight by each schedule's own setting, or none") {
  const auto gains = [](std::string_view name, const ScheduleShape& shape) {
    const ScheduleKind& kind = find_schedule(name);
    const Program program = lower(kind.generate(shape));
    const Costs costs = uniform(program, split_costs(10ms, 10ms, 10ms, shape.virtual_stages), 4ms);
    return std::pair(step_time(simulate(program, costs)), one_more_in_flight(kind, shape, costs));
  };
  const ScheduleShape four{.devices = 4, .microbatches = 12};
  const auto& [deep, deeper] = gains("dapple-pb", four);
  REQUIRE(deeper.size() == 4);
  CHECK(deeper[0].device == 0);
  CHECK(deeper[0].with == "warm-up 8 5 3 1");
  CHECK(deeper[3].with == "warm-up 7 5 3 2");
  for (const OneMore& one : deeper) CHECK(one.step >= deep - 4ms);
  // Latency costs 1F1B twice per microbatch; more forwards ahead hide some.
  const auto& [plain, ahead] = gains("1f1b", four);
  CHECK(ahead[1].with == "warm-up 4 4 2 1");
  CHECK(std::min_element(ahead.begin(), ahead.end(), [](const OneMore& a, const OneMore& b) {
          return a.step < b.step;
        })->step <= plain);

  const auto& [tight, roomier] = gains("zb-auto", four);
  REQUIRE(roomier.size() == 1);
  CHECK(roomier[0].with == "in flight 5");
  CHECK(!roomier[0].device);
  CHECK(roomier[0].step < tight);
  const ScheduleShape halves{.devices = 4, .microbatches = 12, .virtual_stages = 2};
  CHECK(gains("zbv-auto", halves).second.at(0).with == "in flight 5");
  // 12 mod 5 = 2 < 4: the next legal group is 6.
  CHECK(gains("interleaved", halves).second.at(0).with == "group 6");
  ScheduleShape all = halves;
  all.group = 12;
  CHECK(gains("interleaved", all).second.empty());
  CHECK(gains("gpipe", four).second.empty());
  CHECK(gains("zb-h1", four).second.empty());
}
