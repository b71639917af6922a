// The programs made of Megatron-LM: which of them a launch starts, what its flags are called in
// Megatron-LM, and which of its settings are not about the model that is trained. For the importer
// of launches.

#pragma once

#include <string_view>

#include "planner/interop/importers/launch_parser.hpp"

namespace stagecraft {

/// By the program's name, or by flags and sections that only it has.
Dialect dialect_of(const FlagLaunch& launch, FlagReading::Kind kind);

/// The word as Megatron-LM has it.
FlagWord in_megatron(const FlagWord& word, Dialect dialect);

/// The name of the number of nodes in its recipes: "num-nodes".
std::string word_of_nodes(Dialect dialect);

/// Of a program that trains one model and runs others beside it, the parts that are not trained, or
/// have a plan of their own.
bool is_other_model(std::string_view section);

}  // namespace stagecraft
