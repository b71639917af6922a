// stagecraft-checkpoint/1; the annotated example opens manifest.cpp.

#pragma once

#include <filesystem>
#include <string>

#include "executor/checkpoints/checkpoint.hpp"

namespace stagecraft {

std::string write_manifest(const Checkpoint& checkpoint);

/// Reads a manifest. Throws Error (input), with the place, for mistakes, and for a manifest whose
/// own hash is wrong. Does not read the files.
Checkpoint read_manifest(const std::filesystem::path& path);

/// Size of a slice in its file.
Bytes bytes_of(const StoredState& state, const StoredSlice& slice);

/// A weight's name and whole shape; hashes ("xxh3:…") are over these, in the order of names.
struct WholeShape {
  std::string name;
  std::vector<std::int64_t> shape;
  auto operator<=>(const WholeShape&) const = default;
};
std::string hash_of(std::vector<WholeShape> shapes);

}  // namespace stagecraft
