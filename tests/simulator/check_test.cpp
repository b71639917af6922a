#include "simulator/check.hpp"

#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "profiles/error.hpp"
#include "simulator/lower.hpp"
#include "simulator/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/mutations.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::vector<std::string> rules(const CheckReport& report) {
  std::vector<std::string> names;
  for (const Finding& finding : report.findings) {
    if (std::find(names.begin(), names.end(), finding.rule) == names.end())
      names.push_back(finding.rule);
  }
  return names;
}

bool found(const CheckReport& report, const std::string& rule) {
  const auto names = rules(report);
  return std::find(names.begin(), names.end(), rule) != names.end();
}

std::string first_message(const CheckReport& report, const std::string& rule) {
  for (const Finding& finding : report.findings) {
    if (finding.rule == rule) return finding.message;
  }
  return "nothing found by " + rule;
}

bool proves(const CheckReport& report, const std::string& sentence) {
  return std::find(report.proved.begin(), report.proved.end(), sentence) != report.proved.end();
}

/// The work "F1.0" of a device.
int find(const Program& program, int device, const std::string& instruction) {
  for (int work = 0; work < static_cast<int>(program.work.size()); ++work) {
    if (device_of(program, work) == device &&
        to_string(program.work[at(work)].instruction) == instruction)
      return work;
  }
  FAIL("no " << instruction << " on device " << device);
  return 0;
}

// --- Mutations
// ------------------------------------------------------------------------------------

void add_wait(Program& program, int work, int on) {
  const IndexRange old = program.work[at(work)].waits;
  const int first = static_cast<int>(program.waits.size());
  for (int i = old.first; i < old.end; ++i) program.waits.push_back(program.waits[at(i)]);
  program.waits.push_back(on);
  program.work[at(work)].waits = {first, static_cast<int>(program.waits.size())};
}

// --- Programs by hand
// -----------------------------------------------------------------------------

struct Builder {
  Program program;

  explicit Builder(int devices, int microbatches) {
    program.devices = program.stages = devices;
    program.microbatches = microbatches;
    program.order.resize(at(devices));
    program.arena.resize(at(devices));
    for (int stage = 0; stage < devices; ++stage) {
      program.chunks.push_back({.stage = stage, .device = stage, .rows = {0, 1}});
    }
    for (int stage = 0; stage + 1 < devices; ++stage) {
      program.channels.push_back(
          {.from = stage, .to = stage + 1, .cargo = Cargo::activation, .rows = {0, 1}, .bytes = 8});
      program.channels.push_back(
          {.from = stage + 1, .to = stage, .cargo = Cargo::gradient, .rows = {0, 1}, .bytes = 8});
    }
  }

  int add(Op op, int stage, int microbatch, const std::vector<int>& waits = {}) {
    Work work{.instruction = {op, stage, microbatch}, .chunk = stage, .lane = lane_of(op)};
    if (op == Op::send_activation) work.channel = 2 * stage;
    if (op == Op::receive_activation) work.channel = 2 * (stage - 1);
    if (op == Op::send_gradient) work.channel = 2 * (stage - 1) + 1;
    if (op == Op::receive_gradient) work.channel = 2 * stage + 1;
    if (op == Op::update) work.weight_version = 1;
    const int first = static_cast<int>(program.waits.size());
    program.waits.insert(program.waits.end(), waits.begin(), waits.end());
    work.waits = {first, static_cast<int>(program.waits.size())};
    const int index = static_cast<int>(program.work.size());
    program.work.push_back(work);
    program.order[at(stage)].push_back(index);
    return index;
  }
};

/// One device, one microbatch: F B U.
Program smallest() {
  Builder builder(1, 1);
  builder.add(Op::forward, 0, 0);
  builder.add(Op::backward, 0, 0);
  builder.add(Op::update, 0, 0);
  return builder.program;
}

/// Gives a work its buffers: new entries at the end of the tables.
void allocate(Program& program, int work, const std::vector<int>& buffers) {
  const int first = static_cast<int>(program.allocations.size());
  program.allocations.insert(program.allocations.end(), buffers.begin(), buffers.end());
  program.work[at(work)].allocates = {first, static_cast<int>(program.allocations.size())};
}
void release(Program& program, int work, const std::vector<int>& buffers) {
  const int first = static_cast<int>(program.releases.size());
  program.releases.insert(program.releases.end(), buffers.begin(), buffers.end());
  program.work[at(work)].frees = {first, static_cast<int>(program.releases.size())};
}

}  // namespace

