// Inputs that reach new code are kept and changed further. The compiler tells what is reached: in
// builds with the address sanitizer every basic block of the folders that read files, and of
// nothing else, begins with a call (-fsanitize-coverage=trace-pc, see stagecraft_library in
// CMakeLists.txt).

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace stagecraft::tests {

/// Whether this build says what is reached.
bool is_guided();

/// How often each step from one basic block to the next was taken, by a hash of both as in AFL, in
/// eight classes: 1, 2, 3, 4 to 7, 8 to 15, 16 to 31, 32 to 127, and more.
class Reach {
 public:
  /// Calls `work`, which may throw. Returns whether this thread took a step in it that it never
  /// took in a call before, or took one in another class of counts.
  bool is_new(const std::function<void()>& work);
  std::size_t steps() const;  ///< different ones so far

 private:
  static constexpr std::size_t places = 1 << 16;
  std::array<std::uint8_t, places> classes_{};
};

/// `runs` inputs that are a little wrong, given to `read` one by one. Those that reach new code are
/// added to `inputs`, of which the next are drawn. Returns the steps that were reached.
std::size_t search_guided(std::vector<std::string> inputs, long runs, std::mt19937_64& random,
                          const std::function<void(const std::string&)>& read);

}  // namespace stagecraft::tests
