// PipeDream, vertical sync and 2BW: versions of the weights, their memory, and time without
// bubbles.

#include <map>
#include <set>

#include "profiles/error.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/simulator/check_reports.hpp"
#include "tests/simulator/mutations.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

ScheduleShape grouped(int devices, int microbatches, int group) {
  return {.devices = devices, .microbatches = microbatches, .group = group};
}

/// Parameters of one byte each, so that bytes count versions.
LowerOptions counting_versions(int stages) {
  LowerOptions options;
  options.memory.assign(index(stages), {ChunkMemory{.parameters = 1, .gradients = 1}});
  return options;
}

Bytes older_versions(const Program& program, int chunk) {
  Bytes bytes = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.category == MemoryCategory::weight_versions && buffer.chunk == chunk) {
      bytes += buffer.bytes;
    }
  }
  return bytes;
}

/// Calls `visit(device, work)` for all compute.
template <class Visit>
void each_compute(const Program& program, const Visit& visit) {
  for (const auto& order : program.order) {
    for (const int item : order) {
      const Work& work = program.work[index(item)];
      if (work.lane == Lane::compute) visit(program.chunks[index(work.chunk)].device, work);
    }
  }
}

/// Each backward in two halves, one right after the other.
Schedule halved(Schedule schedule) {
  for (auto& order : schedule.devices) {
    std::vector<Instruction> halves;
    for (const auto& [op, stage, microbatch] : order) {
      if (op != Op::backward) {
        halves.push_back({op, stage, microbatch});
        continue;
      }
      halves.push_back({Op::backward_input, stage, microbatch});
      halves.push_back({Op::backward_weight, stage, microbatch});
    }
    order = std::move(halves);
  }
  return schedule;
}

/// Brute force over 1F1B with an update after each n microbatches: the least number of versions a
/// device keeps if batch t is computed, on all devices, with the newest version that device 0 has
/// when t begins.
int versions_for_batches(int p, int n, int batches) {
  const Schedule schedule = one_f_one_b(plain_shape(p, n * batches));
  std::map<int, int> version_of_batch;
  int backwards = 0;
  for (const Instruction& it : schedule.devices[0]) {
    if (it.op == Op::forward && it.microbatch % n == 0) {
      version_of_batch[it.microbatch / n] = backwards / n;
    }
    if (it.op == Op::backward) ++backwards;
  }
  int most = 0;
  for (const auto& order : schedule.devices) {
    int done = 0;
    for (const Instruction& it : order) {
      if (it.op != Op::backward || ++done % n != 0) continue;
      std::set<int> kept{done / n};
      for (int batch = done / n; batch < batches; ++batch) {
        if (version_of_batch[batch] <= done / n) kept.insert(version_of_batch[batch]);
      }
      most = std::max(most, static_cast<int>(kept.size()));
    }
  }
  return most;
}

}  // namespace

TEST_CASE("asynchronous schedules say so in the table") {
  for (const ScheduleKind& kind : schedule_kinds) {
    CAPTURE(std::string(kind.name));
    const auto schedule = generated(
        kind,
        {.devices = 4, .microbatches = 8, .virtual_stages = fewest_virtual_stages(kind.placement)});
    REQUIRE(schedule);
    CHECK(schedule->weights == kind.weights);
    CHECK(kind.synchronous == (kind.weights == WeightPolicy::flush));
    CHECK(weight_versions_in_words(kind).empty() == false);
  }
  CHECK(weight_versions_in_words(find_schedule("pipedream")) == "p - r");
  CHECK(weight_versions_in_words(find_schedule("pipedream-2bw")) == "2");
}

TEST_CASE("an update follows each batch at once, and the next forward meets it") {
  const auto compute = [](const Program& program, int wanted) {
    std::string text;
    each_compute(program, [&](int device, const Work& work) {
      if (device == wanted) text += (text.empty() ? "" : " ") + to_string(work.instruction);
    });
    return text;
  };
  const Program program = lower(pipedream(plain_shape(2, 3)));
  CHECK(compute(program, 0) == "F0.0 F0.1 B0.0 U0.0 F0.2 B0.1 U0.1 B0.2 U0.2");
  CHECK(compute(program, 1) == "F1.0 B1.0 U1.0 F1.1 B1.1 U1.1 F1.2 B1.2 U1.2");
  CHECK(compute(lower(pipedream_2bw(grouped(2, 4, 2))), 0) ==
        "F0.0 F0.1 B0.0 F0.2 B0.1 U0.1 F0.3 B0.2 B0.3 U0.3");
}