// --- What is safe
// ---------------------------------------------------------------------------------

TEST_CASE("check: the smallest program is safe, and says why") {
  const CheckReport report = check(smallest());
  INFO(all_messages(report));
  CHECK(report.safe());
  CHECK(proves(report, "1 of 1 stages: 1 of 1 microbatches forward and backward"));
  CHECK(proves(report, "0 sends matched"));
  CHECK(proves(report, "no deadlock with blocking, unbuffered sends"));
  CHECK(proves(report, "no buffer race among 0 buffers"));
  CHECK(proves(report,
               "weight versions: forward and backward read version 0, 1 update makes version 1"));
}

TEST_CASE("check: every schedule is safe once lowered, for all small shapes") {
  const ScheduleKind kind = GENERATE(from_range(schedule_kinds));
  const bool one =
      kind.placement == StagePlacement::linear || kind.placement == StagePlacement::bidirectional;
  const int stages_per_device = one ? 1 : 2;
  int checked = 0;
  for (int devices = 1; devices <= 8; ++devices) {
    for (const int microbatches : {1, 2, 3, 4, 7, 8, 16}) {
      Setting setting{.schedule = std::string(kind.name),
                      .devices = devices,
                      .microbatches = microbatches,
                      .virtual_stages = stages_per_device};
      std::optional<Schedule> schedule;
      try {
        schedule = schedule_of(setting);
      } catch (const Error&) {
        continue;  // outside of the schedule's constraints
      }
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        if (kind.generate == bpipe && recompute == Recompute::full) continue;  // nothing to evict
        setting.recompute = recompute;
        const CheckReport report = check(lowered(setting, *schedule));
        INFO(kind.name << " p=" << devices << " m=" << microbatches << "\n"
                       << all_messages(report));
        REQUIRE(report.safe());
        ++checked;
      }
    }
  }
  CHECK(checked >= 12);  // chimera-doubling and dualpipe take few of these
}

TEST_CASE("check: unequal replicas are safe under both policies") {
  const auto replicas =
      GENERATE(values<std::vector<int>>({{2, 2}, {1, 2}, {2, 1}, {2, 3}, {3, 2}, {4, 1}, {1, 4}}));
  const ReplicaPolicy policy = GENERATE(ReplicaPolicy::split, ReplicaPolicy::round_robin);
  const std::string schedule = GENERATE("gpipe", "1f1b");
  for (const int microbatches : {1, 2, 3, 6, 8}) {
    const Program program = lowered({.schedule = schedule,
                                     .devices = 2,
                                     .microbatches = microbatches,
                                     .replicas = replicas,
                                     .policy = policy,
                                     .rows = 6});
    const CheckReport report = check(program);
    INFO(schedule << " m=" << microbatches << " replicas " << replicas[0] << " " << replicas[1]
                  << "\n"
                  << all_messages(report));
    CHECK(report.safe());
  }
}

TEST_CASE("check: longer pipelines with uneven replicas and tied ends are safe") {
  const std::vector<int> replicas =
      GENERATE(values<std::vector<int>>({{1, 3, 2, 1}, {2, 1, 1, 2}, {3, 3, 3, 3}}));
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    const Program program = lowered({.schedule = schedule,
                                     .devices = 4,
                                     .microbatches = 6,
                                     .replicas = replicas,
                                     .rows = 6,
                                     .recompute = Recompute::full,
                                     .ties = {{.owner = 0, .user = 3, .bytes = 64}}});
    const CheckReport report = check(program);
    INFO(all_messages(report));
    CHECK(report.safe());
  }
}

TEST_CASE("check: what was proved is said with numbers") {
  const CheckReport report = check(lowered({.schedule = "1f1b", .devices = 4, .microbatches = 8}),
                                   {.memory_limits = std::vector<Bytes>(4, 1 << 30)});
  CHECK(proves(report, "4 of 4 stages: 8 of 8 microbatches forward and backward"));
  CHECK(proves(report, "48 sends matched"));  // 2 m (p - 1)
  CHECK(proves(report, "4 updates after all gradients are summed"));
  CHECK_THAT(report.proved.back(), ContainsSubstring(" of 1GiB on device "));
}

// --- Mutations: each is caught by its rule
// --------------------------------------------------------

