// BPipe: activations lent to a partner device. The bound, and what keeps it true at any costs.

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/views/trace.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// ceil((p + 2) / 2)
int places(int devices) {
  return (devices + 3) / 2;
}

/// Saved activations of one byte each and nothing else, so that bytes count microbatches.
LowerOptions counting_saved(int stages) {
  LowerOptions options;
  options.memory.assign(index(stages), {ChunkMemory{.saved = 1}});
  return options;
}

Program without_wait(Program program, const std::string& name, const std::string& on) {
  drop_wait(program, find_work(program, name), find_work(program, on));
  return program;
}

/// With one work right before another in its device's order.
Program moved(Program program, int device, const std::string& name, const std::string& before) {
  auto& order = program.order[index(device)];
  const int work = find_work(program, name);
  order.erase(std::find(order.begin(), order.end(), work));
  order.insert(std::find(order.begin(), order.end(), find_work(program, before)), work);
  return program;
}

std::string text(const std::vector<Instruction>& order) {
  std::string all;
  for (const Instruction& it : order) {
    all += concat(all.empty() ? "" : " ", letter(it.op), it.microbatch);
  }
  return all;
}

int count(const Schedule& schedule, int device, Op op) {
  const auto& order = schedule.devices[index(device)];
  return static_cast<int>(
      std::count_if(order.begin(), order.end(), [op](const auto& it) { return it.op == op; }));
}

}  // namespace

TEST_CASE("bpipe on four devices, instruction by instruction") {
  const Schedule schedule = bpipe(plain_shape(4, 6));
  CHECK(text(schedule.devices[0]) == "F0 F1 F2 EV1 F3 EV2 LD1 B0 F4 EV3 LD2 B1 F5 B2 LD3 B3 B4 B5");
  for (int r = 1; r < 4; ++r) {
    CHECK(schedule.devices[index(r)] == one_f_one_b(plain_shape(4, 6)).devices[index(r)]);
  }
  const Program program = lower(schedule);
  CHECK(order_text(program, 0).find("EV0.1") != std::string::npos);
  CHECK(order_text(program, 3).find("TI3.1") != std::string::npos);
  CHECK(order_text(program, 3).find("GB3.1") != std::string::npos);
}

TEST_CASE("no device holds more than half of 1F1B's microbatches and one") {
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, p - 1, p, p + 1, 3 * p}) {
      if (m < 1) continue;
      CAPTURE(p, m);
      const Schedule schedule = bpipe(plain_shape(p, m));
      CHECK_NOTHROW(validate(schedule));
      for (const int held : peak_in_flight(schedule)) CHECK(held <= places(p));
      if (m >= p && p >= 4) CHECK(peak_in_flight(schedule)[0] == places(p));
    }
  }
}

TEST_CASE("at any costs the simulated peaks stay within the bound, and so do the arenas") {
  Random random(12);
  for (int p = 2; p <= 16; ++p) {
    const Program program = lower(bpipe(plain_shape(p, 2 * p)), counting_saved(p));
    CAPTURE(p);
    CHECK(first_finding(program) == "safe");
    // Places in the arena are 64 bytes apart.
    for (const Bytes arena : program.arena) CHECK(arena <= 64 * places(p));
    for (int draw = 0; draw < 8; ++draw) {
      const Costs costs = draw == 0 ? uniform(program, chunk_costs(10ns, 20ns), 2ns)
                                    : random_costs(random, program, draw == 1 ? 1 : 50);
      const Timeline timeline = simulate(program, costs);
      for (const MemoryPeak& peak : memory_peaks(timeline)) CHECK(peak.bytes <= places(p));
      const std::vector<int> held = peak_in_flight(timeline);
      for (const int peak : held) CHECK(peak <= places(p));
    }
  }
}

TEST_CASE("the peaks of instant transfers are those of the order") {
  for (const int p : {4, 6, 8, 16}) {
    const Schedule schedule = bpipe(plain_shape(p, 3 * p));
    const Timeline timeline = run(schedule, chunk_costs(10ms, 20ms));
    CHECK(peak_in_flight(timeline)[0] == places(p));
    CHECK(peak_in_flight(schedule)[0] == places(p));
    // The last device has one of its own and what device 0 has lent.
    CHECK(peak_in_flight(timeline).back() >= p - places(p) + 1);
    CHECK(peak_in_flight(timeline).back() <= peak_in_flight(schedule).back());
  }
}

