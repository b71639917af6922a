#include "executor/execute.hpp"

#include <memory>
#include <optional>

#include "executor/backends/cuda.hpp"
#include "executor/checkpoints/describe.hpp"
#include "executor/checkpoints/writer.hpp"
#include "executor/conduct.hpp"
#include "executor/interpreter.hpp"
#include "executor/sleep.hpp"
#include "executor/training.hpp"
#include "profiles/error.hpp"
#include "simulator/check.hpp"

namespace stagecraft {

namespace {

/// Throws Error (execution) for what can be simulated and checked, but not carried out yet.
void require_executable(const Compiled& compiled, BackendKind backend) {
  const Program& program = compiled.program;
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    throw Error(ErrorKind::execution, concat("run: the schedule ", compiled.schedule.name, " ", why,
                                             ", which the layers cannot do yet; ", instead));
  };
  if (program.norm != GradientNorm::none) {
    throw Error(ErrorKind::execution,
                "run: the program waits for the norm of all gradients, which cannot be carried out "
                "yet; leave the norm out");
  }
  if (program.sequence_chunks > 1 && backend == BackendKind::cuda) {
    refuse("cuts sequences into pieces that attend to each other",
           "on GPUs use one sequence chunk");
  }
  if (program.feedback > 0) {
    refuse("feeds tokens back and keeps keys and values between them", "use no decode steps");
  }
}

/// The program is safe. Throws Error (infeasible) with what the fullest device would hold, before
/// anything is allocated.
void require_fitting(const Compiled& compiled) {
  const CheckReport report = check(compiled.program, {.memory_limits = compiled.memory_limits});
  for (const Finding& finding : report.findings) {
    throw Error(ErrorKind::infeasible, concat("run: the plan does not fit: ", finding.message));
  }
}

/// Trains, from a checkpoint or from the beginning, and writes checkpoints.
RunResult train(const Training& training, const Compiled& compiled, const Machinery& machinery) {
  const Program& program = compiled.program;
  const RankMap ranks = ranks_of(training.plan, program);
  const RunOptions& options = training.options;
  const CheckpointOptions& checkpoints = options.checkpoints;
  if (!program.trains && (options.resume || !checkpoints.folder.empty())) {
    fail("run: ", training.schedule.name,
         " trains nothing, so there is nothing to resume and nothing for a checkpoint");
  }
  if (options.resume) require_resumable(*options.resume, training);
  std::optional<CheckpointWriter> writer;
  if (!checkpoints.folder.empty()) {
    writer.emplace(describe(training), checkpoints, training.start().steps);
  }
  const auto settle = [&](Transport& transport, Backend& backend, Worker& worker, int step,
                          bool goes_on) {
    const TrainingPosition position = position_after(training, step + 1);
    const bool is_due = checkpoints.every > 0 && position.steps % checkpoints.every == 0;
    if (writer && (is_due || !goes_on)) writer->write(transport, backend, worker.state(), position);
  };
  RunResult result = conduct(
      compiled, ranks, training.tokens_per_step(), options, machinery,
      [&](Backend& backend, Transport& transport) {
        return std::make_unique<Interpreter>(training, program, ranks, backend, transport);
      },
      settle);
  if (writer) result.checkpoints = writer->written();
  return result;
}

}  // namespace

RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options, const Machinery& machinery) {
  require_executable(compiled, options.backend);
  if (!machinery.trusts_program) require_safe(compiled.program);
  switch (options.backend) {
    case BackendKind::cpu:
    case BackendKind::cuda: {
      if (!machinery.trusts_program) require_fitting(compiled);
      return train(make_training(plan, profile, dataset, options), compiled, machinery);
    }
    case BackendKind::sleep: return sleep_through(compiled, options, machinery);
  }
  return {};
}

Machinery machinery_of(const RunOptions& options) {
  Machinery machinery;
  if (options.backend == BackendKind::cuda) machinery.make_backend = make_cuda_backend;
  return machinery;
}

RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options) {
  return execute(plan, profile, compiled, dataset, options, machinery_of(options));
}

}  // namespace stagecraft