TEST_CASE("check: two communications that change places deadlock, and the cycle is named") {
  Program program = lowered({.schedule = "gpipe", .devices = 2, .microbatches = 4});
  swap_in_order(program, find(program, 0, "SF0.1"), find(program, 0, "SF0.2"));
  const CheckReport report = check(program);
  INFO(all_messages(report));
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  CHECK(report.findings[0].cycle ==
        std::vector<std::string>{"device 0 waits at SF0.2 for device 1 to reach RF1.2",
                                 "device 1 waits at RF1.1 for device 0 to reach SF0.1"});
  CHECK(report.findings[0].fix == "swapping RF1.1 and RF1.2 on device 1 cures it");
}

TEST_CASE("check: a swap of neighbouring messages of one channel deadlocks in every schedule") {
  const std::string schedule = GENERATE("gpipe", "1f1b", "interleaved");
  const Program program = lowered({.schedule = schedule,
                                   .devices = 4,
                                   .microbatches = 8,
                                   .virtual_stages = schedule == "interleaved" ? 2 : 1});
  for (int device = 0; device < 3; ++device) {
    for (const int microbatch : {1, 5}) {
      Program mutant = program;
      const std::string send = "SF" + std::to_string(device) + ".";
      swap_in_order(mutant, find(mutant, device, send + std::to_string(microbatch)),
                    find(mutant, device, send + std::to_string(microbatch + 1)));
      const CheckReport report = check(mutant);
      INFO(schedule << " device " << device << "\n" << all_messages(report));
      CHECK(found(report, "deadlock"));
    }
  }
}

TEST_CASE("check: a dropped wait lets work start too early") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  const auto message_after_drop = [&](int device, const std::string& work, const std::string& on) {
    Program mutant = program;
    drop_wait(mutant, find(mutant, device, work), find(mutant, device, on));
    const CheckReport report = check(mutant);
    INFO(all_messages(report));
    CHECK(found(report, "order"));
    return first_message(report, "order");
  };
  CHECK(message_after_drop(1, "F1.2", "RF1.2") ==
        "F1.2 on device 1 (stage 1) may start before its input has arrived: nothing makes it wait "
        "for RF1.2 on "
        "device 1 (stage 1)");
  CHECK(message_after_drop(0, "B0.2", "RB0.2") ==
        "B0.2 on device 0 (stage 0) may start before the gradient of its output has arrived: "
        "nothing makes it wait "
        "for RB0.2 on device 0 (stage 0)");
  CHECK_THAT(message_after_drop(0, "SF0.1", "F0.1"), ContainsSubstring("SF0.1 on device 0"));
  CHECK_THAT(message_after_drop(1, "SB1.3", "B1.3"),
             ContainsSubstring("before its gradient is computed"));
}

TEST_CASE("check: a receive must name its send") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  drop_wait(program, find(program, 1, "RF1.0"), find(program, 0, "SF0.0"));
  CHECK(first_message(check(program), "order") ==
        "RF1.0 on device 1 (stage 1) does not wait for its send to start");
}

TEST_CASE("check: a device cannot wait for what happens on another one") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  add_wait(program, find(program, 1, "F1.1"), find(program, 0, "F0.1"));
  CHECK_THAT(first_message(check(program), "order"),
             ContainsSubstring("which its device cannot see"));
}

TEST_CASE("check: a missing, halved or repeated passage breaks conservation") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  const CheckReport no_backward = check(without(program, find(program, 0, "B0.2")));
  CHECK(first_message(no_backward, "conservation") ==
        "microbatch 2 passes forward through stage 0 (replica 0 on device 0) but never backward");
  const CheckReport no_forward = check(without(program, find(program, 1, "F1.3")));
  CHECK(found(no_forward, "conservation"));
  CHECK_THAT(all_messages(no_forward),
             ContainsSubstring("microbatch 3 never passes forward through stage 1"));

  Program twice = program;
  repeat(twice, find(program, 1, "F1.1"));
  CHECK(first_message(check(twice), "conservation") == "F1.1 on device 1 (stage 1) is done twice");

  Program halved = program;
  halved.work[at(find(program, 0, "B0.1"))].instruction.op = Op::backward_input;
  CHECK_THAT(first_message(check(halved), "conservation"),
             ContainsSubstring("its weight gradient (W) is never computed"));

  const CheckReport no_update = check(without(program, find(program, 1, "U1.3")));
  CHECK(first_message(no_update, "conservation") ==
        "the weights of stage 1 (replica 0 on device 1) are never updated");
}