TEST_CASE("in the steady state one microbatch goes and one comes back for each") {
  for (int p = 4; p <= 16; ++p) {
    for (int r = 0; r < p; ++r) {
      // All but the first C - 2 and the last two, which stay at home.
      const int m = 5 * p;
      const bool lends = p - r > places(p);
      CAPTURE(p, r);
      CHECK(count(bpipe(plain_shape(p, m)), r, Op::evict) == (lends ? m - places(p) : 0));
      CHECK(count(bpipe(plain_shape(p, m)), r, Op::load) == (lends ? m - places(p) : 0));
    }
  }
}

TEST_CASE("transfers within a round cost bpipe no time") {
  // An evict and a load take 2c <= b in each round.
  for (int p = 2; p <= 12; ++p) {
    const Program program = lower(bpipe(plain_shape(p, 3 * p)));
    Costs costs = uniform(program, chunk_costs(10ms, 20ms));
    for (std::size_t i = 0; i < costs.channels.size(); ++i) {
      if (program.channels[i].cargo == Cargo::evicted) costs.channels[i].occupancy = 10ms;
    }
    CAPTURE(p);
    CHECK(step_time(simulate(program, costs)) == (3 * p + p - 1) * 30ms);
  }
}

TEST_CASE("transfers longer than a round are what bpipe waits for") {
  const Program program = lower(bpipe(plain_shape(8, 40)));
  Costs costs = uniform(program, chunk_costs(10ms, 20ms));
  for (std::size_t i = 0; i < costs.channels.size(); ++i) {
    if (program.channels[i].cargo == Cargo::evicted) costs.channels[i].occupancy = 40ms;
  }
  // 40 - 5 microbatches go and come back, one transfer after the other.
  CHECK(step_time(simulate(program, costs)) >= 2 * 35 * 40ms);
}

TEST_CASE("messages between partners carry what the forward saved") {
  LowerOptions options = counting_saved(4);
  options.memory[0][0].saved = 77;
  const Program program = lower(bpipe(plain_shape(4, 6)), options);
  std::vector<Channel> channels;
  for (const Channel& channel : program.channels) {
    if (channel.cargo == Cargo::evicted) channels.push_back(channel);
  }
  REQUIRE(channels.size() == 2);
  CHECK(channels[0].bytes == 77);
  CHECK(channels[1].bytes == 77);
  CHECK(channels[0].from == channels[1].to);
}

TEST_CASE("bpipe with replicas is safe under both policies, and wants as many of each") {
  LowerOptions options = counting_saved(4);
  for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
    options.replica_policy = policy;
    options.rows = 4;
    options.replicas = {{0, 1}, {2}, {3, 4, 5}, {6, 7}};
    options.memory = {std::vector<ChunkMemory>(2, {.saved = 5}),
                      {{.saved = 7}},
                      std::vector<ChunkMemory>(3, {.saved = 11}),
                      std::vector<ChunkMemory>(2, {.saved = 13})};
    CHECK(first_finding(lower(bpipe(plain_shape(4, 9)), options)) == "safe");
  }
  options.replicas.back() = {6};
  options.memory.back().pop_back();
  CHECK_THROWS_WITH(lower(bpipe(plain_shape(4, 9)), options),
                    ContainsSubstring("stage 3, which is to keep its activations, has 1"));
  LowerOptions again;
  again.recompute.assign(4, Recompute::full);
  CHECK_THROWS_WITH(lower(bpipe(plain_shape(4, 9)), again),
                    ContainsSubstring("it has no activations to evict"));
}

TEST_CASE("a schedule that evicts must load before the backward, once, and have a partner") {
  const Schedule good = bpipe(plain_shape(4, 6));
  const auto at_instruction = [](Schedule& schedule, Op op, int microbatch) {
    auto& order = schedule.devices[0];
    return std::find(order.begin(), order.end(), Instruction{op, 0, microbatch});
  };
  Schedule lost = good;
  lost.devices[0].erase(at_instruction(lost, Op::load, 1));
  CHECK_THROWS_WITH(validate(lost), ContainsSubstring("B0.1 comes before its load"));
  Schedule early = good;
  std::iter_swap(at_instruction(early, Op::evict, 2), at_instruction(early, Op::load, 2));
  CHECK_THROWS_WITH(validate(early), ContainsSubstring("LD0.2 comes before its evict"));
  Schedule late = good;
  late.devices[0].push_back({Op::evict, 0, 0});
  CHECK_THROWS_WITH(validate(late), ContainsSubstring("EV0.0 comes after its backward"));
  Schedule twice = good;
  twice.devices[0].insert(at_instruction(twice, Op::load, 1), {Op::evict, 0, 1});
  CHECK_THROWS_WITH(validate(twice), ContainsSubstring("repeats work"));
  Schedule alone = one_f_one_b(plain_shape(3, 3));
  alone.devices[1].insert(alone.devices[1].begin() + 1, {Op::evict, 1, 0});
  CHECK_THROWS_WITH(validate(alone), ContainsSubstring("has no partner"));
}

