// The flags of a launch, whichever of the ways it is written in, with their places: a shell script,
// YAML, JSON, or the arguments that a run printed into its log.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/interop/importers.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// A variable without value that a text follows from.
struct MissingVariable {
  std::string name;        ///< as --set takes it
  std::string expression;  ///< as the script has it
  SourcePlace place;
  bool is_condition = false;  ///< whether a flag is there depends on it
  std::string setting = {};   ///< for a recipe: the key of the value, as --set takes it
  bool operator==(const MissingVariable&) const = default;
};

/// `--num-layers 32`, `--num-layers=32`; `num_layers: 32`; `"num_layers": 32`;
/// `model.num_layers=32`.
struct FlagWord {
  std::string name;                  ///< "num-layers"
  std::optional<std::string> value;  ///< none for a switch that is on
  bool is_next_word = false;         ///< the value is the next word, which may belong to no flag
  SourcePlace place;
  std::string section;  ///< "model"; "launcher" in front of the program; empty: a flag
  std::vector<MissingVariable> missing;  ///< not empty: the value is not known
  std::vector<std::string> open_flags;   ///< flags that may stand where the value is not known
  bool is_null = false;  ///< null in YAML, JSON or an override: it is said that there is none
};

/// A file of settings that a launch begins with: `--config FILE`, or `training=gpt3/40b` beside
/// `training.model.fp8=true`.
struct NamedRecipe {
  ReadText said;
  std::string path;   ///< where it may be
  std::string mount;  ///< the section that it fills
};

/// One start of a program, with its flags.
struct FlagLaunch {
  std::string program;  ///< "pretrain_gpt.py", "megatron sft"; empty: not said
  std::vector<FlagWord> words;
  std::map<std::string, FlagWord> environment;  ///< NPROC_PER_NODE and NNODES, where they are set
  /// Words that are not known, where flags might be: without names.
  std::vector<FlagWord> open;
  std::vector<NamedRecipe> recipes;  ///< that are not beside the script
  SourcePlace place;
  bool starts = true;  ///< false: all flags in a script's variables, which starts nothing
};

struct FlagReading {
  enum class Kind { shell, yaml, json, log };
  Kind kind = Kind::shell;
  std::vector<FlagLaunch> launches;
  std::vector<std::string> notes;
  std::vector<std::string> assumed_unset;        ///< variables that conditions took as not set
  std::map<std::string, std::string> documents;  ///< files that the script writes, by their names
  std::vector<OtherFile> others;
  std::vector<std::string> variables;  ///< that --set could give
};

/// "trainer.num_nodes": a recipe's key, with those above it.
std::string setting_of(const FlagWord& word);

/// The place of what the command line says in a file's stead.
SourcePlace place_of_set(std::string_view name);

/// All launches of a script; of other kinds of files, the one. A log's if it has a dump of
/// arguments; else YAML by its name, JSON if it starts with a brace, YAML if it has a line
/// `NAME: …` before any word that starts with two hyphens stands alone and is no script by its
/// first line or its name, else a shell script, read as shell/reader.hpp says. JSON and YAML may
/// put the flags into members of their own; there a variable is a key with those above it, and
/// stands over what the file says of it ("trainer.num_nodes"). Throws Error (input) for what is no
/// JSON, YAML or shell, (usage) for variables that a log is given.
FlagReading read_flags(std::string_view content, const std::string& file,
                       const ScriptVariables& variables);

/// "--num_layers" and "num_layers" as "num-layers".
std::string plain_flag_name(std::string_view name);

}  // namespace stagecraft
