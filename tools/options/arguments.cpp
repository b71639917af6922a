#include "tools/options/arguments.hpp"

#include <CLI/CLI.hpp>
#include <charconv>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {
namespace {

std::int64_t read_integer(std::string_view flag, std::string_view text, std::int64_t least,
                          std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < least || value > most) {
    fail_usage(flag, ": expected an integer from ", least, " to ", most, ", found \"", text, "\"");
  }
  return value;
}

/// "FIRST..LAST" doubles, "FIRST..LAST:STEP" adds.
std::vector<std::int64_t> read_range(std::string_view flag, std::string_view text,
                                     std::int64_t least, std::int64_t most) {
  const std::size_t dots = text.find("..");
  const std::size_t colon = text.find(':', dots);
  const std::int64_t first = read_integer(flag, text.substr(0, dots), least, most);
  const std::int64_t last = read_integer(
      flag, text.substr(dots + 2, colon == std::string_view::npos ? colon : colon - dots - 2),
      least, most);
  if (last < first) fail_usage(flag, ": the range \"", text, "\" is empty");
  if (colon == std::string_view::npos && first < 1) {
    fail_usage(flag, ": a doubling range must start at 1 or more, or give a step: \"", text,
               ":1\"");
  }
  const std::int64_t step =
      colon == std::string_view::npos ? 0 : read_integer(flag, text.substr(colon + 1), 1, most);
  constexpr std::size_t longest = 100'000;
  std::vector<std::int64_t> values;
  for (std::int64_t value = first; value <= last; value = step > 0 ? value + step : value * 2) {
    values.push_back(value);
    if (values.size() > longest)
      fail_usage(flag, ": the range \"", text, "\" has more than ", longest, " values");
  }
  return values;
}

/// What `parse` makes of the text; its complaint is one about the flag.
template <class Quantity>
Quantity read_quantity(std::string_view flag, Quantity (*parse)(std::string_view),
                       std::string_view text) {
  try {
    return parse(text);
  } catch (const Error& error) {
    fail_usage(flag, ": ", error.message());
  }
}

template <class Quantity>
std::vector<Quantity> read_list(std::string_view flag,
                                Quantity (*read)(std::string_view, std::string_view),
                                std::string_view text) {
  std::vector<Quantity> list;
  for (const std::string& word : read_words(flag, text)) list.push_back(read(flag, word));
  return list;
}

}  // namespace

CLI::Option* in_thousands(CLI::Option* option) {
  const auto whole = [](std::string& text) {
    text = with_thousands_written_out(text);
    return std::string();
  };
  return option->transform(CLI::Validator(whole, ""));
}

std::vector<std::string> read_words(std::string_view flag, std::string_view text) {
  std::vector<std::string> words;
  for (const std::string& part : split(text, ',')) words.push_back(trim(part));
  if (words.empty()) fail_usage(flag, ": expected a list, found nothing");
  for (const std::string& word : words) {
    if (word.empty()) fail_usage(flag, ": the list \"", text, "\" has an empty place");
  }
  return words;
}

Duration read_duration(std::string_view flag, std::string_view text) {
  return read_quantity(flag, parse_duration, text);
}

Bytes read_bytes(std::string_view flag, std::string_view text) {
  return read_quantity(flag, parse_bytes, text);
}

Bandwidth read_bandwidth(std::string_view flag, std::string_view text) {
  return read_quantity(flag, parse_bandwidth, text);
}

double read_percent(std::string_view flag, const std::string& text, double most) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  if (used == 0 || text.substr(used) != "%" || !(value >= 0 && value <= most)) {
    fail_usage(flag, ": expected a percentage from 0% to ", static_cast<std::int64_t>(most),
               "%, found \"", text, "\"");
  }
  return value / 100;
}

std::vector<Duration> read_durations(std::string_view flag, std::string_view text) {
  return read_list(flag, read_duration, text);
}

std::vector<Bytes> read_byte_list(std::string_view flag, std::string_view text) {
  return read_list(flag, read_bytes, text);
}

std::vector<Bandwidth> read_bandwidths(std::string_view flag, std::string_view text) {
  return read_list(flag, read_bandwidth, text);
}

std::vector<std::int64_t> read_integers(std::string_view flag, std::string_view text,
                                        std::int64_t least, std::int64_t most) {
  std::vector<std::int64_t> values;
  for (const std::string& word : read_words(flag, text)) {
    if (word.find("..") == std::string::npos) {
      values.push_back(read_integer(flag, word, least, most));
    } else {
      const auto range = read_range(flag, word, least, most);
      values.insert(values.end(), range.begin(), range.end());
    }
  }
  return values;
}

std::vector<int> read_small_integers(std::string_view flag, std::string_view text, int least,
                                     int most) {
  std::vector<int> values;
  for (const std::int64_t value : read_integers(flag, text, least, most))
    values.push_back(static_cast<int>(value));
  return values;
}

bool is_plan(const Json& json) {
  return json.is_object() && json.contains("format") && json["format"].is_string() &&
         json["format"].string().starts_with("stagecraft-plan/");
}

}  // namespace stagecraft
