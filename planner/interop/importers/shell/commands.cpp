// Compound commands: lists, pipelines, branches and loops.

#include <algorithm>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "planner/interop/importers/shell/patterns.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

using Flow = Outcome::Flow;
using Answer = Truth::Answer;

/// Of commands, assignments and turns of loops together.
constexpr int most_steps = 200'000;
/// Of texts that commands make and look at, in bytes.
constexpr std::size_t most_work = 200'000'000;
/// Of scripts, functions, substitutions and `eval` in each other.
constexpr int deepest_calls = 300;

}  // namespace

std::string first_line(std::string text) {
  constexpr std::size_t longest = 80;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= longest) return text;
  text.resize(longest);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  return text + "…";
}

void Interpreter::step(const Place& place) {
  work(0, place);
  if (++steps_ <= most_steps) return;
  fail_at(place, concat("the script does not end within ", most_steps,
                        " commands; write what its loops make, or leave them away"));
}

void Interpreter::work(std::size_t bytes, const Place& place) {
  work_ = std::min(work_ + bytes, 2 * most_work);
  if (work_ <= most_work) return;
  fail_at(place, concat("the script's commands work on more than ", most_work,
                        " bytes of texts; write what its loops make, or leave them away"));
}

State Interpreter::copy_of(const State& state, const Place& place) {
  constexpr std::size_t of_an_element = 30;
  std::size_t bytes = 0;
  const auto count = [&](const Text& text) { bytes += of_an_element + text.weight(); };
  for (const auto& [name, variable] : state.variables) {
    bytes += of_an_element;
    for (const auto& [index, text] : variable.elements) count(text);
    for (const auto& [key, text] : variable.keyed) count(text);
  }
  for (const Text& argument : state.arguments) count(argument);
  work(bytes + of_an_element * state.functions.size(), place);
  return state;
}

void Interpreter::deepen(const Place& place) {
  if (++depth_ <= deepest_calls) return;
  --depth_;
  fail_at(place, concat("more than ", deepest_calls,
                        " scripts, functions, commands and substitutions call each other; does "
                        "the script call itself?"));
}

Outcome Interpreter::run(const Command& command, State& state) {
  const Deeper deeper(*this, command.place);
  switch (command.kind) {
    case Command::Kind::simple: return run_simple(command, state);
    case Command::Kind::pipeline: return run_pipeline(command, state);
    case Command::Kind::and_or: return run_and_or(command, state);
    case Command::Kind::sequence: return run_sequence(command, state);
    case Command::Kind::group: {
      Outcome outcome = run(*command.commands[0], state);
      redirect(command, "{", {}, state);
      return outcome;
    }
    case Command::Kind::subshell: {
      State inside = copy_of(state, command.place);
      Outcome outcome = run(*command.commands[0], inside);
      if (outcome.flow == Flow::leave) outcome.flow = Flow::next;
      return outcome;
    }
    case Command::Kind::branch: return run_branch(command, 0, state);
    case Command::Kind::loop: return run_loop(command, state);
    case Command::Kind::for_each: return run_for_each(command, state);
    case Command::Kind::for_numbers: return run_for_numbers(command, state);
    case Command::Kind::choice:
      return run_choice(command, 0, joined(command.words[0], state), state);
    case Command::Kind::function:
      state.functions[command.name] = command.commands[0];
      return answered(true);
    case Command::Kind::condition: return ended(test(command, state));
    case Command::Kind::arithmetic: {
      const Number number = number_of(joined(command.words[0], state), command.place, state);
      Truth status = truth(number.value != 0);
      if (!number.is_known()) {
        status.answer = Answer::unknown;
        status.causes = number.unknowns;
      }
      return ended(std::move(status));
    }
  }
  return ended();
}

Outcome Interpreter::run_sequence(const Command& command, State& state) {
  Outcome outcome = ended();
  for (const auto& one : command.commands) {
    outcome = run(*one, state);
    if (outcome.flow != Flow::next) break;
  }
  return outcome;
}

Outcome Interpreter::run_and_or(const Command& command, State& state) {
  Outcome outcome = run(*command.commands[0], state);
  for (std::size_t i = 1; i < command.commands.size(); ++i) {
    if (outcome.flow != Flow::next) return outcome;
    const bool is_and = command.operators[i - 1] == "&&";
    Truth asked = is_and ? outcome.status : !outcome.status;
    // Other programs are taken to succeed, but files may be there or not.
    const Truth left = outcome.status;
    const std::string source = first_line(command.source);
    outcome = either([&](State& inside) { return run(*command.commands[i], inside); },
                     [&](State&) { return ended(left); }, asked, source, command.commands[i]->place,
                     state);
  }
  return outcome;
}

