// What every transport owes, over the table of transports: those whose ranks are threads in
// tests_executor, those whose ranks are processes in tests_processes, where each process runs every
// test with the ranks it has.

#include "executor/transports/transport.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/nccl_stand_in.hpp"

using namespace stagecraft;
using namespace std::chrono_literals;

namespace {

/// As where a broken rule shows by what NCCL then does: nothing.
std::vector<std::unique_ptr<Transport>> make_nccl_on_stand_in(const Wiring& wiring) {
  tests::NcclWorld world({.tells = false});
  return tests::make_stand_in_transports(world, wiring);
}

/// NCCL itself needs GPUs.
std::vector<TransportMaker> makers_here() {
  std::vector<TransportMaker> makers;
  for (const TransportMaker& maker : transport_makers) {
    if (maker.on_gpus) continue;
    const auto started = launch();
    if (started ? maker.name == started->transport : !maker.several_processes) {
      makers.push_back(maker);
    }
  }
  if (!launch()) makers.push_back({"nccl", make_nccl_on_stand_in, "over a stand-in"});
  return makers;
}

/// A transport and a backend for each rank that lives here.
struct World {
  World(const TransportMaker& maker, const Wiring& wiring) : transports(maker.make(wiring)) {
    for (std::size_t i = 0; i < transports.size(); ++i) backends.push_back(make_cpu_backend());
  }

  /// Runs `body` on a thread per rank; returns what each failed with, or "".
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

  /// What `run` returns if this is what each rank failed with.
  std::vector<std::string> all(const std::string& failure) const {
    return std::vector<std::string>(transports.size(), failure);
  }

  std::vector<std::unique_ptr<Backend>> backends;
  std::vector<std::unique_ptr<Transport>> transports;
};

/// Which of the world's transports this is.
std::size_t place_of(const World& world, const Transport& transport) {
  const auto found =
      std::ranges::find(world.transports, &transport, &std::unique_ptr<Transport>::get);
  return static_cast<std::size_t>(found - world.transports.begin());
}

void require(bool holds, const char* otherwise) {
  if (!holds) throw Error(ErrorKind::execution, otherwise);
}

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

}  // namespace

TEST_CASE("a token passed around a ring comes back, once per round") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
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
  CHECK(failures == world.all(""));
}

TEST_CASE("two ranks exchange large messages in both directions at once") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
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
  CHECK(failures == world.all(""));
}

TEST_CASE(
    "messages arrive in order, with their labels, whether memory was posted before, after or "
    "never") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  constexpr int messages = 60;
  const auto label = [](int i) {
    return MessageLabel{.number = i, .stage = 7 - i, .microbatch = 100 + i};
  };
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 5}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    for (int i = 0; i < messages; ++i) {
      if (transport.rank() == 0) {
        transport.send(0, backend, filled(backend, 10, static_cast<float>(i)), now(), label(i));
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
      require(arrival.label == label(i), "wrong label");
      if (arrival.sent.get() > arrival.arrived.get())
        throw Error(ErrorKind::execution, "back in time");
    }
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("a message in posted memory leaves nothing at the sender") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 9}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    // Whoever is on the way to rest is given time.
    const auto holds = [&](Bytes bytes) {
      for (int i = 0; i < 2000 && backend.allocated_bytes() != bytes; ++i) {
        std::this_thread::sleep_for(1ms);
      }
      return backend.allocated_bytes() == bytes;
    };
    constexpr std::int64_t elements = 100'000;  // more than any transport would buffer
    if (transport.rank() == 1) {
      transport.post(0, backend, filled(backend, elements, 0));
      transport.post(0, backend, filled(backend, elements, 0));
    }
    transport.barrier();
    if (transport.rank() == 0) {
      for (const float value : {1.0F, 2.0F, 3.0F}) {
        transport.send(0, backend, filled(backend, elements, value), now());
      }
      require(holds(4 * elements), "the sender does not hold just the third message");
    }
    transport.barrier();
    if (transport.rank() == 1) transport.post(0, backend, filled(backend, elements, 0));
    if (transport.rank() == 0) require(holds(0), "the sender still holds the third message");
    for (float value = 1; transport.rank() == 1 && value <= 3; ++value) {
      require(all_equal(transport.receive(0, backend).tensor, value), "wrong value");
    }
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("memory of a delivered message may be used again at once") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 9}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    constexpr std::int64_t elements = 100'000;
    constexpr int rounds = 20;
    if (transport.rank() == 0) {
      // Two places, in turns.
      std::vector<Tensor> places{filled(backend, elements, 0), filled(backend, elements, 0)};
      for (int i = 0; i < rounds; ++i) {
        Tensor& place = places[static_cast<std::size_t>(i % 2)];
        if (i >= 2) transport.wait_for_delivery(0, backend, i - 1);
        std::fill_n(place.data<float>(), elements, static_cast<float>(i));
        transport.send(0, backend, place, now());
      }
      transport.wait_for_delivery(0, backend, rounds);
    } else {
      for (int i = 0; i < rounds; ++i) {
        transport.post(0, backend, filled(backend, elements, -1));
        if (i % 3 == 0) std::this_thread::sleep_for(1ms);
        require(all_equal(transport.receive(0, backend).tensor, static_cast<float>(i)),
                "wrong value");
      }
    }
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("a message is not received before the moment it says") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 1}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    const Moment later = now() + 200ms;  // by then it is there, however busy the machine is
    if (transport.rank() == 0) {
      transport.send(0, backend, filled(backend, 1, 1), later);
      transport.broadcast(std::to_string(later.count()));
      return;
    }
    const Moment said =
        Moment{std::stoll(transport.broadcast(""))} + transport.clock().ahead;  // by its own clock
    const Arrival arrival = transport.receive(0, backend);
    require(now() >= said, "it came too early");
    require(arrival.arrived.get() == said, "it says another moment");
    require(arrival.sent.get() < said, "it was sent after it arrived");
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("a sender waits while its channel is full, however small the messages are") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  const int capacity = GENERATE(1, 3);
  World world(maker,
              {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = capacity}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    constexpr int messages = 6;
    if (transport.rank() == 0) {
      for (int i = 0; i < capacity; ++i) transport.send(0, backend, filled(backend, 1, 1), now());
      const Moment full = now();
      transport.barrier();
      for (int i = capacity; i < messages; ++i)
        transport.send(0, backend, filled(backend, 1, 1), now());
      require(now() - full >= 20ms * (messages - capacity), "there was room too early");
      return;
    }
    transport.barrier();
    for (int i = 0; i < messages; ++i) {
      std::this_thread::sleep_for(20ms);
      transport.receive(0, backend);
    }
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("a message that does not fit the posted memory is named with both sizes") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  const std::int64_t posted = GENERATE(1, 3, 70'000);
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 1}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    if (transport.rank() == 1) transport.post(0, backend, filled(backend, posted, 0));
    transport.barrier();
    if (transport.rank() == 0) transport.send(0, backend, filled(backend, 2, 1), now());
    if (transport.rank() == 1) transport.receive(0, backend);
    transport.barrier();
  });
  CHECK(failures ==
        world.all(concat("a message of 8 bytes does not fit memory posted for ", 4 * posted)));
}