TEST_CASE("each policy reads the versions of its closed form, forward and backward") {
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {1, p, p + 1, 3 * p}) {
      CAPTURE(p, m);
      each_compute(lower(pipedream(plain_shape(p, m))), [&](int r, const Work& work) {
        const int k = work.instruction.microbatch;
        const bool update = work.instruction.op == Op::update;
        CHECK(work.weight_version == (update ? k + 1 : std::max(0, k - (p - r) + 1)));
      });
      each_compute(lower(pipedream_vertical_sync(plain_shape(p, m))), [&](int, const Work& work) {
        const int k = work.instruction.microbatch;
        const bool update = work.instruction.op == Op::update;
        CHECK(work.weight_version == (update ? k + 1 : std::max(0, k - p + 1)));
      });
    }
    for (const int n : {std::max(p - 1, 1), p, p + 3}) {
      CAPTURE(p, n);
      each_compute(lower(pipedream_2bw(grouped(p, 4 * n, n))), [&](int, const Work& work) {
        const int batch = work.instruction.microbatch / n;
        const bool update = work.instruction.op == Op::update;
        CHECK(work.weight_version == (update ? batch + 1 : std::max(0, batch - 1)));
      });
    }
  }
}

TEST_CASE("device r keeps p - r versions, p under vertical sync, two under 2BW") {
  for (int p = 1; p <= 16; ++p) {
    const Program stashing = lower(pipedream(plain_shape(p, 2 * p)), counting_versions(p));
    const Program synchronised =
        lower(pipedream_vertical_sync(plain_shape(p, 2 * p)), counting_versions(p));
    const Program buffered = lower(pipedream_2bw(grouped(p, 3 * p, p)), counting_versions(p));
    CAPTURE(p);
    for (int r = 0; r < p; ++r) {
      CAPTURE(r);
      CHECK(1 + older_versions(stashing, r) == p - r);
      CHECK(1 + older_versions(synchronised, r) == p);
      CHECK(1 + older_versions(buffered, r) == 2);
    }
    if (p > 8) continue;
    for (const Program& program : {stashing, synchronised, buffered}) {
      CHECK(first_finding(program) == "safe");
    }
  }
}

TEST_CASE("few microbatches leave few versions behind") {
  // Device 0 of 4 runs F0 F1 B0 U B1 U: B1 still reads version 0 when the first update makes 1.
  CHECK(older_versions(lower(pipedream(plain_shape(4, 2)), counting_versions(4)), 0) == 1);
  CHECK(older_versions(lower(pipedream(plain_shape(4, 1)), counting_versions(4)), 0) == 0);
  CHECK(older_versions(lower(pipedream_2bw(grouped(4, 4, 4)), counting_versions(4)), 0) == 0);
}

TEST_CASE("two versions suffice for batches of p - 1 microbatches, and for no fewer") {
  for (int p = 2; p <= 12; ++p) {
    for (int n = 1; n <= p + 2; ++n) {
      CAPTURE(p, n);
      CHECK((versions_for_batches(p, n, 3 * p) <= 2) == (n >= p - 1));
      const auto schedule = generated(find_schedule("pipedream-2bw"), grouped(p, 4 * n, n));
      CHECK(schedule.has_value() == (n >= p - 1));
    }
  }
}

TEST_CASE("2BW with smaller batches reads a version before it is made, and check says so") {
  Schedule schedule = pipedream_2bw(grouped(4, 12, 3));
  schedule.update_every = 2;
  CHECK_THAT(first_finding(lower(schedule)),
             ContainsSubstring("F0.4 on device 0 (stage 0) may start before version 1 of its"));
}

