#include "tools/options/checkpoint_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "executor/checkpoints/files.hpp"
#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

namespace {

using nlohmann::ordered_json;

std::string name_of(const Checkpoint& checkpoint) {
  return std::filesystem::weakly_canonical(checkpoint.folder).filename().string();
}

/// As it was, or with another learning rate.
void take_optimizer(Console& console, const Checkpoint& checkpoint, double learning_rate,
                    RunOptions& options) {
  options.adamw = checkpoint.adamw;
  options.sgd = checkpoint.sgd;
  if (learning_rate <= 0) return;
  const double before = checkpoint.optimizer == OptimizerKind::sgd ? checkpoint.sgd.learning_rate
                                                                   : checkpoint.adamw.learning_rate;
  options.adamw.learning_rate = options.sgd.learning_rate = learning_rate;
  if (before != learning_rate) {
    console.note(fmt::format("the learning rate is {} from here on; the checkpoint's was {}",
                             learning_rate, before));
  }
}

/// Of a folder of checkpoints, the newest one that is whole; otherwise what was named.
std::filesystem::path to_resume(Console& console, const std::filesystem::path& path) {
  if (std::filesystem::exists(path / manifest_name)) return path;
  const WholeCheckpoint found = newest_whole_checkpoint(path);
  const auto started = launch();
  const std::string all = all_are_damaged(path, found);
  // Of several the newest is part of the sentence; of a single one reading it says what is wrong.
  const std::size_t told_elsewhere = found.folder ? 0 : 1;
  for (std::size_t i = told_elsewhere; i < found.problems.size(); ++i) {
    if (!started || started->rank == 0) console.warn(found.problems[i]);
  }
  if (!all.empty()) fail(all, "; begin again without --resume, or name another folder");
  return found.folder.value_or(path);
}

ordered_json written_json(const WrittenCheckpoint& written) {
  return {{"step", written.step},
          {"checkpoint_bytes", written.bytes},
          {"write_ns", written.time.count()}};
}

}  // namespace

void declare_checkpoints(CLI::App& app, CheckpointFlags& flags) {
  app.add_option("--checkpoint", flags.folder,
                 "Folder for checkpoints, written when the run ends or is interrupted, and after "
                 "every --every steps")
      ->type_name("DIR");
  app.add_option("--every", flags.every, "Number of steps between checkpoints")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--keep", flags.keep, "Number of checkpoints to keep, newest first (2)")
      ->type_name("N")
      ->check(CLI::Range(1, 100'000'000));
  app.add_option("--resume", flags.resume,
                 "Checkpoint to resume, or a folder of them, for the latest; any plan may have "
                 "written it; --steps counts its steps, too")
      ->type_name("DIR");
}

void require_valid(const CheckpointFlags& flags) {
  if (!flags.folder.empty()) return;
  const auto refuse = [](const char* option) {
    fail_usage(option, " needs --checkpoint DIR, the folder to write to");
  };
  if (flags.every > 0) refuse("--every");
  if (flags.keep > 0) refuse("--keep");
}

void add_checkpoints(Console& console, const CheckpointFlags& flags, double learning_rate,
                     RunOptions& options) {
  options.checkpoints.folder = flags.folder;
  options.checkpoints.every = flags.every;
  if (flags.keep > 0) options.checkpoints.keep = flags.keep;
  if (flags.resume.empty()) return;
  auto checkpoint = std::make_shared<Checkpoint>(read_checkpoint(to_resume(console, flags.resume)));
  const int done = checkpoint->position.steps;
  if (done > options.steps) {
    fail_usage("--steps ", options.steps, ": ", checkpoint->folder.string(), " has done ", done,
               " steps already; --steps counts those, too");
  }
  options.steps -= done;
  take_optimizer(console, *checkpoint, learning_rate, options);
  options.resume = std::move(checkpoint);
}

void tell_checkpoints(Console& console, const RunOptions& options, const RunResult& run,
                      ordered_json& result) {
  if (const Checkpoint* from = options.resume.get()) {
    result["resumed"] = {{"checkpoint", name_of(*from)},
                         {"step", from->position.steps},
                         {"samples", from->position.samples},
                         {"updates", from->position.updates}};
  }
  if (options.checkpoints.folder.empty()) return;
  result["checkpoints"] = ordered_json::array();
  for (const WrittenCheckpoint& written : run.checkpoints) {
    result["checkpoints"].push_back(written_json(written));
  }
  if (run.checkpoints.empty()) return;
  const WrittenCheckpoint& last = run.checkpoints.back();
  console.print(fmt::format("checkpoint after step {}: {} in {}, --resume {} goes on from it\n",
                            last.step, format_bytes(last.bytes), format_duration(last.time),
                            options.checkpoints.folder.string()));
}

}  // namespace stagecraft
