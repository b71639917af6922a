// Where a condition is not known, both ways are gone, and what they leave is merged.

#include <algorithm>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

namespace {

using Flow = Outcome::Flow;
using Answer = Truth::Answer;

}  // namespace

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
    State before = copy_of(state, place);
    Outcome outcome = yes ? one(state) : other(state);
    const bool complains = outcome.flow == Flow::leave && outcome.status.answer == Answer::no;
    if (!complains) return outcome;
    // It asks for what somebody is to fill in first.
    State otherwise = copy_of(before, place);
    Outcome second = yes ? other(otherwise) : one(otherwise);
    if (second.flow == Flow::leave) return outcome;
    state = std::move(otherwise);
    reading_.notes.push_back(concat(reading_.source_place(place).file, ":", place.line, ": \"",
                                    source,
                                    "\" would end the script; it is read as if it went on"));
    return second;
  }
  if (asked.answer != Answer::unknown) {
    State as_assumed = copy_of(state, place);
    Outcome outcome = asked.answer == Answer::yes ? one(as_assumed) : other(as_assumed);
    note_assumed(asked);
    if (outcome.flow != Flow::leave) {
      state = std::move(as_assumed);
      return outcome;
    }
    // Without the variable the script would end here, so it is meant to be set.
    State otherwise = copy_of(state, place);
    Outcome second = asked.answer == Answer::yes ? other(otherwise) : one(otherwise);
    state = second.flow == Flow::leave ? std::move(as_assumed) : std::move(otherwise);
    return second;
  }
  State second = copy_of(state, place);
  const Outcome first_outcome = one(state);
  const Outcome second_outcome = other(second);
  return merge(first_outcome, state, second_outcome, second, asked, source, place);
}

}  // namespace stagecraft::shell
