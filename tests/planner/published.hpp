// Profiles published by other planners' authors, where they are there.

#pragma once

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "planner/problem/problem.hpp"
#include "tests/paths.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

inline std::filesystem::path shared_data() {
  return std::filesystem::path(shared_folder()) / "data";
}

/// Model files of PipeDream, Piper and dnn-partitioning, by name; none where they are not there.
inline std::vector<std::filesystem::path> published_files() {
  std::vector<std::filesystem::path> files;
  for (const char* folder : {"pipedream", "piper", "dnn-partitioning"}) {
    const std::filesystem::path root = shared_data() / folder;
    if (!std::filesystem::exists(root)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
      const std::filesystem::path& file = entry.path();
      if (file.extension() == ".json" || file.filename() == "graph.txt") files.push_back(file);
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// Throws Error (input) if the file cannot be loaded.
inline Problem published_problem(const std::filesystem::path& file, const std::string& cluster,
                                 int microbatches) {
  const LoadedProfile loaded = load_profile(file.string());
  const std::int64_t size = loaded.profile.entries.front().setting.microbatch;
  Problem problem = problem_of(loaded.profile, parse_cluster(cluster), microbatches * size, {size});
  problem.source = {.path = loaded.path, .content = loaded.content};
  return problem;
}

}  // namespace stagecraft::tests
