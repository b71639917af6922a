// What a search finds only if it is told what its inputs reach.

#pragma once

#include <string>

namespace stagecraft::tests {

/// Whether the text starts with four certain letters, each looked at in a block of its own.
bool starts_with_hidden_word(const std::string& text);

}  // namespace stagecraft::tests
