// Fused pairs, copies of the model and pieces of sequences: what lowering makes of them, when they
// run, how they are drawn, and what `check` finds when they are wrong.

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/views/draw.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr Op F = Op::forward;
constexpr Op B = Op::backward;

/// One stage: F0 (F1;B0) B1.
Schedule one_pair() {
  return {.name = "pair",
          .stages = 1,
          .microbatches = 2,
          .device_of_stage = {0},
          .devices = {{{F, 0, 0}, {F, 0, 1}, {B, 0, 0}, {B, 0, 1}}},
          .fused = {{1}}};
}

/// Two stages, device 0 with a pair.
Schedule two_stages() {
  return {.name = "pair",
          .stages = 2,
          .microbatches = 2,
          .device_of_stage = {0, 1},
          .devices = {{{F, 0, 0}, {F, 0, 1}, {B, 0, 0}, {B, 0, 1}},
                      {{F, 1, 0}, {B, 1, 0}, {F, 1, 1}, {B, 1, 1}}},
          .fused = {{1}, {}}};
}

Span span_of(const Timeline& timeline, const std::string& instruction) {
  for (const Span& span : timeline.spans) {
    if (to_string(span.instruction) == instruction) return span;
  }
  FAIL("no " << instruction);
  return {};
}

void drop_waits(Program& program, int work) {
  program.work[index(work)].waits = {};
}

}  // namespace

TEST_CASE("a fused pair starts when both halves are ready, and ends as one") {
  const Program program = lower(two_stages());
  ChunkCosts costs = chunk_costs(10ms, 20ms);
  Timeline timeline = simulate(program, uniform(program, costs));
  // F1.0 [10, 20), B1.0 [20, 40): only then the pair's backward has its gradient.
  for (const char* half : {"F0.1", "B0.0"}) {
    CHECK(span_of(timeline, half).start == 40ms);
    CHECK(span_of(timeline, half).end == 70ms);  // one after the other, by default
  }
  CHECK(span_of(timeline, "SF0.1").start == 70ms);
  CHECK(step_time(timeline) == 120ms);
  CHECK(busy_times(timeline) == std::vector<Duration>{60ms, 60ms});
  CHECK(peak_in_flight(timeline) == std::vector{2, 1});

  costs.fused = 22ms;
  timeline = simulate(program, uniform(program, costs));
  CHECK(span_of(timeline, "B0.0").end == 62ms);
  CHECK(step_time(timeline) == 112ms);
  CHECK(busy_times(timeline) == std::vector<Duration>{52ms, 60ms});
  costs.fused = -1ms;
  CHECK_THROWS_WITH(simulate(program, uniform(program, costs)),
                    ContainsSubstring("fused pair of chunk 0 costs -1000000 ns"));
}

TEST_CASE("a pair takes what its forward's chunk says") {
  const Program program = lower(dualpipev({.devices = 1, .microbatches = 2, .virtual_stages = 2}));
  Costs costs = uniform(program, chunk_costs(10ms, 20ms));
  costs.chunks[1].fused = 100ms;
  const Timeline timeline = simulate(program, costs);
  for (const Span& span : timeline.spans) {
    const bool long_pair = to_string(span.instruction) == "F1.1";
    if (long_pair) CHECK(span.time() == 100ms);
  }
}

TEST_CASE("devices that wait for each other are named through a fused pair, too") {
  Schedule schedule = two_stages();
  std::swap(schedule.devices[1][1], schedule.devices[1][2]);  // wants F0.1 before it answers F0.0
  const Program program = lower(schedule);
  CHECK_THROWS_WITH(simulate(program, uniform(program, chunk_costs(10ms, 20ms))),
                    ContainsSubstring("which is fused with work that waits for RB0.0"));
  CHECK_THAT(first_message(check(program), "deadlock"), ContainsSubstring("waits"));
}

TEST_CASE("of a fused pair with full recomputation the R comes first") {
  LowerOptions options;
  options.recompute = {Recompute::full};
  CHECK(order_text(lower(one_pair(), options), 0) == "F0.0 R0.0 F0.1 B0.0 R0.1 B0.1 U0.1");
}

TEST_CASE("replicas that take turns fuse what they have both halves of") {
  LowerOptions options;
  options.replicas = {{0, 1}};
  options.replica_policy = ReplicaPolicy::round_robin;
  for (const Work& work : lower(one_pair(), options).work) CHECK_FALSE(work.fused_with);
  options.replica_policy = ReplicaPolicy::split;
  options.rows = 2;
  const Program program = lower(one_pair(), options);
  int halves = 0;
  for (const Work& work : program.work) halves += work.fused_with ? 1 : 0;
  CHECK(halves == 4);
  CHECK(check(program).safe());
}

