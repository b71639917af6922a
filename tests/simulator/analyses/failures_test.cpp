#include "simulator/analyses/failures.hpp"

#include <cmath>

#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A thousand devices of which one fails every ten hours.
FailureModel thousand() {
  return {.devices = 1000,
          .between_failures = 10'000h,
          .checkpoint = 2min,
          .interval = 1h,
          .recovery = 10min};
}

}  // namespace

TEST_CASE("failures: without any, checkpoints alone cost time") {
  FailureModel model = thousand();
  model.between_failures = 2'000'000h;
  model.devices = 1;
  const GoodputSamples samples = simulate_failures(model, {.work = 100h, .samples = 10});
  // 99 checkpoints in 100 hours of work.
  CHECK(samples.p50 == Approx(100.0 / (100 + 99 * 2 / 60.0)));
  CHECK(goodput(model) == Approx(60.0 / 62).epsilon(1e-4));
}

TEST_CASE("failures: long runs reach Daly's goodput, within the error of the mean") {
  for (const Duration interval : {Duration{20min}, Duration{1h}, Duration{4h}}) {
    for (const int devices : {100, 1000, 5000}) {
      FailureModel model = thousand();
      model.interval = interval;
      model.devices = devices;
      CAPTURE(interval.count(), devices);
      const GoodputSamples samples = simulate_failures(model, {.work = 2'000h, .samples = 60});
      CHECK(samples.mean == Approx(goodput(model)).epsilon(0.02));
      CHECK(samples.p5 <= samples.p50);
      CHECK(samples.p50 <= samples.p95);
      // They strike at random times: as many as mean times fit into the run.
      const double run = 2'000 / samples.mean;
      CHECK(samples.failures == Approx(run * devices / 10'000).epsilon(0.05));
    }
  }
}

TEST_CASE("failures: Young's interval is sqrt(2 checkpoint M), Daly's is the best there is") {
  FailureModel model = thousand();
  // M = 10 h = 600 min: sqrt(2 * 2 * 600) min.
  CHECK(seconds(young_interval(model)) == Approx(60 * std::sqrt(2400.0)));
  for (const Duration checkpoint : {Duration{10s}, Duration{2min}, Duration{30min}}) {
    model.checkpoint = checkpoint;
    double best = 0;
    for (int minutes = 1; minutes < 1200; ++minutes) {
      model.interval = std::chrono::minutes{minutes};
      best = std::max(best, goodput(model));
    }
    model.interval = daly_interval(model);
    CHECK(goodput(model) == Approx(best).epsilon(1e-4));
    model.interval = young_interval(model);
    CHECK(goodput(model) == Approx(best).epsilon(0.01));
  }
}

TEST_CASE("failures: the same seed gives the same runs, another interval meets the same luck") {
  const FailureOptions options{.work = 50h, .samples = 50, .seed = 7};
  FailureModel model = thousand();
  CHECK(simulate_failures(model, options) == simulate_failures(model, options));
  CHECK_FALSE(simulate_failures(model, options) ==
              simulate_failures(model, {.work = 50h, .samples = 50, .seed = 8}));
  // Faster recovery of the same failures never takes longer.
  const double before = simulate_failures(model, options).mean;
  model.recovery = 0min;
  CHECK(simulate_failures(model, options).mean >= before);
}

TEST_CASE("failures: models without sense are refused") {
  FailureModel model = thousand();
  model.interval = Duration{0};
  CHECK_THROWS_WITH(goodput(model), ContainsSubstring("no work between checkpoints"));
  model = thousand();
  model.between_failures = Duration{0};
  CHECK_THROWS_WITH(young_interval(model), ContainsSubstring("never any time"));
  CHECK_THROWS_WITH(simulate_failures(thousand(), {}), ContainsSubstring("no work to be done"));
  // So frequent that hardly any recovery succeeds.
  model.between_failures = 1min;
  CHECK_THROWS_WITH(simulate_failures(model, {.work = 1h, .samples = 1}),
                    ContainsSubstring("checkpoint more often"));
}
