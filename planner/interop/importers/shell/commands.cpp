#include <algorithm>
#include <array>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/patterns.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

using Flow = Outcome::Flow;
using Answer = Truth::Answer;

/// Of commands, assignments and turns of loops together.
constexpr int most_steps = 200'000;
/// Of scripts, functions, substitutions and `eval` in each other.
constexpr int deepest_calls = 300;

Outcome ended(Truth status = {}) {
  return {.flow = Flow::next, .levels = 1, .status = std::move(status)};
}

Outcome answered(bool yes) {
  return ended(truth(yes));
}

Truth by_program() {
  return {.answer = Answer::yes, .is_assumed = false, .is_program = true, .causes = {}};
}

/// Say nothing, and change nothing that is of interest.
constexpr std::array silent{"trap",   "wait",  "sleep",   "alias",    "unalias", "shopt",  "ulimit",
                            "umask",  "mkdir", "set",     "hash",     "rm",      "touch",  "cp",
                            "mv",     "ln",    "chmod",   "kill",     "pkill",   "enable", "module",
                            "disown", "popd",  "pushd",   "complete", "bind",    "conda",  "clear",
                            "logger", "sync",  "history", "tput",     "stty"};

/// Run what follows as it is.
constexpr std::array passing{"exec", "command", "builtin", "nohup", "time"};

bool is_shell(std::string_view word) {
  constexpr std::array shells{"sh", "bash", "zsh", "ksh", "dash"};
  return std::ranges::count(shells, word.substr(word.find_last_of('/') + 1)) > 0;
}

bool looks_like_script(std::string_view word) {
  constexpr std::array endings{".sh", ".slurm", ".sbatch", ".bash", ".job"};
  return std::any_of(endings.begin(), endings.end(),
                     [&](std::string_view ending) { return word.ends_with(ending); });
}

bool has_blank(const Text& text) {
  return text.characters().find_first_of(" \t\n") != std::string::npos;
}

/// Fields that other characters separate, with blanks between them.
Text with_blanks(const Text& line, const Text& separators) {
  if (!line.is_known()) return line;
  std::string characters = line.characters();
  for (char& c : characters) {
    if (separators.characters().find(c) != std::string::npos) c = ' ';
  }
  return {characters, line.place()};
}

std::string first_line(std::string text) {
  constexpr std::size_t longest = 80;
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() <= longest) return text;
  text.resize(longest);
  while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80) text.pop_back();
  return text + "…";
}

}  // namespace

struct Interpreter::Deeper {
  Deeper(Interpreter& of, const Place& place) : interpreter(of) {
    if (++interpreter.depth_ > deepest_calls) {
      --interpreter.depth_;
      interpreter.fail_at(place, concat("more than ", deepest_calls,
                                        " scripts, functions, commands and substitutions call each "
                                        "other; does the script call itself?"));
    }
  }
  ~Deeper() { --interpreter.depth_; }
  Interpreter& interpreter;
};

void Interpreter::step(const Place& place) {
  if (++steps_ <= most_steps) return;
  fail_at(place, concat("the script does not end within ", most_steps,
                        " commands; write what its loops make, or leave them away"));
}

// --- Unknowns ---

int Interpreter::add_unknown(Unknown unknown) {
  constexpr int most = 100'000;
  if (next_unknown_ >= most) fail("more than ", most, " values of the script are not known");
  reading_.unknowns.push_back(std::move(unknown));
  return next_unknown_++;
}

Text Interpreter::hole(Unknown unknown) {
  const Place place = unknown.place;
  return Text::hole(add_unknown(std::move(unknown)), place);
}

std::vector<int> Interpreter::roots(const std::vector<int>& unknowns) const {
  return reading_.roots(unknowns);
}

Text Interpreter::derived(const std::string& expression, const Place& place,
                          std::vector<int> causes) {
  return hole({.name = expression,
               .expression = expression,
               .place = place,
               .is_unset = false,
               .causes = roots(causes),
               .alternatives = {}});
}

