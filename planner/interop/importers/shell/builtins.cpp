// Commands of the shell itself.

#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

using Flow = Outcome::Flow;

/// Say nothing, and change nothing that is of interest.
constexpr std::array silent{"trap",   "wait",  "sleep",   "alias",    "unalias", "shopt",  "ulimit",
                            "umask",  "mkdir", "set",     "hash",     "rm",      "touch",  "cp",
                            "mv",     "ln",    "chmod",   "kill",     "pkill",   "enable", "module",
                            "disown", "popd",  "pushd",   "complete", "bind",    "conda",  "clear",
                            "logger", "sync",  "history", "tput",     "stty"};

/// Fields that other characters separate, with blanks between them.
Text with_blanks(const Text& line, const Text& separators) {
  if (!line.is_known()) return line;
  std::string characters = line.characters();
  for (char& c : characters) {
    if (separators.characters().find(c) != std::string::npos) c = ' ';
  }
  return {characters, line.place()};
}

/// The number behind "break" or "shift", if there is a digit.
int count_behind(const std::vector<Text>& words, int otherwise) {
  if (words.size() < 2) return otherwise;
  const std::string& text = words[1].characters();
  return text.size() == 1 && text[0] >= '1' && text[0] <= '9' ? text[0] - '0' : otherwise;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

/// Ends, and what ends nothing.
std::optional<Outcome> Interpreter::run_control(const std::string& name,
                                                const std::vector<Text>& words,
                                                const Command& command, State& state) {
  if (name == ":" || name == "true") return answered(true);
  if (name == "false") return answered(false);
  if (name == "[" || name == "test") {
    const bool closes = name == "[" && words.back().characters() == "]";
    return ended(test({words.begin() + 1, words.end() - (closes ? 1 : 0)}, command.place, state));
  }
  if (name == "exit") {
    const bool is_good = words.size() < 2 || words[1].characters() == "0";
    return Outcome{.flow = Flow::leave, .levels = 1, .status = truth(is_good)};
  }
  if (name == "return")
    return Outcome{.flow = Flow::back, .levels = 1, .status = truth(count_behind(words, 0) == 0)};
  if (name == "break")
    return Outcome{.flow = Flow::stop, .levels = count_behind(words, 1), .status = {}};
  if (name == "continue")
    return Outcome{.flow = Flow::again, .levels = count_behind(words, 1), .status = {}};
  if (name == "getopts") return answered(false);
  return {};
}

/// `export`, `declare` and their like.
void Interpreter::declare(const std::string& name, const std::vector<Text>& words,
                          const Command& command, State& state) {
  const bool is_map = words.size() > 1 && words[1].characters().starts_with('-') &&
                      words[1].characters().find('A') != std::string::npos;
  for (const Assignment& assignment : command.assignments) {
    if (is_map) state.variables[assignment.name].is_map = true;
    assign(assignment, state);
    state.variables[assignment.name].is_exported =
        state.variables[assignment.name].is_exported || name == "export";
  }
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos && is_name(word.substr(0, equals))) {
      assign(word.substr(0, equals), words[i].piece(equals + 1), words[i].place(), state);
      state.variables[word.substr(0, equals)].is_exported = name == "export";
    } else if (is_name(word) && is_map) {
      state.variables[word].is_map = true;
    } else if (is_name(word) && state.variables.contains(word)) {
      state.variables[word].is_exported = state.variables[word].is_exported || name == "export";
    }
  }
}

/// `read` and `mapfile`: what is known only of a line that the script itself gives.
Outcome Interpreter::run_read(const std::vector<Text>& words, const Command& command,
                              State& state) {
  std::vector<Text> given;
  bool is_known = false;
  for (const Redirection& redirection : command.redirections) {
    if (redirection.operation != "<<<" || !redirection.document) continue;
    Text line = joined(*redirection.document, state);
    for (const Assignment& assignment : command.assignments) {
      if (assignment.name == "IFS") line = with_blanks(line, joined(assignment.value, state));
    }
    given = split({{line, false, false}});
    is_known = true;
  }
  std::size_t at = 0;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& variable = words[i].characters();
    if (!is_name(variable)) continue;
    Text value = hole({.name = variable, .expression = "$" + variable, .place = command.place});
    if (is_known) value = at < given.size() ? given[at] : Text("", command.place);
    ++at;
    assign(variable, value, command.place, state);
  }
  return is_known ? answered(true) : ended(by_program());
}

