// Consequences of a launch's flags in combination, and defaults of its program. For the importer of
// launches.

#pragma once

#include "planner/interop/importers/launch_parser.hpp"

namespace stagecraft {

/// Members that one switch turns off say nothing.
void settle_switches(ParsedLaunch& parsed);

/// A language model behind an encoder of images has the decoder's length, `--seq-length` being the
/// encoder's; `--encoder-seq-length` alone is the other word for it.
void settle_sequence(ParsedLaunch& parsed);

/// DeepSpeed's pipelines take ZeRO-1 at most; its optimizer for bf16 shards states in any case
/// (deepspeed/runtime/bf16_optimizer.py). Throws Error (input) for what DeepSpeed refuses.
void settle_deepspeed(ParsedLaunch& parsed);

/// Applies the defaults of the dialect's program, and notes them.
void set_program_defaults(ParsedLaunch& parsed);

}  // namespace stagecraft
