// The options of a run that writes checkpoints, or goes on from one.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "executor/driver/execute.hpp"
#include "tools/console.hpp"

namespace CLI {
class App;
}

namespace stagecraft {

struct CheckpointFlags {
  std::string folder, resume;
  int every = 0;  ///< 0: not given
  int keep = 0;   ///< 0: not given
};

/// --checkpoint --every --keep --resume.
void declare_checkpoints(CLI::App& app, CheckpointFlags& flags);

/// Throws Error (usage) for --every or --keep without --checkpoint.
void require_valid(const CheckpointFlags& flags);

/// Fills in where checkpoints go and what the run goes on from; then `steps`, so far those of all
/// of the training, become those that are left, and the optimizer's settings the checkpoint's,
/// unless its learning rate is given. Throws Error (usage) if more steps are done than asked for,
/// and Error (input) if there is no checkpoint to go on from.
void add_checkpoints(Console& console, const CheckpointFlags& flags, double learning_rate,
                     RunOptions& options);

/// `resumed` and `checkpoints[]`, and their lines; nothing where there were none.
void tell_checkpoints(Console& console, const RunOptions& options, const RunResult& run,
                      nlohmann::ordered_json& result);

}  // namespace stagecraft
