#include "executor/driver/execute.hpp"

#include <algorithm>
#include <memory>
#include <optional>

#include "executor/backends/dry.hpp"
#include "executor/backends/sleep.hpp"
#include "executor/checkpoints/describe.hpp"
#include "executor/checkpoints/writer.hpp"
#include "executor/driver/driver.hpp"
#include "executor/memory/traced_program.hpp"
#include "executor/training/interpreter.hpp"
#include "executor/training/training.hpp"
#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"
#include "profiles/machine_memory.hpp"
#include "profiles/trained_form.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/simulate.hpp"

namespace stagecraft {

namespace {

/// Throws Error (execution) for what can be simulated and checked, but not carried out yet.
void require_executable(const Compiled& compiled, BackendKind backend) {
  const Program& program = compiled.program;
  const auto refuse = [&](std::string_view why, std::string_view instead) {
    throw Error(ErrorKind::execution, concat("run: the schedule ", compiled.schedule.name, " ", why,
                                             ", which the layers cannot do yet; ", instead));
  };
  if (program.norm == GradientNorm::post_validated) {
    throw Error(ErrorKind::execution,
                "run: the program validates its updates afterwards, which cannot be carried out "
                "yet; let all wait for the norm (global), or leave it out");
  }
  if (program.sequence_chunks > 1 && backend == BackendKind::cuda) {
    refuse("cuts sequences into pieces that attend to each other",
           "on GPUs use one sequence chunk");
  }
  if (program.feedback > 0) {
    refuse("feeds tokens back and keeps keys and values between them", "use no decode steps");
  }
}

/// Throws Error (execution) for layers that CPUs compute and GPUs do not.
void require_computable(const Model& model, BackendKind backend) {
  if (backend != BackendKind::cuda || !model.transformer) return;
  for (const Layer& layer : model.layers) {
    const std::string reason = only_on_cpus(*model.transformer, layer);
    if (reason.empty()) continue;
    throw Error(ErrorKind::execution, concat("run: ", model.name, " ", reason,
                                             ", which GPUs do not compute yet; use --backend cpu"));
  }
}

[[noreturn]] void refuse_size(const std::string& why) {
  throw Error(ErrorKind::infeasible, "run: the plan does not fit: " + why);
}

/// What does not fit, if anything; gaps between buffers count.
std::optional<std::string> excess(const Compiled& compiled) {
  const Program& program = compiled.program;
  const CheckReport report = check(program, {.memory_limits = compiled.memory_limits});
  for (const Finding& finding : report.findings) return finding.message;
  for (std::size_t i = 0; i < compiled.memory_limits.size(); ++i) {
    const Bytes limit = compiled.memory_limits[i];
    const Bytes room = program.reserve.empty() ? limit : limit - program.reserve[i];
    if (program.arena[i] <= room) continue;
    return concat("device ", i, " needs an arena of ", format_bytes(program.arena[i]), " and has ",
                  format_bytes(room), "; what lives at once would fit, but not the gaps between");
  }
  return {};
}

/// The same plan with every stage recomputed. Empty where that changes nothing.
std::string effect_of_recomputation(const Training& training, const Compiled& compiled,
                                    const RankMap& ranks, Backend& dry) {
  Compiled other = compiled;
  std::vector<Recompute>& recompute = other.lowering.recompute;
  recompute.resize(static_cast<std::size_t>(other.program.stages), Recompute::none);
  if (!other.program.trains || !std::ranges::count(recompute, Recompute::none)) return "";
  // Layers that recompute by themselves have another plan than this one.
  const auto by_layers = [](const Stage& stage) { return !stage.again.empty(); };
  if (std::ranges::any_of(training.plan.stages, by_layers)) return "";
  std::ranges::fill(recompute, Recompute::full);
  other.program = lower(other.schedule, other.lowering);
  const TracedProgram traced = trace_program(training, other, ranks, dry);
  const std::vector<Bytes>& needed = traced.compiled.program.arena;
  const auto fullest = std::ranges::max_element(needed);
  return concat("; planned with --recompute full it would ",
                excess(traced.compiled) ? "not fit either" : "fit", ": at most ",
                format_bytes(*fullest), ", on device ", fullest - needed.begin());
}

/// Trains, from a checkpoint or from the beginning, and writes checkpoints.
/// `traced`, if any, is where `compiled` comes from.
RunResult train(const Training& training, const Compiled& compiled, const RankMap& ranks,
                const TracedProgram* traced, const Machinery& machinery) {
  const Program& program = compiled.program;
  const RunOptions& options = training.options;
  const CheckpointOptions& checkpoints = options.checkpoints;
  if (!program.trains && (options.resume || !checkpoints.folder.empty())) {
    fail("run: ", training.schedule.name,
         " trains nothing, so there is nothing to resume and nothing for a checkpoint");
  }
  if (options.resume) require_resumable(*options.resume, training);
  std::optional<CheckpointWriter> writer;
  if (!checkpoints.folder.empty()) {
    const auto started = launch();
    writer.emplace(describe(training), checkpoints, training.start().steps,
                   !started || started->rank == 0);
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
        return std::make_unique<Interpreter>(training, program, ranks, traced, backend, transport);
      },
      settle);
  if (writer) result.checkpoints = writer->written();
  return result;
}

/// Of the ranks of this process, which keep their arenas in its memory. Throws Error (infeasible).
void require_arenas(const Program& program, const RankMap& ranks) {
  const auto started = launch();
  const bool is_one_of_several = started && started->processes == ranks.ranks();
  // A thread's stack, its part of the allocator, which takes twice that while it begins, and
  // OpenBLAS's buffer of 128 MiB, for which it would ask again without end; little of it is used.
  constexpr Bytes address_space_of_rank = Bytes{288} << 20;
  Bytes needed = 0;
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    if (is_one_of_several && rank != started->rank) continue;
    needed += program.arena[static_cast<std::size_t>(ranks.device_of(rank))];
  }
  const int here = is_one_of_several ? 1 : ranks.ranks();
  const Bytes space = needed + here * address_space_of_rank;
  if (const Bytes left = left_address_space(); left < space) {
    throw Error(ErrorKind::infeasible,
                concat("run: ", here, here == 1 ? " rank needs" : " ranks need", " about ",
                       format_bytes(space), " of address space, and ", format_bytes(left),
                       " are left to this process; raise its limits (ulimit -v, ulimit -d)"));
  }
  require_memory(needed, is_one_of_several ? concat("run: rank ", started->rank) : "run: the plan",
                 "plan for less (plan --memory, --recompute), or run on more machines");
}