TEST_CASE("check: replicas that leave out or share rows break conservation") {
  const Program program = lowered(
      {.schedule = "gpipe", .devices = 2, .microbatches = 2, .replicas = {2, 1}, .rows = 4});
  Program mutant = program;
  mutant.chunks[1].rows = {1, 4};
  CHECK_THAT(first_message(check(mutant), "conservation"),
             ContainsSubstring("rows [1, 2) of microbatch 0 pass stage 0 twice"));
  mutant.chunks[1].rows = {3, 4};
  CHECK_THAT(first_message(check(mutant), "conservation"),
             ContainsSubstring("rows [2, 3) of microbatch 0 never pass forward through stage 0"));
}

TEST_CASE("check: a message needs both of its ends, once") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  const CheckReport unheard = check(without(program, find(program, 1, "RF1.2")));
  CHECK(first_message(unheard, "matching") ==
        "SF0.2 on device 0 (stage 0) is never received by device 1");
  const CheckReport unsent = check(without(program, find(program, 1, "SB1.2")));
  CHECK(first_message(unsent, "matching") ==
        "RB0.2 on device 0 (stage 0) waits for a message that device 1 never sends");
  Program twice = program;
  repeat(twice, find(program, 0, "SF0.0"));
  CHECK_THAT(first_message(check(twice), "matching"),
             ContainsSubstring("sends the same message a second time"));
}

TEST_CASE("check: a channel whose two directions differ in size is a mismatch") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  program.channels[0].bytes += 1;
  CHECK(rules(check(program)) == std::vector<std::string>{"matching"});
}

TEST_CASE("check: a channel must lead to the neighbour, on another device") {
  Program program = lowered({.schedule = "1f1b", .devices = 3, .microbatches = 2});
  program.channels[0].to = 2;
  CHECK(found(check(program), "matching"));
}

TEST_CASE("check: a reduction sums exactly the replicas of its stage") {
  const Program program = lowered(
      {.schedule = "gpipe", .devices = 2, .microbatches = 4, .replicas = {2, 2}, .rows = 2});
  REQUIRE(program.groups.size() == 2);
  Program stranger = program;
  stranger.groups[0].chunks = {0, 2};
  const CheckReport report = check(stranger);
  CHECK(found(report, "matching"));
  CHECK_THAT(all_messages(report), ContainsSubstring("takes part in a group it is no member of"));

  Program absent = without(program, find(program, 1, "G0.3"));
  CHECK_THAT(first_message(check(absent), "matching"),
             ContainsSubstring("waits for members that never come: stage 0 on device 1"));

  Program early = program;
  drop_wait(early, find(program, 0, "U0.3"), find(program, 0, "G0.3"));
  CHECK_THAT(first_message(check(early), "order"),
             ContainsSubstring("gradients of the 2 replicas of stage 0 are summed"));

  Program premature = program;
  drop_wait(premature, find(program, 0, "G0.3"), find(program, 0, "B0.3"));
  CHECK_THAT(first_message(check(premature), "order"),
             ContainsSubstring("before a gradient it sums is computed"));
}

TEST_CASE("check: tied weights are updated after their gradients are summed") {
  Program program = lowered({.schedule = "1f1b",
                             .devices = 2,
                             .microbatches = 2,
                             .ties = {{.owner = 0, .user = 1, .bytes = 8}}});
  CHECK(check(program).safe());
  drop_wait(program, find(program, 1, "U1.1"), find(program, 1, "T1.1"));
  CHECK_THAT(first_message(check(program), "order"),
             ContainsSubstring("gradients of the tied weights are summed"));
}

TEST_CASE("check: collectives issued in different orders deadlock") {
  Program program = lowered({.schedule = "gpipe",
                             .devices = 2,
                             .microbatches = 1,
                             .replicas = {2, 2},
                             .rows = 2,
                             .ties = {{.owner = 0, .user = 1, .bytes = 8}}});
  REQUIRE(check(program).safe());
  swap_in_order(program, find(program, 1, "G0.0"), find(program, 1, "T0.0"));
  const CheckReport report = check(program);
  CHECK(found(report, "deadlock"));
}

