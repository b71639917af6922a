// What of a plan, or of its cluster, can be set to another value: the keys of `--set KEY=VALUE`.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft {

/// `--set KEY=VALUE`. A value is a single one here; lists are several changes, one after another.
struct Change {
  std::string key;
  std::string value;
  bool operator==(const Change&) const = default;
};

/// What can be set, with an example and what it means; `N` in a key is a number.
struct ChangeKind {
  std::string_view key;
  std::string_view example;
  std::string_view summary;
  bool is_list_of_integers = false;  ///< ranges are understood
};
const std::vector<ChangeKind>& change_kinds();

/// "KEY=VALUE", with the key as `change_kinds` spells it or by an alias of the field (`mbs`, `gbs`,
/// `pipeline-parallel`, …). Throws Error (usage) for a key that nothing has, naming the nearest.
Change read_change(std::string_view text);
/// Whether `read_change` knows the key.
bool is_change_key(const std::string& name);
/// Of a key whose values are integers, where a range may stand.
bool takes_integers(const Change& change);

/// The number in "link0.latency", and what follows it: "latency".
struct NumberedKey {
  int number = 0;
  std::string_view rest;
};
/// Nothing unless the key is WORD, a number, and perhaps a dot and more.
std::optional<NumberedKey> numbered_key(std::string_view key, std::string_view word);

/// "tp=4 batch=64"
std::string to_string(const std::vector<Change>& changes);

}  // namespace stagecraft
