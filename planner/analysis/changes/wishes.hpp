// The changes that a plan is to have, by their keys, and how their values are read. For the sources
// of this folder.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/analysis/change_kinds.hpp"
#include "profiles/cluster.hpp"
#include "profiles/error.hpp"

namespace stagecraft::what_if {

/// From 1 to `most`. Throws Error (usage) for another value.
std::int64_t whole_number(const Change& change, std::int64_t most);
/// Reads an integer that cannot exceed the number of devices.
int small_number(const Change& change, int most = most_devices);

/// Upper limit of plausible values.
inline constexpr double most_percentage = 1000;
/// Reads "50%" as 0.5; nothing if the text is not a percentage. Throws Error (usage) for an
/// implausible one.
std::optional<double> percentage(const Change& change);

/// The value as `parse` reads it, its complaint with the key in front.
template <class Quantity>
Quantity quantity(const Change& change, Quantity (*parse)(std::string_view)) {
  try {
    return parse(change.value);
  } catch (const Error& error) {
    fail_usage("--set ", change.key, ": ", error.message());
  }
}

/// The changes by their keys; each key is handled separately.
class Wishes {
 public:
  /// Throws Error (usage) for a key that is given twice.
  explicit Wishes(const std::vector<Change>& changes);

  /// Null where nothing is said of the key.
  const Change* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }
  /// The number that is wished for, or `otherwise`.
  int number(std::string_view key, int otherwise) const;
  const std::map<std::string, Change, std::less<>>& all() const { return wishes_; }

 private:
  std::map<std::string, Change, std::less<>> wishes_;
};

/// Sets the value where something is said of the key.
template <class Value>
void set_named(const Wishes& wishes, std::string_view key, Value (*read)(std::string_view),
               Value& value) {
  if (const Change* change = wishes.find(key)) value = quantity(*change, read);
}

}  // namespace stagecraft::what_if
