#include <filesystem>

#include "profiles/importers.hpp"
#include "profiles/importers/linear_order.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

std::string node(const std::string& name, const std::string& description, double forward,
                 double backward, const std::string& activation, int parameters) {
  return concat(name, " -- ", description, " -- forward_compute_time=", forward,
                ", backward_compute_time=", backward, ", activation_size=", activation,
                ", parameter_size=", parameters, "\n");
}

/// Input -> Conv2d -> (ReLU, and around it) -> Add, with an item that nobody reads.
const std::string small_graph =
    node("node1", "Input", 600, 0, "4000.000", 0) +
    node("node3", "ReLU(inplace)", 0.5, 0.25, "[100; 200; 100.000]", 0) +
    node("node2", "Conv2d(3, 64, kernel_size=(3, 3))", 1.236, 2.001, "400.0", 80) +
    node("node5", "__getitem__(1)", 0, 0, "8", 0) + node("node4", "Add()", 0.1, 0, "400", 0) +
    "\tnode1 -- node2\n\tnode2 -- node3\n\tnode2 -- node4\n"
    "\tnode3 -- node4\n\tnode3 -- node5";

Profile import_graph(const std::string& text) {
  return import_pipedream(text, "net/graph.txt");
}

}  // namespace

TEST_CASE("a graph becomes layers in an order that training can follow") {
  const Profile profile = import_graph(small_graph);
  CHECK(profile.model.name == "net");
  CHECK(names_of(profile) == std::vector<std::string>{"node2.Conv2d", "node3.ReLU", "node4.Add"});
  CHECK(profile.model.edges == std::vector<Edge>{{0, 1}, {0, 2}, {1, 2}});
  CHECK_NOTHROW(validate(profile));
}

TEST_CASE("milliseconds and bytes are taken exactly, the split of backward is an assumption") {
  const Profile profile = import_graph(small_graph);
  REQUIRE(profile.entries.size() == 1);
  CHECK(profile.entries[0].setting == CostSetting{.device = "v100", .microbatch = 1});
  const LayerCost& convolution = profile.entries[0].layers[0];
  CHECK(convolution.forward == 1'236'000ns);
  CHECK(convolution.backward() == 2'001'000ns);
  CHECK(convolution.backward_input == 1'000'500ns);
  CHECK(convolution.output == 400);
  CHECK(convolution.saved == 0);  // between layers lie their outputs, and nothing else is known
  CHECK(convolution.saved_for_weight == 400);
  CHECK(convolution.parameters == 80);
  CHECK(convolution.gradients == 80);
  CHECK(convolution.provenance == Provenance::measured);
  CHECK(profile.model.layers[0].parameters == 20);
  const LayerCost& relu = profile.entries[0].layers[1];
  CHECK(relu.output == 100 + 200 + 100);
  CHECK(relu.backward_input == 250us);
  CHECK(relu.backward_weight == 0ns);
}

TEST_CASE("line ends, trailing blanks and stage numbers do not matter") {
  std::string windows;
  for (const char c : small_graph)
    windows += c == '\n' ? std::string(" \t\r\n") : std::string(1, c);
  CHECK(import_graph(windows + "\r\n\r\n") == import_graph(small_graph));
  std::string staged = small_graph;
  const std::size_t end = staged.find('\n');
  staged.insert(end, " -- stage_id=0");
  CHECK(import_graph(staged) == import_graph(small_graph));
  CHECK(looks_like_pipedream(windows));
}

