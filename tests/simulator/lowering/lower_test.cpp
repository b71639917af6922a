#include "simulator/lowering/lower.hpp"

#include <map>
#include <set>

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Schedule pipeline(int devices, int microbatches) {
  return one_f_one_b({.devices = devices, .microbatches = microbatches});
}

/// Two stages whose replicas take the devices in order.
LowerOptions replicated(int first, int second, ReplicaPolicy policy, int rows) {
  LowerOptions options;
  options.replica_policy = policy;
  options.rows = rows;
  options.replicas.resize(2);
  for (int d = 0; d < first; ++d) options.replicas[0].push_back(d);
  for (int d = 0; d < second; ++d) options.replicas[1].push_back(first + d);
  options.boundary = {Bytes{100} * rows, 0};
  return options;
}

/// "0>2 [0,1) 100": from device to device, rows and bytes; activations only.
std::vector<std::string> channel_table(const Program& program) {
  std::vector<std::string> table;
  for (const Channel& channel : program.channels) {
    if (channel.cargo == Cargo::gradient) continue;
    table.push_back(concat(program.chunks[index(channel.from)].device, ">",
                           program.chunks[index(channel.to)].device, " [", channel.rows.first, ",",
                           channel.rows.end, ") ", channel.bytes));
  }
  return table;
}

std::set<std::string> names_of(const Program& program, const std::vector<int>& works) {
  std::set<std::string> names;
  for (const int work : works) names.insert(to_string(program.work[index(work)].instruction));
  return names;
}

/// Every device with one compute lane and one communication lane, sends and receives that block
/// until both sides are there: true if all work gets done.
bool survives_rendezvous(const Program& program) {
  struct Cursor {
    std::vector<int> items;
    std::size_t next = 0;
    bool ended() const { return next == items.size(); }
    int head() const { return items[next]; }
  };
  std::vector<Cursor> compute(index(program.devices)), communication(index(program.devices));
  for (int device = 0; device < program.devices; ++device) {
    for (const int item : program.order[index(device)]) {
      const bool computes = program.work[index(item)].lane == Lane::compute;
      (computes ? compute : communication)[index(device)].items.push_back(item);
    }
  }
  std::vector<char> done(program.work.size(), 0);
  const auto waits_over = [&](int item) {
    for (const int on : waits_of(program, item)) {
      const bool transfer = is_receive(program.work[index(item)].instruction.op) &&
                            is_send(program.work[index(on)].instruction.op) &&
                            program.work[index(on)].channel == program.work[index(item)].channel;
      if (!transfer && done[index(on)] == 0) return false;
    }
    return true;
  };
  const auto ready = [&](int item) {
    const auto other = program.work[index(item)].fused_with;
    return waits_over(item) && (!other || waits_over(*other));
  };
  /// Everyone who takes part in this communication.
  const auto parties = [&](int item) {
    const Work& work = program.work[index(item)];
    if (work.group) return program.groups[index(*work.group)].chunks;
    const Channel& channel = program.channels[index(*work.channel)];
    return std::vector{channel.from, channel.to};
  };
  const auto meets = [&](int item, int other) {
    const Work& a = program.work[index(item)];
    const Work& b = program.work[index(other)];
    return a.group == b.group && a.channel == b.channel &&
           a.instruction.microbatch == b.instruction.microbatch;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (Cursor& lane : compute) {
      while (!lane.ended() && ready(lane.head())) {
        done[index(lane.items[lane.next++])] = 1;
        moved = true;
      }
    }
    for (Cursor& lane : communication) {
      if (lane.ended()) continue;
      const int item = lane.head();
      bool all_there = true;
      for (const int chunk : parties(item)) {
        const Cursor& other = communication[index(program.chunks[index(chunk)].device)];
        all_there = all_there && !other.ended() && meets(item, other.head()) && ready(other.head());
      }
      if (!all_there) continue;
      for (const int chunk : parties(item)) {
        Cursor& other = communication[index(program.chunks[index(chunk)].device)];
        done[index(other.items[other.next++])] = 1;
      }
      moved = true;
    }
  }
  return std::all_of(done.begin(), done.end(), [](char ended) { return ended != 0; });
}

}  // namespace

