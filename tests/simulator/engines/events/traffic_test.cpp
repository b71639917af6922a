// Messages that share links: rates by arithmetic, and what fairness and order owe.

#include "simulator/engines/events/traffic.hpp"

#include <map>

#include "simulator/engines/events.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::events;
using namespace stagecraft::tests;

namespace {

constexpr std::int64_t billion = 1'000'000'000;

struct Message {
  Time start = 0;
  Route route;
};

/// When each message, a flow of its own, is through; and what each flow has moved until then, in
/// billionths of a byte, by adding up its rate.
struct Delivery {
  std::vector<Time> end;
  std::vector<Wide> moved;
};

Delivery deliver(const Network& network, const std::vector<Message>& messages) {
  Traffic traffic(network);
  Delivery delivery{std::vector<Time>(messages.size()), std::vector<Wide>(messages.size(), 0)};
  std::map<int, Time> due;  // of the flows in progress
  for (Time now = 0;;) {
    for (std::size_t i = 0; i < messages.size(); ++i) {
      if (messages[i].start != now) continue;
      due[static_cast<int>(i)] = INT64_MAX;
      traffic.begin(static_cast<int>(i), static_cast<int>(i), messages[i].route,
                    messages[i].route.bytes, now);
    }
    if (traffic.changed()) {
      for (const Traffic::Due& moved : traffic.share(now)) due[moved.flow] = moved.time;
    }
    Time next = INT64_MAX;
    for (const Message& message : messages) {
      if (message.start > now) next = std::min(next, message.start);
    }
    for (const auto& [flow, time] : due) next = std::min(next, time);
    if (next == INT64_MAX) return delivery;
    for (const auto& [flow, time] : due) {
      delivery.moved[index(flow)] += static_cast<Wide>(traffic.rate(flow)) * (next - now);
    }
    now = next;
    for (auto entry = due.begin(); entry != due.end();) {
      if (entry->second != now) {
        ++entry;
        continue;
      }
      delivery.end[index(entry->first)] = now;
      traffic.end(entry->first);
      entry = due.erase(entry);
    }
  }
}

Network links(std::vector<std::int64_t> bytes_per_nanosecond, Sharing sharing = Sharing::fair) {
  Network network{.sharing = sharing};
  for (const std::int64_t rate : bytes_per_nanosecond) network.links.push_back({rate * billion});
  return network;
}

struct RandomTraffic {
  Network network;
  std::vector<Message> messages;
};

RandomTraffic random_traffic(Random& random) {
  RandomTraffic traffic;
  const int count = random.between(1, 6);
  for (int i = 0; i < count; ++i) {
    traffic.network.links.push_back({random.between(1, 100) * 7'777'777LL});
  }
  for (int flows = random.between(1, 12); flows > 0; --flows) {
    Message& message = traffic.messages.emplace_back();
    message.start = random.below(4) * 1000;
    message.route.bytes = random.between(0, 100'000);
    for (int link = 0; link < count; ++link) {
      if (random.below(2) == 1) message.route.links.push_back(link);
    }
    if (message.route.links.empty()) message.route.links = {random.below(count)};
  }
  return traffic;
}

/// A route of its own for every channel, of this many bytes.
Environment private_links(Random& random, const Program& program, Costs& costs) {
  Environment environment;
  environment.network.sharing = random.below(2) == 1 ? Sharing::fair : Sharing::fifo;
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    const Bandwidth bandwidth{random.between(1, 100) * 77'777'777LL};
    const Bytes bytes = random.below(500);
    environment.network.links.push_back(bandwidth);
    environment.network.channels.push_back({{static_cast<int>(i)}, bytes});
    costs.channels[i].occupancy = transfer_time(bytes, bandwidth);
  }
  return environment;
}

}  // namespace

TEST_CASE("traffic: x on A, y on A and B, z on B get 5, 5 and 15 of A's 10 and B's 20") {
  Traffic traffic(links({10, 20}));
  const std::vector<Route> routes{{{0}, 1000}, {{0, 1}, 1000}, {{1}, 1000}};
  for (int flow = 0; flow < 3; ++flow) traffic.begin(flow, flow, routes[index(flow)], 1000, 0);
  traffic.share(0);
  CHECK(traffic.rate(0) == 5 * billion);
  CHECK(traffic.rate(1) == 5 * billion);
  CHECK(traffic.rate(2) == 15 * billion);
  CHECK(traffic.due(2) == 67);  // 66.7
  traffic.end(1);
  traffic.share(50);
  CHECK(traffic.rate(0) == 10 * billion);
  CHECK(traffic.due(0) == 50 + 75);  // 250 bytes have gone
  CHECK(traffic.due(2) == 50 + 13);  // 250 bytes at 20 are left
}

