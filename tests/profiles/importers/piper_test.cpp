#include <filesystem>

#include "profiles/importers.hpp"
#include "profiles/importers/piper_graph.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// a -> b, b listed first; b can recompute, and both can be split over two devices.
const std::string small_input = R"({
"maxMemoryPerDevice": 1000.0, "maxDevices": 4, "bandwidth": 2000.0, "mbsInBatch": 12,
"nodes": [
{"id": 7, "name": "b", "TMPCs": {
"1": [{"id": "vanilla", "timePerSample": 0.003, "parameterSize": 40, "memoryUsageA": 50.4,
"memoryUsageB": 100, "syncTimeFw": {"3": 0}, "syncTimeBw": {}},
{"id": "activation recomp", "timePerSample": 0.0035, "parameterSize": 40, "memoryUsageA": 5,
"memoryUsageB": 100, "syncTimeFw": {"3": 0}, "syncTimeBw": {}}],
"2": [{"id": "vanilla", "timePerSample": 0.002, "parameterSize": 20, "memoryUsageA": 25,
"memoryUsageB": 50, "syncTimeFw": {"3": 8}, "syncTimeBw": {}}]}},
{"id": 3, "name": "a", "TMPCs": {
"1": [{"id": "vanilla", "timePerSample": 0.006, "parameterSize": 0, "memoryUsageA": 70,
"memoryUsageB": 0, "syncTimeFw": {}, "syncTimeBw": {"7": 0}}],
"2": [{"id": "vanilla", "timePerSample": 0.004, "parameterSize": 0, "memoryUsageA": 35,
"memoryUsageB": 0, "syncTimeFw": {}, "syncTimeBw": {"7": 4}}]}}],
"edges": [{"sourceId": 3, "destId": 7, "communicationCost": 30}]})";

std::string complaint_with(const std::string& old, const std::string& changed) {
  return message_of([&] { import_piper(with(small_input, old, changed), "p.json"); });
}

}  // namespace

TEST_CASE("an input of Piper becomes layers with an entry per tensor-parallel degree") {
  CHECK(looks_like_piper(small_input));
  const Profile profile = import_piper(small_input, "nets/tiny.json");
  CHECK_NOTHROW(validate(profile));
  CHECK(profile.model.name == "tiny");
  REQUIRE(profile.model.layers.size() == 2);
  CHECK(profile.model.layers[0].name == "a");
  CHECK(profile.model.edges == std::vector<Edge>{{0, 1}});
  REQUIRE(profile.entries.size() == 2);
  CHECK(profile.entries[0].setting.tensor_parallel == 1);
  CHECK(profile.entries[1].setting.tensor_parallel == 2);
  const LayerCost& a = profile.entries[0].layers[0];
  CHECK(a.forward == 2ms);  // a third
  CHECK(a.backward_input == 4ms);
  CHECK(a.output == 30);
  CHECK(a.saved == 70 - 30);
  const LayerCost& b = profile.entries[0].layers[1];
  CHECK(b.forward == 500us);  // what recomputing adds
  CHECK(b.backward_input == 1250us);
  CHECK(b.backward_weight == 1250us);
  CHECK(b.saved == 50);
  CHECK(b.parameters == 40);
  CHECK(b.gradients == 40);
  CHECK(b.optimizer == 20);
  CHECK(profile.entries[1].layers[1].forward + profile.entries[1].layers[1].backward() == 2ms);
}

TEST_CASE("an input of Piper brings its devices, and its layers' order can be told") {
  const Profile profile = import_piper(small_input, "tiny.json");
  REQUIRE(profile.devices);
  CHECK(*profile.devices ==
        OwnDevices{.count = 4, .bandwidth = {2000}, .memory = 1000, .microbatches = 12});
  CHECK(cluster_expression(*profile.devices) == "4xgeneric@2kB/s");
  CHECK(device_count(parse_cluster(cluster_expression(*profile.devices))) == 4);
  CHECK(profile.warnings.empty());
  const PiperGraph graph = read_piper_graph(small_input, "tiny.json");
  CHECK(graph.nodes[0].choices.at(2)[0].sync_in == std::map<int, double>{{1, 8.0}});
  CHECK(piper_layer_order(graph, "tiny.json") == std::vector<int>{1, 0});
}

