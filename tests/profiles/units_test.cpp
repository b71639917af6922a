#include "profiles/units.hpp"

#include <rapidcheck.h>

#include <cmath>
#include <limits>

#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();

/// Any magnitude with equal chances; uniform numbers would nearly all be huge.
std::int64_t any_positive() {
  const int bits = *rc::gen::inRange(1, 63);
  return std::abs(*rc::gen::arbitrary<std::int64_t>() % (std::int64_t{1} << bits)) + 1;
}

}  // namespace

TEST_CASE("durations are exact, whatever unit they are written in") {
  CHECK(parse_duration("10ms") == 10ms);
  CHECK(parse_duration("0.1ms") == 100us);
  CHECK(parse_duration("0.3us") == 300ns);
  CHECK(parse_duration("1.5 s") == 1500ms);
  CHECK(parse_duration("2min") == 120s);
  CHECK(parse_duration("1.5d") == 36h);
  CHECK(parse_duration("1h") == 3600s);
  CHECK(parse_duration("2y") == 2 * 365 * 24h);
  CHECK(parse_duration("1.5µs") == 1500ns);
  CHECK(parse_duration("1e3ns") == 1us);
  CHECK(parse_duration("9223372036.854775807s").count() == largest);
}

TEST_CASE("a fraction of a nanosecond is rounded to nearest") {
  CHECK(parse_duration("0.5ns") == 1ns);
  CHECK(parse_duration("0.4999999ns") == 0ns);
  CHECK(parse_duration("0.0000014ms") == 1ns);
  CHECK(parse_duration("1e-300s") == 0ns);
}