TEST_CASE("traffic: flows that share one link end one after the other, the smallest first") {
  // Processor sharing: of n flows by size s1 <= s2 …, the k-th ends when s1 + … + sk + (n - k) sk
  // bytes have gone.
  Random random(31);
  for (int round = 0; round < 200; ++round) {
    std::vector<Bytes> sizes;
    for (int n = random.between(1, 6); n > 0; --n) sizes.push_back(60 * random.between(1, 100));
    std::sort(sizes.begin(), sizes.end());
    std::vector<Message> messages;
    for (const Bytes size : sizes) messages.push_back({0, {{0}, size}});
    const Delivery delivery = deliver(links({1}), messages);
    Bytes gone = 0;
    for (std::size_t k = 0; k < sizes.size(); ++k) {
      gone += sizes[k];
      const auto others = static_cast<Bytes>(sizes.size() - k - 1);
      // Shares are cut to whole bytes per second, times to whole nanoseconds: at most one each
      // turn.
      const Time expected = gone + others * sizes[k];
      CHECK(delivery.end[k] >= expected);
      CHECK(delivery.end[k] <= expected + static_cast<Time>(sizes.size()));
    }
  }
}

TEST_CASE("traffic: rates are max-min fair: each flow has a full link where none has more") {
  Random random(32);
  for (int round = 0; round < 500; ++round) {
    CAPTURE(round);
    const RandomTraffic input = random_traffic(random);
    const auto& messages = input.messages;
    Traffic traffic(input.network);
    for (std::size_t i = 0; i < messages.size(); ++i) {
      traffic.begin(static_cast<int>(i), static_cast<int>(i), messages[i].route, 1'000'000, 0);
      if (random.below(2) == 1) traffic.share(0);
    }
    traffic.share(0);
    std::vector<std::int64_t> used(input.network.links.size(), 0), most = used;
    for (std::size_t i = 0; i < messages.size(); ++i) {
      for (const int link : messages[i].route.links) {
        const std::int64_t rate = traffic.rate(static_cast<int>(i));
        used[index(link)] += rate;
        most[index(link)] = std::max(most[index(link)], rate);
      }
    }
    const auto slack = static_cast<std::int64_t>(messages.size());  // what divisions leave over
    for (std::size_t link = 0; link < used.size(); ++link) {
      CHECK(used[link] <= input.network.links[link].bytes_per_second);
    }
    for (std::size_t i = 0; i < messages.size(); ++i) {
      const auto& path = messages[i].route.links;
      const auto is_bottleneck = [&](int link) {
        return used[index(link)] + slack >= input.network.links[index(link)].bytes_per_second &&
               traffic.rate(static_cast<int>(i)) + slack >= most[index(link)];
      };
      CHECK(std::any_of(path.begin(), path.end(), is_bottleneck));
    }
  }
}

TEST_CASE("traffic: every byte goes once, fair or not, and no faster than its links") {
  Random random(33);
  for (int round = 0; round < 300; ++round) {
    CAPTURE(round);
    RandomTraffic input = random_traffic(random);
    for (const Sharing sharing : {Sharing::fair, Sharing::fifo}) {
      input.network.sharing = sharing;
      const Delivery delivery = deliver(input.network, input.messages);
      for (std::size_t i = 0; i < input.messages.size(); ++i) {
        const Route& route = input.messages[i].route;
        std::int64_t narrowest = INT64_MAX;
        for (const int link : route.links) {
          narrowest = std::min(narrowest, input.network.links[index(link)].bytes_per_second);
        }
        // The last nanosecond may be used in part.
        CHECK(delivery.moved[i] >= static_cast<Wide>(route.bytes) * billion);
        CHECK(delivery.moved[i] < static_cast<Wide>(route.bytes) * billion + narrowest);
        CHECK(Duration{delivery.end[i] - input.messages[i].start} >=
              transfer_time(route.bytes, {narrowest}));
      }
    }
  }
}

