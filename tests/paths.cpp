#include "tests/paths.hpp"

namespace stagecraft::tests {

std::string source_folder() {
  return STAGECRAFT_SOURCE;
}

std::string shared_folder() {
  return STAGECRAFT_SHARED;
}

}  // namespace stagecraft::tests
