// Simple commands: words, redirections, functions.

#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

using Flow = Outcome::Flow;

/// Run what follows as it is.
constexpr std::array passing{"exec", "command", "builtin", "nohup", "time"};

}  // namespace

Outcome Interpreter::run_simple(const Command& command, State& state) {
  step(command.place);
  std::vector<Text> words = fields(command.words, state);
  // What nobody sets is no program.
  while (!words.empty() && words[0].only_unknown() >= 0 && words.size() > 1 &&
         reading_.unknowns[static_cast<std::size_t>(words[0].only_unknown())].is_unset) {
    words.erase(words.begin());
  }
  if (words.empty()) {
    for (const Assignment& assignment : command.assignments) assign(assignment, state);
    redirect(command, "", {}, state);
    return answered(true);
  }
  return run_words(std::move(words), command, state);
}

Outcome Interpreter::run_words(std::vector<Text> words, const Command& command, State& state) {
  const std::string name = words[0].characters();
  if (name == "env" || name == "sudo") {
    std::vector<Text> rest;
    for (std::size_t i = 1; i < words.size(); ++i) {
      const bool is_option = rest.empty() && (words[i].characters().starts_with('-') ||
                                              words[i].characters().find('=') != std::string::npos);
      if (!is_option) rest.push_back(words[i]);
    }
    if (!rest.empty()) return run_words(std::move(rest), command, state);
  }
  if (std::ranges::count(passing, name) > 0 && words.size() > 1 &&
      !words[1].characters().starts_with('-')) {
    words.erase(words.begin());
    Outcome outcome = run_words(std::move(words), command, state);
    if (name == "exec") outcome.flow = Flow::leave;
    return outcome;
  }
  if (const auto function = state.functions.find(name); function != state.functions.end()) {
    const auto body = function->second;
    const std::vector<Text> outer = std::move(state.arguments);
    const bool had_arguments = state.has_arguments;
    state.arguments.assign(words.begin() + 1, words.end());
    state.has_arguments = true;
    for (const Assignment& assignment : command.assignments) assign(assignment, state);
    Outcome outcome = run(*body, state);
    state.arguments = outer;
    state.has_arguments = had_arguments;
    if (outcome.flow != Flow::leave) outcome.flow = Flow::next;
    return outcome;
  }
  if (auto outcome = run_builtin(name, words, command, state)) return *std::move(outcome);
  return run_external(words, command, state);
}

/// `cat > FILE <<END` and `echo … > FILE` write files that others read.
void Interpreter::redirect(const Command& command, const std::string& name,
                           const std::vector<Text>& words, State& state) {
  Text written;
  bool writes = false;
  for (const Redirection& redirection : command.redirections) {
    if (!redirection.document) continue;
    written = joined(*redirection.document, state);
    writes = name == "cat" || name.empty();
  }
  if (name == "echo" || name == "printf") {
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (i > 1) written.append(" ", command.place);
      written.append(words[i]);
    }
    written.append("\n", command.place);
    writes = true;
  }
  if (!writes) return;
  for (const Redirection& redirection : command.redirections) {
    if (redirection.operation != ">" && redirection.operation != ">>" &&
        redirection.operation != ">|")
      continue;
    const std::string path = joined(redirection.target, state).characters();
    if (redirection.operation == ">>") {
      reading_.documents[path].append(written);
    } else {
      reading_.documents[path] = written;
    }
  }
}

}  // namespace stagecraft::shell