TEST_CASE("2BW names the nearest group and microbatches") {
  CHECK_THROWS_WITH(pipedream_2bw(grouped(8, 12, 6)), ContainsSubstring("nearest legal group: 7"));
  CHECK_THROWS_WITH(pipedream_2bw(plain_shape(4, 10)), ContainsSubstring("microbatches: 8 or 12"));
  CHECK_THROWS_WITH(pipedream_2bw(plain_shape(4, 3)), ContainsSubstring("microbatches: 4"));
  CHECK_THROWS_WITH(pipedream(grouped(4, 8, 4)), ContainsSubstring("has no microbatch groups"));
}

TEST_CASE("without a flush a microbatch takes f + b, however many devices") {
  const ChunkCosts costs = chunk_costs(10ms, 20ms);
  for (int p = 1; p <= 16; ++p) {
    CAPTURE(p);
    for (const auto generate : {pipedream, pipedream_vertical_sync}) {
      // Filling and draining happen once: (m + p - 1)(f + b) in all.
      CHECK(step_time(run(generate(plain_shape(p, 2 * p)), costs)) == (2 * p + p - 1) * 30ms);
      const Timeline timeline = run(generate(plain_shape(p, 4 * p)), costs);
      std::map<int, Duration> ends;
      for (const Span& span : timeline.spans) {
        if (span.device == 0 && span.instruction.op == Op::update) {
          ends[span.instruction.microbatch] = span.end;
        }
      }
      for (int k = 1; k < 4 * p; ++k) CHECK(ends[k] - ends[k - 1] == 30ms);
    }
    CHECK(step_time(run(pipedream_2bw(grouped(p, 3 * p, p)), costs)) == (3 * p + p - 1) * 30ms);
  }
}

TEST_CASE("replicas sum their gradients for each update") {
  LowerOptions options;
  options.replicas = {{0, 1}, {2}};
  options.rows = 2;
  const Program program = lower(pipedream(plain_shape(2, 3)), options);
  REQUIRE(program.groups.size() == 1);
  int reductions = 0;
  for (const Work& work : program.work) {
    if (work.instruction.op == Op::reduce_gradient) ++reductions;
  }
  CHECK(reductions == 2 * 3);
  CHECK(first_finding(program) == "safe");
  CHECK(step_time(simulate(program, uniform(program, chunk_costs(10ms, 20ms)))) == 4 * 30ms);
}