TEST_CASE("check: the flush policy reads version 0 and makes version 1") {
  Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  program.work[at(find(program, 1, "B1.2"))].weight_version = 1;
  const CheckReport report = check(program);
  CHECK(rules(report) == std::vector<std::string>{"version"});
  CHECK(report.findings[0].message ==
        "B1.2 on device 1 (stage 1) reads weight version 1; the flush policy promises version 0");
}

TEST_CASE("check: a limit below the peak is short by exactly the difference") {
  // One stage: parameters 8, gradients 8, optimizer 16 KiB; the rest is alive during a backward.
  const Program program = lowered({.schedule = "1f1b", .devices = 1, .microbatches = 1});
  const CheckReport enough = check(program, {.memory_limits = {1 << 20}});
  REQUIRE(enough.safe());
  Bytes peak = 1 << 20;  // the least limit that is safe
  for (Bytes step = peak / 2; step > 0; step /= 2) {
    if (check(program, {.memory_limits = {peak - step}}).safe()) peak -= step;
  }
  CHECK(peak >= 32 * kibi + 4 * kibi);
  const CheckReport report = check(program, {.memory_limits = {peak - 100}});
  REQUIRE(rules(report) == std::vector<std::string>{"memory"});
  CHECK_THAT(report.findings[0].message, ContainsSubstring("short by 100B"));
  CHECK_THAT(report.findings[0].message,
             ContainsSubstring("16KiB of optimizer, 8KiB of parameters"));
  CHECK(report.findings[0].device == 0);
  CHECK_THROWS_AS(check(program, {.memory_limits = {1, 2}}), Error);
}

// --- Races
// ----------------------------------------------------------------------------------------

TEST_CASE("check: a buffer shifted onto another is a race") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  std::vector<int> forwards;  // buffers that live from a forward on device 0, at the same time
  for (const std::string name : {"F0.0", "F0.1"}) {
    const IndexRange range = program.work[at(find(program, 0, name))].allocates;
    for (int i = range.first; i < range.end; ++i) {
      const Buffer& buffer = program.buffers[at(program.allocations[at(i)])];
      if (buffer.role == BufferRole::saved) forwards.push_back(program.allocations[at(i)]);
    }
  }
  REQUIRE(forwards.size() == 2);
  Program mutant = program;
  mutant.buffers[at(forwards[1])].offset = program.buffers[at(forwards[0])].offset + 1;
  CHECK(found(check(mutant), "race"));
}

