#include <filesystem>

#include "profiles/importers.hpp"
#include "profiles/importers/dnn_partitioning_graph.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

std::string node(int id, double time, double size, bool backward, const std::string& color) {
  return concat("{\"id\": ", id, ", \"name\": \"n", id, "\", \"cpuLatency\": ", 10 * time,
                ", \"fpgaLatency\": ", time, ", \"size\": ", size,
                ", \"isBackwardNode\": ", backward ? "true" : "0", ", \"supportedOnFpga\": 1",
                color.empty() ? "" : ", \"colorClass\": " + color, "}");
}

std::string edge(int from, int to, double cost, double bytes) {
  return concat("{\"sourceId\": ", from, ", \"destId\": ", to, ", \"cost\": ", cost,
                ", \"size\": ", bytes, "}");
}

std::string file_of(const std::string& nodes, const std::string& edges) {
  return "{\"maxSizePerFPGA\": 5000, \"maxFPGAs\": 3, \"maxCPUs\": 1,\n\"nodes\": [" + nodes +
         "],\n\"edges\": [" + edges + "]}";
}

/// 1 -> 2 forward, 12 -> 11 backward, and a backward node 13 of no colour between them.
const std::string training =
    file_of(node(12, 3, 100, true, "2") + "," + node(2, 2, 100, false, "2") + "," +
                node(1, 1, 60, false, "1") + "," + node(11, 2.5, 60, true, "1") + "," +
                node(13, 0.5, 0, true, ""),
            edge(1, 2, 0.25, 40) + "," + edge(2, 12, 0.1, 10) + "," + edge(12, 13, 0.2, 40) + "," +
                edge(13, 11, 0.2, 40));

Profile import_training(const std::string& text) {
  return import_dnn_partitioning(text, "net.json");
}

}  // namespace

TEST_CASE("forward nodes and the backward nodes of their colour become layers") {
  CHECK(looks_like_dnn_partitioning(training));
  const Profile profile = import_training(training);
  CHECK_NOTHROW(validate(profile));
  // 13 has no forward partner: the mirror image of its edges hangs it between the two.
  CHECK(names_of(profile) == std::vector<std::string>{"n1", "n13", "n2"});
  CHECK(profile.model.edges == std::vector<Edge>{{0, 1}, {0, 2}, {1, 2}});
  REQUIRE(profile.entries.size() == 1);
  const LayerCost& first = profile.entries[0].layers[0];
  CHECK(first.forward == 1ms);
  CHECK(first.backward() == 2500us);
  CHECK(first.output == 40);
  CHECK(first.parameters == 20);
  CHECK(first.gradients == 20);
  CHECK(profile.entries[0].layers[1].backward_input == 500us);
  CHECK(profile.entries[0].layers[2].output == 0);
  const DnnLayers layers =
      dnn_layers(read_dnn_partitioning_graph(training, "net.json"), "net.json");
  CHECK(layers.nodes == std::vector<std::vector<int>>{{2, 3}, {4}, {0, 1}});
  CHECK(layers.edges == profile.model.edges);
}

TEST_CASE("colours that read from each other in a circle become one layer") {
  const std::string text =
      file_of(node(1, 1, 0, false, "5") + "," + node(2, 1, 0, false, "6") + "," +
                  node(3, 1, 0, false, "5") + "," + node(4, 1, 0, false, ""),
              edge(1, 2, 1, 8) + "," + edge(2, 3, 1, 8) + "," + edge(3, 4, 1, 8));
  const Profile profile = import_training(text);
  CHECK(names_of(profile) == std::vector<std::string>{"n1", "n4"});
  CHECK(profile.entries[0].layers[0].forward == 3ms);
  CHECK(profile.entries[0].layers[0].backward() == 0ms);
  CHECK(profile.entries[0].layers[0].gradients == 0);
}

TEST_CASE("an input of dnn-partitioning brings its devices, and its costs tell the links") {
  const Profile profile = import_training(training);
  REQUIRE(profile.devices);
  CHECK(profile.devices->count == 3);
  CHECK(profile.devices->processors == 1);
  CHECK(profile.devices->memory == 5000);
  // 40 bytes in 0.25 ms, 10 in 0.1 ms, 40 in 0.2 ms twice: the median of the rates, upper of two.
  CHECK(profile.devices->bandwidth.bytes_per_second == 200'000);
  CHECK(profile.warnings.empty());
  const std::string seconds = file_of(node(1, 1, 0, false, "") + "," + node(2, 1, 0, false, ""),
                                      edge(1, 2, 0.5, 1073741824.0));
  REQUIRE(import_training(seconds).warnings.size() == 1);
  CHECK_THAT(import_training(seconds).warnings[0], ContainsSubstring("multiply \"cost\" by 1000"));
}

TEST_CASE("mistakes in an input of dnn-partitioning are told with their place") {
  const std::string two = node(1, 1, 0, false, "") + "," + node(2, 1, 0, true, "");
  const auto complaint = [](const std::string& nodes, const std::string& edges) {
    return message_of([&] { import_training(file_of(nodes, edges)); });
  };
  CHECK_THAT(complaint("", ""), ContainsSubstring("net.json:2:10: nodes: expected at least one"));
  CHECK_THAT(complaint("{\"id\": 1}", ""),
             ContainsSubstring("nodes[0]: the member \"cpuLatency\" is missing"));
  CHECK_THAT(complaint(node(1, -1, 0, false, ""), ""),
             ContainsSubstring("nodes[0].cpuLatency: expected a number from 0 to"));
  CHECK_THAT(complaint(two, edge(1, 3, 1, 1)),
             ContainsSubstring("net.json:3:37: edges[0].destId: there is no node 3"));
  CHECK_THAT(complaint(two, edge(2, 1, 1, 1)),
             ContainsSubstring("an edge leads from the backward node \"n2\" to a forward node"));
  const std::string three = two + "," + node(3, 1, 0, false, "");
  CHECK_THAT(complaint(three, edge(1, 2, 1, 1) + "," + edge(1, 3, 2, 1)),
             ContainsSubstring("edges[1].cost: \"n1\" has outgoing edges of cost 1 and 2"));
  CHECK_THAT(complaint(three, edge(1, 3, 1, 1) + "," + edge(3, 1, 1, 1)),
             ContainsSubstring("the layers form a cycle: \"n1\" -> \"n3\" -> \"n1\""));
  CHECK_THAT(complaint(node(1, 1, 0, false, "\"red\""), ""),
             ContainsSubstring("nodes[0].colorClass: expected an integer"));
}

TEST_CASE("the published inputs of dnn-partitioning are read, layer graphs with a warning") {
  const std::string folder = shared_folder() + "/data/dnn-partitioning/";
  if (!std::filesystem::exists(folder)) SKIP("no published data at " + folder);
  const auto load = [&](const std::string& name) { return load_profile(folder + name).profile; };
  CHECK(load("LayerGraphs/resnet50_training.json").warnings.size() == 1);
  CHECK(load("LayerGraphs-cost-in-ms/resnet50_training.json").warnings.empty());
  const Profile operators = load("OperatorGraphs/bert_l-3_training.json");
  CHECK(operators.warnings.empty());
  CHECK(operators.devices->bandwidth.bytes_per_second == std::int64_t{1} << 31);
  CHECK(operators.devices->memory == 17185374208);
  Duration total{0};
  for (const LayerCost& cost : operators.entries[0].layers) total += cost.forward + cost.backward();
  CHECK(seconds(total) == Approx(0.122987).epsilon(1e-3));
}
