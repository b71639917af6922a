// Where files are that tests read. The folders are compiled into one file only, so that a compiler
// cache knows all others from any checkout.

#pragma once

#include <string>

namespace stagecraft::tests {

/// The project's own.
std::string source_folder();

/// Published figures and profiles, which may not be there (the CMake variable STAGECRAFT_SHARED).
std::string shared_folder();

}  // namespace stagecraft::tests