Text Interpreter::unset(const std::string& name, const Place& place) {
  reading_.used.insert(name);
  return hole({.name = name,
               .expression = "$" + name,
               .place = place,
               .is_unset = true,
               .causes = {},
               .alternatives = {}});
}

const std::string* Interpreter::setting(const std::string& name) {
  const auto found = settings_.variables.find(name);
  if (found == settings_.variables.end()) return nullptr;
  reading_.used.insert(name);
  return &found->second;
}

Text Interpreter::emptied(const Text& text, Truth& asked) const {
  if (text.is_known()) return text;
  const std::string& characters = text.characters();
  Text result("", text.place());
  for (std::size_t at = 0; at < characters.size();) {
    const std::size_t mark = std::min(characters.find(Text::hole_mark, at), characters.size());
    if (mark > at) result.append(text.piece(at, mark - at));
    if (mark == characters.size()) break;
    const int unknown = hole_at(characters, mark);
    if (reading_.unknowns[static_cast<std::size_t>(unknown)].is_unset) {
      asked.is_assumed = true;
      asked.causes.push_back(unknown);
    } else {
      result.append(text.piece(mark, Text::hole_size));
    }
    at = mark + Text::hole_size;
  }
  return result;
}

void Interpreter::note_assumed(const Truth& asked) {
  if (!asked.is_assumed) return;
  for (const int unknown : asked.causes) {
    const Unknown& cause = reading_.unknowns[static_cast<std::size_t>(unknown)];
    if (cause.is_unset) reading_.assumed_unset.insert(cause.name);
  }
}

// --- Variables ---

Text Interpreter::named_after(const std::string& name, Text value, const Place& place) {
  const int only = value.only_unknown();
  if (only < 0) return value;
  const Unknown unknown = reading_.unknowns[static_cast<std::size_t>(only)];
  const bool is_argument =
      !unknown.name.empty() && unknown.name[0] >= '0' && unknown.name[0] <= '9';
  const bool has_name = is_name(unknown.name) && !is_argument;
  if (has_name || !unknown.causes.empty()) return value;
  return hole({.name = name,
               .expression = unknown.expression,
               .place = place,
               .is_unset = unknown.is_unset,
               .causes = {},
               .alternatives = unknown.alternatives});
}

void Interpreter::assign(const std::string& name, Text value, const Place& place, State& state) {
  reading_.used.insert(name);
  if (const std::string* given = setting(name)) {
    if (value.is_known() && value.characters() != *given && !value.empty()) {
      const std::string note = concat(reading_.source_place(place).file, ":", place.line, ": ",
                                      name, " is ", first_line(value.characters()),
                                      " there; --set ", name, "=", *given, " stands in its place");
      if (std::ranges::count(reading_.notes, note) == 0) reading_.notes.push_back(note);
    }
    value = Text(*given, place);
  }
  Variable& variable = state.variables[name];
  if (variable.elements.empty() && variable.keyed.empty()) variable.order = state.next_order++;
  variable.place = place;
  variable.elements[0] = named_after(name, std::move(value), place);
}

void Interpreter::assign_array(const Assignment& assignment, State& state) {
  Variable& variable = state.variables[assignment.name];
  reading_.used.insert(assignment.name);
  if (variable.elements.empty() && variable.keyed.empty()) variable.order = state.next_order++;
  const bool is_map = variable.is_map;
  std::vector<std::pair<std::optional<Text>, std::vector<Text>>> elements;
  for (const Element& element : assignment.elements) {
    if (element.key) {
      elements.push_back({joined(*element.key, state), {joined(element.value, state)}});
    } else {
      elements.push_back({std::nullopt, fields({element.value}, state)});
    }
  }
  Variable& array = state.variables[assignment.name];
  array.is_array = true;
  array.place = assignment.place;
  if (!assignment.appends) {
    array.elements.clear();
    array.keyed.clear();
  }
  std::int64_t next = array.elements.empty() ? 0 : array.elements.rbegin()->first + 1;
  for (auto& [key, texts] : elements) {
    if (key && is_map) {
      array.keyed[key->characters()] = texts[0];
      continue;
    }
    if (key) {
      const Number index = number_of(*key, assignment.place, state);
      next = index.is_known() ? index.value : next;
    }
    for (Text& text : texts) array.elements[next++] = std::move(text);
  }
}

