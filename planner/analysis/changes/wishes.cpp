#include "planner/analysis/changes/wishes.hpp"

#include <charconv>
#include <cmath>

namespace stagecraft::what_if {

std::int64_t whole_number(const Change& change, std::int64_t most) {
  std::int64_t number = 0;
  const char* end = change.value.data() + change.value.size();
  const auto [stopped, error] = std::from_chars(change.value.data(), end, number);
  if (error != std::errc{} || stopped != end || number < 1 || number > most) {
    fail_usage("--set ", change.key, ": expected an integer from 1 to ", most, ", found \"",
               change.value, "\"");
  }
  return number;
}

int small_number(const Change& change, int most) {
  return static_cast<int>(whole_number(change, most));
}

std::optional<double> percentage(const Change& change) {
  if (!change.value.ends_with('%')) return {};
  double value = 0;
  const char* end = change.value.data() + change.value.size() - 1;
  const auto [stopped, error] = std::from_chars(change.value.data(), end, value);
  if (error != std::errc{} || stopped != end || std::abs(value) > 100 * most_percentage) {
    fail_usage("--set ", change.key, ": expected a percentage of at most ",
               static_cast<std::int64_t>(100 * most_percentage), "%, found \"", change.value, "\"");
  }
  return value / 100;
}

Wishes::Wishes(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    if (!wishes_.emplace(change.key, change).second)
      fail_usage("--set ", change.key, " is given twice");
  }
}

const Change* Wishes::find(std::string_view key) const {
  const auto found = wishes_.find(key);
  return found == wishes_.end() ? nullptr : &found->second;
}

int Wishes::number(std::string_view key, int otherwise) const {
  const Change* change = find(key);
  return change == nullptr ? otherwise : small_number(*change);
}

}  // namespace stagecraft::what_if
