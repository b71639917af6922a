#include "simulator/checks/check.hpp"

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "profiles/error.hpp"
#include "simulator/lowering/lower.hpp"
#include "simulator/schedules/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/check_settings.hpp"
#include "tests/simulator/hand_made.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

// --- What is safe -------------------------------------------------------------------------------

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

TEST_CASE("check: every schedule is safe once lowered, for all small shapes", "[seconds]") {
  const ScheduleKind kind = GENERATE(from_range(schedule_kinds));
  const bool one =
      kind.placement == StagePlacement::linear || kind.placement == StagePlacement::bidirectional;
  const int stages_per_device = one ? 1 : 2;
  int checked = 0;
  for (int devices = 1; devices <= 8; ++devices) {
    if (is_watched && 4 < devices && devices < 8) continue;
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
  CHECK(checked >= (is_watched ? 6 : 12));  // chimera-doubling and dualpipe take few of these
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

TEST_CASE("check: what messages under way take of memory counts, where times are known") {
  const Program program = lowered({.schedule = "1f1b", .devices = 2, .microbatches = 2});
  MemoryUse use{};
  use[static_cast<std::size_t>(MemoryCategory::activations)] = 3 << 20;
  use[static_cast<std::size_t>(MemoryCategory::transfer)] = 1 << 20;
  const CheckReport report = check(program, {.memory_limits = std::vector<Bytes>(2, (4 << 20) - 1),
                                             .timed = {MemoryUse{}, use}});
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].rule == "memory");
  CHECK(report.findings[0].device == 1);
  CHECK_THAT(report.findings[0].message,
             ContainsSubstring("short by 1B while messages are under way: 3MiB of activations and "
                               "1MiB of"));
  CHECK(
      check(program, {.memory_limits = std::vector<Bytes>(2, 4 << 20), .timed = {MemoryUse{}, use}})
          .safe());
}

// --- What is no program -------------------------------------------------------------------------

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