TEST_CASE("check: lives on two lanes that nothing orders are a race, though no clock may show it") {
  // F0.1 allocates where SF0.0's buffer was. Only a wait of F0.1 on SF0.0 makes this safe.
  Builder builder(2, 2);
  const int f00 = builder.add(Op::forward, 0, 0);
  const int s00 = builder.add(Op::send_activation, 0, 0, {f00});
  const int f01 = builder.add(Op::forward, 0, 1);
  const int s01 = builder.add(Op::send_activation, 0, 1, {f01});
  const int r00 = builder.add(Op::receive_activation, 1, 0, {s00});
  const int f10 = builder.add(Op::forward, 1, 0, {r00});
  const int r01 = builder.add(Op::receive_activation, 1, 1, {s01});
  const int f11 = builder.add(Op::forward, 1, 1, {r01});
  const int b10 = builder.add(Op::backward, 1, 0, {f10});
  const int sb0 = builder.add(Op::send_gradient, 1, 0, {b10});
  const int b11 = builder.add(Op::backward, 1, 1, {f11});
  const int sb1 = builder.add(Op::send_gradient, 1, 1, {b11});
  const int rb0 = builder.add(Op::receive_gradient, 0, 0, {sb0});
  builder.add(Op::backward, 0, 0, {rb0});
  const int rb1 = builder.add(Op::receive_gradient, 0, 1, {sb1});
  builder.add(Op::backward, 0, 1, {rb1});
  builder.add(Op::update, 0, 1);
  builder.add(Op::update, 1, 1);
  Program program = builder.program;
  program.arena = {16, 16};
  for (const int microbatch : {0, 1}) {
    program.buffers.push_back({.device = 0,
                               .bytes = 8,
                               .role = BufferRole::output,
                               .chunk = 0,
                               .microbatch = microbatch});
  }
  allocate(program, f00, {0});
  release(program, s00, {0});
  allocate(program, f01, {1});
  release(program, s01, {1});
  const CheckReport racing = check(program);
  REQUIRE(rules(racing) == std::vector<std::string>{"race"});
  CHECK(racing.findings[0].message ==
        "buffer 0 (output, 8B) and buffer 1 (output, 8B) share addresses of device 0: F0.1 on "
        "device 0 (stage 0) "
        "allocates the second, but nothing makes it wait for SF0.0 on device 0 (stage 0), which "
        "frees the first");

  SECTION("a wait orders them") {
    add_wait(program, f01, s00);
    CHECK(check(program).safe());
  }
  SECTION("another address separates them") {
    program.buffers[1].offset = 8;
    CHECK(check(program).safe());
  }
  SECTION("half an overlap is an overlap") {
    program.buffers[1].offset = 4;
    CHECK(found(check(program), "race"));
  }
  SECTION("a round trip over the other device orders them too") {
    // F0.1 now comes after B0.0, which waits for the gradient of what SF0.0 sent.
    auto& order = program.order[0];
    order = {f00, s00, rb0, 13, f01, s01, rb1, 15, 16};
    auto& other = program.order[1];
    other = {r00, f10, b10, sb0, r01, f11, b11, sb1, 17};
    const CheckReport report = check(program);
    INFO(all_messages(report));
    CHECK(report.safe());
  }
  SECTION("freed too early") {
    release(program, s00, {});
    release(program, f00, {0});
    CHECK_THAT(first_message(check(program), "race"),
               ContainsSubstring("SF0.0 on device 0 (stage 0) may use buffer 0"));
  }
  SECTION("freed twice") {
    release(program, f01, {0});
    CHECK_THAT(first_message(check(program), "race"), ContainsSubstring("a second time"));
  }
  SECTION("never allocated") {
    allocate(program, f00, {});
    CHECK_THAT(first_message(check(program), "race"), ContainsSubstring("which nothing allocates"));
  }
  SECTION("resident under another one") {
    program.buffers.push_back(
        {.device = 0, .bytes = 4, .offset = 2, .role = BufferRole::parameters});
    program.resident = {2};
    CHECK(found(check(program), "race"));
  }
  SECTION("beyond the arena") {
    program.buffers[1].offset = 9;
    CHECK_THAT(first_message(check(program), "memory"),
               ContainsSubstring("reaches beyond the arena of device 0"));
  }
}

// --- Deadlocks by hand
// ----------------------------------------------------------------------------

TEST_CASE("check: two ranks that both send first are reported with their cycle and the cure") {
  // Device 0 sends F0.1 before it takes B0.0's gradient; device 1 sends that gradient before it
  // takes F1.1's input.
  Builder builder(2, 2);
  const int f00 = builder.add(Op::forward, 0, 0);
  const int f01 = builder.add(Op::forward, 0, 1);
  const int s00 = builder.add(Op::send_activation, 0, 0, {f00});
  const int s01 = builder.add(Op::send_activation, 0, 1, {f01});
  const int r10 = builder.add(Op::receive_activation, 1, 0, {s00});
  const int f10 = builder.add(Op::forward, 1, 0, {r10});
  const int b10 = builder.add(Op::backward, 1, 0, {f10});
  const int sb0 = builder.add(Op::send_gradient, 1, 0, {b10});
  const int r11 = builder.add(Op::receive_activation, 1, 1, {s01});
  const int f11 = builder.add(Op::forward, 1, 1, {r11});
  const int b11 = builder.add(Op::backward, 1, 1, {f11});
  const int sb1 = builder.add(Op::send_gradient, 1, 1, {b11});
  const int rb0 = builder.add(Op::receive_gradient, 0, 0, {sb0});
  const int b00 = builder.add(Op::backward, 0, 0, {rb0});
  const int rb1 = builder.add(Op::receive_gradient, 0, 1, {sb1});
  const int b01 = builder.add(Op::backward, 0, 1, {rb1});
  builder.add(Op::update, 0, 1, {b00, b01});
  builder.add(Op::update, 1, 1, {b10, b11});
  const CheckReport report = check(builder.program);
  INFO(all_messages(report));
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  const Finding& finding = report.findings[0];
  CHECK(finding.cycle ==
        std::vector<std::string>{"device 0 waits at SF0.1 for device 1 to reach RF1.1",
                                 "device 1 waits at SB1.0 for device 0 to reach RB0.0"});
  CHECK(finding.message ==
        "deadlock with blocking, unbuffered sends: device 0 waits at SF0.1 for device 1 to reach "
        "RF1.1; device 1 waits "
        "at SB1.0 for device 0 to reach RB0.0");
  CHECK(finding.fix ==
        "swapping SB1.0 and RF1.1 on device 1 cures it; safe with 1 message in flight per channel");
  CHECK(check(builder.program, {.memory_limits = {}, .messages_in_flight = 1}).safe());
  CHECK_THROWS_AS(require_safe(builder.program), Error);

  swap_in_order(builder.program, sb0, r11);
  CHECK(check(builder.program).safe());
}

