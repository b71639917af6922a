// The rules about the source tree that no compiler checks.

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"
#include "tests/paths.hpp"

namespace {

namespace fs = std::filesystem;

using Lines = std::vector<std::string>;

const fs::path root = stagecraft::tests::source_folder();

// Each folder may use itself and those to its left.
constexpr std::array<std::string_view, 5> folders{"profiles", "simulator", "planner", "executor",
                                                  "tools"};

// The place of a folder in the order; folders.size() for one that is not in it.
std::size_t rank_of(std::string_view folder) {
  return static_cast<std::size_t>(std::ranges::find(folders, folder) - folders.begin());
}

bool is_source(const fs::path& path) {
  return std::set<std::string>{".cpp", ".hpp", ".cu", ".cuh"}.contains(path.extension());
}

// Every source file below a folder, relative to the root, in alphabetical order.
std::vector<fs::path> sources(std::string_view folder) {
  std::vector<fs::path> result;
  for (const auto& entry : fs::recursive_directory_iterator(root / folder)) {
    if (is_source(entry.path())) result.push_back(fs::relative(entry.path(), root));
  }
  std::ranges::sort(result);
  return result;
}

// What a pattern's first group matches in each line of a file.
Lines matches(const fs::path& file, const std::string& pattern) {
  const std::regex regex(pattern);
  std::ifstream in(root / file);
  Lines result;
  for (std::string line; std::getline(in, line);) {
    std::smatch match;
    if (std::regex_search(line, match, regex)) result.push_back(match[1]);
  }
  return result;
}

Lines own_includes(const fs::path& file) {
  return matches(file, R"re(^\s*#\s*include\s*"(.*)")re");
}

Lines system_includes(const fs::path& file) {
  return matches(file, R"re(^\s*#\s*include\s*<(.*)>)re");
}

std::string first_folder(const fs::path& path) {
  return path.begin()->string();
}

}  // namespace

TEST_CASE("a file includes only from its own folder and the folders before it") {
  Lines violations;
  for (std::string_view folder : folders) {
    for (const fs::path& file : sources(folder)) {
      for (const std::string& include : own_includes(file)) {
        if (rank_of(first_folder(include)) > rank_of(folder)) {
          violations.push_back(file.string() + " includes " + include);
        }
      }
    }
  }
  CHECK(violations == Lines{});
}

// The table of strategies (strategies.hpp) stands in planner/ itself, between what it lists and
// what asks for a strategy. Nothing else may.
TEST_CASE("a folder of the planner includes only from itself and the folders before it") {
  constexpr std::array<std::string_view, 14> parts{
      "plan",        "costs",  "targets", "problem",     "space",  "baselines",  "interop",
      "calibration", "timing", "layouts", "relaxations", "search", "strategies", "analysis"};
  const auto part_of = [&](const fs::path& path) {
    const fs::path part = *++path.begin();
    return std::ranges::find(parts, part.stem().string()) - parts.begin();
  };
  const auto is_placed = [&](const fs::path& path) {
    const fs::path part = *++path.begin();
    const bool is_table = part.stem() == "strategies";
    return part_of(path) < std::ssize(parts) && part.has_extension() == is_table;
  };
  Lines violations;
  for (const fs::path& file : sources("planner")) {
    if (!is_placed(file)) violations.push_back(file.string() + " is in none of the folders");
    for (const std::string& include : own_includes(file)) {
      if (!include.starts_with("planner/")) continue;
      if (part_of(include) > part_of(file)) violations.push_back(file.string() + ": " + include);
    }
  }
  CHECK(violations == Lines{});
}

TEST_CASE("the tests of a folder use only that folder and the folders before it") {
  Lines violations;
  for (const fs::path& file : sources("tests")) {
    const std::size_t rank = rank_of((++file.begin())->string());
    for (const std::string& include : own_includes(file)) {
      const std::string folder = first_folder(include);
      if (folder != "tests" && rank_of(folder) > rank) {
        violations.push_back(file.string() + " includes " + include);
      }
    }
  }
  CHECK(violations == Lines{});
}

TEST_CASE("headers show neither Boost nor nlohmann/json, except the JSON reader") {
  Lines violations;
  for (std::string_view folder : folders) {
    for (const fs::path& file : sources(folder)) {
      if (file.extension() == ".cpp" || file.string().starts_with("profiles/json")) continue;
      for (const std::string& include : system_includes(file)) {
        if (include == "nlohmann/json_fwd.hpp") continue;  // names only, cheap to read
        if (include.starts_with("boost/") || include.starts_with("nlohmann/")) {
          violations.push_back(file.string() + " includes " + include);
        }
      }
    }
  }
  CHECK(violations == Lines{});
}

// The linker would take one for the other where both are used in templates.
TEST_CASE("no two headers give types of one namespace the same name") {
  std::map<std::string, fs::path> headers;
  Lines violations;
  for (std::string_view folder : folders) {
    for (const fs::path& file : sources(folder)) {
      if (file.extension() == ".cpp") continue;
      const Lines spaces = matches(file, R"re(^namespace ([a-z_:]+) \{)re");
      for (const std::string& name :
           matches(file, R"re(^(?:struct|class|enum class|enum) ([A-Za-z]+)\b[^;]*$)re")) {
        const auto [known, is_new] =
            headers.emplace((spaces.empty() ? "" : spaces.front()) + "::" + name, file);
        if (!is_new && known->second != file) {
          violations.push_back(name + " in " + known->second.string() + " and " + file.string());
        }
      }
    }
  }
  CHECK(headers.size() > 100);
  CHECK(violations == Lines{});
}

TEST_CASE("tests reach Catch2 only through tests/catch.hpp") {
  Lines violations;
  for (const fs::path& file : sources("tests")) {
    if (file == "tests/catch.hpp") continue;
    for (const std::string& include : system_includes(file)) {
      if (include.starts_with("catch2/")) violations.push_back(file.string());
    }
  }
  CHECK(violations == Lines{});
}

TEST_CASE("the name of a test holds nothing that CMake would misread") {
  Lines violations;
  for (const fs::path& file : sources("tests")) {
    for (const std::string& name : matches(file, R"re(^TEST_CASE\("([^"]*)")re")) {
      if (name.find_first_of(";[]\\") != std::string::npos) {
        violations.push_back(file.string() + ": " + name);
      }
    }
  }
  CHECK(violations == Lines{});
}

TEST_CASE("the top level holds the folders and little else") {
  const std::set<std::string> expected{
      "CMakeLists.txt", "CMakePresets.json", "LICENSE", "README.md", "profiles", "simulator",
      "planner",        "executor",          "tools",   "tests",     "findings", "build"};
  Lines violations;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && !expected.contains(name)) violations.push_back(name);
  }
  CHECK(violations == Lines{});
}