std::optional<Outcome> Interpreter::run_on_variables(const std::string& name,
                                                     const std::vector<Text>& words,
                                                     const Command& command, State& state) {
  if (is_one_of(name, {"export", "declare", "local", "readonly", "typeset"})) {
    declare(name, words, command, state);
    return answered(true);
  }
  if (is_one_of(name, {"read", "mapfile", "readarray"})) return run_read(words, command, state);
  if (name == "unset") {
    for (const Text& word : words) state.variables.erase(word.characters());
    return answered(true);
  }
  if (name == "let") {
    for (std::size_t i = 1; i < words.size(); ++i) number_of(words[i], command.place, state);
    return answered(true);
  }
  if (name == "set") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (words[i].characters() != "--") continue;
      state.arguments.assign(words.begin() + static_cast<std::ptrdiff_t>(i) + 1, words.end());
      state.has_arguments = true;
      break;
    }
    return answered(true);
  }
  if (name == "shift") {
    const auto shifted = std::min<std::size_t>(static_cast<std::size_t>(count_behind(words, 1)),
                                               state.arguments.size());
    state.arguments.erase(state.arguments.begin(),
                          state.arguments.begin() + static_cast<std::ptrdiff_t>(shifted));
    return answered(true);
  }
  return {};
}

Outcome Interpreter::run_source(const std::vector<Text>& words, State& state) {
  if (words.size() < 2) return answered(true);
  Outcome outcome;
  const std::vector<Text> arguments(words.begin() + 2, words.end());
  if (run_other_file(words[1], arguments, true, state, outcome)) return outcome;
  const SourcePlace place = reading_.source_place(words[1].place());
  reading_.notes.push_back(concat(place.file, ":", place.line, ": ", shown(words[1]),
                                  " is not beside the script; what it sets is taken as not set"));
  return answered(true);
}

void Interpreter::change_folder(const std::vector<Text>& words, State& state) {
  if (words.size() < 2 || words.back().characters() == "-") return;
  const Text& folder = words.back();
  const bool is_relative = folder.is_known() && !folder.characters().starts_with('/');
  if (is_relative && state.folder) {
    Text whole = *state.folder;
    whole.append("/", folder.place());
    whole.append(folder);
    state.folder = whole;
  } else {
    state.folder = folder;
  }
}

/// What is printed goes to files, or to the substitution that asks for it.
std::optional<Outcome> Interpreter::run_output(const std::string& name,
                                               const std::vector<Text>& words,
                                               const Command& command, State& state) {
  const bool is_writer = name == "echo" || name == "printf" || name == "cat" || name == "pwd";
  if (is_writer && capture_ == nullptr) {
    redirect(command, name, words, state);
    return answered(true);
  }
  if (capture_ != nullptr) {
    constexpr std::array filters{"echo",     "printf", "cat",      "pwd",      "expr",
                                 "seq",      "bc",     "tee",      "tr",       "dirname",
                                 "basename", "xargs",  "realpath", "readlink", "wc"};
    if (std::ranges::count(filters, name) > 0) {
      for (const Redirection& redirection : command.redirections) {
        if (redirection.document) capture_->input = joined(*redirection.document, state);
      }
      if (name == "pwd") {
        capture_->text.append(state.folder.value_or(
            hole({.name = "PWD", .expression = "$(pwd)", .place = command.place})));
      } else {
        run_filter(name, words, command);
      }
      return answered(true);
    }
  }
  return {};
}

std::optional<Outcome> Interpreter::run_builtin(const std::string& name,
                                                const std::vector<Text>& words,
                                                const Command& command, State& state) {
  if (auto outcome = run_control(name, words, command, state)) return outcome;
  if (auto outcome = run_on_variables(name, words, command, state)) return outcome;
  if (name == "eval") {
    Text source;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (i > 1) source.append(" ", words[i].place());
      source.append(words[i]);
    }
    const Deeper deeper(*this, command.place);
    return run(*parse_script(source, syntax_), state);
  }
  if (name == "source" || name == ".") return run_source(words, state);
  if (name == "cd") {
    change_folder(words, state);
    return answered(true);
  }
  if (std::ranges::count(silent, name) > 0) return answered(true);
  return run_output(name, words, command, state);
}

}  // namespace stagecraft::shell
