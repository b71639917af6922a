// Quantities are read as decimal numbers and scaled in 128-bit integers: "0.1ms" is 100000 ns
// exactly, which binary floating point would only promise approximately.

#include "profiles/units.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "profiles/error.hpp"
#include "profiles/prefixes.hpp"
#include "profiles/text.hpp"
#include "profiles/wide.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
/// Mantissas stay below 10^19 and unit factors below 10^19, so their product fits 128 bits.
constexpr std::uint64_t mantissa_limit = 1'000'000'000'000'000'000U;
constexpr int largest_power = 19;

/// One unit is numerator / denominator base units (nanoseconds, bytes, bytes per second).
struct Unit {
  std::string_view name;
  std::int64_t numerator;
  std::int64_t denominator = 1;
};

constexpr std::array duration_units{
    Unit{"ns", 1},
    Unit{"us", 1000},
    Unit{"µs", 1000},
    Unit{"μs", 1000},
    Unit{"ms", 1'000'000},
    Unit{"s", giga},
    Unit{"sec", giga},
    Unit{"min", 60 * giga},
    Unit{"h", 3600 * giga},
    Unit{"d", 86400 * giga},
    Unit{"y", 31'536'000 * giga},
};

constexpr std::array bytes_units{
    Unit{"B", 1},     Unit{"kB", kilo},  Unit{"KB", kilo},  Unit{"MB", mega},  Unit{"GB", giga},
    Unit{"TB", tera}, Unit{"KiB", kibi}, Unit{"MiB", mebi}, Unit{"GiB", gibi}, Unit{"TiB", tebi},
};

constexpr std::array bandwidth_units{
    Unit{"B/s", 1},          Unit{"kB/s", kilo},      Unit{"KB/s", kilo},
    Unit{"MB/s", mega},      Unit{"GB/s", giga},      Unit{"TB/s", tera},
    Unit{"KiB/s", kibi},     Unit{"MiB/s", mebi},     Unit{"GiB/s", gibi},
    Unit{"TiB/s", tebi},     Unit{"b/s", 1, 8},       Unit{"kb/s", kilo, 8},
    Unit{"Mb/s", mega, 8},   Unit{"Gb/s", giga, 8},   Unit{"Tb/s", tera, 8},
    Unit{"kbit/s", kilo, 8}, Unit{"Mbit/s", mega, 8}, Unit{"Gbit/s", giga, 8},
    Unit{"Tbit/s", tera, 8}, Unit{"Mbps", mega, 8},   Unit{"Gbps", giga, 8},
    Unit{"Tbps", tera, 8},   Unit{"MbE", mega, 8},    Unit{"GbE", giga, 8},
    Unit{"gbe", giga, 8},    Unit{"TbE", tera, 8},
};

/// What differs between the quantities when they complain.
struct Quantity {
  std::string_view name;
  std::string_view example;
  std::span<const Unit> units;
  /// Completes `NAME needs a unit: write …` for a bare number.
  std::string (*advice)(std::string_view number);
};

std::string duration_advice(std::string_view number) {
  return fmt::format("write \"{0}us\", \"{0}ms\", \"{0}s\", \"{0}min\" or \"{0}h\"", number);
}

std::string bytes_advice(std::string_view number) {
  return fmt::format("write \"{0}GiB\" (units of 1024^3 bytes) or \"{0}GB\" (units of 10^9 bytes)",
                     number);
}

std::string bandwidth_advice(std::string_view number) {
  std::string ethernet;
  try {
    std::string rate = exact_bandwidth(parse_bandwidth(std::string(number) + "GbE"));
    rate.insert(rate.find_first_not_of("0123456789."), " ");
    ethernet = " (= " + rate + ")";
  } catch (const Error&) {  // "0", or too large: the advice does without the conversion
  }
  return fmt::format("write \"{0}GbE\"{1}, \"{0}Gb/s\" or \"{0}GB/s\"", number, ethernet);
}

const Quantity duration_quantity{"duration", "10ms", duration_units, duration_advice};
const Quantity bytes_quantity{"memory size", "24GiB", bytes_units, bytes_advice};
const Quantity bandwidth_quantity{"bandwidth", "25GbE", bandwidth_units, bandwidth_advice};

/// A decimal number: mantissa x 10^exponent.
struct Decimal {
  std::uint64_t mantissa = 0;
  int exponent = 0;
};

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// Reads "12.5e3" from the front of `text` and removes it; nothing if there is no number.
std::optional<Decimal> take_decimal(std::string_view& text) {
  Decimal decimal;
  std::size_t at = 0;
  bool any_digit = false;
  bool in_fraction = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !in_fraction) {
      in_fraction = true;
      continue;
    }
    if (!is_digit(c)) break;
    any_digit = true;
    const bool keep = decimal.mantissa < mantissa_limit;
    if (keep) decimal.mantissa = decimal.mantissa * 10 + static_cast<std::uint64_t>(c - '0');
    if (keep && in_fraction) --decimal.exponent;
    if (!keep && !in_fraction) ++decimal.exponent;
  }
  if (!any_digit) return {};

  const bool has_exponent = at + 1 < text.size() && (text[at] == 'e' || text[at] == 'E');
  if (has_exponent) {
    std::size_t digit = at + 1;
    const bool negative = text[digit] == '-';
    if (text[digit] == '-' || text[digit] == '+') ++digit;
    int exponent = 0;
    const std::size_t first = digit;
    for (; digit < text.size() && is_digit(text[digit]); ++digit) {
      if (exponent < 10000) exponent = exponent * 10 + (text[digit] - '0');
    }
    if (digit > first) {
      decimal.exponent += negative ? -exponent : exponent;
      at = digit;
    }
  }
  text.remove_prefix(at);
  return decimal;
}

