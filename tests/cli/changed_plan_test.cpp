// A plan that changes made is a plan: written to a file, it takes the step that simulate said, to
// the nanosecond, and every verb reads it. What advice says may be said back to it.

#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/answers.hpp"

using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

/// A folder that is gone with its owner.
struct OwnFolder {
  explicit OwnFolder(const std::string& name)
      : path(fs::temp_directory_path() / ("stagecraft-" + name + std::to_string(getpid()))) {
    fs::create_directory(path);
  }
  ~OwnFolder() { fs::remove_all(path); }
  fs::path path;
};

nlohmann::json result_of(const fs::path& folder, const std::string& words) {
  const Answer said = answer(folder, words + " --json");
  INFO(words << "\n" << said.text);
  REQUIRE(said.code == 0);
  return nlohmann::json::parse(said.text)["result"];
}

/// The examples of keys of --set in the verb's help, but for those of the cluster.
std::vector<std::string> examples_of_changes(const fs::path& folder) {
  const std::string help = answer(folder, "simulate --help").text;
  const std::size_t start = help.find("Keys of --set");
  REQUIRE(start != help.npos);
  std::vector<std::string> examples;
  for (std::size_t at = help.find("\n  ", start); at != help.npos; at = help.find("\n  ", at + 1))
    examples.push_back(help.substr(at + 3, help.find(' ', at + 3) - at - 3));
  return examples;
}

}  // namespace

TEST_CASE("a plan as --set changes it is written as simulate timed it, whatever is changed") {
  const OwnFolder folder("changed");
  REQUIRE(answer(folder.path,
                 "plan tiny-gpt 2x4xa100@10Gb/s --batch 32 --schedule 1f1b --tensor-parallel 1 "
                 "--straight --pp 8 --mbs 4 --gap 50% -o p.json")
              .code == 0);
  std::vector<std::string> changes = examples_of_changes(folder.path);
  REQUIRE(changes.size() > 25);
  for (const char* more : {"pp=2", "pp=4 --set schedule=interleaved --set vpp=2", "sharding=zero2"})
    changes.emplace_back(more);
  int kept = 0;
  for (const std::string& change : changes) {
    const std::string words = "simulate p.json --set " + change;
    INFO(words);
    fs::remove(folder.path / "new.json");
    const Answer written = answer(folder.path, words + " --write-plan new.json --json");
    INFO(written.text);
    if (written.code != 0) {
      CHECK((written.code == 2 || written.code == 3));
      continue;
    }
    ++kept;
    const auto simulated = nlohmann::json::parse(written.text)["result"];
    const auto again = result_of(folder.path, "simulate new.json");
    CHECK(again["step_ns"] == simulated["step_ns"]);
    CHECK(again["peak_memory_bytes"] == simulated["peak_memory_bytes"]);
    CHECK(answer(folder.path, "check new.json").code == 0);
  }
  CHECK(kept > 8);
  CHECK(answer(folder.path, "report new.json -o page.html").code == 0);
}

TEST_CASE("a plan that is written elsewhere still finds the model beside the former one") {
  const OwnFolder folder("beside");
  fs::create_directory(folder.path / "plans");
  REQUIRE(answer(folder.path / "plans", "model show tiny-gpt -o m.json").code == 0);
  REQUIRE(answer(folder.path / "plans",
                 "plan m.json 2xa100 --batch 32 --schedule 1f1b --pp 2 --gap 50% -o p.json")
              .code == 0);
  const Answer written =
      answer(folder.path, "simulate plans/p.json --set batch=64 --write-plan new.json");
  INFO(written.text);
  REQUIRE(written.code == 0);
  CHECK(answer(folder.path, "check new.json").code == 0);
}

TEST_CASE("every flag that advice tells is a name to keep, where --set changes what it says") {
  const OwnFolder folder("kept");
  // Of these no key of --set speaks: they follow from others, or say how Megatron-LM saves.
  const std::set<std::string> without_key{
      "--ckpt-format",        "--microbatch-group-size-per-virtual-pipeline-stage",
      "world_size",           "--cuda-graph-scope",
      "--cuda-graph-modules", "--te-rng-tracker"};
  for (const char* target : {"megatron", "torchtitan", "deepspeed"}) {
    REQUIRE(answer(folder.path, std::string("plan llama3-8b 8xh100 --batch 64 --gap 50% --tp 2 "
                                            "--pp 2 -o p.json --for ") +
                                    target)
                .code == 0);
    const auto advice =
        result_of(folder.path, std::string("advise p.json --depth 2 --for ") + target);
    std::set<std::string> names;
    for (const auto& edit : advice["edits"]) {
      for (std::string flag : edit["flags"]) {
        for (const char* verb : {"add ", "drop "})
          if (flag.starts_with(verb)) flag = flag.substr(std::string(verb).size());
        names.insert(flag.substr(0, flag.find(' ')));
      }
    }
    CHECK(names.size() > 4);
    for (const std::string& name : names) {
      if (without_key.contains(name)) continue;
      const Answer kept = answer(folder.path, std::string("advise p.json --time-limit 1ms --for ") +
                                                  target + " --keep " + name);
      INFO(target << " " << name << "\n" << kept.text);
      CHECK(kept.code == 0);
    }
  }
}