TEST_CASE("check: waiting for oneself is a cycle of one") {
  Program program = smallest();
  add_wait(program, 0, 1);
  const CheckReport report = check(program);
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  CHECK(report.findings[0].cycle ==
        std::vector<std::string>{"device 0 waits at F0.0 for B0.0 to end, which comes after F0.0"});
}

TEST_CASE("check: compute in a circle is told apart from communication") {
  const Schedule schedule = circular_schedule();
  const CheckReport report = check(lower(schedule, {}));
  INFO(all_messages(report));
  REQUIRE(rules(report) == std::vector<std::string>{"deadlock"});
  CHECK(report.findings[0].cycle.size() >= 2);
}

// --- Structure
// ------------------------------------------------------------------------------------

TEST_CASE("check: tables that do not fit together are reported, not followed") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  REQUIRE(check(program).safe());
  const std::vector<std::function<void(Program&)>> mistakes{
      [](Program& it) { it.chunks[1].device = 7; },
      [](Program& it) { it.chunks[1].stage = 2; },
      [](Program& it) { it.chunks[0].rows = {}; },
      [](Program& it) { it.channels[0].to = 9; },
      [](Program& it) { it.channels[0].bytes = -1; },
      [](Program& it) {
        it.groups.push_back({.chunks = {0, 0}});
      },
      [](Program& it) { it.groups.push_back({}); },
      [](Program& it) { it.buffers.push_back({.device = 2}); },
      [](Program& it) { it.buffers.push_back({.device = 0, .bytes = -1}); },
      [](Program& it) { it.resident.push_back(1 << 20); },
      [](Program& it) { it.waits.push_back(-1); },
      [](Program& it) { it.arena.pop_back(); },
      [](Program& it) { it.order.pop_back(); },
      [](Program& it) { it.order[0].pop_back(); },
      [](Program& it) { it.order[0].push_back(it.order[0].front()); },
      [](Program& it) { it.order[0].push_back(it.order[1].front()); },
      [](Program& it) { it.order[0].push_back(1 << 20); },
      [](Program& it) { it.work[0].chunk = -1; },
      [](Program& it) { it.work[0].instruction.microbatch = 2; },
      [](Program& it) { it.work[0].instruction.stage += 1; },
      [](Program& it) { it.work[0].lane = Lane::send; },
      [](Program& it) { it.work[0].channel = 0; },
      [](Program& it) { it.work[0].group = 0; },
      [](Program& it) {
        it.work[0].waits = {5, 3};
      },
      [](Program& it) {
        it.work[0].frees = {0, 1 << 20};
      },
      [](Program& it) { it.devices = 0; },
      [](Program& it) { it.microbatches = -1; },
  };
  for (std::size_t i = 0; i < mistakes.size(); ++i) {
    Program mutant = program;
    mistakes[i](mutant);
    INFO("mistake " << i);
    CHECK(rules(check(mutant)) == std::vector<std::string>{"structure"});
  }
}

TEST_CASE("check: ten thousand mistakes of one kind are told as one") {
  Program program = lowered({.schedule = "gpipe", .devices = 2, .microbatches = 200});
  for (Work& work : program.work) work.weight_version = 3;
  const CheckReport report = check(program);
  CHECK(report.findings.size() == 10);
  CHECK_THAT(report.findings.back().message, ContainsSubstring("more like this"));
}

TEST_CASE("check: a large program is judged in seconds") {
  const Program program = lowered({.schedule = "1f1b", .devices = 16, .microbatches = 200});
  const auto start = std::chrono::steady_clock::now();
  CHECK(check(program).safe());
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  CHECK(time.count() <
        60);  // 0.1 s on an idle machine: only what grows faster than the program exceeds this
}