TEST_CASE("pairs, copies and pieces that make no sense are refused") {
  Schedule schedule = one_pair();
  CHECK_NOTHROW(validate(schedule));
  schedule.fused = {{2}};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("B0.0 and B0.1 on device 0 cannot be "
                                                          "fused"));
  schedule.fused = {{3}};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("has no second half"));
  schedule.fused = {{1, 2}};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("overlaps another"));
  schedule.fused = {{-1}};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("fused pair at -1"));
  schedule.fused = {{}, {}};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("fused pairs of 2 of 1 devices"));
  schedule = one_pair();
  schedule.devices = {{{F, 0, 0}, {B, 0, 0}, {F, 0, 1}, {B, 0, 1}}};
  schedule.fused = {{2}};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("different microbatches"));

  schedule = two_stages();
  schedule.pipes = 3;
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("2 stages cannot be 3 copies"));
  schedule.pipes = 2;  // now without links, on different devices
  CHECK_NOTHROW(validate(schedule));
  schedule.device_of_stage = {0, 0};
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("stages 0 and 1 are copies"));

  schedule = seq1f1b({.devices = 1, .microbatches = 1, .sequence_chunks = 2});
  CHECK_NOTHROW(validate(schedule));
  std::swap(schedule.devices[0][0], schedule.devices[0][1]);
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("F0.1 comes before F0.0"));
  schedule = seq1f1b({.devices = 1, .microbatches = 1, .sequence_chunks = 2});
  std::swap(schedule.devices[0][2], schedule.devices[0][3]);
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("B0.0 comes before B0.1"));
  schedule.sequence_chunks = 3;
  CHECK_THROWS_WITH(validate(schedule), ContainsSubstring("2 pieces cannot be sequences of 3"));
}

TEST_CASE("copies of the model have no link between them, and sum their gradients") {
  LowerOptions options;
  options.ties = {{.owner = 0, .user = 1, .bytes = 8}};
  const Program program = lower(chimera({.devices = 2, .microbatches = 2}), options);
  // Stages 0 1 | 2 3 on devices 0 1 | 1 0.
  REQUIRE(program.stages == 4);
  for (const Channel& channel : program.channels) {
    CHECK(program.chunks[index(channel.from)].stage / 2 ==
          program.chunks[index(channel.to)].stage / 2);
  }
  CHECK(program.channels.size() == 4);
  std::vector<std::pair<Op, std::vector<int>>> groups;
  for (const Group& group : program.groups) groups.emplace_back(group.op, group.chunks);
  using Groups = std::vector<std::pair<Op, std::vector<int>>>;
  CHECK(groups == Groups{{Op::reduce_gradient, {0, 2}},
                         {Op::reduce_gradient, {1, 3}},
                         {Op::reduce_tied, {0, 1}},
                         {Op::reduce_tied, {2, 3}}});
  CHECK(check(program).safe());

  options.ties = {{.owner = 0, .user = 2, .bytes = 8}};
  CHECK_THROWS_WITH(lower(chimera({.devices = 2, .microbatches = 2}), options),
                    ContainsSubstring("a tie names stage 2 of 2"));
}

TEST_CASE("check: copies that do not sum their gradients are found") {
  const Program program = lower(chimera({.devices = 2, .microbatches = 2}));
  Program early = program;
  drop_waits(early, find_work(early, "U2.0"));
  CHECK_THAT(first_message(check(early), "order"),
             ContainsSubstring("gradients of the 2 replicas of stage 2"));
  Program other = program;
  for (int group : {0, 1}) other.groups[index(group)].chunks = {group == 0 ? 0 : 1, 3};
  CHECK_FALSE(check(other).safe());
  Program crossed = program;
  crossed.channels[0].to = 2;  // of the other pipe
  CHECK_FALSE(check(crossed).safe());
  Program torn = program;
  torn.pipes = 3;
  CHECK_THAT(first_message(check(torn), "structure"),
             ContainsSubstring("4 stages are not 3 copies"));
}

