// Reads a shell script as the shell would, up to the commands it would start, and starts none.
//
// Variables, arrays, quotes, arithmetic, conditions, loops, functions, here-documents, scripts that
// are sourced or called, `eval` and `bash -c` are followed (POSIX, IEEE 1003.1, "Shell Command
// Language"; arrays, `[[`, `((` as the manual of bash has them). What other programs print is not
// known: such a text has a hole that says which variable would fill it. A variable that nobody sets
// is empty where the script asks whether it is set, and a hole where its value is used. Where a
// condition depends on what is not known, both ways are read, and what they leave differently is a
// hole.

#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "planner/interop/importers/shell/text.hpp"
#include "profiles/error.hpp"

namespace stagecraft::shell {

struct Settings {
  /// Values of variables from the user, which override the script's. "1" is the first argument,
  /// "$(nproc)" the output of that command.
  std::map<std::string, std::string> variables;
  /// The content of a file beside the script; nothing if there is none. `path` is as the script has
  /// it, after the last hole in it.
  std::function<std::optional<std::string>(const std::string& path)> read_file;
  std::set<std::string> flags_with_bars;  ///< see Syntax
  std::set<std::string>
      environment;  ///< variables that commands are to come with, where they are set
};

/// A command with its words as its program would get them.
struct Invocation {
  std::vector<Text> words;
  std::map<std::string, Text> environment;  ///< values of the requested variables that are set
  Place place;
};

/// A variable with all its words, where it ended.
struct VariableReading {
  std::string name;
  std::vector<Text> words;
  Place place;
};

struct Reading {
  std::vector<std::string> files;  ///< that were read, the script first; Place::file counts them
  std::vector<Unknown> unknowns;
  std::vector<Invocation> commands;        ///< in the order in which they would start
  std::vector<VariableReading> variables;  ///< that are set at the end, in order of setting
  std::map<std::string, Text> documents;   ///< files that the script writes from here-documents
  std::map<std::string, Text> directives;  ///< "#SBATCH --nodes=2": "nodes" and its value
  std::vector<std::string> notes;          ///< assumptions, one sentence each
  std::set<std::string> assumed_unset;     ///< variables that conditions took as not set
  std::set<std::string> used;              ///< names that the script reads or sets

  SourcePlace source_place(const Place& place) const;
  /// The text with each hole as the expression it stands for.
  std::string shown(const Text& text) const;
  /// The unknowns that these follow from in the end, each once.
  std::vector<int> roots(const std::vector<int>& unknowns) const;
};

/// Throws Error (input), with the place, for a syntax error, a loop that runs too long, calls that
/// are too deep, or a file that cannot be read.
Reading read_script(std::string_view content, const std::string& file, const Settings& settings);

}  // namespace stagecraft::shell
