// Lists and ranges on the command line: "10ms,12ms", "4..128" (doubling), "4..128:4" (step).

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "profiles/error.hpp"
#include "profiles/units.hpp"

namespace CLI {
class Option;
}

namespace stagecraft {

/// Lets an integer option accept "32k" for 32768, as is common for sequence lengths. Must be
/// declared before checks of the range.
CLI::Option* in_thousands(CLI::Option* option);

/// Comma-separated quantities; `flag` names the option in errors (kind usage).
std::vector<Duration> read_durations(std::string_view flag, std::string_view text);
std::vector<Bytes> read_byte_list(std::string_view flag, std::string_view text);
std::vector<Bandwidth> read_bandwidths(std::string_view flag, std::string_view text);
/// Comma-separated integers and ranges, each in [least, most]; ascending ranges include their end
/// when they hit it.
std::vector<std::int64_t> read_integers(std::string_view flag, std::string_view text,
                                        std::int64_t least, std::int64_t most);
/// `read_integers` with results of type int.
std::vector<int> read_small_integers(std::string_view flag, std::string_view text, int least,
                                     int most);
/// A single duration.
Duration read_duration(std::string_view flag, std::string_view text);
Bytes read_bytes(std::string_view flag, std::string_view text);
Bandwidth read_bandwidth(std::string_view flag, std::string_view text);
/// "90%" as 0.9, from 0% to `most` (in per cent).
double read_percent(std::string_view flag, const std::string& text, double most = 100);
/// Reads a name by its reader; `flag` names the option in errors (kind usage).
template <class Value>
Value read_named(std::string_view flag, const std::string& name, Value (*read)(std::string_view)) {
  try {
    return read(name);
  } catch (const Error& error) {
    fail_usage(flag, ": ", error.message());
  }
}
/// Comma-separated words.
std::vector<std::string> read_words(std::string_view flag, std::string_view text);

/// Whether a file is a plan, for verbs that accept plans and other files as one argument.
bool is_plan(const class Json& json);

}  // namespace stagecraft
