#include "planner/interop/importers/script_folder.hpp"

#include <cstdint>
#include <system_error>

#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace fs = std::filesystem;

std::optional<OtherFile> read_other_file(const fs::path& path) {
  constexpr std::uintmax_t most = std::uintmax_t{4} << 20;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  if (fs::file_size(path, ignored) > most)
    fail(path.string(), " has more than ", most, " bytes, which is no launch script");
  return OtherFile{path.lexically_normal().string(), read_file(path)};
}

std::vector<fs::path> folders_above(const fs::path& folder) {
  std::vector<fs::path> folders{folder};
  fs::path above = folder;
  for (int i = 0; i < 4 && above.has_parent_path() && above != above.parent_path(); ++i) {
    above = above.parent_path();
    folders.push_back(above);
  }
  return folders;
}

std::optional<OtherFile> ScriptFolder::read(const std::string& name) {
  const fs::path path(name);
  std::vector<fs::path> places;
  if (path.is_relative()) {
    for (const fs::path& folder : folders_above(folder_)) places.push_back(folder / path);
    if (!others_.empty()) places.push_back(fs::path(others_.back().path).parent_path() / path);
  }
  places.push_back(path);
  if (path.is_relative()) places.push_back(folder_ / path.filename());
  for (const fs::path& place : places) {
    std::optional<OtherFile> file = read_other_file(place);
    if (!file) continue;
    others_.push_back(*file);
    return file;
  }
  return {};
}

}  // namespace stagecraft