TEST_CASE("milliseconds in place of Piper's seconds raise a warning") {
  const Profile profile = import_piper(
      with(small_input, "\"timePerSample\": 0.006", "\"timePerSample\": 60"), "p.json");
  REQUIRE(profile.warnings.size() == 1);
  CHECK_THAT(profile.warnings[0], ContainsSubstring("multiply it by 0.001"));
}

TEST_CASE("mistakes in an input of Piper are told with their place") {
  CHECK_THAT(complaint_with("\"bandwidth\": 2000.0, ", ""),
             ContainsSubstring("p.json:1:1: the member \"bandwidth\" is missing"));
  CHECK_THAT(complaint_with("\"maxDevices\": 4", "\"maxDevices\": 0"),
             ContainsSubstring("p.json:2:45: maxDevices: expected an integer from 1"));
  CHECK_THAT(complaint_with("\"destId\": 7", "\"destId\": 9"),
             ContainsSubstring("edges[0].destId: there is no node 9"));
  CHECK_THAT(complaint_with("\"id\": 3", "\"id\": 7"),
             ContainsSubstring("nodes[1].id: the node 7 is defined twice"));
  CHECK_THAT(complaint_with("\"timePerSample\": 0.003", "\"timePerSample\": -1"),
             ContainsSubstring("nodes[0].TMPCs.1[0].timePerSample: expected a number from 0 to"));
  CHECK_THAT(complaint_with("\"timePerSample\": 0.003", "\"timePerSample\": \"3ms\""),
             ContainsSubstring("expected a number, found \"3ms\""));
  CHECK_THAT(complaint_with("\"syncTimeBw\": {\"7\": 0}", "\"syncTimeBw\": {}"),
             ContainsSubstring("nodes[1].TMPCs: degree 1, \"vanilla\": syncTimeFw must list"));
  CHECK_THAT(complaint_with("{\"sourceId\": 3,", "{\"sourceId\": 7,"),
             ContainsSubstring("syncTimeFw must list"));
  CHECK_THAT(complaint_with("\"1\": [{\"id\": \"vanilla\", \"timePerSample\": 0.006",
                            "\"x\": [{\"id\": \"vanilla\", \"timePerSample\": 0.006"),
             ContainsSubstring("expected a tensor-parallel degree"));
  CHECK_THAT(complaint_with("\"edges\": [",
                            "\"edges\": [{\"sourceId\": 3, \"destId\": 7, "
                            "\"communicationCost\": 1},"),
             ContainsSubstring("edges[1]: the edge is listed twice"));
}

TEST_CASE("a circle of Piper's nodes is named") {
  std::string text =
      with(small_input, "\"edges\": [",
           "\"edges\": [{\"sourceId\": 7, \"destId\": 3, \"communicationCost\": 1},");
  for (const std::string empty : {"\"syncTimeFw\": {}", "\"syncTimeBw\": {}"}) {
    const std::string node = empty.find("Fw") != std::string::npos ? "7" : "3";
    for (std::size_t at = text.find(empty); at != std::string::npos; at = text.find(empty)) {
      text.replace(at, empty.size(), empty.substr(0, empty.size() - 1) + "\"" + node + "\": 0}");
    }
  }
  CHECK_THAT(message_of([&] { import_piper(text, "p.json"); }),
             ContainsSubstring("p.json: model p: the layers form a cycle"));
}

TEST_CASE("Piper's published inputs are read, and two of them are warned about") {
  const std::string folder = shared_folder() + "/data/piper/";
  if (!std::filesystem::exists(folder)) SKIP("no published data at " + folder);
  const auto load = [&](const std::string& name) { return load_profile(folder + name).profile; };
  const Profile bert = load("bert32a100.json");
  CHECK(bert.entries.size() == 4);
  CHECK(bert.warnings.empty());
  Duration total{0};
  for (const LayerCost& cost : bert.entries[0].layers) total += cost.forward + cost.backward();
  CHECK(seconds(total) == Approx(0.972864));
  CHECK(load("resnet.json").warnings.size() == 1);
  CHECK(load("gnmt.json").warnings.size() == 1);
}
