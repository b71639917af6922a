// A flag as its file spells it, for what the importer of launches says it understood.

#pragma once

#include <string>

#include "planner/interop/importers/launch_parser.hpp"

namespace stagecraft {

/// "--seq-length 4096" of a script, "model.seq_length=4096" of its overrides, "model.seq_length:
/// 4096" of a recipe.
std::string text_of_flag(const FlagWord& word, FlagReading::Kind kind);

/// The flag is understood, as it is spelt.
void note_understood(const FlagWord& word, FlagReading::Kind kind, ParsedLaunch& parsed);

}  // namespace stagecraft
