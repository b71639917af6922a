// The readers under libFuzzer, as tests/fuzz/coverage builds and calls it: STAGECRAFT_FUZZ_READER
// says which one, STAGECRAFT_FUZZ_SCRATCH a folder for the files of those that read one.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/readers.hpp"

namespace {

using stagecraft::tests::Reader;

const Reader& chosen_reader() {
  const char* name = std::getenv("STAGECRAFT_FUZZ_READER");
  if (name != nullptr && *name != 0) return stagecraft::tests::reader_named(name);
  std::fputs("STAGECRAFT_FUZZ_READER names one of:", stderr);
  for (const Reader& each : stagecraft::tests::readers())
    std::fprintf(stderr, " %s", each.name.c_str());
  std::fputs("\n", stderr);
  std::exit(2);
}

/// Whoever makes it removes it, however this process ends.
std::filesystem::path scratch_folder() {
  if (const char* folder = std::getenv("STAGECRAFT_FUZZ_SCRATCH")) return folder;
  std::fputs("STAGECRAFT_FUZZ_SCRATCH names a folder for files of the readers\n", stderr);
  std::exit(2);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Reader& reader = chosen_reader();
  static const std::filesystem::path scratch =
      scratch_folder() / (reader.name == "safetensors" ? "input.safetensors" : "input");
  const std::string bytes(reinterpret_cast<const char*>(data), size);
  if (reader.reads_file) std::ofstream(scratch, std::ios::binary | std::ios::trunc) << bytes;
  try {
    stagecraft::tests::read_by(reader, bytes, scratch);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", reader.name.c_str(), error.what());
    std::abort();
  }
  return 0;
}
