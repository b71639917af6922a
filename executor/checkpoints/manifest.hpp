// stagecraft-checkpoint/1; the annotated example opens manifest.cpp.

#pragma once

#include <filesystem>
#include <string>

#include "executor/checkpoints/checkpoint.hpp"

namespace stagecraft {

std::string write_manifest(const Checkpoint& checkpoint);

/// Throws Error (input) at the place of what is wrong, and for a manifest that says another hash of
/// itself than it has. Does not look at the files.
Checkpoint read_manifest(const std::filesystem::path& path);

/// Of a slice in its file.
Bytes bytes_of(const StoredState& state, const StoredSlice& slice);

/// "xxh3:…" over names and whole shapes, in order of names.
struct WholeShape {
  std::string name;
  std::vector<std::int64_t> shape;
  auto operator<=>(const WholeShape&) const = default;
};
std::string hash_of(std::vector<WholeShape> shapes);

}  // namespace stagecraft
