// Checkpoints: what goes on from one, under the same plan or another, ends with the bits of a run
// that never stopped.

#include "executor/checkpoints/checkpoint.hpp"

#include <limits>
#include <numeric>

#include "executor/checkpoints/files.hpp"
#include "executor/driver/machinery.hpp"
#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"
#include "tests/executor/failing_run.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

RunOptions some_steps(int steps) {
  return {
      .steps = steps, .seed = 3, .adamw = {.learning_rate = 1e-2}, .sgd = {.learning_rate = 0.1}};
}

RunOptions writing(int steps, const fs::path& folder) {
  RunOptions options = some_steps(steps);
  options.checkpoints = {.folder = folder, .every = 1, .keep = 100, .slice_bytes = 5000};
  return options;
}

RunOptions resuming(int steps, const fs::path& path) {
  RunOptions options = some_steps(steps);
  options.resume = std::make_shared<Checkpoint>(read_checkpoint(path));
  return options;
}

/// The second half of a run's losses, and its weights.
RunResult without_first(RunResult result, std::size_t steps) {
  result.losses.erase(result.losses.begin(),
                      result.losses.begin() + static_cast<std::ptrdiff_t>(steps));
  return result;
}

Bytes parameter_bytes(const RunResult& result) {
  Bytes bytes = 0;
  for (const Tensor& parameter : result.parameters) bytes += parameter.bytes();
  return bytes;
}

std::vector<Setting> settings() {
  return {
      {.devices = 3},
      {.schedule = "gpipe", .devices = 2, .replicas = {2, 1}, .recompute = Recompute::full},
      {.devices = 2, .replicas = {1, 3}, .policy = ReplicaPolicy::round_robin, .tied = false},
      {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .replicas = {2, 2}},
      {.schedule = "chimera", .devices = 4},
      {.schedule = "zb-h1", .devices = 3, .optimizer = OptimizerKind::sgd},
      {.devices = 2, .rows = 6, .replicas = {3, 2}, .sharding = Sharding::zero1},
      {.schedule = "chimera", .devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1},
      {.devices = 2, .precision = Precision::float64, .style = Style::llama},
      {.devices = 2, .rows = 3, .replicas = {3, 1}, .style = Style::network},
      {.schedule = "pipedream", .devices = 3, .tied = false},
      {.schedule = "pipedream-vertical-sync", .devices = 2, .replicas = {1, 2}, .tied = false},
      {.schedule = "pipedream-2bw", .devices = 2, .microbatches = 6, .tied = false, .group = 2},
      {.schedule = "pipedream",
       .devices = 2,
       .replicas = {2, 1},
       .policy = ReplicaPolicy::round_robin,
       .tied = false},
      {.schedule = "pipedream",
       .devices = 2,
       .replicas = {2, 2},
       .optimizer = OptimizerKind::sgd,
       .tied = false,
       .sharding = Sharding::zero1},
      {.devices = 3, .tied = false, .degrees = {4, 1, 2}, .heads = 4},
      {.devices = 2,
       .replicas = {2, 2},
       .style = Style::llama,
       .sharding = Sharding::zero1,
       .degrees = {2, 2},
       .heads = 4},
  };
}

/// To rounding where layers are split over tensor-parallel peers.
void check_against_reference(const Setting& setting, const Prepared& prepared,
                             const RunOptions& options, const RunResult& result) {
  const RunResult expected = reference(prepared, options);
  if (setting.degrees.empty()) {
    CHECK(first_difference(result, expected) == "");
    return;
  }
  const Distance apart = distance(result, expected);
  CHECK(apart.losses < rounding_tolerance(setting.precision));
  CHECK(apart.weights < rounding_tolerance(setting.precision));
}

/// Replicas share the work: every rank writes, and every element of weights and moments is there
/// once.
void check_content(const Setting& setting, const RunResult& result, const fs::path& folder) {
  const int kinds = setting.optimizer == OptimizerKind::adamw ? 3 : 1;
  for (const WrittenCheckpoint& written : result.checkpoints) {
    CHECK(written.bytes == kinds * parameter_bytes(result));
  }
  const Checkpoint read = read_checkpoint(folder);
  std::size_t weights = 0;
  for (const StoredState& state : read.states) {
    weights += state.kind == StateKind::weight ? 1 : 0;
    CHECK_NOTHROW(read_state(read, state.name, state.kind, {{}, 0, elements_of(state.shape)}));
  }
  CHECK(weights == result.parameters.size());
  for (int rank = 0; rank < device_count(setting); ++rank) {
    CHECK(fs::exists(read.folder / ("rank-" + std::to_string(rank) + ".bin")));
  }
}

}  // namespace

