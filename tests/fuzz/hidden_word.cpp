#include "tests/fuzz/hidden_word.hpp"

namespace stagecraft::tests {

bool starts_with_hidden_word(const std::string& text) {
  if (text.size() < 4) return false;
  volatile int letters = 0;
  if (text[0] == 'b') {
    letters = 1;
    if (text[1] == 'u') {
      letters = 2;
      if (text[2] == 'b') {
        letters = 3;
        if (text[3] == 'b') letters = 4;
      }
    }
  }
  return letters == 4;
}

}  // namespace stagecraft::tests
