// The keys of a config.json, and which of them were read: what nobody reads is either known to be
// harmless or refused by name.

#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/json.hpp"

namespace stagecraft {

class Keys {
 public:
  /// `is_part`: of a larger model's file, in which the library writes only what differs from the
  /// defaults of the family's class; in a file of its own the keys that `need` names must stand.
  Keys(Json config, bool is_part) : config_(std::move(config)), is_part_(is_part) {}

  /// Names of keys may be several, joined by "|": the first that stands counts. `otherwise` is the
  /// default of the library's class, which holds where the key is absent. A flag that is null is
  /// false, as in the library; other keys that are null are read as absent ones, unless a reader
  /// asks for `is_null`.
  bool has(std::string_view names);
  /// One of the names stands and is null, and none has a value.
  bool is_null(std::string_view names);
  std::int64_t count(std::string_view names, std::int64_t otherwise);    ///< at least 1
  std::int64_t natural(std::string_view names, std::int64_t otherwise);  ///< at least 0
  std::int64_t integer(std::string_view names, std::int64_t otherwise);
  bool flag(std::string_view names, bool otherwise);
  double number(std::string_view names, double otherwise);
  /// A number of at least `least` that holds for all layers: an integer, or a list with the same
  /// integer for each of the `layers`. Throws Error (input) for a list of another length, and for
  /// one whose integers differ.
  std::int64_t for_all_layers(std::string_view names, int layers, std::int64_t otherwise,
                              std::int64_t least = 1);
  std::string word(std::string_view names, const std::string& otherwise);
  std::vector<std::string> words(std::string_view names);
  std::vector<std::int64_t> numbers(std::string_view names);
  /// The member itself; must be there.
  Json at(std::string_view names);

  /// Throws Error (input) naming all that are missing.
  void need(const std::vector<std::string>& names);
  /// A value that changes nothing here: read, and done with.
  void ignore(const std::vector<std::string>& names);
  /// Throws Error (input) at the key unless its value is one of these words.
  void only(std::string_view name, const std::vector<std::string>& words);
  /// Throws Error (input) if the key is there and true.
  void refuse_true(std::string_view name, const std::string& why);
  /// Of keys that files have and the library does not read: throws Error (input) at the key unless
  /// it says what the library builds all the same.
  void same(std::string_view name, std::int64_t built);
  void same(std::string_view name, bool built);
  void same(std::string_view name, const std::vector<std::int64_t>& built);
  /// Throws Error (input) at the key, or at the file where it is absent.
  [[noreturn]] void fail(std::string_view names, const std::string& message);

  /// Throws Error (input) at the first key that nobody read, is not known to be harmless, and says
  /// something (not null, false, or empty).
  void refuse_unread(std::string_view family) const;

  const Json& json() const { return config_; }

 private:
  std::string found(std::string_view names);
  /// Throws Error (input) at the second of two names whose numbers differ: the library takes the
  /// one that it sets last, which nobody sees in a file.
  void require_one_number(std::string_view names);

  Json config_;
  bool is_part_ = false;
  std::set<std::string, std::less<>> read_;
};

/// Keys that change neither parameters nor work, in any family: of tokens, dropout, initial values,
/// generation, files, losses beside the model's own.
bool is_harmless_key(std::string_view name);

}  // namespace stagecraft
