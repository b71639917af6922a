// The profiles that come with the program.

#include <fmt/format.h>

#include <filesystem>

#include "profiles/cluster.hpp"
#include "profiles/json.hpp"
#include "profiles/profile.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"

using namespace stagecraft;

TEST_CASE("profiles that come with the program are read, and say where they were measured") {
  int profiles = 0;
  const std::filesystem::path data = tests::source_folder() + "/profiles/data";
  for (const auto& file : std::filesystem::recursive_directory_iterator(data)) {
    if (!file.path().string().ends_with(".profile.json")) continue;
    INFO(file.path().filename().string());
    const Profile profile = read_profile(Json::read(file.path()));
    validate(profile);
    ++profiles;
    REQUIRE(!profile.entries.empty());
    CHECK(profile.source.find("measured on") == 0);
    for (const ProfileEntry& entry : profile.entries) {
      CHECK(entry.setting.precision == Precision::bfloat16);
      // A folder for each kind of device.
      CHECK(entry.setting.device == file.path().parent_path().filename().string());
    }
  }
  CHECK(profiles == 2);
}

TEST_CASE("built-in devices have the memory that a process is told, as the table of sources says") {
  const auto gibibytes = [](Bytes bytes) { return static_cast<double>(bytes) / (1 << 30); };
  for (const auto& [name, told] : std::vector<std::pair<std::string, double>>{{"h100", 79.11},
                                                                              {"h100-nvl", 93.00},
                                                                              {"a100", 39.50},
                                                                              {"v100-32gb", 31.74},
                                                                              {"v100", 15.75},
                                                                              {"t4", 14.75},
                                                                              {"rtx3090", 23.56}}) {
    INFO(name);
    CHECK(gibibytes(builtin_device_kind(name).memory) == Approx(told).margin(0.01));
  }
  const std::string page = read_file(tests::source_folder() + "/profiles/README.md");
  for (const std::string& name : builtin_device_kinds()) {
    const DeviceKind kind = builtin_device_kind(name);
    if (kind.reserve == 0) continue;
    const std::string row = fmt::format("| {} | {:.2f} | {:.2f} |", name, gibibytes(kind.memory),
                                        gibibytes(usable_memory(kind)));
    INFO(row);
    CHECK(page.find(row) != std::string::npos);
    CHECK(kind.source.find("; memory: ") != std::string::npos);
    CHECK_FALSE(kind.reserve_source.empty());
  }
}