TEST_CASE("a run that goes on from a checkpoint ends with the bits of one that never stopped",
          "[seconds]") {
  for (const Setting& setting : settings()) {
    INFO(describe(setting));
    const Prepared prepared = prepare(setting);
    const TemporaryFolder folder;
    RunOptions options = writing(3, folder.path());
    options.checkpoints.every = 2;
    const RunResult whole = run(prepared, options);
    CHECK(checkpointed_steps(folder.path()) == std::vector{2, 3});
    check_content(setting, whole, folder.path());
    options = resuming(1, checkpoint_folder(folder.path(), 2));
    const RunResult rest = run(prepared, options);
    CHECK(first_difference(rest, without_first(whole, 2)) == "");
    check_against_reference(setting, prepared, options, rest);
  }
}

TEST_CASE("any plan goes on from any other's checkpoint as the reference does", "[seconds]") {
  const std::vector<Setting> plans{
      {.devices = 1},
      {.schedule = "gpipe", .devices = 4},
      {.devices = 2, .microbatches = 2, .rows = 6, .replicas = {3, 2}, .sharding = Sharding::zero1},
      {.schedule = "interleaved", .devices = 2, .virtual_stages = 2, .replicas = {2, 2}},
      {.schedule = "chimera", .devices = 2, .replicas = {2, 2}, .sharding = Sharding::zero1},
      {.schedule = "pipedream", .devices = 1, .microbatches = 3},
  };
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Setting& before = plans[i];
    const TemporaryFolder folder;
    run(prepare(before), writing(1, folder.path()));
    const RunOptions options = resuming(2, folder.path());
    CHECK(options.resume->position.samples == before.rows * before.microbatches);
    for (const std::size_t further : {1, 3}) {
      const Setting& after = plans[(i + further) % plans.size()];
      INFO(describe(before) << " -> " << describe(after));
      const Prepared prepared = prepare(after);
      CHECK(first_difference(run(prepared, options), reference(prepared, options)) == "");
    }
  }
}

TEST_CASE("peers of any number go on from what peers of another number wrote", "[seconds]") {
  const auto with_degree = [](int degree, Sharding sharding) {
    return Setting{.devices = 2,
                   .replicas = {2, 2},
                   .sharding = sharding,
                   .degrees = {degree, degree},
                   .heads = 4};
  };
  for (const auto& [before, after] : {std::pair{2, 4}, {4, 1}, {1, 2}}) {
    INFO("degree " << before << " -> " << after);
    const TemporaryFolder folder;
    const RunResult trained =
        run(prepare(with_degree(before, Sharding::zero1)), writing(1, folder.path()));
    const Setting setting = with_degree(after, Sharding::none);
    const Prepared prepared = prepare(setting);
    CHECK(run(prepared, resuming(0, folder.path())).parameters_hash == trained.parameters_hash);
    const RunOptions options = resuming(2, folder.path());
    check_against_reference(setting, prepared, options, run(prepared, options));
  }
}

TEST_CASE("where sums are the same under both plans, the switch leaves no trace") {
  const Setting before{.schedule = "gpipe", .devices = 4};
  const Setting after{.schedule = "zb-h1", .devices = 2};
  const TemporaryFolder folder;
  run(prepare(before), writing(5, folder.path()));
  const RunResult rest = run(prepare(after), resuming(5, folder.path()));
  const RunResult whole = reference(prepare({}), some_steps(10));
  CHECK(first_difference(rest, without_first(whole, 5)) == "");
}

TEST_CASE("steps are counted since training began, by whatever fails in them, too") {
  const TemporaryFolder folder;
  const Prepared prepared = prepare({.devices = 2});
  run(prepared, writing(3, folder.path()));
  RunOptions options = resuming(3, folder.path());
  // The first update makes weights of no use, which the next forward finds.
  options.adamw.learning_rate = std::numeric_limits<double>::infinity();
  CHECK_THAT(message_of(prepared, options), ContainsSubstring("in step 5 "));
}

TEST_CASE("bf16 goes on from its masters, out of a memory that nobody else can read", "[seconds]") {
  for (const Sharding sharding : {Sharding::none, Sharding::zero1}) {
    const Prepared prepared = prepare(
        {.devices = 2, .replicas = {2, 2}, .precision = Precision::bfloat16, .sharding = sharding});
    Machinery distant;
    distant.make_backend = [](int) { return std::make_unique<DistantBackend>(); };
    distant.make_dry_backend = [] { return std::make_unique<DryBackend>(); };
    const auto carry_out = [&](RunOptions options) {
      options.backend = BackendKind::cuda;
      return execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, options,
                     distant);
    };
    const TemporaryFolder folder;
    const RunResult whole = carry_out(writing(3, folder.path()));
    const RunResult rest = carry_out(resuming(1, checkpoint_folder(folder.path(), 2)));
    CHECK(first_difference(rest, without_first(whole, 2)) == "");
    CHECK(read_checkpoint(folder.path()).states.front().precision == Precision::float32);
  }
}

