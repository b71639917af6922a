// Everything that reads a file of somebody else, as a function of bytes: what mutated inputs,
// failing allocations and libFuzzer are given to. A new reader gets a row in readers.cpp, and a
// folder with an input or two in tests/fuzz/inputs.

#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace stagecraft::tests {

struct Reader {
  std::string name;  ///< of its folder in tests/fuzz/inputs
  /// `scratch` is a file that already has these bytes, for readers that open files themselves.
  /// Throws Error of any kind but `bug`, or std::bad_alloc; anything else is a fault.
  void (*read)(const std::string& bytes, const std::filesystem::path& scratch);
  bool reads_file = false;  ///< looks at `scratch`, not at `bytes`
};

const std::vector<Reader>& readers();
const Reader& reader_named(const std::string& name);

/// Of inputs that are right, a folder for each reader.
std::filesystem::path inputs_folder();

/// Where files for readers are put: in memory if there is such a place, since a disk takes longer
/// than most readers.
std::filesystem::path folder_for_scratch();

/// Reads once, as a command would. Returns whether the input was accepted. Throws whatever is a
/// fault: an Error that calls itself a bug, or any exception that is no Error (but bad_alloc).
bool read_by(const Reader& reader, const std::string& bytes, const std::filesystem::path& scratch);

}  // namespace stagecraft::tests