TEST_CASE("two stages of 1F1B, instruction by instruction") {
  const Program program = lower(pipeline(2, 2));
  CHECK(order_text(program, 0) == "F0.0 SF0.0 F0.1 SF0.1 RB0.0 B0.0 RB0.1 B0.1 U0.1");
  CHECK(order_text(program, 1) == "RF1.0 F1.0 RF1.1 B1.0 SB1.0 F1.1 B1.1 SB1.1 U1.1");
  const auto waits = [&](const std::string& name, int device) {
    return names_of(program, waits_of(program, find_work(program, name, device)));
  };
  CHECK(waits("F0.0", 0).empty());
  CHECK(waits("SF0.0", 0) == std::set<std::string>{"F0.0"});
  CHECK(waits("RF1.0", 1) == std::set<std::string>{"SF0.0"});
  CHECK(waits("F1.0", 1) == std::set<std::string>{"RF1.0"});
  CHECK(waits("B1.0", 1) == std::set<std::string>{"F1.0"});
  CHECK(waits("B0.0", 0) == std::set<std::string>{"F0.0", "RB0.0"});
  CHECK(waits("U0.1", 0) == std::set<std::string>{"B0.1"});
}

TEST_CASE("stages on one device hand over without a message") {
  const Program program =
      lower(interleaved({.devices = 1, .microbatches = 1, .virtual_stages = 2}));
  CHECK(order_text(program, 0) == "F0.0 F1.0 B1.0 B0.0 U1.0 U0.0");
  CHECK(program.channels.empty());
  CHECK(names_of(program, waits_of(program, find_work(program, "F1.0", 0))) ==
        std::set<std::string>{"F0.0"});
  CHECK(names_of(program, waits_of(program, find_work(program, "B0.0", 0))) ==
        std::set<std::string>{"F0.0", "B1.0"});
}

TEST_CASE("split replicas exchange the rows they share") {
  const auto table = [](int first, int second, int rows) {
    return channel_table(
        lower(pipeline(2, 4), replicated(first, second, ReplicaPolicy::split, rows)));
  };
  using Table = std::vector<std::string>;
  CHECK(table(2, 1, 2) == Table{"0>2 [0,1) 100", "1>2 [1,2) 100"});
  CHECK(table(1, 2, 3) == Table{"0>1 [0,1) 100", "0>2 [1,3) 200"});
  CHECK(table(3, 2, 6) ==
        Table{"0>3 [0,2) 200", "1>3 [2,3) 100", "1>4 [3,4) 100", "2>4 [4,6) 200"});
  CHECK(table(2, 2, 4) == Table{"0>2 [0,2) 200", "1>3 [2,4) 200"});
}

TEST_CASE("a forward waits for all the slices of its rows, a backward likewise") {
  const Program program = lower(pipeline(2, 1), replicated(3, 2, ReplicaPolicy::split, 6));
  const auto received = [&](const std::string& name, int device) {
    int count = 0;
    for (const int on : waits_of(program, find_work(program, name, device))) {
      count += program.work[index(on)].lane == Lane::receive ? 1 : 0;
    }
    return count;
  };
  CHECK(received("F1.0", 3) == 2);
  CHECK(received("F1.0", 4) == 2);
  CHECK(received("B0.0", 0) == 1);
  CHECK(received("B0.0", 1) == 2);
  CHECK(received("B0.0", 2) == 1);
}

TEST_CASE("round robin hands whole microbatches to whoever's turn it is") {
  const Program program = lower(pipeline(2, 5), replicated(3, 1, ReplicaPolicy::round_robin, 2));
  CHECK(channel_table(program) ==
        std::vector<std::string>{"0>3 [0,2) 200", "1>3 [0,2) 200", "2>3 [0,2) 200"});
  const Timeline timeline = simulate(program, uniform(program, chunk_costs(10ms, 20ms)));
  // Microbatches 0 and 3, 1 and 4, 2.
  CHECK(messages_sent(timeline, Op::send_activation) == std::vector{2, 2, 1, 0});
  CHECK(messages_sent(timeline, Op::send_gradient) == std::vector{0, 0, 0, 5});
  CHECK(busy_times(timeline) == std::vector<Duration>{60ms, 60ms, 30ms, 150ms});
}

TEST_CASE("bytes of a message are its share of the boundary") {
  Random random(4);
  for (int round = 0; round < 50; ++round) {
    const int rows = random.between(3, 40);
    LowerOptions options =
        replicated(random.between(1, 3), random.between(1, 3), ReplicaPolicy::split, rows);
    options.boundary = {Bytes{rows} * 77, 0};
    const Program program = lower(pipeline(2, 1), options);
    std::map<bool, Bytes> sum;
    for (const Channel& channel : program.channels) {
      CHECK(channel.bytes == Bytes{channel.rows.size()} * 77);
      sum[channel.cargo == Cargo::gradient] += channel.bytes;
    }
    CHECK(sum[false] == options.boundary[0]);
    CHECK(sum[true] == options.boundary[0]);
  }
}

