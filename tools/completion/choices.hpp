// What may stand in a place of the command line, from the tables that the verbs themselves read.

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

/// What an option's value, or an argument, may be.
struct Choices {
  std::vector<Choice> words;
  bool is_closed = false;  ///< nothing but the words
  bool files = false;      ///< names of files, too
  bool folders = false;    ///< names of folders, too
  bool is_list = false;    ///< several words, with commas between them
  bool counted = false;    ///< a word may have a count before it: 8xh100
  bool operator==(const Choices&) const = default;
};

struct OptionWords {
  std::vector<std::string> names;  ///< "--batch", "--gbs"; of an argument its name alone
  std::string help;                ///< one line
  std::string value;               ///< what the value is called, "" for a flag without one
  std::string type;                ///< of the value: "integer", "number" or "text"
  bool is_repeated = false;
  bool is_required = false;
  Choices choices;
};

/// A verb as a shell is to know it.
struct VerbWords {
  std::string name, help;
  std::vector<OptionWords> options;
  std::vector<OptionWords> arguments;  ///< in their order; a repeated one is the last
};

/// Of a verb whose options have been declared on `app`.
VerbWords words_of(std::string_view verb, std::string_view help, const CLI::App& app);

}  // namespace stagecraft
