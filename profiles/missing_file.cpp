#include "profiles/missing_file.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

namespace fs = std::filesystem;

std::string did_you_mean(const std::string& name) {
  return name.empty() ? "" : concat("did you mean \"", name, "\"?");
}

/// Files in the folder that end alike, without these endings; sorted, since folders are in no
/// order.
std::vector<std::string> stems_in(const fs::path& folder, const fs::path& ending) {
  std::vector<std::string> stems;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
    std::error_code unknown;
    const fs::path& path = entry.path();
    if (path.extension() == ending && !entry.is_directory(unknown))
      stems.push_back(path.stem().string());
  }
  std::ranges::sort(stems);
  return stems;
}

/// What is wrong with the path, in a remedy: no such folder, or a name that is mistyped.
std::string remedy_for(const fs::path& path) {
  const fs::path folder = path.parent_path();
  std::error_code ignored;
  if (!folder.empty() && !fs::is_directory(folder, ignored))
    return concat("there is no folder \"", folder.string(), "\"");
  const std::string stem =
      closest(path.stem().string(), stems_in(folder.empty() ? "." : folder, path.extension()));
  if (stem.empty()) return "";
  return did_you_mean((folder / (stem + path.extension().string())).string());
}

}  // namespace

void fail_missing(const fs::path& path, std::vector<std::string> instead) {
  const std::string remedy = remedy_for(path);
  if (!remedy.empty()) instead.insert(instead.begin(), remedy);
  throw Error(ErrorKind::input, concat("cannot read: ", std::strerror(ENOENT)),
              SourcePlace{path.string(), 0, 0}, std::move(instead));
}

void require_file(const fs::path& path, const std::vector<std::string>& instead) {
  std::error_code error;
  if (path == "-" || fs::status(path, error).type() != fs::file_type::not_found) return;
  fail_missing(path, instead);
}

std::string nearest_name(std::string_view file, const std::vector<std::string>& names) {
  fs::path name = fs::path(file).filename();
  for (const std::string_view ending : {".json", ".txt", ".csv"}) {
    if (name.extension() == ending) name.replace_extension();
  }
  return did_you_mean(closest(name.string(), names));
}

}  // namespace stagecraft