TEST_CASE("traffic: first in, first out, and the head of a line blocks what is behind it") {
  // z could use B at once, but y stands before it there and waits for x on A.
  const std::vector<Message> messages{
      {0, {{0}, 100}}, {10, {{0, 1}, 100}}, {20, {{1}, 100}}, {20, {{1}, 60}}};
  const Delivery delivery = deliver(links({10, 20}, Sharing::fifo), messages);
  CHECK(delivery.end == std::vector<Time>{10, 20, 25, 28});
  const Delivery held =
      deliver(links({1, 20}, Sharing::fifo),
              {{0, {{0}, 100}}, {10, {{0, 1}, 100}}, {20, {{1}, 100}}, {20, {{1}, 60}}});
  CHECK(held.end == std::vector<Time>{100, 200, 205, 208});
}

TEST_CASE("traffic: a link for each channel is that channel's occupancy, on random programs") {
  Random random(34);
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    auto [program, costs] = random_case(random);
    const Environment environment = private_links(random, program, costs);
    CHECK(simulate_events(program, costs, environment) == simulate(program, costs));
  }
}

TEST_CASE("traffic: two messages on one link, fair or in order") {
  // Forwards take 10; a message of 100 bytes takes 20 alone. The second on the first channel starts
  // at 30, the one on the second channel at 40; fair, each moves 50 bytes in [40, 60).
  const Program program = lower(gpipe({.devices = 3, .microbatches = 2}));
  const Costs costs = uniform(program, {.forward = 10ns});
  Environment environment{.network = links({5})};
  environment.network.channels.resize(program.channels.size());
  for (std::size_t i = 0; i < program.channels.size(); ++i) {
    if (program.channels[i].cargo == Cargo::activation) {
      environment.network.channels[i] = {{0}, 100};
    }
  }
  const auto sends = [&] {
    std::vector<std::pair<Duration, Duration>> intervals;
    for (const Span& span : simulate_events(program, costs, environment).spans) {
      if (span.instruction.op == Op::send_activation) intervals.push_back({span.start, span.end});
    }
    return intervals;
  };
  using Intervals = std::vector<std::pair<Duration, Duration>>;
  CHECK(sends() == Intervals{{10ns, 30ns}, {30ns, 60ns}, {40ns, 70ns}, {70ns, 90ns}});
  environment.network.sharing = Sharing::fifo;
  CHECK(sends() == Intervals{{10ns, 30ns}, {30ns, 50ns}, {40ns, 70ns}, {70ns, 90ns}});
}

TEST_CASE("traffic: a collective crosses its links once all members are there") {
  LowerOptions options;
  options.replicas = {{0, 1}};
  options.rows = 2;
  const Program program = lower(gpipe({.devices = 1, .microbatches = 1}), options);
  Costs costs = uniform(program, {.forward = 10ns, .backward = 20ns});
  costs.chunks[1].backward = 50ns;
  const Environment environment{.network = {.links = {{2 * billion}}, .groups = {{{0}, 100}}}};
  for (const Span& span : simulate_events(program, costs, environment).spans) {
    if (span.lane != Lane::collective) continue;
    CHECK(span.start == 60ns);
    CHECK(span.end == 110ns);
  }
}

TEST_CASE("traffic: twice the costs and bytes, twice the time, but for rounding") {
  Random random(35);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random);
    const Program program = lower(schedule);
    Environment environment{.network = links({1, 2, 3})};
    for (std::size_t i = 0; i < program.channels.size(); ++i) {
      environment.network.channels.push_back(
          {{random.below(3)}, 1'000'000LL * random.between(1, 50)});
    }
    const ChunkCosts chunk{
        .forward = 10ms, .backward = 20ms, .backward_input = 11ms, .backward_weight = 9ms};
    const ChunkCosts twice{
        .forward = 20ms, .backward = 40ms, .backward_input = 22ms, .backward_weight = 18ms};
    const Duration once = step_time(simulate_events(program, uniform(program, chunk), environment));
    for (Route& route : environment.network.channels) route.bytes *= 2;
    const Duration doubled =
        step_time(simulate_events(program, uniform(program, twice), environment));
    CHECK(std::chrono::abs(doubled - 2 * once) <= 1us);
  }
}
