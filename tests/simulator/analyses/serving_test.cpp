#include "simulator/analyses/serving.hpp"

#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("serving: three requests go round four devices, a token every max(p t, m t)") {
  const Schedule schedule = inference({.devices = 4, .microbatches = 3, .decode_steps = 2});
  const Timeline timeline = run(schedule, {.forward = 10ms});
  const Serving served =
      serving(timeline, {.requests = 3, .decode_steps = 2, .prompt = 100, .cache_per_token = 1000});
  // Prompts leave the last device after 40, 50 and 60 ms, tokens each 40 ms later.
  CHECK(served.first_token.p50 == 50ms);
  CHECK(served.first_token.p99 == 60ms);
  CHECK(served.between_tokens.least == 40ms);
  CHECK(served.between_tokens.most == 40ms);
  CHECK(served.latency.mean == 130ms);
  CHECK(served.latency.p95 == 140ms);
  CHECK(served.requests_per_second == Approx(3 / 0.14));
  CHECK(served.tokens_per_second == Approx(9 / 0.14));
  // Before the first request gives its 102 tokens back, the last two have two passes behind them;
  // at the same moment it is the second one's turn to grow to 102.
  CHECK(served.peak_cache == std::vector<Bytes>(4, (102 + 101 + 101) * 1000));
}

TEST_CASE("serving: without decode steps a request's cache lives as long as its forward") {
  const Timeline timeline =
      run(inference({.devices = 2, .microbatches = 5}), {.forward = 10ms}, 3ms);
  const Serving served = serving(timeline, {.requests = 5, .prompt = 7, .cache_per_token = 10});
  CHECK(served.peak_cache == std::vector<Bytes>{70, 70});
  CHECK(served.between_tokens == Summary{});
  CHECK(served.latency == served.first_token);
  CHECK(served.latency.most == 63ms);
}

TEST_CASE("serving: many requests keep all their tokens until each has its last") {
  for (const int p : {1, 3, 4}) {
    for (const int m : {1, 4, 9}) {
      const int tokens = 6;
      const Schedule schedule =
          inference({.devices = p, .microbatches = m, .decode_steps = tokens});
      const Serving served =
          serving(run(schedule, {.forward = 10ms}),
                  {.requests = m, .decode_steps = tokens, .prompt = 50, .cache_per_token = 2});
      // When the first one has all its tokens, the others lack their last.
      CHECK(served.peak_cache == std::vector<Bytes>(index(p), 2 * (50 * m + tokens * m - (m - 1))));
      CHECK(served.between_tokens.most == std::max(p, m) * 10ms);
    }
  }
}

TEST_CASE("serving: what is not all there, or too much, is refused") {
  const Timeline timeline = run(inference({.devices = 2, .microbatches = 2}), {.forward = 10ms});
  CHECK_THROWS_WITH(serving(timeline, {.requests = 3}),
                    "inference: the timeline has not all of 3 passes");
  CHECK_THROWS_WITH(
      serving(timeline, {.requests = 2, .prompt = 1 << 30, .cache_per_token = Bytes{1} << 50}),
      "inference: the cache is too large");
}
