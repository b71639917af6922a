// The flags of a launch line, whichever of three ways it is written in, with their places.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

/// `--num-layers 32`, `--num-layers=32`; `num_layers: 32`; `"num_layers": 32`.
struct FlagWord {
  std::string name;                  ///< "num-layers"
  std::optional<std::string> value;  ///< none for a switch that is on
  bool is_next_word = false;         ///< the value is the word behind, which may belong to nobody
  bool is_list = false;              ///< of YAML, an element a line, which is not read
  SourcePlace place;
};

/// Whether the text is a log with Megatron-LM's arguments between two lines of hyphens.
bool has_arguments_dump(std::string_view content);

/// The arguments of such a log, each with its value as it is printed ("None", "False", "32"), of
/// the first rank that prints them.
std::vector<FlagWord> read_arguments_dump(std::string_view content, const std::string& file);

/// The flags in the file's order. A log's if it has a dump of arguments; else JSON if it starts
/// with a brace, YAML if it has a line `NAME: …` before any word that starts with two hyphens
/// stands alone, else the words of a shell: quotes, comments and continued lines are understood,
/// everything that is no flag or its value is passed over. JSON and YAML may put the flags into
/// members of their own. Throws Error (input) for JSON or quotes that do not end.
std::vector<FlagWord> read_flag_words(std::string_view content, const std::string& file);

}  // namespace stagecraft