TEST_CASE("binary and decimal sizes, bits and bytes differ") {
  CHECK(parse_bytes("24GiB") == 24LL * 1024 * 1024 * 1024);
  CHECK(parse_bytes("16GB") == 16'000'000'000);
  CHECK(parse_bytes("0.5KiB") == 512);
  CHECK(parse_bytes("4096B") == 4096);
  CHECK(parse_bandwidth("25GbE").bytes_per_second == 3'125'000'000);
  CHECK(parse_bandwidth("400Gb/s").bytes_per_second == 50'000'000'000);
  CHECK(parse_bandwidth("50GB/s").bytes_per_second == 50'000'000'000);
  CHECK(parse_bandwidth("16GiB/s").bytes_per_second == 17'179'869'184);
  CHECK(parse_bandwidth("10b/s").bytes_per_second == 1);
  CHECK(parse_bandwidth("unlimited").is_unlimited());
}

TEST_CASE("a number without a unit is answered with what to write") {
  CHECK(message_of([] { parse_bandwidth("25"); }) ==
        "bandwidth needs a unit: write \"25GbE\" (= 3.125 GB/s), \"25Gb/s\" or \"25GB/s\"");
  CHECK(message_of([] { parse_duration("25"); }) ==
        "duration needs a unit: write \"25us\", \"25ms\", \"25s\", \"25min\" or \"25h\"");
  CHECK_THAT(message_of([] { parse_bytes("24"); }), ContainsSubstring("\"24GiB\""));
  CHECK_THAT(message_of([] { parse_duration("0"); }), ContainsSubstring("needs a unit"));
}

TEST_CASE("what is no quantity is refused with a reason") {
  CHECK_THAT(message_of([] { parse_bandwidth("25GB"); }),
             ContainsSubstring("unknown unit \"GB\"") && ContainsSubstring("\"25GB/s\""));
  CHECK_THAT(message_of([] { parse_bandwidth("25gb/s"); }), ContainsSubstring("unknown unit"));
  CHECK_THAT(message_of([] { parse_duration("10mss"); }),
             ContainsSubstring("unknown unit \"mss\""));
  CHECK_THAT(message_of([] { parse_bytes("-1GiB"); }), ContainsSubstring("cannot be negative"));
  CHECK_THAT(message_of([] { parse_duration("nan"); }), ContainsSubstring("found \"nan\""));
  CHECK_THAT(message_of([] { parse_duration("inf ms"); }), ContainsSubstring("expected a number"));
  CHECK_THAT(message_of([] { parse_duration(""); }), ContainsSubstring("expected a number"));
  CHECK_THAT(message_of([] { parse_duration("1.2.3ms"); }), ContainsSubstring("unknown unit"));
  CHECK_THAT(message_of([] { parse_duration("9223372036.854775808s"); }),
             ContainsSubstring("too large"));
  CHECK_THAT(message_of([] { parse_bytes("1e300TiB"); }), ContainsSubstring("too large"));
  CHECK_THAT(message_of([] { parse_bandwidth("0GB/s"); }), ContainsSubstring("at least one byte"));
  CHECK(exit_code_of([] { parse_duration("10"); }) == 3);
}

TEST_CASE("the exact forms read back to the same value") {
  CHECK(rc::check("durations", [] {
    const Duration value{any_positive() - 1};
    RC_ASSERT(parse_duration(exact_duration(value)) == value);
  }));
  CHECK(rc::check("sizes", [] {
    const Bytes value = any_positive() - 1;
    RC_ASSERT(parse_bytes(exact_bytes(value)) == value);
  }));
  CHECK(rc::check("bandwidths", [] {
    const Bandwidth value{any_positive()};
    RC_ASSERT(parse_bandwidth(exact_bandwidth(value)) == value);
  }));
  CHECK(exact_duration(1500ns) == "1.5us");
  CHECK(exact_duration(Duration(largest)) == "9223372036.854775807s");
  CHECK(exact_bytes(24LL << 30) == "24GiB");
  CHECK(exact_bytes(16'000'000'000) == "16GB");
  CHECK(exact_bytes(0) == "0B");
  CHECK(exact_bandwidth(Bandwidth::unlimited()) == "unlimited");
}

TEST_CASE("the short forms have about four digits and the fitting unit") {
  CHECK(format_duration(181'234'567ns) == "181.2ms");
  CHECK(format_duration(1500ms) == "1.5s");
  CHECK(format_duration(999'999ns) == "1ms");
  CHECK(format_duration(999ns) == "999ns");
  CHECK(format_duration(0ns) == "0ns");
  CHECK(format_duration(-1500ns) == "-1.5us");
  CHECK(format_bytes(64'172'851) == "61.2MiB");
  CHECK(format_bytes(1023) == "1023B");
  CHECK(format_bandwidth({3'125'000'000}) == "3.125GB/s");
  CHECK(format_bandwidth(Bandwidth::unlimited()) == "unlimited");
}

TEST_CASE("transfers round up to a whole nanosecond and never overflow silently") {
  CHECK(transfer_time(1'000'000'000, {1'000'000'000}) == 1s);
  CHECK(transfer_time(1, {3'000'000'000}) == 1ns);
  CHECK(transfer_time(0, {1}) == 0ns);
  CHECK(transfer_time(largest, {1'000'000'000}).count() == largest);
  CHECK(transfer_time(largest, Bandwidth::unlimited()) == 0ns);
  CHECK_THAT(message_of([] { transfer_time(largest, {1}); }), ContainsSubstring("292 years"));
  CHECK_THAT(message_of([] { transfer_time(-1, {1}); }), ContainsSubstring("negative"));
  CHECK_THAT(message_of([] { transfer_time(1, {0}); }), ContainsSubstring("at least one byte"));
}

TEST_CASE("numbers of milliseconds and seconds become whole nanoseconds") {
  CHECK(from_milliseconds(0.1) == 100us);
  CHECK(from_milliseconds(1.236) == 1236us);
  CHECK(from_seconds(0.025868) == 25868us);
  CHECK(seconds(1500ms) == 1.5);
  CHECK_THAT(message_of([] { from_seconds(-1); }), ContainsSubstring("negative"));
  CHECK_THAT(message_of([] { from_seconds(NAN); }), ContainsSubstring("too large"));
  CHECK_THAT(message_of([] { from_seconds(1e10); }), ContainsSubstring("too large"));
}
