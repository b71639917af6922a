// Varying times: the samples are reproducible, and say about schedules what is known about them.

#include "simulator/analyses/jitter.hpp"

#include <cmath>
#include <numeric>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  const double middle = mean(values);
  double squares = 0;
  for (const double value : values) squares += (value - middle) * (value - middle);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

/// Samples as multiples of the step without jitter.
std::vector<double> slow_downs(const Program& program, const Costs& costs, const Jitter& jitter) {
  const auto plain = static_cast<double>(CompiledProgram(program).step(costs).count());
  std::vector<double> ratios;
  for (const Duration step : jittered_steps(program, costs, jitter)) {
    ratios.push_back(static_cast<double>(step.count()) / plain);
  }
  return ratios;
}

/// One F after the other: the step is their sum.
Program one_device(int microbatches) {
  return lower(gpipe({.devices = 1, .microbatches = microbatches}));
}

}  // namespace

TEST_CASE("without any spread every sample is the step") {
  const Program program = lower(one_f_one_b({.devices = 3, .microbatches = 5}));
  const Costs costs = uniform(program, chunk_costs(10ms, 20ms), 1ms);
  const Duration step = step_time(simulate(program, costs));
  CHECK(jittered_steps(program, costs, {.samples = 20}) == std::vector<Duration>(20, step));
}

TEST_CASE("a sample does not depend on how many there are, another seed gives others") {
  const Program program = lower(one_f_one_b({.devices = 3, .microbatches = 5}));
  const Costs costs = uniform(program, chunk_costs(10ms, 20ms), 1ms);
  for (const Distribution distribution : {Distribution::uniform, Distribution::log_normal}) {
    const Jitter jitter{.distribution = distribution,
                        .instruction = 0.1,
                        .device = 0.2,
                        .channel = 0.3,
                        .samples = 45,
                        .seed = 7};
    const std::vector<Duration> many = jittered_steps(program, costs, jitter);
    Jitter fewer = jitter;
    fewer.samples = 19;
    CHECK(jittered_steps(program, costs, fewer) ==
          std::vector<Duration>(many.begin(), many.begin() + 19));
    Jitter other = jitter;
    other.seed = 8;
    CHECK(jittered_steps(program, costs, other) != many);
  }
}

TEST_CASE("programs that are compared meet the same luck") {
  // On one device GPipe and 1F1B do the same computations in another order.
  const Costs costs = uniform(one_device(9), chunk_costs(10ms, 20ms));
  const Jitter jitter{.instruction = 0.2, .samples = 16};
  CHECK(jittered_steps(one_device(9), costs, jitter) ==
        jittered_steps(lower(one_f_one_b({.devices = 1, .microbatches = 9})), costs, jitter));
}

TEST_CASE("factors have mean 1 and the spread that was asked for") {
  // n independent factors add up to n with a standard deviation of sigma sqrt(n).
  constexpr int n = 16, samples = 4000;
  const Program program = one_device(n);
  const Costs costs = uniform(program, {.forward = 1ms});
  struct Row {
    Distribution distribution;
    double spread, sigma;
  };
  for (const Row& row : {Row{Distribution::uniform, 0.2, 0.2 / std::sqrt(3)},
                         Row{Distribution::log_normal, 0.3, std::sqrt(std::exp(0.3 * 0.3) - 1)}}) {
    const std::vector<double> alone = slow_downs(
        program, costs,
        {.distribution = row.distribution, .instruction = row.spread, .samples = samples});
    const double sigma = row.sigma / std::sqrt(n);
    CHECK(std::abs(mean(alone) - 1) < 5 * sigma / std::sqrt(samples));
    CHECK(std::abs(deviation(alone) / sigma - 1) < 0.1);
    // A factor of the device is one for all.
    const std::vector<double> together =
        slow_downs(program, costs,
                   {.distribution = row.distribution, .device = row.spread, .samples = samples});
    CHECK(std::abs(deviation(together) / row.sigma - 1) < 0.1);
  }
}

TEST_CASE("a channel's factor is one for all its messages, and for nothing else") {
  // Two devices, one microbatch: F, message, F, B, message, B; only messages take time.
  const Program program = lower(gpipe({.devices = 2, .microbatches = 1}));
  const Costs costs = uniform(program, {}, 1ms);
  const double spread = 0.4;
  const std::vector<double> ratios =
      slow_downs(program, costs, {.channel = spread, .samples = 4000});
  const double sigma = spread / std::sqrt(3) / std::sqrt(2);  // mean of two channels
  CHECK(std::abs(deviation(ratios) / sigma - 1) < 0.1);
  CHECK(slow_downs(program, costs, {.device = spread, .samples = 3}) == std::vector(3, 1.0));
}

TEST_CASE("warm-up depth is what makes a schedule robust against jitter") {
  // An independent simulator, 30 samples of +-20 %: p = 8, m = 32, f = i = w = 1 on whole devices.
  struct Row {
    const char* name;
    int virtual_stages;
    double mean, p95;
  };
  for (const Row& row : {Row{"gpipe", 1, 1.065, 1.085}, Row{"1f1b", 1, 1.072, 1.091},
                         Row{"dapple-pb", 1, 1.003, 1.023}, Row{"interleaved", 2, 1.020, 1.031},
                         Row{"looped-bfs", 2, 1.049, 1.061}, Row{"zb-h1", 1, 1.040, 1.053},
                         Row{"zb-h2", 1, 1.004, 1.017}, Row{"zb-v", 2, 1.025, 1.037}}) {
    CAPTURE(row.name);
    const Program program = lower(find_schedule(row.name).generate(
        {.devices = 8, .microbatches = 32, .virtual_stages = row.virtual_stages}));
    const Costs costs = uniform(program, split_costs(10ms, 10ms, 10ms, row.virtual_stages));
    std::vector<double> ratios = slow_downs(program, costs, {.instruction = 0.2, .samples = 400});
    const double sigma = deviation(ratios);
    CAPTURE(mean(ratios), sigma);
    CHECK(std::abs(mean(ratios) - row.mean) < 4 * sigma * std::sqrt(1.0 / 30 + 1.0 / 400));
    std::sort(ratios.begin(), ratios.end());
    const double p95 = ratios[ratios.size() * 95 / 100];
    CAPTURE(p95);
    CHECK(std::abs(p95 - row.p95) < 2 * sigma);
  }
}

TEST_CASE("the summary of samples") {
  std::vector<Duration> samples;
  for (int i = 200; i >= 1; --i) samples.emplace_back(i);
  CHECK(summary(samples) ==
        Summary{
            .mean = 100ns, .p50 = 100ns, .p95 = 190ns, .p99 = 198ns, .least = 1ns, .most = 200ns});
  CHECK(summary({5ns}) == Summary{5ns, 5ns, 5ns, 5ns, 5ns, 5ns});
}

TEST_CASE("jitter that makes no sense is refused") {
  const Program program = one_device(1);
  const Costs costs = uniform(program, {});
  CHECK_THROWS_WITH(jittered_steps(program, costs, {.instruction = 1.5}),
                    ContainsSubstring("a spread is 1.5; expected 0 to 1"));
  CHECK_THROWS_WITH(jittered_steps(program, costs, {.samples = 0}),
                    ContainsSubstring("at least one sample"));
}
