// What every transport owes, over the table of transports.

#include "executor/transport.hpp"

#include <chrono>
#include <cmath>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "profiles/error.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;
using namespace std::chrono_literals;

namespace {

/// A transport and a backend for each rank.
struct World {
  World(const TransportMaker& maker, const Wiring& wiring) : transports(maker.make(wiring)) {
    for (int i = 0; i < wiring.ranks; ++i) backends.push_back(make_cpu_backend());
  }

  /// Runs `body` on a thread per rank; returns what each rank failed with, or "".
  std::vector<std::string> run(const std::function<void(Transport&, Backend&)>& body) {
    std::vector<std::string> failures(transports.size());
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < transports.size(); ++i) {
      threads.emplace_back([&, i] {
        try {
          body(*transports[i], *backends[i]);
        } catch (const Error& error) {
          failures[i] = error.kind() == ErrorKind::execution ? error.what() : "wrong kind";
          transports[i]->abort(failures[i]);
        }
      });
    }
    threads.clear();
    return failures;
  }

  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Transport>> transports;
};

Tensor filled(Backend& backend, std::int64_t elements, float value) {
  Tensor tensor = backend.allocate({elements}, Precision::float32);
  std::fill_n(tensor.data<float>(), elements, value);
  return tensor;
}

bool all_equal(const Tensor& tensor, float value) {
  const float* first = tensor.data<float>();
  return std::all_of(first, first + tensor.elements(), [&](float x) { return x == value; });
}

/// Channel i leads from rank i to the next, and from the last to the first.
Wiring ring(int ranks, int capacity) {
  Wiring wiring{.ranks = ranks, .channels = {}, .groups = {}};
  for (int i = 0; i < ranks; ++i) {
    wiring.channels.push_back({.from = i, .to = (i + 1) % ranks, .capacity = capacity});
  }
  return wiring;
}

Wiring one_group(int ranks, std::vector<int> members) {
  return {.ranks = ranks, .channels = {}, .groups = {std::move(members)}};
}

std::vector<std::string> all_well(int ranks) {
  return std::vector<std::string>(static_cast<std::size_t>(ranks));
}

}  // namespace

TEST_CASE("a token passed around a ring comes back, once per round") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  World world(maker, ring(8, 1));
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    const int rank = transport.rank();
    const int before = (rank + 7) % 8;
    for (int round = 0; round < 20; ++round) {
      if (rank == 0)
        transport.send(0, backend, filled(backend, 3, static_cast<float>(8 * round)), now());
      const Arrival arrival = transport.receive(before, backend);
      const auto expected = static_cast<float>(8 * round + before);
      if (!all_equal(arrival.tensor, expected)) throw Error(ErrorKind::execution, "wrong value");
      if (rank != 0) transport.send(rank, backend, filled(backend, 3, expected + 1), now());
    }
  });
  CHECK(failures == all_well(8));
}

TEST_CASE("two ranks exchange large messages in both directions at once") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  constexpr std::int64_t elements = 8 << 20;  // 32 MiB
  World world(maker, ring(2, 1));
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    const int rank = transport.rank();
    transport.send(rank, backend, filled(backend, elements, static_cast<float>(rank + 1)), now());
    const Arrival arrival = transport.receive(1 - rank, backend);
    if (!all_equal(arrival.tensor, static_cast<float>(2 - rank))) {
      throw Error(ErrorKind::execution, "wrong value");
    }
  });
  CHECK(failures == all_well(2));
}

TEST_CASE("messages arrive in order, whether memory was posted before, after or never") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  constexpr int messages = 60;
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 5}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    for (int i = 0; i < messages; ++i) {
      if (transport.rank() == 0) {
        transport.send(0, backend, filled(backend, 10, static_cast<float>(i)), now());
        continue;
      }
      const bool post = i % 3 != 0;
      Tensor memory = post ? filled(backend, 10, -1) : Tensor{};
      if (post) transport.post(0, backend, memory);
      const Arrival arrival = transport.receive(0, backend);
      const bool own_memory = !post || arrival.tensor.storage == memory.storage;
      if (!own_memory || !all_equal(arrival.tensor, static_cast<float>(i))) {
        throw Error(ErrorKind::execution, "wrong message");
      }
      if (arrival.sent > arrival.arrived) throw Error(ErrorKind::execution, "back in time");
    }
  });
  CHECK(failures == all_well(2));
}

TEST_CASE("a message in posted memory leaves nothing at the sender") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 9}}, .groups = {}});
  world.transports[1]->post(0, *world.backends[1], filled(*world.backends[1], 100, 0));
  world.transports[1]->post(0, *world.backends[1], filled(*world.backends[1], 100, 0));
  world.transports[0]->send(0, *world.backends[0], filled(*world.backends[0], 100, 1), now());
  world.transports[0]->send(0, *world.backends[0], filled(*world.backends[0], 100, 2), now());
  world.transports[0]->send(0, *world.backends[0], filled(*world.backends[0], 100, 3), now());
  CHECK(world.backends[0]->allocated_bytes() == 400);
  world.transports[1]->post(0, *world.backends[1], filled(*world.backends[1], 100, 0));
  CHECK(world.backends[0]->allocated_bytes() == 0);
  for (const float value : {1.0F, 2.0F, 3.0F}) {
    CHECK(all_equal(world.transports[1]->receive(0, *world.backends[1]).tensor, value));
  }
}

