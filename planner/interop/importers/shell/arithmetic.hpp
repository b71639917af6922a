// Arithmetic of the shell: the integer expressions of C, with `**`, as bash has them.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::shell {

/// An integer, or what is not known of it.
struct Number {
  std::int64_t value = 0;
  std::vector<int> unknowns;  ///< not empty: the value is not known
  bool is_known() const { return unknowns.empty(); }
};

/// The shell's variables, as an expression sees them.
struct NumberVariables {
  std::function<Number(const std::string& name)> read;
  std::function<void(const std::string& name, const Number& value)> write;
};

/// Values wrap around as 64-bit integers do. Holes in the expression are unknown numbers. Throws
/// Error (input) for what is no expression, and for a division by zero.
Number evaluate_arithmetic(std::string_view expression, const NumberVariables& variables);

}  // namespace stagecraft::shell
