// The profiles that come with the program.

#include <filesystem>

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
