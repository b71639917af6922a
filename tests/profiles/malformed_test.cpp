// Files come from anywhere: whatever is done to them, the answer is a model or a sentence.

#include <random>

#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const std::string pipedream_graph =
    "node1 -- Input -- forward_compute_time=1, backward_compute_time=0, activation_size=4, "
    "parameter_size=0\n"
    "node2 -- Conv2d(3, 4) -- forward_compute_time=1.5, backward_compute_time=2, "
    "activation_size=[4; 8], parameter_size=16\n"
    "node3 -- ReLU -- forward_compute_time=1, backward_compute_time=1, activation_size=4, "
    "parameter_size=0 -- stage_id=1\n"
    "\tnode1 -- node2\n\tnode2 -- node3\n";

const std::string config =
    R"({"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100, "rope_theta": 1e4})";

const std::string piper =
    R"({"maxMemoryPerDevice": 1000.0, "maxDevices": 4, "bandwidth": 2e9, "mbsInBatch": 12,
  "nodes": [{"id": 0, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.003, "parameterSize": 4,
  "memoryUsageA": 50.4, "memoryUsageB": 8, "syncTimeFw": {}, "syncTimeBw": {"1": 0}}]}},
  {"id": 1, "TMPCs": {"1": [{"id": "vanilla", "timePerSample": 0.003, "parameterSize": 4,
  "memoryUsageA": 50.4, "memoryUsageB": 8, "syncTimeFw": {"0": 0}, "syncTimeBw": {}}]}}],
  "edges": [{"sourceId": 0, "destId": 1, "communicationCost": 30}]})";

const std::string dnn =
    R"({"maxSizePerFPGA": 5000, "maxFPGAs": 3, "maxCPUs": 1, "nodes": [
  {"id": 1, "name": "a", "cpuLatency": 10, "fpgaLatency": 1.5, "size": 8, "isBackwardNode": 0,
  "supportedOnFpga": true, "colorClass": 3},
  {"id": 2, "cpuLatency": 10, "fpgaLatency": 1, "isBackwardNode": true, "supportedOnFpga": 1}],
  "edges": [{"sourceId": 1, "destId": 2, "cost": 0.5, "size": 64}]})";

const std::string aceso =
    "op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,"
    "fwd_reserved,bwd_reserved\nconv1,10.5,30,0.5,4,2,3,1,5\nblock-0-0-conv2,20,40.001,4,2,0,9,0,"
    "0\n"
    "fc,5,5,2,0,1,1,0,0\n";

std::string profile_text() {
  Profile profile;
  profile.model = make_transformer("t", *builtin_model("tiny-llama").transformer, 1, 8);
  profile.entries.push_back(
      {{.device = "cpu", .sequence = 8},
       estimate_costs(profile.model, builtin_device_kind("cpu"), {.device = "cpu"})});
  return write_profile(profile);
}

/// A few random bytes changed, doubled or cut out, mostly to others that occur in such files.
std::string mutilated(std::string text, std::mt19937& random) {
  constexpr std::string_view bytes =
      "0123456789-.,:;[]{}\"\\eE \n\ttrue\xff\x00"
      "9999999999";
  for (unsigned change = 0; change < 1 + random() % 4; ++change) {
    const std::size_t at = random() % text.size();
    const std::size_t length = std::min<std::size_t>(random() % 12, text.size() - at);
    switch (random() % 4) {
      case 0: text[at] = bytes[random() % bytes.size()]; break;
      case 1: text.insert(at, text.substr(at, length)); break;
      case 2: text.insert(at, 1, bytes[random() % bytes.size()]); break;
      default:
        if (text.size() > length + 1) text.erase(at, length);
    }
  }
  return text;
}

/// Reads, and where that succeeds validates; anything but Error would end the test.
template <class Read>
void survives(const std::string& good, Read read) {
  constexpr int rounds = 3000;
  std::mt19937 random(7);
  int refused = 0;
  CHECK_NOTHROW(read(good));
  for (int round = 0; round < rounds; ++round) {
    const std::string text = mutilated(good, random);
    try {
      read(text);
    } catch (const Error& error) {
      ++refused;
      if (error.message().empty()) FAIL("an error without a sentence for: " << text);
    }
  }
  CHECK(refused > rounds / 4);
}

}  // namespace

TEST_CASE("mutilated files of others are read or refused, never worse", "[seconds]") {
  survives(pipedream_graph,
           [](const std::string& text) { validate(import_pipedream(text, "g.txt")); });
  survives(config, [](const std::string& text) { validate(import_huggingface(text, "c.json")); });
  survives(piper, [](const std::string& text) { validate(import_piper(text, "p.json")); });
  survives(dnn, [](const std::string& text) { validate(import_dnn_partitioning(text, "d.json")); });
  survives(aceso, [](const std::string& text) {
    validate(import_aceso(text, "nowhere/resnet_2B_mbs16_tp1_algo0.csv"));
  });
}

TEST_CASE("mutilated files of ours are read or refused, never worse", "[seconds]") {
  survives(profile_text(), [](const std::string& text) {
    const Profile profile = read_profile(Json::parse(text, "p.json"));
    validate(profile);
    estimate_costs(profile.model, builtin_device_kind("h100"), {.device = "h100"});
  });
  survives(write_cluster(parse_cluster("2xdgx-a100")),
           [](const std::string& text) { validate(read_cluster(Json::parse(text, "c.json"))); });
}

TEST_CASE("mutilated words of the command line are read or refused, never worse") {
  survives("16x8xh100@400Gb/s:5us,10GB/s",
           [](const std::string& text) { validate(parse_cluster(text)); });
  survives("12.5e3ms", [](const std::string& text) { parse_duration(text); });
  survives("25GbE", [](const std::string& text) { parse_bandwidth(text); });
}