void Interpreter::assign(const Assignment& assignment, State& state) {
  step(assignment.place);
  if (assignment.is_array && setting(assignment.name) == nullptr) {
    assign_array(assignment, state);
    return;
  }
  Text value = joined(assignment.value, state);
  if (!assignment.subscript) {
    const auto old = state.variables.find(assignment.name);
    if (assignment.appends && old != state.variables.end() && old->second.elements.contains(0)) {
      Text whole = old->second.elements[0];
      whole.append(value);
      value = std::move(whole);
    }
    assign(assignment.name, std::move(value), assignment.place, state);
    return;
  }
  const Text key = joined(*assignment.subscript, state);
  Variable& variable = state.variables[assignment.name];
  if (variable.is_map) {
    variable.keyed[key.characters()] = std::move(value);
    return;
  }
  const Number index = number_of(key, assignment.place, state);
  state.variables[assignment.name].is_array = true;
  state.variables[assignment.name].elements[index.is_known() ? index.value : 0] = std::move(value);
}

// --- Two ways to go ---

/// An answer that the user gives, or that other programs give.
Truth Interpreter::decide(Truth asked, const std::string& source) const {
  const auto found = settings_.variables.find(source);
  if (found != settings_.variables.end()) {
    reading_.used.insert(source);
    const std::string& word = found->second;
    return truth(word == "1" || word == "true" || word == "yes" || word == "True");
  }
  if (asked.is_program) asked.answer = Answer::unknown;
  return asked;
}

Text Interpreter::merged_text(const std::string& name, const Text& one, const Text& other,
                              const std::vector<int>& causes, const std::string& source,
                              const Place& place) {
  const std::string& a = one.characters();
  const std::string& b = other.characters();
  const auto is_gap = [](char c) { return c == ' ' || c == '\n' || c == '\t'; };
  const std::size_t shorter = std::min(a.size(), b.size());
  std::size_t prefix = 0;
  while (prefix < shorter && a[prefix] == b[prefix]) ++prefix;
  const auto ends_word = [&](std::size_t at) {
    return (at == a.size() || is_gap(a[at])) && (at == b.size() || is_gap(b[at]));
  };
  while (prefix > 0 && !is_gap(a[prefix - 1]) && !ends_word(prefix)) --prefix;
  std::size_t suffix = 0;
  while (suffix < shorter - prefix && a[a.size() - 1 - suffix] == b[b.size() - 1 - suffix])
    ++suffix;
  while (suffix > 0 && !is_gap(a[a.size() - suffix])) --suffix;
  const Text middle_one = one.piece(prefix, a.size() - prefix - suffix);
  const Text middle_other = other.piece(prefix, b.size() - prefix - suffix);
  Unknown unknown{.name = name,
                  .expression = source,
                  .place = place,
                  .is_unset = false,
                  .causes = roots(causes),
                  .alternatives = {shown(middle_one), shown(middle_other)}};
  if (prefix + suffix > 0) unknown.name = source;
  Text result = one.piece(0, prefix);
  if (prefix > 0 && !is_gap(a[prefix - 1])) result.append(" ", place);
  result.append(hole(std::move(unknown)));
  if (suffix > 0) result.append(one.piece(a.size() - suffix));
  return result;
}