TEST_CASE("a reduction adds up in the order of the group's list, the same bits for all") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
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
  CHECK(failures == world.all(""));
}

TEST_CASE("a reduction in two halves is one: first each has its shard's sum, then all have all") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
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
  CHECK(failures == world.all(""));
}

TEST_CASE("nobody passes a barrier before all have come") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  constexpr int ranks = 8;
  World world(maker, {.ranks = ranks, .channels = {}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend&) {
    for (int round = 0; round < 10; ++round) {
      const Moment came = now();
      transport.barrier();
      const Moment passed = now();
      const auto all_came = transport.gather(std::to_string(came.count()));
      const auto all_passed = transport.gather(std::to_string(passed.count()));
      for (const std::string& late : all_came) {
        for (const std::string& early : all_passed) {
          require(std::stoll(late) <= std::stoll(early), "somebody was missing");
        }
      }
    }
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("what ranks say arrives whole and in their order, and what rank 0 says everywhere") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  const std::size_t size = GENERATE(std::size_t{0}, std::size_t{1}, std::size_t{3'000'000});
  World world(maker, {.ranks = 4, .channels = {}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend&) {
    const auto said = [&](int rank) {
      return std::string(size, static_cast<char>('a' + rank)) + std::to_string(rank);
    };
    const auto heard = transport.gather(said(transport.rank()));
    require(heard.size() == (transport.rank() == 0 ? 4 : 0), "somebody has said nothing");
    for (std::size_t i = 0; i < heard.size(); ++i) {
      require(heard[i] == said(static_cast<int>(i)), "somebody has said something else");
    }
    require(transport.broadcast(transport.rank() == 0 ? said(7) : "?") == said(7), "wrong word");
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("an abort wakes whoever waits, and its reason is the one all see") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
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
  CHECK(failures == world.all("the first reason"));
}

TEST_CASE("several ranks that fail at once stop with one reason") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  for (int round = 0; round < 5; ++round) {
    World world(maker, {.ranks = 4, .channels = {}, .groups = {}});
    std::vector<std::string> reasons(world.transports.size());
    world.run([&](Transport& transport, Backend&) {
      reasons[place_of(world, transport)] =
          transport.abort(concat("reason of rank ", transport.rank()));
    });
    // What all agree on, they tell each other in the next world.
    World after(maker, {.ranks = 4, .channels = {}, .groups = {}});
    const auto failures = after.run([&](Transport& transport, Backend&) {
      const auto all = transport.gather(reasons[place_of(after, transport)]);
      for (const std::string& reason : all) require(reason == all.front(), "two reasons");
    });
    for (const std::string& reason : reasons) {
      CHECK_THAT(reason, ContainsSubstring("reason of rank "));
    }
    CHECK(failures == after.all(""));
  }
}

TEST_CASE("a clock is off by no more than it says, and by nothing on the same machine") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  World world(maker, {.ranks = 4, .channels = {}, .groups = {}});
  const char* apart = std::getenv("STAGECRAFT_PROCESSES_APART");
  const bool measured = apart != nullptr && *apart == '1';
  const auto failures = world.run([&](Transport& transport, Backend&) {
    const auto [ahead, error] = transport.clock();
    require(std::chrono::abs(ahead) <= error, "it is wrong: all ranks are on one machine");
    const bool is_measured = measured && transport.rank() != 0;
    require((error > Duration{0}) == is_measured, "its error is another");
    require(error < 1s, "its error is too large to be of use");
  });
  CHECK(failures == world.all(""));
}

TEST_CASE("a message of more than 2 GiB arrives whole", "[.][huge]") {
  const TransportMaker maker = GENERATE(from_range(makers_here()));
  constexpr std::int64_t elements = 600'000'000;
  World world(maker, {.ranks = 2, .channels = {{.from = 0, .to = 1, .capacity = 1}}, .groups = {}});
  const auto failures = world.run([&](Transport& transport, Backend& backend) {
    if (transport.rank() == 0) transport.send(0, backend, filled(backend, elements, 3), now());
    if (transport.rank() == 0) return;
    require(all_equal(transport.receive(0, backend).tensor, 3), "wrong value");
  });
  CHECK(failures == world.all(""));
}
