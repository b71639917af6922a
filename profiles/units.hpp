// Quantities: time in whole nanoseconds, memory in bytes, bandwidth in bytes per second.
//
// Quantities that a user writes must have a unit: "25GbE" (25 gigabit Ethernet, 3.125 GB/s),
// "25Gb/s" and "25GB/s" differ, and "25" alone is an error. Decimal prefixes are powers of 1000,
// "KiB MiB GiB TiB" powers of 1024.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace stagecraft {

using Duration = std::chrono::nanoseconds;
using Bytes = std::int64_t;

/// A rate of data; zero means "unlimited" nowhere: unlimited is `Bandwidth::unlimited()`.
struct Bandwidth {
  std::int64_t bytes_per_second = 0;

  static constexpr Bandwidth unlimited() { return {INT64_MAX}; }
  constexpr bool is_unlimited() const { return bytes_per_second == INT64_MAX; }
  auto operator<=>(const Bandwidth&) const = default;
};

/// "10ms", "250us", "1.5s", "30ns", "2min", "1h"; a fraction of a nanosecond is rounded to nearest.
/// Throws Error (input) for a missing or unknown unit, a negative, non-finite or overflowing value.
Duration parse_duration(std::string_view text);

/// "24GiB", "16GB", "512MiB", "4096B". Errors as above.
Bytes parse_bytes(std::string_view text);

/// "25GbE", "400Gb/s", "50GB/s", "16GiB/s", "unlimited". Errors as above.
Bandwidth parse_bandwidth(std::string_view text);

/// A short form for people with the fitting unit and about four significant digits: "181.2ms",
/// "1.5s".
std::string format_duration(Duration duration);
/// "61.2MiB".
std::string format_bytes(Bytes bytes);
/// "3.125GB/s".
std::string format_bandwidth(Bandwidth bandwidth);

/// An exact form that `parse_…` reads back to the same value, in the largest unit without a
/// remainder or with a finite decimal fraction: "1500ns" → "1.5us". Used in files.
std::string exact_duration(Duration duration);
std::string exact_bytes(Bytes bytes);
std::string exact_bandwidth(Bandwidth bandwidth);

/// The time `bytes` need at this rate, rounded up to a whole nanosecond; zero when unlimited.
/// Exact in 128-bit arithmetic; throws Error (input) when it exceeds Duration.
Duration transfer_time(Bytes bytes, Bandwidth bandwidth);

/// Milliseconds or seconds (finite, not negative) as whole nanoseconds, rounded to nearest; throws
/// Error (input) otherwise.
Duration from_milliseconds(double milliseconds);
Duration from_seconds(double seconds);

/// Seconds, for ratios and reports.
double seconds(Duration duration);

}  // namespace stagecraft