void Interpreter::merge_variables(State& first, State& second, const std::vector<int>& causes,
                                  const std::string& source, const Place& place) {
  const auto same = [](const Text& one, const Text& other) {
    return one.characters() == other.characters();
  };
  for (auto& [name, variable] : second.variables) first.variables.try_emplace(name);
  for (auto& [name, variable] : first.variables) {
    const Variable& other = second.variables[name];
    variable.is_exported = variable.is_exported || other.is_exported;
    if (variable.place == Place{}) variable.place = other.place;
    std::vector<Text> ours;
    std::vector<Text> theirs;
    for (const auto& [key, text] : variable.elements) ours.push_back(text);
    for (const auto& [key, text] : other.elements) theirs.push_back(text);
    if (std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end(), same)) continue;
    if (!variable.is_array && !other.is_array) {
      variable.elements[0] =
          merged_text(name, ours.empty() ? Text("", place) : ours[0],
                      theirs.empty() ? Text("", place) : theirs[0], causes, source, place);
      continue;
    }
    std::size_t prefix = 0;
    while (prefix < std::min(ours.size(), theirs.size()) && same(ours[prefix], theirs[prefix]))
      ++prefix;
    std::size_t suffix = 0;
    while (suffix < std::min(ours.size(), theirs.size()) - prefix &&
           same(ours[ours.size() - 1 - suffix], theirs[theirs.size() - 1 - suffix])) {
      ++suffix;
    }
    const auto middle = [&](const std::vector<Text>& texts) {
      std::string words;
      for (std::size_t i = prefix; i + suffix < texts.size(); ++i) words += shown(texts[i]) + " ";
      return words;
    };
    Unknown unknown{.name = prefix + suffix > 0 ? source : name,
                    .expression = source,
                    .place = place,
                    .is_unset = false,
                    .causes = roots(causes),
                    .alternatives = {middle(ours), middle(theirs)}};
    std::vector<Text> merged(ours.begin(), ours.begin() + static_cast<std::ptrdiff_t>(prefix));
    merged.push_back(hole(std::move(unknown)));
    merged.insert(merged.end(), ours.end() - static_cast<std::ptrdiff_t>(suffix), ours.end());
    variable.is_array = true;
    variable.elements.clear();
    for (std::size_t i = 0; i < merged.size(); ++i)
      variable.elements[static_cast<std::int64_t>(i)] = merged[i];
  }
}

/// Of two ways to go, the one that ends the script is not it.
Outcome Interpreter::merge(Outcome one, State& first, Outcome other, State& second,
                           const Truth& asked, const std::string& source, const Place& place) {
  if (one.flow == Flow::leave && other.flow != Flow::leave) {
    first = std::move(second);
    return other;
  }
  if (other.flow == Flow::leave && one.flow != Flow::leave) return one;
  merge_variables(first, second, asked.causes, source, place);
  for (auto& [name, function] : second.functions) first.functions.try_emplace(name, function);
  first.next_order = std::max(first.next_order, second.next_order);
  if (first.folder.has_value() != second.folder.has_value()) first.folder.reset();
  // A loop that may end, ends.
  return one.flow == Flow::next ? other : one;
}

