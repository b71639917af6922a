// The possible words at a place of the command line, from the tables that the verbs themselves
// read.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stagecraft {

struct Choice {
  std::string word;
  std::string help;  ///< may be empty
  bool operator==(const Choice&) const = default;
};

/// The possible values of an option or an argument.
struct Choices {
  std::vector<Choice> words;
  bool is_closed = false;  ///< only the words are allowed
  bool files = false;      ///< file names are allowed
  bool folders = false;    ///< folder names are allowed
  bool is_list = false;    ///< a comma-separated list
  bool counted = false;    ///< a word may have a count as prefix: 8xh100
  bool operator==(const Choices&) const = default;
};

struct OptionWords {
  std::vector<std::string> names;  ///< "--batch", "--gbs"; for an argument, its name alone
  std::string help;                ///< one line
  std::string value;               ///< name of the value; "" for a flag without one
  std::string type;                ///< type of the value: "integer", "number" or "text"
  bool is_repeated = false;
  bool is_required = false;
  Choices choices;
};

/// A verb with its options and arguments, for a shell's completion.
struct VerbWords {
  std::string name, help;
  std::vector<OptionWords> options;
  std::vector<OptionWords> arguments;  ///< in their order; only the last one can be repeated
};

/// The words of a verb whose options have been declared on `app`.
VerbWords words_of(std::string_view verb, std::string_view help, const CLI::App& app);

}  // namespace stagecraft