TEST_CASE("check: pieces of a sequence out of order are found") {
  const Program program = lower(seq1f1b({.devices = 1, .microbatches = 1, .sequence_chunks = 2}));
  for (const auto& [one, other, what] : {std::tuple{"F0.0", "F0.1", "before the piece before it"},
                                         {"B0.1", "B0.0", "before the piece behind it"}}) {
    Program swapped = program;
    auto& order = swapped.order[0];
    std::iter_swap(std::find(order.begin(), order.end(), find_work(program, one)),
                   std::find(order.begin(), order.end(), find_work(program, other)));
    for (Work& work : swapped.work) work.waits = {};
    CHECK_THAT(first_message(check(swapped), "order"), ContainsSubstring(what));
  }
  Program torn = program;
  torn.sequence_chunks = 3;
  CHECK_THAT(first_message(check(torn), "structure"),
             ContainsSubstring("2 pieces are not sequences of 3"));
}

TEST_CASE("check: a torn pair is found") {
  const Program program = lower(one_pair());
  REQUIRE(check(program).safe());
  const int forward = find_work(program, "F0.1");
  const int backward = find_work(program, "B0.0");
  const auto torn = [&](const auto& tear) {
    Program mutant = program;
    tear(mutant);
    return first_message(check(mutant), "structure");
  };
  const auto partner = [&](int work, std::optional<int> other) {
    return torn([&](Program& mutant) { mutant.work[index(work)].fused_with = other; });
  };
  CHECK_THAT(partner(forward, {}), ContainsSubstring("cannot be a fused pair"));
  CHECK_THAT(partner(backward, {}), ContainsSubstring("cannot be a fused pair"));
  CHECK_THAT(partner(forward, find_work(program, "B0.1")),
             ContainsSubstring("cannot be a fused pair"));
  CHECK_THAT(partner(forward, forward), ContainsSubstring("cannot be a fused pair"));
  CHECK_THAT(partner(forward, 99), ContainsSubstring("fused with work that does not exist"));
  CHECK_THAT(torn([&](Program& mutant) {
               std::swap(mutant.order[0][index(forward)], mutant.order[0][index(backward)]);
             }),
             ContainsSubstring("cannot be a fused pair"));
  CHECK_THAT(torn([&](Program& mutant) {
               std::swap(mutant.order[0][index(backward)], mutant.order[0][index(backward + 1)]);
             }),
             ContainsSubstring("cannot be a fused pair"));
  for (const Op op : {Op::forward, Op::backward_input, Op::recompute}) {
    CHECK_THAT(torn([&](Program& mutant) { mutant.work[index(backward)].instruction.op = op; }),
               ContainsSubstring("cannot be a fused pair"));
  }
}

TEST_CASE("check: the halves of a pair cannot use the same memory") {
  LowerOptions options;
  options.memory = {{{.saved = 1000, .workspace = 640}}};
  const Program program = lower(one_pair(), options);
  REQUIRE(check(program).safe());
  // Both saved at once, and both workspaces of the pair.
  CHECK(memory_peaks(simulate(program, uniform(program, chunk_costs(10ms, 20ms))))[0].bytes ==
        3280);
  CHECK(check(program, {.memory_limits = {3280}}).safe());
  CHECK_THAT(first_message(check(program, {.memory_limits = {3279}}), "memory"),
             ContainsSubstring("short by 1"));

  const auto workspace_of = [&](const std::string& instruction) {
    const IndexRange range = program.work[index(find_work(program, instruction))].allocates;
    for (int i = range.first; i < range.end; ++i) {
      const int buffer = program.allocations[index(i)];
      if (program.buffers[index(buffer)].role == BufferRole::workspace) return buffer;
    }
    return 0;
  };
  Program shared = program;
  shared.buffers[index(workspace_of("B0.0"))].offset =
      shared.buffers[index(workspace_of("F0.1"))].offset;
  CHECK_THAT(first_message(check(shared), "race"), ContainsSubstring("share addresses"));
}

TEST_CASE("draw: fused pairs stand in brackets, and as one block in a timeline") {
  const Schedule schedule = one_pair();
  CHECK(draw(schedule) == " d0 │ F0 (F1;B0) B1\n");
  CHECK(split(draw(dualpipe({.devices = 2, .microbatches = 4}), {.unicode = false}), '\n')[0] ==
        " d0 | 0F0 3F0 0F1 3B0 (3F1;0B0) 3B1 0I1 0W1");
  const Timeline timeline = run(schedule, chunk_costs(10ms, 20ms));
  const std::string picture = draw(timeline, {.width = 6 + 12 + 11});
  CHECK_THAT(picture, ContainsSubstring("│0█1╳╳╳╳╳1▓▓▓│ 100 % busy"));
  CHECK_THAT(picture, ContainsSubstring("█ forward ▓ backward ╳ forward + backward · idle"));
}