/// decimal x unit, rounded to nearest; nothing if it does not fit.
std::optional<std::int64_t> scaled(const Decimal& decimal, const Unit& unit) {
  constexpr auto widest = static_cast<UnsignedWide>(largest);
  UnsignedWide value =
      static_cast<UnsignedWide>(decimal.mantissa) * static_cast<UnsignedWide>(unit.numerator);
  if (value == 0) return 0;
  for (int power = decimal.exponent; power > 0; --power) {
    if (value > widest * 16) return {};
    value *= 10;
  }
  UnsignedWide divisor = static_cast<UnsignedWide>(unit.denominator);
  int power = -decimal.exponent;
  // Digits far behind the point cannot reach the result's last place: they are cut off before the
  // rounding division.
  for (; power > largest_power; --power) value /= 10;
  for (; power > 0; --power) divisor *= 10;
  value = (value + divisor / 2) / divisor;
  if (value > widest) return {};
  return static_cast<std::int64_t>(value);
}

/// The unit of this name; else an error that says what to write instead.
const Unit& find_unit(const Quantity& quantity, std::string_view number, std::string_view name,
                      std::string_view text) {
  if (name.empty()) fail(quantity.name, " needs a unit: ", quantity.advice(number));
  for (const Unit& unit : quantity.units) {
    if (unit.name == name) return unit;
  }
  fail(quantity.name, " \"", text, "\" has the unknown unit \"", name,
       "\": ", quantity.advice(number));
}

std::int64_t parse_quantity(const Quantity& quantity, std::string_view text) {
  const std::string trimmed = trim(text);
  std::string_view rest = trimmed;
  if (rest.starts_with('-')) fail(quantity.name, " cannot be negative, found \"", trimmed, "\"");
  if (rest.starts_with('+')) rest.remove_prefix(1);
  const std::string_view from = rest;
  const std::optional<Decimal> decimal = take_decimal(rest);
  if (!decimal) {
    fail(quantity.name, ": expected a number with a unit, such as \"", quantity.example,
         "\", found \"", trimmed, "\"");
  }
  const std::string_view number = from.substr(0, from.size() - rest.size());
  const Unit& unit = find_unit(quantity, number, trim(rest), trimmed);
  const std::optional<std::int64_t> value = scaled(*decimal, unit);
  if (!value) fail(quantity.name, " \"", trimmed, "\" is too large");
  return *value;
}

}  // namespace

Duration parse_duration(std::string_view text) {
  return Duration(parse_quantity(duration_quantity, text));
}

Bytes parse_bytes(std::string_view text) {
  return parse_quantity(bytes_quantity, text);
}

Bandwidth parse_bandwidth(std::string_view text) {
  if (trim(text) == "unlimited") return Bandwidth::unlimited();
  const std::int64_t rate = parse_quantity(bandwidth_quantity, text);
  if (rate == 0) fail("bandwidth must be at least one byte per second, found \"", trim(text), "\"");
  return {rate};
}

Duration transfer_time(Bytes bytes, Bandwidth bandwidth) {
  if (bytes < 0) fail("cannot transfer a negative number of bytes (", bytes, ")");
  if (bandwidth.bytes_per_second <= 0) fail("bandwidth must be at least one byte per second");
  if (bytes == 0 || bandwidth.is_unlimited()) return Duration{0};
  const auto rate = static_cast<UnsignedWide>(bandwidth.bytes_per_second);
  const UnsignedWide time =
      (static_cast<UnsignedWide>(bytes) * static_cast<UnsignedWide>(giga) + rate - 1) / rate;
  if (time > static_cast<UnsignedWide>(largest)) {
    fail("transferring ", format_bytes(bytes), " at ", format_bandwidth(bandwidth),
         " takes more than 292 years");
  }
  return Duration(static_cast<std::int64_t>(time));
}

namespace {

Duration from_scaled(double value, long double nanoseconds, std::string_view unit) {
  if (!std::isfinite(value)) {
    fail("a time is not finite: a rate is too close to zero, or an amount too large");
  }
  if (value < 0) fail("a time cannot be negative, found ", value, unit);
  const long double result = std::round(static_cast<long double>(value) * nanoseconds);
  if (result >= static_cast<long double>(largest)) fail("the time ", value, unit, " is too large");
  return Duration(static_cast<std::int64_t>(result));
}

}  // namespace

Duration from_milliseconds(double milliseconds) {
  return from_scaled(milliseconds, 1e6L, "ms");
}

Duration from_seconds(double seconds) {
  return from_scaled(seconds, 1e9L, "s");
}

double seconds(Duration duration) {
  return static_cast<double>(duration.count()) / 1e9;
}

}  // namespace stagecraft