TEST_CASE("random replicas and sizes under bpipe are safe, and no peak exceeds the arena") {
  Random random(14);
  for (int round = 0; round < 40; ++round) {
    CAPTURE(round);
    const int p = random.between(4, 7);
    const Schedule schedule = bpipe(plain_shape(p, random.between(1, 3 * p)));
    LowerOptions options = random_options(random, schedule);
    options.recompute.clear();
    const std::size_t replicas = 2;
    for (int s = 0; s < p; ++s) {
      options.replicas[index(s)] = {2 * s, 2 * s + 1};
      options.memory[index(s)].resize(replicas, options.memory[index(s)].front());
    }
    const Program program = lower(schedule, options);
    CHECK(first_finding(program) == "safe");
    const std::vector<MemoryPeak> peaks =
        memory_peaks(simulate(program, random_costs(random, program)));
    for (std::size_t device = 0; device < peaks.size(); ++device) {
      CHECK(peaks[device].bytes <= program.arena[device]);
    }
  }
}

TEST_CASE("a trace draws an arrow for every message, and reads back") {
  for (const Schedule& schedule :
       {bpipe(plain_shape(4, 6)),
        inference({.devices = 3, .microbatches = 2, .decode_steps = 2})}) {
    const Trace trace{.timeline = run(schedule, chunk_costs(10ms, 20ms), 1ms), .about = {}};
    const std::string written = write_trace(trace);
    std::size_t sends = 0, arrows = 0;
    for (const Span& span : trace.timeline.spans) sends += is_send(span.instruction.op) ? 1 : 0;
    const std::string arrow = R"("ph":"s")";
    for (auto i = written.find(arrow); i != std::string::npos; i = written.find(arrow, i + 1)) {
      ++arrows;
    }
    CHECK(arrows == sends);
    CHECK(read_trace(Json::parse(written, "trace.json")).timeline == trace.timeline);
  }
}

// --- Mutations: each is caught by its rule ------------------------------------------------------

TEST_CASE("check: transfers that do not wait are found") {
  const Program program = lower(bpipe(plain_shape(4, 8)), counting_saved(4));
  REQUIRE(first_finding(program) == "safe");
  CHECK_THAT(first_finding(without_wait(program, "GB3.1", "TI3.1")),
             ContainsSubstring("before it has arrived"));
  // The place that the evict leaves is taken again.
  CHECK_THAT(first_finding(without_wait(program, "F0.3", "EV0.1")), ContainsSubstring("race: "));
  // Elsewhere the lanes keep the order, too, unless they are changed.
  const Program early = moved(program, 0, "EV0.2", "F0.2");
  CHECK_THAT(all_messages(check(without_wait(early, "EV0.2", "F0.2"))),
             ContainsSubstring("before its data is computed"));
  const Program late = moved(program, 0, "LD0.5", "B0.5");
  CHECK_THAT(all_messages(check(without_wait(late, "B0.5", "LD0.5"))),
             ContainsSubstring("before its activations are loaded"));
}

TEST_CASE(
    "check: a partner gives back what it is asked for, and waits for nothing else elsewhere") {
  Program program = lower(bpipe(plain_shape(4, 8)), counting_saved(4));
  add_wait(program, find_work(program, "GB3.1"), find_work(program, "F1.0"));
  CHECK_THAT(first_finding(program), ContainsSubstring("which its device cannot see"));
}

TEST_CASE("check: what goes out with one size must come back with it") {
  Program program = lower(bpipe(plain_shape(4, 8)), counting_saved(4));
  for (Channel& channel : program.channels) {
    if (channel.cargo == Cargo::evicted && channel.from == 0) channel.bytes += 1;
  }
  CHECK_THAT(first_finding(program), ContainsSubstring("matching: rows [0, 1) are evicted with"));
}
