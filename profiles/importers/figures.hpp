// What files of other planners have in common: bare figures, and names that need not differ.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"

namespace stagecraft {

/// Beyond these a file has a slip in it; sums over all nodes stay within 64 bits.
inline constexpr double most_foreign_seconds = 1e5;
inline constexpr double most_foreign_bytes = 1e14;
inline constexpr std::size_t most_foreign_nodes = 10'000;

/// A number from 0 to `most`; throws Error (input) at its place otherwise.
double read_figure(const Json& json, double most);
Bytes whole_bytes(double bytes);

/// The array's elements; throws Error (input) if there are none or more than most_foreign_nodes.
std::vector<Json> read_nodes(const Json& json);

/// Nodes by the identifier that the file gives them.
class NodeNumbers {
 public:
  /// Throws Error (input) at `id` if it is taken. Returns the node's number: 0, 1, …
  int add(const Json& id);
  /// Throws Error (input) at `id` if there is no such node.
  int find(const Json& id) const;
  /// Also for identifiers that are member names; -1 if there is no such node.
  int find(const std::string& id) const;

 private:
  std::map<std::int64_t, int> numbers_;
};

/// The names, each made different from all others by its number where it occurs twice.
std::vector<std::string> distinct(std::vector<std::string> names);

/// The profile's layers in a topological order that keeps few bytes open (`linear_order`), and that
/// order. Throws Error (input) naming the layers of a cycle.
std::vector<int> put_in_order(Profile& profile);

/// Calls `import` and adds the file to complaints that have no place.
template <class Action>
auto at_file(const std::string& file, Action import) {
  try {
    return import();
  } catch (const Error& error) {
    if (error.place()) throw;
    throw Error(error.kind(), error.message(), SourcePlace{file, 0, 0}, error.help());
  }
}

}  // namespace stagecraft