TEST_CASE("a checkpoint says how far training has come, and with what") {
  const Setting setting{
      .schedule = "pipedream-2bw", .devices = 2, .microbatches = 6, .tied = false, .group = 2};
  const Prepared prepared = prepare(setting);
  const TemporaryFolder folder;
  run(prepared, writing(2, folder.path()));
  RunOptions more = resuming(1, folder.path());
  more.checkpoints = writing(1, folder.path()).checkpoints;
  std::vector<int> told;
  more.on_step = [&](const StepReport& report) { told.push_back(report.step); };
  run(prepared, more);
  CHECK(told == std::vector{2});
  const Checkpoint read = read_checkpoint(folder.path());
  CHECK(read.folder.filename() == "step-000003");
  CHECK(read.position == TrainingPosition{.steps = 3, .samples = 36, .updates = 9});
  CHECK(read.model == "tiny");
  CHECK(read.weights == WeightPolicy::double_buffered);
  CHECK(read.seed == 3);
  CHECK(read.adamw.learning_rate == 1e-2);
  CHECK(read.data_source == "synthetic text of 2000 tokens, seed 7");
}

TEST_CASE("a checkpoint of stages that update at different rates says how often each weight did") {
  const Prepared prepared = prepare({.schedule = "pipedream",
                                     .devices = 2,
                                     .microbatches = 6,
                                     .replicas = {2, 1},
                                     .policy = ReplicaPolicy::round_robin,
                                     .tied = false});
  const TemporaryFolder folder;
  run(prepared, writing(2, folder.path()));
  const Checkpoint read = read_checkpoint(folder.path());
  CHECK(read.position.updates == 12);
  // Three rounds of two microbatches in each of two steps, and six updates behind them.
  CHECK(updates_of(read, "embedding.token.weight") == 6);
  CHECK(updates_of(read, "head.projection.weight") == 12);
  // Adam goes on from there on any devices, weight by weight.
  const Setting other{.devices = 3, .microbatches = 6, .tied = false};
  const Prepared elsewhere = prepare(other);
  const RunOptions more = resuming(2, folder.path());
  check_against_reference(other, elsewhere, more, run(elsewhere, more));
  RunOptions forgetful = resuming(2, folder.path());
  auto checkpoint = std::make_shared<Checkpoint>(*forgetful.resume);
  for (StoredState& state : checkpoint->states) state.updates = checkpoint->position.updates;
  forgetful.resume = checkpoint;
  CHECK(first_difference(run(elsewhere, forgetful), run(elsewhere, more)) != "");
}

TEST_CASE("a checkpoint without further steps gives its weights") {
  const Prepared prepared = prepare({.devices = 2});
  const TemporaryFolder folder;
  const RunResult trained = run(prepared, writing(2, folder.path()));
  const RunResult read = run(prepared, resuming(0, folder.path()));
  CHECK(read.losses.empty());
  CHECK(read.parameters_hash == trained.parameters_hash);
}

TEST_CASE(
    "checkpoints are written every n steps of the whole run and at its end; the newest stay") {
  const Prepared prepared = prepare({.devices = 2});
  const TemporaryFolder folder;
  RunOptions options = writing(7, folder.path() / "new" / "folder");
  options.checkpoints.every = 2;
  options.checkpoints.keep = 2;
  const RunResult result = run(prepared, options);
  std::vector<int> steps;
  for (const WrittenCheckpoint& written : result.checkpoints) steps.push_back(written.step);
  CHECK(steps == std::vector{2, 4, 6, 7});
  CHECK(checkpointed_steps(options.checkpoints.folder) == std::vector{6, 7});
  options.resume = resuming(1, options.checkpoints.folder).resume;
  options.steps = 3;
  CHECK(run(prepared, options).checkpoints.size() == 2);
  CHECK(checkpointed_steps(options.checkpoints.folder) == std::vector{8, 10});

  options = writing(100, folder.path() / "stopped");
  options.checkpoints.every = 0;
  std::stop_source source;
  options.stop = source.get_token();
  options.on_step = [&](const StepReport& report) {
    if (report.step == 1) source.request_stop();
  };
  run(prepared, options);
  CHECK(checkpointed_steps(options.checkpoints.folder) == std::vector{2});
}
