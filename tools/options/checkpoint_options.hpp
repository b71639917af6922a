// The options of a run that writes checkpoints or resumes one.

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

/// Sets the checkpoint folder, and the checkpoint to resume. Then `steps`, the total of the
/// training, becomes the remaining number, and the optimizer's settings become the checkpoint's,
/// unless a learning rate is given. Throws Error (usage) if the checkpoint has more steps than
/// requested, and Error (input) if there is no checkpoint to resume.
void add_checkpoints(Console& console, const CheckpointFlags& flags, double learning_rate,
                     RunOptions& options);

/// Writes `resumed` and `checkpoints[]` to the result, and prints them; nothing if there were none.
void tell_checkpoints(Console& console, const RunOptions& options, const RunResult& run,
                      nlohmann::ordered_json& result);

}  // namespace stagecraft
