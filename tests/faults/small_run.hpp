// A small run of the program, and what it comes to undisturbed.

#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "tests/executor/flight/flight_records.hpp"
#include "tests/faults/processes.hpp"

namespace stagecraft::tests {

/// Of `"name": value` in a JSON document.
inline std::string value_of(const std::string& json, const std::string& name) {
  const std::size_t at = json.find("\"" + name + "\": ");
  if (at == json.npos) return "";
  const std::size_t first = at + name.size() + 4;
  return json.substr(first, json.find_first_of(",\n}", first) - first);
}

/// A plan for two devices of a small model, and what a run of it comes to undisturbed.
struct Fixture {
  explicit Fixture(const std::string& name) : folder(name) {
    std::ofstream text(folder.path() / "text");  // read faster than the synthetic one is drawn
    for (int i = 0; i < 500; ++i) text << i * i << (i % 7 == 0 ? "\n" : ", ");
    make_plan("tiny-gpt", "plan.json");
  }

  void make_plan(const std::string& model, const std::string& file, int devices = 2) const {
    ProgramRun plan(folder.path(), {"plan", model, std::to_string(devices) + "xcpu", "--batch", "4",
                                    "--microbatch", "1", "--sequence", "8", "--straight",
                                    "--schedule", "1f1b", "-o", file});
    if (plan.wait() != 0) throw std::runtime_error(plan.errors());
  }

  /// `steps` steps, plus these words.
  std::vector<std::string> run(int steps, std::vector<std::string> words = {}) const {
    words.insert(words.begin(), {"run", "plan.json", "--data", "text", "--json", "--steps",
                                 std::to_string(steps)});
    words.insert(words.end(), {"--flight-records", records().string()});
    return words;
  }
  std::string parameters(int steps) const {
    ProgramRun whole(folder.path(), run(steps));
    REQUIRE(whole.wait() == 0);
    return value_of(whole.output(), "parameters_xxh3");
  }
  std::filesystem::path records() const { return folder.path() / "records"; }

  Folder folder;
};

}  // namespace stagecraft::tests
