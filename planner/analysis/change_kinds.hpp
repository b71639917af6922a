// The keys of `--set KEY=VALUE`: properties of a plan, or of its cluster, that can be changed.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// One `--set KEY=VALUE` with a single value; a list of values becomes several changes.
struct Change {
  std::string key;
  std::string value;
  bool operator==(const Change&) const = default;
};

/// A key with an example and its meaning; `N` in a key stands for a number.
struct ChangeKind {
  std::string_view key;
  std::string_view example;
  std::string_view summary;
  bool is_list_of_integers = false;  ///< the value may be a range
};
const std::vector<ChangeKind>& change_kinds();

/// Reads "KEY=VALUE", with a key of `change_kinds` or a common alias (`mbs`, `gbs`,
/// `pipeline-parallel`, …). Throws Error (usage) for an unknown key, naming the nearest one.
Change read_change(std::string_view text);
/// Whether `read_change` knows the key.
bool is_change_key(const std::string& name);
/// Whether the key's values are integers, so that a range is possible.
bool takes_integers(const Change& change);

/// The number in "link0.latency", and what follows it: "latency".
struct NumberedKey {
  int number = 0;
  std::string_view rest;
};
/// Splits a key that consists of `word`, a number, and optionally a dot and a name; nothing for
/// other keys.
std::optional<NumberedKey> numbered_key(std::string_view key, std::string_view word);

/// "tp=4 batch=64"
std::string to_string(const std::vector<Change>& changes);

}  // namespace stagecraft