Outcome Interpreter::either(const std::function<Outcome(State&)>& one,
                            const std::function<Outcome(State&)>& other, const Truth& asked,
                            const std::string& source, const Place& place, State& state) {
  if (asked.answer != Answer::unknown && !asked.is_assumed) {
    const bool yes = asked.answer == Answer::yes;
    State before = state;
    Outcome outcome = yes ? one(state) : other(state);
    const bool complains = outcome.flow == Flow::leave && outcome.status.answer == Answer::no;
    if (!complains) return outcome;
    // It asks for what somebody is to fill in first.
    State otherwise = before;
    Outcome second = yes ? other(otherwise) : one(otherwise);
    if (second.flow == Flow::leave) return outcome;
    state = std::move(otherwise);
    reading_.notes.push_back(concat(reading_.source_place(place).file, ":", place.line, ": \"",
                                    source,
                                    "\" would end the script; it is read as if it went on"));
    return second;
  }
  if (asked.answer != Answer::unknown) {
    State as_assumed = state;
    const Outcome outcome = asked.answer == Answer::yes ? one(as_assumed) : other(as_assumed);
    note_assumed(asked);
    if (outcome.flow != Flow::leave) {
      state = std::move(as_assumed);
      return outcome;
    }
    // Without the variable the script would end here, so it is meant to be set.
    State otherwise = state;
    const Outcome second = asked.answer == Answer::yes ? other(otherwise) : one(otherwise);
    state = second.flow == Flow::leave ? std::move(as_assumed) : std::move(otherwise);
    return second;
  }
  State second = state;
  const Outcome first_outcome = one(state);
  const Outcome second_outcome = other(second);
  return merge(first_outcome, state, second_outcome, second, asked, source, place);
}

// --- Compound commands ---