Outcome Interpreter::run_pipeline(const Command& command, State& state) {
  if (command.commands.size() == 1) {
    Outcome outcome = run(*command.commands[0], state);
    if (command.is_negated) outcome.status = !outcome.status;
    return outcome;
  }
  Capture* const outer = capture_;
  Capture link{.text = {}, .is_unknown = false, .input = {}};
  Outcome outcome;
  for (std::size_t i = 0; i < command.commands.size(); ++i) {
    const bool is_last = i + 1 == command.commands.size();
    Capture next{.text = {}, .is_unknown = link.is_unknown, .input = link.text};
    Capture* const into = &next;
    capture_ = into;
    State inside = copy_of(state, command.place);
    try {
      outcome = run(*command.commands[i], inside);
    } catch (...) {
      capture_ = outer;
      throw;
    }
    capture_ = outer;
    link = std::move(next);
    if (is_last && outer != nullptr) {
      outer->text.append(link.text);
      outer->is_unknown = outer->is_unknown || link.is_unknown;
    }
  }
  if (outcome.flow == Flow::leave) outcome.flow = Flow::next;
  if (command.is_negated) outcome.status = !outcome.status;
  return outcome;
}

Outcome Interpreter::run_branch(const Command& command, std::size_t index, State& state) {
  const auto& parts = command.commands;
  if (index == parts.size()) return answered(true);
  if (index + 1 == parts.size()) return run(*parts[index], state);  // else
  const std::string source = first_line("if " + parts[index]->source);
  Outcome condition = run(*parts[index], state);
  if (condition.flow != Flow::next) return condition;
  const Truth asked = decide(condition.status, source.substr(3));
  return either([&](State& inside) { return run(*parts[index + 1], inside); },
                [&](State& inside) { return run_branch(command, index + 2, inside); }, asked,
                source, parts[index]->place, state);
}

Outcome Interpreter::run_choice(const Command& command, std::size_t index, const Text& text,
                                State& state) {
  if (index == command.cases.size()) return answered(true);
  const Case& one = command.cases[index];
  Truth asked = truth(false);
  const Text known = emptied(text, asked);
  const bool may_be_any = asked.is_assumed && known.empty();
  for (const Word& word : one.patterns) {
    std::vector<int> unknowns = known.unknowns();
    const std::string pattern_text = pattern(word, state, unknowns);
    if (pattern_text == "*") {
      asked.answer = Answer::yes;
      asked.is_assumed = false;
    } else if (!unknowns.empty() || may_be_any) {
      // An argument that selects sizes must be known to select any.
      if (asked.answer == Answer::no) asked.answer = Answer::unknown;
      asked.causes.insert(asked.causes.end(), unknowns.begin(), unknowns.end());
    } else if (matches(pattern_text, known.characters())) {
      asked.answer = Answer::yes;
    }
  }
  const std::string source = first_line("case " + shown(text));
  return either([&](State& inside) { return run(*one.body, inside); },
                [&](State& inside) { return run_choice(command, index + 1, text, inside); }, asked,
                source, command.place, state);
}

namespace {

/// Whether the loop goes on; a break or continue of outer loops is passed on.
bool goes_on(Outcome& outcome) {
  if (outcome.flow == Flow::next) return true;
  if (outcome.flow != Flow::stop && outcome.flow != Flow::again) return false;
  if (outcome.levels > 1) {
    --outcome.levels;
    return false;
  }
  const bool again = outcome.flow == Flow::again;
  outcome.flow = Flow::next;
  return again;
}

}  // namespace

Outcome Interpreter::run_loop(const Command& command, State& state) {
  const bool until = command.operators[0] == "until";
  const std::string source = first_line(command.operators[0] + " " + command.commands[0]->source);
  while (true) {
    step(command.place);
    Outcome condition = run(*command.commands[0], state);
    if (condition.flow != Flow::next) return condition;
    const Truth asked =
        decide(until ? !condition.status : condition.status, command.commands[0]->source);
    if (asked.answer == Answer::no) {
      note_assumed(asked);
      return answered(true);
    }
    const bool is_certain = asked.answer == Answer::yes;
    Outcome outcome =
        is_certain
            ? run(*command.commands[1], state)
            : either([&](State& inside) { return run(*command.commands[1], inside); },
                     [](State&) { return answered(true); }, asked, source, command.place, state);
    if (!goes_on(outcome)) return outcome;
    if (!is_certain) return answered(true);
  }
}

Outcome Interpreter::run_for_each(const Command& command, State& state) {
  const std::vector<Text> words =
      command.has_words ? fields(command.words, state) : state.arguments;
  for (const Text& word : words) {
    step(command.place);
    assign(command.name, word, command.place, state);
    Outcome outcome = run(*command.commands[0], state);
    if (!goes_on(outcome)) return outcome;
  }
  return answered(true);
}

Outcome Interpreter::run_for_numbers(const Command& command, State& state) {
  const auto number = [&](std::size_t i) {
    return number_of(joined(command.words[i], state), command.place, state);
  };
  number(0);
  const bool is_endless = command.words[1].parts.empty();
  while (true) {
    step(command.place);
    const Number asked = number(1);
    if (!asked.is_known()) {
      Truth status{.answer = Answer::unknown,
                   .is_assumed = false,
                   .is_program = false,
                   .causes = asked.unknowns};
      either([&](State& inside) { return run(*command.commands[0], inside); },
             [](State&) { return answered(true); }, status, "for", command.place, state);
      return answered(true);
    }
    if (asked.value == 0 && !is_endless) return answered(true);
    Outcome outcome = run(*command.commands[0], state);
    if (!goes_on(outcome)) return outcome;
    number(2);
  }
}

}  // namespace stagecraft::shell
