// The published bubble rates of zero-bubble pipelines, as the command line gives them.

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/answers.hpp"
#include "tests/paths.hpp"

using namespace stagecraft::tests;

namespace {

namespace fs = std::filesystem;

/// The paper's milliseconds have three decimals.
std::string microseconds(double milliseconds) {
  return std::to_string(std::llround(1000 * milliseconds)) + "us";
}

/// Flags of a row of the paper: times, and bytes per token and layer, 34h + 5as, of which the input
/// gradient frees all but 32h.
std::string flags_of(const nlohmann::json& row, const nlohmann::json& model) {
  const int heads = model[1], hidden = model[2], sequence = 1024;
  return " --stages " + row["p"].dump() + " --microbatches " + row["m"].dump() + " --forward " +
         microseconds(row["TF"]) + " --backward-input " + microseconds(row["TB"]) +
         " --backward-weight " + microseconds(row["TW"]) + " --transfer " +
         microseconds(row["Tcomm"]) + " --activations " +
         std::to_string(34 * hidden + 5 * heads * sequence) + "B --activations-for-weight " +
         std::to_string(32 * hidden) + "B";
}

double rate_of(const std::string& words) {
  const Answer said = answer(".", "simulate " + words + " --json");
  INFO(words << "\n" << said.text);
  REQUIRE(said.code == 0);
  return nlohmann::json::parse(said.text)["result"]["span_bubble"];
}

}  // namespace

TEST_CASE("simulate --schedule gives the published bubble rates of ZB-1p and ZB-2p") {
  const fs::path file = fs::path(shared_folder()) / "oracles" / "zero_bubble_iclr24.json";
  if (!fs::exists(file)) SKIP("no reference data at " + shared_folder());
  std::ifstream stream(file);
  const auto paper = nlohmann::json::parse(stream);
  const auto& rows = paper["table9_times_ms"];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string flags =
        flags_of(rows[i], paper["setup"]["models"][rows[i]["model"].get<std::string>()]);
    INFO(flags);
    const auto& published = paper["table5_bubble_rates"][i];
    CHECK(rate_of("--schedule zb-1p" + flags) <= published["ZB-1p"].get<double>() + 0.002);
    const double rate = rate_of("--schedule zb-2p" + flags);
    CHECK(rate <= published["ZB-2p"].get<double>() + 0.002);
  }
  // Where weight gradients are taken to hold all of the activations, the first row is not reached.
  std::string first = flags_of(rows[0], paper["setup"]["models"]["1.5B"]);
  first.resize(first.find(" --activations-for-weight"));
  CHECK(rate_of("--schedule zb-2p" + first) >
        paper["table5_bubble_rates"][0]["ZB-2p"].get<double>() + 0.002);
}