TEST_CASE("a line that cannot be understood is named with the reason") {
  const auto complaint = [](const std::string& text) {
    return message_of([&] { import_graph(text); });
  };
  const std::string good = node("node1", "Linear", 1, 1, "4", 4);
  CHECK_THAT(complaint(good + "node2 - Linear\n"),
             ContainsSubstring("net/graph.txt:2:1: expected a node"));
  CHECK_THAT(complaint(good + "\tnode1 -- node2"),
             ContainsSubstring("net/graph.txt:2:11: there is no node \"node2\""));
  CHECK_THAT(complaint(good + good),
             ContainsSubstring("graph.txt:2:1: the node node1 is defined twice, first in line 1"));
  CHECK_THAT(complaint(node("node1", "Linear", -1, 1, "4", 4)),
             ContainsSubstring("node1: forward_compute_time: duration cannot be negative"));
  CHECK_THAT(complaint("node1 -- Linear -- forward_compute_time=nan, backward_compute_time=1, "
                       "activation_size=4, parameter_size=4"),
             ContainsSubstring(
                 "graph.txt:1:20: node1: forward_compute_time: duration: expected a number"));
  CHECK_THAT(complaint("node1 -- Linear -- forward_compute_time=1, backward_compute_time=1, "
                       "activation_size=4"),
             ContainsSubstring("node1: parameter_size is missing"));
  CHECK_THAT(complaint("node1 -- Linear -- forward_compute_time=1, forward_compute_time=1"),
             ContainsSubstring("given twice"));
  CHECK_THAT(complaint(node("node1", "Linear", 1, 1, "[4; x]", 4)),
             ContainsSubstring("activation_size: memory size: expected a number"));
  CHECK_THAT(complaint("node1 -- Linear -- forward_time=1"),
             ContainsSubstring("found \"forward_time=1\""));
  CHECK_THAT(complaint(node("node1", "Input", 1, 1, "4", 0)),
             ContainsSubstring("net/graph.txt: the graph has no layers"));
  CHECK_THAT(complaint(good + node("node2", "ReLU", 1, 1, "4", 0) +
                       "\tnode1 -- node2\n\tnode2 -- node1\n"),
             ContainsSubstring("net/graph.txt:1:1: model net: the layers form a cycle") &&
                 ContainsSubstring("node1.Linear") &&
                 ContainsSubstring("remove one of these edges"));
  CHECK_THAT(complaint(good + node("node2", "ReLU", 1, 1, "4", 0) +
                       node("node3", "ReLU", 1, 1, "4", 0) + "\tnode1 -- node3\n"),
             ContainsSubstring("net/graph.txt:2:1: model net: no edges connect the layers "
                               "\"node1.Linear\" and \"node2.ReLU\"") &&
                 ContainsSubstring("add the edge between them"));
}

TEST_CASE("one branch is followed to its end before the next begins") {
  // a -> b1 -> b2 -> e and a -> c1 -> c2 -> e, all outputs alike, listed in turns.
  Model model;
  for (const char* name : {"a", "b1", "c1", "b2", "c2", "e"})
    model.layers.push_back({.name = name});
  model.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 5}};
  CHECK(linear_order(model, std::vector<Bytes>(6, 1)) == std::vector<int>{0, 1, 3, 2, 4, 5});
}

TEST_CASE("of two branches, the one that leaves less behind goes first") {
  Model model;
  for (const char* name : {"a", "grow", "shrink", "e"}) model.layers.push_back({.name = name});
  model.edges = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
  CHECK(linear_order(model, {10, 100, 1, 1}) == std::vector<int>{0, 2, 1, 3});
}

TEST_CASE("the published graphs load as published") {
  struct Published {
    std::string name;
    std::size_t layers;  // without inputs and unread items
    double forward_ms, backward_ms, parameters_mb;
  };
  const std::vector<Published> graphs{
      {"alexnet", 22, 680.7 - 635.9, 40.5, 244.4},
      {"vgg16", 40, 233.9, 438.6, 553.4},
      {"resnet18", 70, 107.4, 152.3, 46.8},
      {"resnet50", 176, 182.5, 260.9, 102.2},
      {"resnet101", 346, 197.3, 213.8, 178.2},
      {"resnext50", 176, 221.8, 369.0, 100.1},
      {"inception_v3", 325, 289.3, 399.8, 108.6},
      {"nasnetalarge", 1250, 409.1, 249.2, 369.0},
      {"gnmt", 37, 33.5, 55.9, 775.1},
      {"gnmt_large", 77, 182.6, 337.9, 1110.9},
  };
  const std::filesystem::path folder = std::filesystem::path(shared_folder()) / "data/pipedream";
  if (!std::filesystem::exists(folder)) SKIP("the published graphs are not here");
  for (const Published& graph : graphs) {
    INFO(graph.name);
    const Profile profile = load_profile((folder / graph.name / "graph.txt").string()).profile;
    CHECK(profile.model.name == graph.name);
    CHECK(profile.model.layers.size() == graph.layers);
    Duration forward{0};
    Duration backward{0};
    Bytes parameters = 0;
    for (const LayerCost& cost : profile.entries.at(0).layers) {
      forward += cost.forward;
      backward += cost.backward();
      parameters += cost.parameters;
    }
    CHECK(seconds(forward) * 1e3 == Approx(graph.forward_ms).margin(0.06));
    CHECK(seconds(backward) * 1e3 == Approx(graph.backward_ms).margin(0.06));
    CHECK(static_cast<double>(parameters) / 1e6 == Approx(graph.parameters_mb).margin(0.06));
  }
}