TEST_CASE("replicas sum their gradients after the last backward, updates come after that") {
  LowerOptions options;
  options.replicas = {{0, 1}, {2}};
  options.rows = 2;
  options.memory = {{{.gradients = 48}, {.gradients = 48}}, {{}}};
  const Program program = lower(pipeline(2, 3), options);
  REQUIRE(program.groups.size() == 1);
  CHECK(program.groups[0] == Group{.op = Op::reduce_gradient, .chunks = {0, 1}, .bytes = 48});
  for (const int device : {0, 1}) {
    const int reduction = find_work(program, "G0.2", device);
    CHECK(program.work[index(reduction)].lane == Lane::collective);
    CHECK(names_of(program, waits_of(program, reduction)) == std::set<std::string>{"B0.2"});
    CHECK(waits_of(program, find_work(program, "U0.2", device)) == std::vector{reduction});
  }
  CHECK(names_of(program, waits_of(program, find_work(program, "U1.2", 2))) ==
        std::set<std::string>{"B1.2"});
}

TEST_CASE("tied stages sum after their replicas have, owner first") {
  LowerOptions options;
  options.replicas = {{0, 1}, {2}, {3, 4}};
  options.rows = 2;
  options.ties = {{.owner = 0, .user = 2, .bytes = 64}};
  const Program program = lower(pipeline(3, 2), options);
  REQUIRE(program.groups.size() == 3);
  CHECK(program.groups[2] == Group{.op = Op::reduce_tied, .chunks = {0, 1, 3, 4}, .bytes = 64});
  CHECK(names_of(program, waits_of(program, find_work(program, "T0.1", 1))) ==
        std::set<std::string>{"G0.1"});
  CHECK(names_of(program, waits_of(program, find_work(program, "T2.1", 3))) ==
        std::set<std::string>{"G2.1"});
  CHECK(names_of(program, waits_of(program, find_work(program, "U2.1", 4))) ==
        std::set<std::string>{"T2.1"});
}

TEST_CASE("tied stages on one device need no message, only both gradients") {
  LowerOptions options;
  options.ties = {{.owner = 0, .user = 1, .bytes = 64}};
  const Program program =
      lower(interleaved({.devices = 1, .microbatches = 2, .virtual_stages = 2}), options);
  CHECK(program.groups.empty());
  for (const std::string update : {"U0.1", "U1.1"}) {
    CHECK(names_of(program, waits_of(program, find_work(program, update, 0))) ==
          std::set<std::string>{"B0.1", "B1.1"});
  }
}

TEST_CASE("a device's other chunks go on while one is being reduced") {
  LowerOptions options;
  options.replicas = {{0, 1}, {0, 1}};
  options.rows = 2;
  const Program program =
      lower(interleaved({.devices = 1, .microbatches = 2, .virtual_stages = 2}), options);
  // Stage 1 finishes first; its reduction runs beside the backwards of stage 0, whose updates come
  // last.
  CHECK(order_text(program, 0) == "F0.0 F1.0 B1.0 F0.1 B0.0 F1.1 B1.1 G1.1 B0.1 G0.1 U1.1 U0.1");
}

TEST_CASE("recomputation stands right before its backward and waits for the same gradient") {
  LowerOptions options;
  options.recompute = {Recompute::full, Recompute::none};
  const Program program = lower(pipeline(2, 1), options);
  CHECK(order_text(program, 0) == "F0.0 SF0.0 RB0.0 R0.0 B0.0 U0.0");
  CHECK(names_of(program, waits_of(program, find_work(program, "R0.0", 0))) ==
        std::set<std::string>{"F0.0", "RB0.0"});
  CHECK(order_text(program, 1) == "RF1.0 F1.0 B1.0 SB1.0 U1.0");
}

TEST_CASE("a schedule's own recomputation is kept, and waits for its forward only") {
  Schedule schedule = pipeline(2, 1);
  schedule.devices[0].insert(schedule.devices[0].begin() + 1, {Op::recompute, 0, 0});
  LowerOptions options;
  options.recompute = {Recompute::full, Recompute::none};
  const Program program = lower(schedule, options);
  CHECK(names_of(program, waits_of(program, find_work(program, "R0.0", 0))) ==
        std::set<std::string>{"F0.0"});
}