Outcome Interpreter::run(const Command& command, State& state) {
  const Deeper deeper(*this, command.place);
  switch (command.kind) {
    case Command::Kind::simple: return run_simple(command, state);
    case Command::Kind::pipeline: return run_pipeline(command, state);
    case Command::Kind::and_or: return run_and_or(command, state);
    case Command::Kind::sequence: return run_sequence(command, state);
    case Command::Kind::group: {
      const Outcome outcome = run(*command.commands[0], state);
      redirect(command, "{", {}, state);
      return outcome;
    }
    case Command::Kind::subshell: {
      State inside = state;
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
    State inside = state;
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

// --- Simple commands ---

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

std::optional<Outcome> Interpreter::run_builtin(const std::string& name,
                                                const std::vector<Text>& words,
                                                const Command& command, State& state) {
  const auto count = [&](int otherwise) {
    if (words.size() < 2) return otherwise;
    const std::string& text = words[1].characters();
    return text.size() == 1 && text[0] >= '1' && text[0] <= '9' ? text[0] - '0' : otherwise;
  };
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
    return Outcome{.flow = Flow::back, .levels = 1, .status = truth(count(0) == 0)};
  if (name == "break") return Outcome{.flow = Flow::stop, .levels = count(1), .status = {}};
  if (name == "continue") return Outcome{.flow = Flow::again, .levels = count(1), .status = {}};
  if (name == "getopts") return answered(false);
  if (name == "export" || name == "declare" || name == "local" || name == "readonly" ||
      name == "typeset") {
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
    return answered(true);
  }
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
    const auto shifted =
        std::min<std::size_t>(static_cast<std::size_t>(count(1)), state.arguments.size());
    state.arguments.erase(state.arguments.begin(),
                          state.arguments.begin() + static_cast<std::ptrdiff_t>(shifted));
    return answered(true);
  }
  if (name == "read" || name == "mapfile" || name == "readarray") {
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
  if (name == "eval") {
    Text source;
    for (std::size_t i = 1; i < words.size(); ++i) {
      if (i > 1) source.append(" ", words[i].place());
      source.append(words[i]);
    }
    const Deeper deeper(*this, command.place);
    return run(*parse_script(source, syntax_), state);
  }
  if (name == "source" || name == ".") {
    if (words.size() < 2) return answered(true);
    Outcome outcome;
    const std::vector<Text> arguments(words.begin() + 2, words.end());
    if (run_other_file(words[1], arguments, true, state, outcome)) return outcome;
    const SourcePlace place = reading_.source_place(words[1].place());
    reading_.notes.push_back(concat(place.file, ":", place.line, ": ", shown(words[1]),
                                    " is not beside the script; what it sets is taken as not set"));
    return answered(true);
  }
  if (name == "cd") {
    if (words.size() > 1 && words.back().characters() != "-") {
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
    return answered(true);
  }
  if (std::ranges::count(silent, name) > 0) return answered(true);
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

/// Small programs whose output follows from their words and what they read.
void Interpreter::run_filter(const std::string& name, const std::vector<Text>& words,
                             const Command& command) {
  const Place place = command.place;
  const auto print = [&](const Text& text) {
    capture_->text.append(text);
    capture_->text.append("\n", place);
  };
  std::vector<Text> operands;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    const bool is_option =
        word.size() > 1 && word[0] == '-' && name != "expr" && name != "seq" && operands.empty();
    if (!is_option) operands.push_back(words[i]);
  }
  Text all;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (i > 0) all.append(" ", place);
    all.append(operands[i]);
  }
  const Text input = capture_->input;
  const std::string trimmed = trim(input.characters());
  std::string shown_words;
  for (const Text& word : words) shown_words += (shown_words.empty() ? "" : " ") + shown(word);
  if (name == "echo") {
    print(all);
  } else if (name == "printf" && operands.size() == 1) {
    capture_->text.append(operands[0]);
  } else if (name == "printf" && operands.size() == 2 &&
             operands[0].characters().starts_with("%s")) {
    capture_->text.append(operands[1]);
  } else if (name == "cat" && operands.empty()) {
    capture_->text.append(input);
  } else if (name == "tee" || name == "xargs") {
    capture_->text.append(input);
  } else if (name == "expr" || name == "bc") {
    const Text expression =
        name == "bc" ? input.piece(0, input.characters().find_last_not_of('\n') + 1) : all;
    State none;
    const bool is_whole = expression.characters().find_first_of(".;=") == std::string::npos;
    if (!is_whole) {
      capture_->is_unknown = true;
      return;
    }
    const Number number = number_of(expression, place, none);
    print(number.is_known() ? Text(std::to_string(number.value), place)
                            : derived("$(" + shown_words + ")", place, number.unknowns));
  } else if (name == "seq" && all.is_known() && !operands.empty() && operands.size() <= 3) {
    State none;
    std::vector<std::int64_t> numbers;
    for (const Text& operand : operands) numbers.push_back(number_of(operand, place, none).value);
    const std::int64_t first = numbers.size() > 1 ? numbers[0] : 1;
    const std::int64_t by = numbers.size() > 2 ? numbers[1] : 1;
    const std::int64_t last = numbers.back();
    if (by == 0 || (last - first) / by > 10'000)
      fail_at(place, "a range of more than 10000 numbers");
    for (std::int64_t i = first; by > 0 ? i <= last : i >= last; i += by)
      print(Text(std::to_string(i), place));
  } else if ((name == "realpath" || name == "readlink") && operands.size() == 1) {
    print(operands[0]);
  } else if (name == "dirname" && operands.size() == 1) {
    const std::size_t slash = all.characters().find_last_of('/');
    print(slash == std::string::npos ? Text(".", place)
                                     : all.piece(0, std::max<std::size_t>(slash, 1)));
  } else if (name == "basename" && !operands.empty()) {
    const std::size_t slash = operands[0].characters().find_last_of('/');
    Text base = operands[0].piece(slash == std::string::npos ? 0 : slash + 1);
    if (operands.size() > 1 && base.is_known() &&
        base.characters().ends_with(operands[1].characters()))
      base = base.piece(0, base.size() - operands[1].size());
    print(base);
  } else if (name == "tr" && input.is_known() && words.size() == 3 &&
             words[1].characters() == "-d") {
    std::string left;
    for (const char c : input.characters()) {
      if (words[2].characters().find(c) == std::string::npos) left += c;
    }
    capture_->text.append(left, place);
  } else if (name == "tr" && input.is_known() && operands.size() == 2 && operands[0].size() == 1 &&
             operands[1].size() == 1) {
    std::string changed_text = input.characters();
    std::replace(changed_text.begin(), changed_text.end(), operands[0][0], operands[1][0]);
    capture_->text.append(changed_text, place);
  } else if (name == "wc" && input.is_known() && words.size() == 2 &&
             words[1].characters() == "-l") {
    print(Text(std::to_string(std::ranges::count(input.characters(), '\n')), place));
  } else if (name == "wc" && input.is_known() && words.size() == 2 &&
             words[1].characters() == "-w") {
    print(Text(std::to_string(split({{input, false, false}}).size()), place));
  } else {
    capture_->is_unknown = true;
  }
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

// --- Other programs ---

Outcome Interpreter::run_external(const std::vector<Text>& words, const Command& command,
                                  State& state) {
  if (capture_ != nullptr) capture_->is_unknown = true;
  redirect(command, words[0].characters(), words, state);
  State inside = state;
  for (const Assignment& assignment : command.assignments) {
    assign(assignment, inside);
    inside.variables[assignment.name].is_exported = true;
  }
  if (run_called(words, command, inside)) return ended(by_program());
  Invocation invocation{.words = {}, .environment = {}, .place = command.place};
  for (const std::vector<Text>& wrapper : wrappers_) {
    for (const Text& word : wrapper) invocation.words.push_back(word);
  }
  invocation.words.insert(invocation.words.end(), words.begin(), words.end());
  for (const std::string& name : settings_.environment) {
    const auto found = inside.variables.find(name);
    if (const std::string* given = setting(name)) {
      invocation.environment[name] = Text(*given, command.place);
    } else if (found != inside.variables.end() && found->second.elements.contains(0)) {
      invocation.environment[name] = found->second.elements[0];
    }
  }
  reading_.commands.push_back(std::move(invocation));
  return ended(by_program());
}

State Interpreter::child_state(const State& state) const {
  State child;
  for (const auto& [name, variable] : state.variables) {
    if (variable.is_exported || name.starts_with("SLURM_")) child.variables[name] = variable;
  }
  child.script = state.script;
  child.source = state.source;
  child.folder = state.folder;
  child.has_arguments = true;
  return child;
}

/// A command that starts another shell: `bash -c "…"`, `srun … bash FILE`, `sbatch FILE`. False if
/// it starts none that can be read.
bool Interpreter::run_called(const std::vector<Text>& words, const Command& command, State& state) {
  std::size_t at = words.size();
  for (std::size_t i = 0; i < words.size() && at == words.size(); ++i) {
    if (is_shell(words[i].characters())) at = i;
  }
  const std::string& first = words[0].characters();
  const bool submits = first == "sbatch" || first == "srun" || first == "qsub" || first == "bsub";
  std::size_t file = words.size();
  if (at == words.size() && looks_like_script(first)) file = 0;
  for (std::size_t i = 1; submits && at == words.size() && i < words.size(); ++i) {
    if (looks_like_script(words[i].characters())) {
      file = i;
      break;
    }
  }
  std::optional<Text> source;
  for (std::size_t i = at + 1; at < words.size() && i < words.size(); ++i) {
    const std::string& word = words[i].characters();
    const bool is_string =
        word.size() >= 2 && word[0] == '-' && word[1] != '-' && word.ends_with('c');
    if (is_string && i + 1 < words.size()) {
      source = words[i + 1];
      break;
    }
    if (!word.starts_with('-') && !word.starts_with('+')) {
      file = i;
      break;
    }
  }
  // `ssh HOST "…"`, `su - USER -c "…"`, `docker exec NAME "…"`, `xargs -I {} sh …`.
  const bool is_last_string =
      !source && file == words.size() && words.size() > 1 && has_blank(words.back()) &&
      words.back().characters().find(" --") != std::string::npos &&
      !words.back().characters().starts_with('{') && !words.back().characters().starts_with('-') &&
      words[words.size() - 2].characters().find("--") != 0;
  if (is_last_string) source = words.back();
  if (!source && file == words.size()) return false;
  const std::size_t end = source ? (is_last_string ? words.size() - 1 : at) : std::min(at, file);
  const Deeper deeper(*this, command.place);
  wrappers_.emplace_back(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(end));
  bool read = false;
  State child = child_state(state);
  const auto take_nodes = [&](const std::string& option, const Text& value) {
    if (option == "-N" || option == "--nodes") {
      assign("SLURM_NNODES", value, command.place, child);
      assign("SLURM_JOB_NUM_NODES", value, command.place, child);
    } else if (option == "-n" || option == "--ntasks") {
      assign("SLURM_NTASKS", value, command.place, child);
    } else if (option == "--ntasks-per-node") {
      assign("SLURM_NTASKS_PER_NODE", value, command.place, child);
    } else if (option == "--export") {
      for (const std::string& name : stagecraft::split(value.characters(), ',')) {
        const auto found = state.variables.find(name);
        if (found != state.variables.end()) child.variables[name] = found->second;
      }
    }
  };
  for (std::size_t i = 1; submits && i < end; ++i) {
    const std::string& word = words[i].characters();
    const std::size_t equals = word.find('=');
    if (equals != std::string::npos) {
      take_nodes(word.substr(0, equals), words[i].piece(equals + 1));
    } else if (i + 1 < end) {
      take_nodes(word, words[i + 1]);
    }
  }
  try {
    if (is_last_string) {
      read = run_string_if_commands(*source, child);
    } else if (source) {
      read = run_string(*source, child);
    } else {
      Outcome outcome;
      const auto arguments =
          std::vector<Text>(words.begin() + static_cast<std::ptrdiff_t>(file) + 1, words.end());
      read = run_other_file(words[file], arguments, false, child, outcome);
    }
  } catch (...) {
    wrappers_.pop_back();
    throw;
  }
  wrappers_.pop_back();
  return read;
}

bool Interpreter::run_string(const Text& text, State& state) {
  run(*parse_script(text, syntax_), state);
  return true;
}

/// A text that may be no command line is no reason to complain.
bool Interpreter::run_string_if_commands(const Text& text, State& state) {
  std::shared_ptr<const Command> commands;
  try {
    commands = parse_script(text, syntax_);
  } catch (const Error&) {
    return false;
  }
  run(*commands, state);
  return true;
}

bool Interpreter::run_other_file(const Text& path, std::vector<Text> arguments, bool is_sourced,
                                 State& state, Outcome& outcome) {
  const Deeper deeper(*this, path.place());
  const auto document = reading_.documents.find(path.characters());
  if (document != reading_.documents.end() && looks_like_script(path.characters())) {
    const Text source = document->second;
    outcome = run(*parse_script(source, syntax_), state);
    return true;
  }
  const std::string& characters = path.characters();
  const std::size_t mark = characters.rfind(Text::hole_mark);
  std::string name =
      mark == std::string::npos ? characters : characters.substr(mark + Text::hole_size);
  const bool is_rooted = mark == std::string::npos;
  while (!is_rooted && name.starts_with('/')) name.erase(0, 1);
  if (name.empty() || name == "/dev/null" || !settings_.read_file) return false;
  const std::optional<std::string> content = settings_.read_file(name);
  if (!content) return false;
  const Text outer = state.source;
  const std::vector<Text> outer_arguments = state.arguments;
  const bool had_arguments = state.has_arguments;
  state.source = path.is_known() ? path : Text(name, path.place());
  if (!is_sourced) state.script = state.source;
  if (!is_sourced || !arguments.empty()) {
    state.arguments = std::move(arguments);
    state.has_arguments = true;
  }
  const Syntax outer_syntax = syntax_;
  run_file(*content, name, state);
  syntax_ = outer_syntax;
  state.source = outer;
  if (!is_sourced || had_arguments) {
    state.arguments = outer_arguments;
    state.has_arguments = had_arguments;
  }
  outcome = answered(true);
  return true;
}

}  // namespace stagecraft::shell
