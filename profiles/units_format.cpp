// Quantities as text: a short form for people, and an exact form for files.

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <span>

#include "profiles/prefixes.hpp"
#include "profiles/units.hpp"

namespace stagecraft {

namespace {

struct PrintedUnit {
  std::string_view name;
  std::int64_t size;
};

constexpr std::array durations{PrintedUnit{"ns", 1}, PrintedUnit{"us", kilo},
                               PrintedUnit{"ms", mega}, PrintedUnit{"s", giga}};
constexpr std::array binary_bytes{PrintedUnit{"B", 1}, PrintedUnit{"KiB", kibi},
                                  PrintedUnit{"MiB", mebi}, PrintedUnit{"GiB", gibi},
                                  PrintedUnit{"TiB", tebi}};
constexpr std::array decimal_bytes{PrintedUnit{"B", 1}, PrintedUnit{"kB", kilo},
                                   PrintedUnit{"MB", mega}, PrintedUnit{"GB", giga},
                                   PrintedUnit{"TB", tera}};
constexpr std::array bandwidths{PrintedUnit{"B/s", 1}, PrintedUnit{"kB/s", kilo},
                                PrintedUnit{"MB/s", mega}, PrintedUnit{"GB/s", giga},
                                PrintedUnit{"TB/s", tera}};

/// About four significant digits without trailing zeros.
std::string short_number(double value) {
  const int digits_before = value < 10 ? 1 : value < 100 ? 2 : value < 1000 ? 3 : 4;
  std::string text = fmt::format("{:.{}f}", value, 4 - digits_before);
  if (text.find('.') == std::string::npos) return text;
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

/// The value in the largest unit in which it prints as 1 or more; units are ascending.
std::string in_fitting_unit(std::int64_t value, std::span<const PrintedUnit> units) {
  const std::string sign = value < 0 ? "-" : "";
  const double magnitude = std::abs(static_cast<double>(value));
  const PrintedUnit* fitting = &units.front();
  for (const PrintedUnit& unit : units) {
    // 0.99995 prints as "1": the larger unit then reads better than "1000" of the smaller.
    if (magnitude / static_cast<double>(unit.size) >= 0.99995) fitting = &unit;
  }
  return sign + short_number(magnitude / static_cast<double>(fitting->size)) +
         std::string(fitting->name);
}

/// value / 10^digits written out exactly, without trailing zeros.
std::string exact_decimal(std::int64_t value, std::int64_t unit, int digits) {
  std::string text = fmt::format("{}", value / unit);
  std::string fraction = fmt::format("{:0{}}", value % unit, digits);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return fraction.empty() ? text : text + "." + fraction;
}

/// The value in the largest decimal unit that it reaches, to the last digit. Units are powers of
/// 1000, ascending.
std::string exact_in_thousands(std::int64_t value, std::span<const PrintedUnit> units) {
  const PrintedUnit* fitting = &units.front();
  int digits = 0;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (value < units[i].size) break;
    fitting = &units[i];
    digits = static_cast<int>(i) * 3;
  }
  if (digits == 0) return fmt::format("{}{}", value, fitting->name);
  return exact_decimal(value, fitting->size, digits) + std::string(fitting->name);
}

}  // namespace

std::string format_duration(Duration duration) {
  return in_fitting_unit(duration.count(), durations);
}

std::string format_bytes(Bytes bytes) {
  return in_fitting_unit(bytes, binary_bytes);
}

std::string format_bandwidth(Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return "unlimited";
  return in_fitting_unit(bandwidth.bytes_per_second, bandwidths);
}

std::string exact_duration(Duration duration) {
  return exact_in_thousands(duration.count(), durations);
}

std::string exact_bytes(Bytes bytes) {
  // The shorter of the whole binary form and the decimal form: "24GiB", but "16GB" and "1.5kB".
  std::string binary = fmt::format("{}B", bytes);
  for (const PrintedUnit& unit : binary_bytes) {
    if (bytes != 0 && bytes % unit.size == 0)
      binary = fmt::format("{}{}", bytes / unit.size, unit.name);
  }
  const std::string decimal = exact_in_thousands(bytes, decimal_bytes);
  return decimal.size() < binary.size() ? decimal : binary;
}

std::string exact_bandwidth(Bandwidth bandwidth) {
  if (bandwidth.is_unlimited()) return "unlimited";
  return exact_in_thousands(bandwidth.bytes_per_second, bandwidths);
}

}  // namespace stagecraft
