// Tests over many cases: all of them where the compiler optimizes, some where a sanitizer watches
// each access, which takes ten to thirty times as long.

#pragma once

namespace stagecraft::tests {

#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
inline constexpr bool is_watched = false;
#else
inline constexpr bool is_watched = true;
#endif

/// Of so many cases those that are tried: all, or a third.
template <typename Count>
constexpr Count tried_of(Count all) {
  return is_watched ? all / 3 : all;
}

}  // namespace stagecraft::tests
