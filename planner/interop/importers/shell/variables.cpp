// Variables of a script, and what is unknown of them.

#include <algorithm>

#include "planner/interop/importers/shell/interpreter.hpp"
#include "planner/interop/importers/shell/outcomes.hpp"
#include "profiles/text.hpp"

namespace stagecraft::shell {

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
                          const std::vector<int>& causes) {
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

}  // namespace stagecraft::shell
