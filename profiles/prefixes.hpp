// Prefixes of units, binary and decimal, as whole numbers.

#pragma once

#include <cstdint>

namespace stagecraft {

inline constexpr std::int64_t kibi = 1024;
inline constexpr std::int64_t mebi = kibi * kibi;
inline constexpr std::int64_t gibi = mebi * kibi;
inline constexpr std::int64_t tebi = gibi * kibi;
inline constexpr std::int64_t kilo = 1000;
inline constexpr std::int64_t mega = kilo * kilo;
inline constexpr std::int64_t giga = mega * kilo;
inline constexpr std::int64_t tera = giga * kilo;

}  // namespace stagecraft
