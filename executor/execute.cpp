#include "executor/execute.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "executor/interpreter.hpp"
#include "executor/machinery.hpp"
#include "executor/ranks.hpp"
#include "executor/sleep.hpp"
#include "executor/training.hpp"
#include "profiles/error.hpp"
#include "simulator/check.hpp"

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

/// A run of the CPU backend. Backends outlive the transports, whose queues may still hold their
/// memory after a failure.
class TrainingRun {
 public:
  TrainingRun(const Training& training, const Program& program, const Machinery& machinery)
      : training_(training),
        program_(program),
        recording_(program, training.options.steps),
        backends_(index(program.devices)),
        interpreters_(index(program.devices)),
        transports_(machinery.make_transports(wiring_of(program))) {
    for (int rank = 0; rank < program.devices; ++rank) {
      backends_[index(rank)] = machinery.make_backend(rank);
    }
  }

  RunResult run() {
    run_ranks(transports_, training_.options.steps,
              {.prepare = [this](int rank) { prepare(rank); },
               .step =
                   [this](int rank, int step) {
                     interpreters_[index(rank)]->step(step, recording_.step(step));
                   },
               .after_step = [this](int step) { return after_step(step); },
               .describe_failure = [this](int rank) { return describe_failure(rank); }});
    result_.timeline = recording_.timeline(program_, result_.step_times);
    for (const auto& backend : backends_) result_.peak_memory.push_back(backend->peak_bytes());
    set_parameters(result_, gather_parameters());
    return std::move(result_);
  }

 private:
  void prepare(int rank) {
    interpreters_[index(rank)] = std::make_unique<Interpreter>(
        training_, program_, *backends_[index(rank)], *transports_[index(rank)]);
  }

  bool after_step(int step) {
    const RunOptions& options = training_.options;
    result_.losses.push_back(loss());
    result_.step_times.push_back(recording_.step_time(step));
    if (options.on_step) options.on_step({step, result_.losses.back(), result_.step_times.back()});
    return !options.stop.stop_requested();
  }

  TrainedChunk& chunk(std::size_t i) {
    return *interpreters_[index(program_.chunks[i].device)]->chunk(static_cast<int>(i));
  }

  /// Microbatch by microbatch, replica by replica, in this order: the same sum for every schedule.
  double loss() {
    double sum = 0;
    for (int m = 0; m < program_.microbatches; ++m) {
      for (std::size_t i = 0; i < program_.chunks.size(); ++i) {
        if (is_last(training_.schedule, program_.chunks[i].stage)) sum += chunk(i).pass(m).loss;
      }
    }
    return sum / static_cast<double>(training_.tokens_per_step());
  }

  std::string describe_failure(int rank) const {
    const auto& interpreter = interpreters_[index(rank)];
    return describe_rank_failure(program_, rank,
                                 interpreter ? interpreter->current_work() : std::nullopt);
  }

  /// All copies of a weight took the same steps; one that did not is not worth its name.
  std::map<std::string, Tensor> gather_parameters() {
    std::map<std::string, Tensor> gathered;
    for (std::size_t i = 0; i < program_.chunks.size(); ++i) {
      for (const Parameter* parameter : chunk(i).parameters()) {
        const Tensor& weight = parameter->weight;
        const Tensor& first = gathered.try_emplace(parameter->spec.name, weight).first->second;
        const auto bytes = static_cast<std::size_t>(weight.bytes());
        if (std::memcmp(first.storage.get(), weight.storage.get(), bytes) == 0) continue;
        throw Error(
            ErrorKind::execution,
            concat("the copies of ", parameter->spec.name, " differ after the last step on ",
                   name_of_rank(program_, program_.chunks[i].device, static_cast<int>(i))));
      }
    }
    return gathered;
  }

  const Training& training_;
  const Program& program_;
  RunRecording recording_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::vector<std::unique_ptr<Interpreter>> interpreters_;
  std::vector<std::unique_ptr<Transport>> transports_;
  RunResult result_;
};

/// Throws Error (execution) for what can be simulated and checked, but not carried out yet.
void require_executable(const Compiled& compiled) {
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
  if (program.sequence_chunks > 1) {
    refuse("cuts sequences into pieces that attend to each other", "use one sequence chunk");
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

/// The CPU's layers have no tensor-parallel form.
void require_whole_layers(const Plan& plan) {
  for (const Stage& stage : plan.stages) {
    for (const auto& peers : stage.devices) {
      if (peers.size() == 1) continue;
      throw Error(ErrorKind::execution,
                  concat("run: the plan splits layers over ", peers.size(),
                         " tensor-parallel devices, which the CPU backend cannot carry out yet; "
                         "make it with --tensor-parallel 1, or look at it with --backend sleep"));
    }
  }
}

}  // namespace

RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options, const Machinery& machinery) {
  require_executable(compiled);
  if (!machinery.trusts_program) require_safe(compiled.program);
  switch (options.backend) {
    case BackendKind::cpu: {
      require_whole_layers(plan);
      if (!machinery.trusts_program) require_fitting(compiled);
      const Training training = make_training(plan, profile, dataset, options);
      return TrainingRun(training, compiled.program, machinery).run();
    }
    case BackendKind::sleep: return sleep_through(compiled, options, machinery);
  }
  return {};
}

RunResult execute(const Plan& plan, const Profile& profile, const Compiled& compiled,
                  const Dataset& dataset, const RunOptions& options) {
  return execute(plan, profile, compiled, dataset, options, Machinery{});
}

}  // namespace stagecraft
