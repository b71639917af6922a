// Inputs that are a little wrong: drawn from others of the same kind, the same for the same seed.

#pragma once

#include <random>
#include <string>
#include <vector>

namespace stagecraft::tests {

/// One of the inputs after one to four changes: bytes flipped, cut, doubled, moved, parts of
/// another input put in, numbers replaced by those at the edges of types, structures nested deeply.
std::string mutated(const std::vector<std::string>& inputs, std::mt19937_64& random);

}  // namespace stagecraft::tests
