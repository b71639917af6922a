#include "tools/inputs/measured_trace.hpp"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "profiles/content_hash.hpp"
#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "simulator/views/kineto_run.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

constexpr const char* record_with =
    "record a run with PyTorch's profiler: torchrun train.py --steps 10 --kineto DIR";

/// Files of the folder that are traces of a run, by name.
std::vector<KinetoRunFile> runs_in(const std::string& folder) {
  std::vector<fs::path> paths;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".json") || name.ends_with(".json.gz")) paths.push_back(entry.path());
  }
  std::ranges::sort(paths);
  std::vector<KinetoRunFile> files;
  for (const fs::path& path : paths) {
    std::string content = read_file(path);
    if (is_kineto_run(content)) files.push_back({path.string(), std::move(content)});
  }
  if (files.empty()) {
    throw Error(ErrorKind::input,
                "the folder holds no trace of a run: expected rank0.json, rank1.json, …",
                SourcePlace{folder, 0, 0}, {record_with});
  }
  return files;
}

}  // namespace

bool is_recorded_by_torch(const std::string& path) {
  return fs::is_directory(path) ||
         (fs::is_regular_file(path) && looks_like_kineto(read_file(path)));
}

MeasuredTrace read_measured_trace(Console& console, const std::string& path) {
  std::vector<KinetoRunFile> files;
  if (fs::is_directory(path)) {
    files = runs_in(path);
  } else {
    files.push_back({path, read_file(path)});
    const std::string& content = files.front().content;
    if (looks_like_kineto(content) && !is_kineto_run(content)) {
      throw Error(ErrorKind::input,
                  "no range of this trace of PyTorch's profiler is named as programs of python -m "
                  "stagecraft.torch export name passes (\"forward stage 0 microbatch 0\")",
                  SourcePlace{path, 0, 0}, {record_with});
    }
  }
  std::vector<std::string_view> contents;
  for (const KinetoRunFile& file : files) {
    contents.emplace_back(file.content);
    console.input(file.path, content_hash(file.content));
  }
  const std::string hash = content_hash(contents);
  const bool is_run = is_kineto_run(files.front().content);
  return {is_run ? read_kineto_run(files) : read_trace(files.front().content, path), hash};
}

}  // namespace stagecraft