TEST_CASE("a message is not received before the moment it says") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 1}}, .groups = {}});
  const Moment later = now() + 30ms;
  world.transports[0]->send(0, *world.backends[0], filled(*world.backends[0], 1, 1), later);
  const Arrival arrival = world.transports[1]->receive(0, *world.backends[1]);
  CHECK(now() >= later);
  CHECK(arrival.arrived == later);
  CHECK(arrival.sent < later);
}

TEST_CASE("a reduction adds up in the order of the group's list, the same bits for all") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  // (1 + 1e8) - 1e8 = 0 but (1e8 - 1e8) + 1 = 1 in single precision: order shows.
  const std::vector<int> members = GENERATE(std::vector<int>{0, 1, 2}, std::vector<int>{1, 2, 0},
                                            std::vector<int>{2, 1, 0}, std::vector<int>{2, 0, 1});
  const std::int64_t elements = GENERATE(1, 2, 7, 1000);
  const std::vector<float> values{1.0F, 1e8F, -1e8F};
  float expected = values[static_cast<std::size_t>(members[0])];
  for (std::size_t i = 1; i < 3; ++i) expected += values[static_cast<std::size_t>(members[i])];

  World world(maker, one_group(4, members));
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    if (transport.rank() == 3) return;
    for (int round = 0; round < 5; ++round) {
      Tensor tensor = filled(backend, elements, values[static_cast<std::size_t>(transport.rank())]);
      transport.all_reduce(0, backend, tensor);
      if (!all_equal(tensor, expected)) throw Error(ErrorKind::execution, "wrong sum");
    }
  });
  CHECK(failures == all_well(4));
}

TEST_CASE("a reduction in two halves is one: first each has its shard's sum, then all have all") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  const std::vector<int> members = GENERATE(std::vector<int>{0, 1, 2}, std::vector<int>{2, 0, 1});
  const std::int64_t elements = GENERATE(1, 2, 7, 1000);
  World world(maker, one_group(3, members));
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    const std::vector<float> values{1.0F, 1e8F, -1e8F};
    Tensor whole = filled(backend, elements, values[rank]), shards = filled(backend, elements, 0);
    backend.copy(whole, shards);
    transport.all_reduce(0, backend, whole);
    transport.reduce_scatter(0, backend, shards);
    const auto place = static_cast<std::size_t>(
        std::find(members.begin(), members.end(), transport.rank()) - members.begin());
    const Tensor own = shard_of(shards, place, 3);
    if (!all_equal(own, whole.data<float>()[0])) {
      throw Error(ErrorKind::execution, "wrong sum");
    }
    for (std::size_t i = 0; i < 3; ++i) {
      Tensor part = shard_of(shards, i, 3);
      if (i != place) std::fill_n(part.data<float>(), part.elements(), -7.0F);
    }
    transport.all_gather(0, backend, shards);
    if (!all_equal(shards, whole.data<float>()[0])) {
      throw Error(ErrorKind::execution, "wrong whole");
    }
  });
  CHECK(failures == all_well(3));
}

TEST_CASE("nobody passes a barrier before all have come") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  constexpr int ranks = 16;
  World world(maker, {.ranks = ranks, .channels = {}, .groups = {}});
  std::vector<int> rounds(ranks);
  const auto failures = world.run([&](Transport& transport, Backend&) {
    for (int round = 1; round <= 30; ++round) {
      rounds[static_cast<std::size_t>(transport.rank())] = round;
      transport.barrier();
      for (const int other : rounds) {
        if (other != round) throw Error(ErrorKind::execution, "somebody is missing");
      }
      transport.barrier();
    }
  });
  CHECK(failures == all_well(ranks));
}

TEST_CASE("an abort wakes whoever waits, and its reason is the one all see") {
  const TransportMaker maker = GENERATE(from_range(transport_makers));
  // Rank 1 waits for a message, 2 for room in a channel, 3 for a group, 4 for the barrier, 5 for a
  // moment.
  World world(maker, {.ranks = 6,
                      .channels = {{.from = 0, .to = 1, .capacity = 1},
                                   {.from = 2, .to = 0, .capacity = 1},
                                   {.from = 0, .to = 5, .capacity = 1}},
                      .groups = {{0, 3}}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    Tensor tensor = filled(backend, 4, 1);
    switch (transport.rank()) {
      case 0:
        transport.send(2, backend, tensor, now() + 1h);
        std::this_thread::sleep_for(20ms);
        transport.abort("the first reason");
        transport.abort("another reason");
        break;
      case 1: transport.receive(0, backend); break;
      case 2:
        transport.send(1, backend, tensor, now());
        transport.send(1, backend, tensor, now());
        break;
      case 3: transport.all_reduce(0, backend, tensor); break;
      case 4: transport.barrier(); break;
      default: transport.receive(2, backend); break;
    }
    transport.barrier();
  });
  CHECK(failures == std::vector<std::string>(6, "the first reason"));
}