/// With the bytes that the layers really ask for. The program is safe; throws Error (infeasible)
/// with what the fullest device would hold, before anything is allocated.
RunResult train_in_arenas(const Training& training, const Compiled& compiled,
                          const Machinery& machinery) {
  const RankMap ranks = ranks_of(training.plan, compiled.program);
  const auto dry = machinery.make_dry_backend();
  const TracedProgram traced = trace_program(training, compiled, ranks, *dry);
  if (const auto found = excess(traced.compiled)) {
    refuse_size(*found + effect_of_recomputation(training, traced.compiled, ranks, *dry));
  }
  if (training.options.backend == BackendKind::cpu) require_arenas(traced.compiled.program, ranks);
  RunResult result = train(training, traced.compiled, ranks, &traced, machinery);
  for (const MemoryPeak& peak :
       memory_peaks(simulate(traced.compiled.program, traced.compiled.costs))) {
    result.simulated_memory.push_back(peak.bytes);
  }
  return result;
}

/// A program that may be wrong, tensor by tensor.
RunResult train_as_is(const Training& training, const Compiled& compiled,
                      const Machinery& machinery) {
  return train(training, compiled, ranks_of(training.plan, compiled.program), nullptr, machinery);
}

}  // namespace

RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options, const Machinery& machinery) {
  require_executable(compiled, options.backend);
  require_computable(profile.model, options.backend);
  if (options.clip_norm > 0 && compiled.program.norm != GradientNorm::global) {
    throw Error(ErrorKind::bug, "gradients are to be clipped, and the program has no norm of them");
  }
  if (!machinery.trusts_program) {
    require_safe(compiled.program, {.device_names = compiled.devices});
  }
  switch (options.backend) {
    case BackendKind::cpu:
    case BackendKind::cuda: {
      const Training training = make_training(plan, profile, dataset, options);
      return machinery.trusts_program ? train_as_is(training, compiled, machinery)
                                      : train_in_arenas(training, compiled, machinery);
    }
    case BackendKind::sleep: return sleep_through(compiled, options, machinery);
  }
  return {};
}

Machinery machinery_of(const RunOptions& options) {
  Machinery machinery;
  if (options.backend == BackendKind::cuda) {
    machinery.make_backend = [cuda = options.cuda](int rank) {
      return make_cuda_backend(rank, cuda);
    };
    machinery.make_dry_backend = [] { return std::make_unique<DryBackend>(cuda_row_alignment); };
  }
  return machinery;
}

RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options) {
  RunOptions in_one_process = options;
  if (options.backend == BackendKind::cuda) {
    in_one_process.cuda.ranks = ranks_of(plan, compiled.program).ranks();
  }
  return execute(plan, profile, compiled, dataset, options, machinery_of(in_one_process));
}

}  // namespace stagecraft
