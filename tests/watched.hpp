// Tests over many cases: all of them where the compiler optimizes, a part where it does not, or a
// sanitizer watches each access, which takes ten to thirty times as long.

#pragma once

namespace stagecraft::tests {

#if defined(__OPTIMIZE__) && !defined(STAGECRAFT_WATCHED)
inline constexpr bool is_watched = false;
#else
inline constexpr bool is_watched = true;
#endif

}  // namespace stagecraft::tests