TEST_CASE("what updates on the way cannot do is refused with the reason") {
  const auto refused = [](const Schedule& schedule, const LowerOptions& options) {
    try {
      lower(schedule, options);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string();
  };
  LowerOptions tied;
  tied.ties = {{.owner = 0, .user = 1, .bytes = 8}};
  CHECK_THAT(refused(pipedream(plain_shape(2, 2)), tied), ContainsSubstring("at different times"));

  Schedule ragged = pipedream(plain_shape(2, 3));
  ragged.update_every = 2;
  CHECK_THAT(refused(ragged, {}), ContainsSubstring("cannot be updated in batches of 2"));
  Schedule mixed = gpipe(plain_shape(1, 4));
  mixed.weights = WeightPolicy::stashing;
  mixed.update_every = 2;
  CHECK(refused(mixed, {}).empty());
  std::swap(mixed.devices[0][5], mixed.devices[0][6]);
  CHECK_THAT(refused(mixed, {}), ContainsSubstring("B0.2 comes before batch 0 is complete"));
  Schedule idle = gpipe(plain_shape(1, 4));
  idle.update_every = 2;
  CHECK_THAT(refused(idle, {}), ContainsSubstring("it cannot update every 2"));
}

TEST_CASE("random replicas and sizes under every policy are safe, and no peak exceeds the arena") {
  Random random(13);
  for (int round = 0; round < 60; ++round) {
    CAPTURE(round);
    const int p = random.between(1, 5);
    const ScheduleShape shape = plain_shape(p, p * random.between(1, 3));
    const auto generate =
        std::vector{pipedream, pipedream_vertical_sync, pipedream_2bw}[index(random.below(3))];
    const Schedule schedule = random.below(2) == 0 ? generate(shape) : halved(generate(shape));
    LowerOptions options = random_options(random, schedule);
    options.replica_policy = ReplicaPolicy::split;
    options.ties.clear();
    const Program program = lower(schedule, options);
    CHECK(first_finding(program) == "safe");
    const std::vector<MemoryPeak> peaks =
        memory_peaks(simulate(program, random_costs(random, program)));
    for (std::size_t device = 0; device < peaks.size(); ++device) {
      CHECK(peaks[device].bytes <= program.arena[device]);
    }
  }
}

// --- Mutations: each is caught by its rule ------------------------------------------------------

TEST_CASE("check: a version that the policy does not promise is found") {
  const auto generate = GENERATE(pipedream, pipedream_vertical_sync, pipedream_2bw);
  const Program program = lower(generate(plain_shape(3, 9)), counting_versions(3));
  REQUIRE(first_finding(program) == "safe");
  for (const std::string name : {"F1.5", "B1.5", "U1.5"}) {
    for (const int by : {-1, 1}) {
      Program mutant = program;
      mutant.work[index(find_work(mutant, name))].weight_version += by;
      INFO(name << by);
      CHECK(found(check(mutant), "version", name));
    }
  }
}

TEST_CASE("check: room for old versions is as much as is needed") {
  const Program program = lower(pipedream(plain_shape(3, 9)), counting_versions(3));
  for (const int by : {-1, 1}) {
    Program mutant = program;
    for (Buffer& buffer : mutant.buffers) {
      if (buffer.category == MemoryCategory::weight_versions && buffer.chunk == 0) {
        buffer.bytes += by;
      }
    }
    const std::string message = first_finding(mutant);
    CHECK_THAT(message, ContainsSubstring("stage 0 on device 0"));
    CHECK_THAT(message, ContainsSubstring(by < 0 ? "must keep 2 of" : "never keeps more than 2"));
  }
}

TEST_CASE("check: updates that are missing, double or elsewhere are found") {
  const Program program = lower(pipedream_2bw(grouped(2, 6, 2)));
  Program elsewhere = program;
  elsewhere.work[index(find_work(program, "U1.3"))].instruction.microbatch = 2;
  const CheckReport report = check(elsewhere);
  REQUIRE(report.findings.size() >= 2);
  CHECK(report.findings[0].message ==
        "the weights of stage 1 (replica 0 on device 1) are never updated after microbatch 3");
  CHECK_THAT(report.findings[1].message, ContainsSubstring("where no update is due"));
  Program twice = program;
  twice.work[index(find_work(program, "U1.3"))].instruction.microbatch = 1;
  CHECK_THAT(first_finding(twice), ContainsSubstring("are updated 2 times after microbatch 1"));
}

TEST_CASE("check: an update that comes late mixes the gradients of two batches") {
  Program program = lower(pipedream(plain_shape(2, 4)));
  auto& order = program.order[1];
  const int update = find_work(program, "U1.1");
  order.erase(std::find(order.begin(), order.end(), update));
  order.insert(std::find(order.begin(), order.end(), find_work(program, "B1.2")) + 1, update);
  CHECK(found(check(program), "order", "before the gradients of the batch before are applied"));
}

TEST_CASE("check: a policy that does not fit the program's microbatches is no program") {
  Program program = lower(pipedream(plain_shape(2, 4)));
  program.update_every = {1, 0};
  CHECK_THAT(first_finding(program),
             ContainsSubstring("stage 1 cannot update its weights every 0"));
  program.update_every = {3, 1};
  CHECK_THAT(first_finding(program),
             ContainsSubstring("stage 0 cannot update its weights every 3"));
  program.update_every = {1};
  CHECK_THAT(first_finding(program), ContainsSubstring("structure: the program says of 1 stages"));
}

TEST_CASE("check: what updates on the way promise is said in words") {
  const CheckReport report = check(lower(pipedream(plain_shape(4, 12)), counting_versions(4)));
  const std::string sentence =
      "weight versions: forward and backward of a microbatch read the same, gradients are applied "
      "at most 3 updates late, at most 4 versions of a stage at once";
  CHECK(proves(report, sentence));
}