TEST_CASE("compute meets version 0 of its weights, an update makes version 1") {
  const Program program = lower(pipeline(2, 3));
  for (const Work& work : program.work) {
    CHECK(work.weight_version == (work.instruction.op == Op::update ? 1 : 0));
  }
}

TEST_CASE("every schedule survives blocking, unbuffered communication on one lane per device",
          "[seconds]") {
  const ScheduleKind kind = GENERATE(from_range(schedule_kinds));
  CAPTURE(std::string(kind.name));
  for (int p = 1; p <= 5; ++p) {
    for (const int m : {p, p + 1, 3 * p}) {
      for (const int v : {1, 2, 3}) {
        const auto schedule =
            generated(kind, {.devices = p, .microbatches = m, .virtual_stages = v});
        if (!schedule) continue;
        CAPTURE(p, m, v);
        const Program program = lower(*schedule);
        CHECK(survives_rendezvous(program));
        CHECK(check(program).safe());
      }
    }
  }
}

TEST_CASE("random schedules with random replicas lower to safe programs", "[seconds]") {
  Random random(5);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    const Schedule schedule = random_schedule(random, round % 3 == 0 ? RandomKinds{} : all_kinds);
    const LowerOptions options = random_options(random, schedule);
    const Program program = lower(schedule, options);
    CHECK(survives_rendezvous(program));
    const CheckReport report = check(program);
    for (const Finding& finding : report.findings) {
      UNSCOPED_INFO(finding.rule << ": " << finding.message);
    }
    CHECK(report.safe());
  }
}

TEST_CASE("work is numbered so that every wait looks back") {
  Random random(6);
  for (int round = 0; round < 50; ++round) {
    const Schedule schedule = random_schedule(random, round % 2 == 0 ? RandomKinds{} : all_kinds);
    const Program program = lower(schedule, random_options(random, schedule));
    for (int i = 0; i < static_cast<int>(program.work.size()); ++i) {
      for (const int on : waits_of(program, i)) CHECK(on < i);
    }
    for (const auto& order : program.order) CHECK(std::is_sorted(order.begin(), order.end()));
  }
}

TEST_CASE("options that do not fit are refused") {
  const Schedule schedule = pipeline(2, 2);
  const auto refused = [&](const LowerOptions& options) {
    try {
      lower(schedule, options);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return error.message();
    }
    return std::string();
  };
  LowerOptions options;
  options.replicas = {{0}};
  CHECK_THAT(refused(options), ContainsSubstring("replicas lists 1 stages"));
  options.replicas = {{0}, {0}};
  CHECK_THAT(refused(options), ContainsSubstring("device 0 is used twice"));
  options.replicas = {{0, 0}, {1}};
  CHECK_THAT(refused(options), ContainsSubstring("device 0 is used twice"));
  options.replicas = {{0}, {}};
  CHECK_THAT(refused(options), ContainsSubstring("stage 1 has no device"));
  options.replicas = {{0, 1}, {2}};
  CHECK_THAT(refused(options), ContainsSubstring("2 replicas, but a microbatch has 1 rows"));
  options.rows = 2;
  options.memory = {{{}}, {{}}};
  CHECK_THAT(refused(options), ContainsSubstring("memory of stage 0 lists 1 replicas; it has 2"));
  options.memory = {{{}, {.saved = -1}}, {{}}};
  CHECK_THAT(refused(options), ContainsSubstring("is -1 bytes"));
  options.memory.clear();
  options.ties = {{.owner = 0, .user = 2, .bytes = 0}};
  CHECK_THAT(refused(options), ContainsSubstring("names stage 2 of 2"));
  options.ties = {{.owner = 1, .user = 1, .bytes = 0}};
  CHECK_THAT(refused(options), ContainsSubstring("tied to itself"));
}

TEST_CASE("names of lowering options read back") {
  for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
    CHECK(read_replica_policy(to_string(policy)) == policy);
  }
  for (const Recompute recompute : {Recompute::none, Recompute::full}) {
    CHECK(read_recompute(to_string(recompute)) == recompute);
  }
  CHECK(read_weight_policy("flush") == WeightPolicy::flush);
  CHECK_THROWS_WITH(read_recompute("some"), ContainsSubstring("none and full"));
}
