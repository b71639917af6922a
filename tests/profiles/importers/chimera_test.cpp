#include <filesystem>

#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

const std::string two_rows =
    "bs,time_f,time_b,time_kron,mem_param,mem_act\n1,1.5,2.5,9,48.5,11\n4,5,9,9,50,44\n";

}  // namespace

TEST_CASE("Chimera's layer profile is a chain of blocks for each microbatch size") {
  REQUIRE(looks_like_chimera(two_rows));
  const Profile profile = import_chimera(two_rows, "prof/bert-large_time_memory_p100.csv");
  CHECK(profile.model.name == "bert-large");
  CHECK(profile.model.layers.size() == 24);
  CHECK(profile.model.edges.size() == 23);
  REQUIRE(profile.entries.size() == 2);
  const LayerCost& cost = profile.entries[1].layers[7];
  CHECK(profile.entries[1].setting.microbatch == 4);
  CHECK(cost.forward == 5ms);
  CHECK(cost.backward() == 9ms);
  // The memory of parameters grows by half a MiB for each sample: the output.
  CHECK(cost.output == 2 << 20);
  CHECK(cost.parameters == 48 << 20);
  CHECK(cost.saved == 42 << 20);
  CHECK_THAT(profile.warnings.front(), ContainsSubstring("24 times, as bert-large has"));
}

TEST_CASE("a layer profile with a mistake is refused with its line") {
  const auto complaint = [](const std::string& text) {
    CHECK(exit_code_of([&] { import_chimera(text, "x.csv"); }) == 3);
    return message_of([&] { import_chimera(text, "x.csv"); });
  };
  CHECK_THAT(complaint("bs,time_f,time_b,mem_param\n1,1,2,3\n"),
             ContainsSubstring("x.csv:2:") && ContainsSubstring("no column mem_act"));
  CHECK_THAT(complaint(two_rows + "2,1,2,3,4,5\n"), ContainsSubstring("a microbatch above 4"));
  CHECK_THAT(complaint(two_rows + "8,1,x,3,4,5\n"), ContainsSubstring("found \"x\""));
  CHECK_THAT(complaint(two_rows + "8,1\n"), ContainsSubstring("expected 6 cells, found 2"));
  CHECK_THAT(complaint(two_rows.substr(0, two_rows.find("4,5"))),
             ContainsSubstring("at least two microbatch sizes"));
}

TEST_CASE("the published layer profiles are read, with weights of the published size") {
  const std::filesystem::path folder =
      std::filesystem::path(shared_folder()) / "oracles/measured/chimera_layer_profiles";
  if (!std::filesystem::exists(folder)) SKIP("no published layer profiles");
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path().filename());
    const std::string content = read_file(entry.path().string());
    REQUIRE(looks_like_chimera(content));
    const Profile profile = import_chimera(content, entry.path().string());
    CHECK(profile.entries.size() >= 2);
    CHECK(profile.model.layers.size() >= 12);
    ++files;
    if (!profile.model.name.starts_with("bert-large")) continue;
    // A block of BERT-large has 12,596,224 parameters.
    CHECK(static_cast<double>(profile.model.layers.front().parameters) ==
          Approx(12'596'224).epsilon(0.01));
  }
  CHECK(files == 19);
}
