#include "profiles/profile.hpp"

#include <rapidcheck.h>

#include <cmath>

#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/kernel_times.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// One opaque layer after the other, measured on a V100.
Profile measured(int layers) {
  Profile profile;
  profile.model.name = "chain";
  ProfileEntry entry;
  entry.setting = {.device = "v100", .microbatch = 4};
  for (int layer = 0; layer < layers; ++layer) {
    profile.model.layers.push_back({.name = concat("layer", layer)});
    if (layer > 0) profile.model.edges.push_back({layer - 1, layer});
    LayerCost cost;
    cost.forward = (layer + 1) * 1ms;
    cost.backward_input = 2ms;
    cost.output = 100 * (layer + 1);
    entry.layers.push_back(cost);
  }
  profile.entries.push_back(entry);
  return profile;
}

std::int64_t any_figure() {
  return *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
}

LayerCost random_cost() {
  LayerCost cost;
  for (Duration* time : {&cost.forward, &cost.backward_input, &cost.backward_weight,
                         &cost.split_overhead, &cost.update}) {
    *time = Duration(any_figure());
  }
  for (Bytes* size : {&cost.saved, &cost.saved_for_weight, &cost.output, &cost.output_freed,
                      &cost.parameters, &cost.gradients, &cost.optimizer, &cost.workspace}) {
    *size = any_figure();
  }
  if (*rc::gen::arbitrary<bool>()) {
    cost.selective = {.again = Duration(any_figure()), .saved = any_figure()};
  }
  cost.spread = *rc::gen::inRange(0, 1000) / 997.0;
  cost.provenance =
      *rc::gen::element(Provenance::measured, Provenance::fitted, Provenance::datasheet);
  return cost;
}

MeasuredRanges random_ranges() {
  MeasuredRanges ranges;
  for (TimeRange* range :
       {&ranges.forward, &ranges.backward_input, &ranges.backward_weight, &ranges.update}) {
    range->p10 = Duration(any_figure());
    range->p90 = range->p10 + Duration(any_figure());
  }
  return ranges;
}

Profile random_profile() {
  Profile profile = measured(*rc::gen::inRange(1, 6));
  profile.source = *rc::gen::string<std::string>();
  for (char& c : profile.source) c = static_cast<char>(c & 0x7f);  // JSON is UTF-8
  if (*rc::gen::arbitrary<bool>()) profile.hand_over = Link{.latency = 5us};
  profile.entries.push_back(profile.entries.front());
  profile.entries.back().setting = {.device = "cpu",
                                    .microbatch = *rc::gen::inRange(1, 64),
                                    .sequence = *rc::gen::inRange(0, 4096),
                                    .tensor_parallel = *rc::gen::inRange(1, 8),
                                    .precision = Precision::bfloat16};
  for (ProfileEntry& entry : profile.entries) {
    for (LayerCost& cost : entry.layers) cost = random_cost();
    entry.has_peer_messages = *rc::gen::arbitrary<bool>();
    if (*rc::gen::arbitrary<bool>()) {
      for (std::size_t i = 0; i < entry.layers.size(); ++i) entry.ranges.push_back(random_ranges());
    }
  }
  return profile;
}

std::vector<LayerCost> estimate(std::string_view model, std::string_view device,
                                const CostSetting& setting) {
  return estimate_costs(builtin_model(model), builtin_device_kind(device), setting);
}

}  // namespace

TEST_CASE("the entry for a setting is found exactly, or by any device for a generic one") {
  const Profile profile = measured(3);
  CHECK(find_entry(profile, {.device = "v100", .microbatch = 4}) == &profile.entries[0]);
  CHECK(find_entry(profile, {.device = "generic", .microbatch = 4}) == &profile.entries[0]);
  CHECK(find_entry(profile, {.device = "a100", .microbatch = 4}) == nullptr);
  CHECK(find_entry(profile, {.device = "v100", .microbatch = 2}) == nullptr);
  CHECK(find_entry(profile, {.device = "v100", .microbatch = 4, .tensor_parallel = 2}) == nullptr);
}

TEST_CASE("opaque layers cost what was measured and nothing else") {
  const Profile profile = measured(3);
  const CostSetting setting{.microbatch = 4};
  CHECK(layer_costs(profile, builtin_device_kind("v100"), setting) == profile.entries[0].layers);
  CHECK(layer_costs(profile, builtin_device_kind("generic"), setting) == profile.entries[0].layers);
  const std::string complaint =
      message_of([&] { layer_costs(profile, builtin_device_kind("h100"), setting); });
  CHECK_THAT(complaint, ContainsSubstring("no costs of chain for h100, microbatch 4, fp32") &&
                            ContainsSubstring("the profile holds: v100, microbatch 4, fp32"));
}

TEST_CASE("a known model is estimated where nothing was measured") {
  Profile profile;
  profile.model = builtin_model("gpt2-124m");
  const CostSetting setting{.microbatch = 2, .precision = Precision::bfloat16};
  const auto costs = layer_costs(profile, builtin_device_kind("a100"), setting);
  CHECK(costs.size() == 14);
  CHECK(costs[1].provenance == Provenance::datasheet);
  CHECK_THAT(message_of([&] { layer_costs(profile, builtin_device_kind("generic"), setting); }),
             ContainsSubstring("a generic device has no datasheet"));
}

TEST_CASE("a cut is crossed by the outputs that are read behind it") {
  Profile profile = measured(3);
  profile.model.edges.push_back({0, 2});
  const auto& costs = profile.entries[0].layers;
  CHECK(crossing_bytes(profile.model, costs) == std::vector<Bytes>{0, 100, 100 + 200, 0});
}

TEST_CASE("what crosses every cut at once is what crosses each") {
  for (int shape = 0; shape < 200; ++shape) {
    Profile profile = measured(6);
    std::vector<LayerCost>& costs = profile.entries[0].layers;
    for (int from = 0; from < 6; ++from) {
      costs[static_cast<std::size_t>(from)].output = Bytes{1} << from;
      const int to = from + 2 + (shape >> from) % 4;
      if (to < 6) profile.model.edges.push_back({from, to});
    }
    const std::vector<Bytes> bytes = crossing_bytes(profile.model, costs);
    for (int cut = 1; cut < 6; ++cut) {
      Bytes sum = 0;
      for (const int layer : crossing(profile.model, cut)) sum += Bytes{1} << layer;
      CHECK(bytes[static_cast<std::size_t>(cut)] == sum);
    }
  }
}

TEST_CASE("a GPT block keeps 34 bytes a token and hidden element, less dropout's masks of 2") {
  const CostSetting setting{.microbatch = 4, .precision = Precision::bfloat16};
  const auto costs = estimate("gpt2-124m", "a100", setting);
  const Bytes tokens = 4 * 1024;
  const Bytes statistics = (2 * 2 + 12) * 4;  // two norms, and one softmax row per head
  CHECK(costs[1].saved + costs[1].output == tokens * (32 * 768 + statistics));
  CHECK(costs[1].output == tokens * 768 * 2);
  CHECK(costs[0].saved == 0);
  CHECK(costs[0].output == tokens * 768 * 2);
}

TEST_CASE("weights, gradients and AdamW take 18 bytes a parameter in bf16 and 16 in fp32") {
  const std::int64_t block = 12 * 768 * 768 + 13 * 768;
  const auto half = estimate("gpt2-124m", "a100", {.precision = Precision::bfloat16});
  CHECK(half[1].parameters == 2 * block);
  CHECK(half[1].gradients == 4 * block);
  CHECK(half[1].optimizer == 12 * block);
  const auto single = estimate("gpt2-124m", "a100", {.precision = Precision::float32});
  CHECK(single[1].parameters + single[1].gradients + single[1].optimizer == 16 * block);
  // The head holds a copy of the embedding that it is tied to.
  CHECK(half.back().parameters == 2 * (50257 * 768 + 2 * 768));
}

TEST_CASE("tensor parallelism divides what is not as wide as the model") {
  const CostSetting whole{.precision = Precision::bfloat16};
  CostSetting split = whole;
  split.tensor_parallel = 4;
  const auto one = estimate("llama2-7b", "h100", whole)[1];
  const auto quarter = estimate("llama2-7b", "h100", split)[1];
  const Bytes norms = 2 * 4096 * 2;
  CHECK(quarter.parameters - norms == (one.parameters - norms) / 4);
  CHECK(quarter.output == one.output);
  CHECK(quarter.saved > one.saved / 4);
  CHECK(quarter.saved < one.saved);
  CHECK(quarter.forward < one.forward);
  split.tensor_parallel = 3;
  CHECK_THAT(message_of([&] { estimate("llama2-7b", "h100", split); }),
             ContainsSubstring("3 does not divide the 32 attention heads"));
  CHECK_THAT(message_of([&] { estimate("vgg16", "a100", {.tensor_parallel = 2}); }),
             ContainsSubstring("only transformers"));
}

TEST_CASE("a transformer's layers take what their operations take") {
  const Model model = builtin_model("llama2-7b");
  const DeviceKind device = builtin_device_kind("h100");
  const auto costs = estimate("llama2-7b", "h100", {.precision = Precision::bfloat16});
  const LayerOperations block =
      layer_operations(*model.transformer, LayerKind::transformer, {.sequence = model.sequence});
  double kernels = 0;
  const KernelSetting setting = kernel_setting(device, Precision::bfloat16);
  for (const Operation& operation : block.operations) {
    if (operation.pass == Pass::forward) kernels += operation_seconds(operation, setting);
  }
  CHECK(costs[1].forward >= from_seconds(kernels));
  CHECK(costs[1].forward <= from_seconds(1.01 * kernels));  // the host is ahead
  CHECK(costs[1].backward() > 1.9 * costs[1].forward);
  CHECK(costs[0].backward_input == 0ns);  // nobody asks for the gradient of a token's number
  // States of 12 bytes read and written; gradients measured, scaled and cleared, masters read and
  // copied to weights of 2 bytes, gradients of 4 read.
  const double traffic = static_cast<double>(costs[1].parameters) / 2 * (24 + 5 * 4 + 2 + 4);
  CHECK(costs[1].update ==
        from_seconds(traffic / (setting.memory_bandwidth * setting.constants.update_rate)));
}

TEST_CASE("a device's efficiency, or constants of its own, change what layers take") {
  const Model model = builtin_model("llama2-7b");
  const CostSetting setting{.precision = Precision::bfloat16};
  DeviceKind device = builtin_device_kind("h100");
  const LayerCost usual = estimate_costs(model, device, setting)[1];
  CHECK(usual.provenance == Provenance::datasheet);
  device.efficiency /= 2;
  const LayerCost slower = estimate_costs(model, device, setting)[1];
  CHECK(slower.forward > 1.8 * usual.forward);
  CHECK(slower.forward < 2 * usual.forward);
  device.constants = usual_constants("h100");
  const LayerCost fitted = estimate_costs(model, device, setting)[1];
  CHECK(fitted.provenance == Provenance::fitted);
  CHECK(fitted.forward == usual.forward);  // they say the rates, whatever the efficiency
  device.constants->kernel_seconds = 1e-4;
  CHECK(estimate_costs(model, device, setting)[1].forward > fitted.forward + 500us);
}

TEST_CASE("every built-in model can be estimated on every device that has its precision") {
  for (const std::string& name : builtin_models()) {
    for (const std::string& device : builtin_device_kinds()) {
      if (device == "generic") continue;
      INFO(name << " on " << device);
      Profile profile;
      profile.model = builtin_model(name);
      const CostSetting setting{.device = device, .sequence = profile.model.sequence};
      profile.entries.push_back({setting, estimate(name, device, setting)});
      CHECK_NOTHROW(validate(profile));
    }
  }
  CHECK_THAT(message_of([] { estimate("tiny-gpt", "v100", {.precision = Precision::bfloat16}); }),
             ContainsSubstring("v100 does not compute in bf16"));
}

TEST_CASE("absurd settings are refused rather than overflowed") {
  CHECK_THAT(message_of([] { estimate("llama2-7b", "h100", {.microbatch = 0}); }),
             ContainsSubstring("found 0"));
  CHECK_THAT(message_of([] { estimate("llama2-7b", "h100", {.microbatch = INT64_MAX}); }),
             ContainsSubstring("microbatch"));
  CHECK_THAT(message_of([] { estimate("llama3-405b", "h100", {.microbatch = 1'000'000}); }),
             ContainsSubstring("too large"));
}

TEST_CASE("a block without its attention keeps less, and takes a part of its forward longer") {
  const CostSetting setting{
      .device = "h100", .microbatch = 2, .sequence = 1024, .precision = Precision::bfloat16};
  const std::vector<LayerCost> costs = estimate("gpt2-124m", "h100", setting);
  CHECK_FALSE(costs.front().selective);  // an embedding
  CHECK_FALSE(costs.back().selective);   // a head
  const LayerCost& block = costs[1];
  REQUIRE(block.selective);
  // The weighted sum, and 4 bytes for each head and token.
  CHECK(block.saved - block.selective->saved == 2 * 1024 * (768 * 2 + 12 * 4));
  CHECK(block.selective->again > 0ns);
  CHECK(block.selective->again < block.forward);
  const LayerCost again = recomputed(block, Recomputed::full);
  CHECK(again.saved == 0);
  CHECK(again.workspace == block.workspace + block.saved);
  CHECK(again.backward_input == block.backward_input + block.forward);
  CHECK(again.saved_for_weight == block.saved_for_weight);
  CHECK(recomputed(costs.front(), Recomputed::selective) == costs.front());
  CHECK(recomputed(block, Recomputed::none) == block);
}

TEST_CASE("a profile with impossible figures is refused with layer and setting") {
  const auto complaint = [](auto change) {
    Profile profile = measured(2);
    change(profile.entries[0]);
    return message_of([&] { validate(profile); });
  };
  CHECK(complaint([](ProfileEntry&) {}).empty());
  CHECK_THAT(complaint([](ProfileEntry& e) { e.layers[1].saved = -1; }),
             ContainsSubstring("v100, microbatch 4") && ContainsSubstring("layer \"layer1\"") &&
                 ContainsSubstring("size is negative"));
  CHECK_THAT(complaint([](ProfileEntry& e) { e.layers[1].update = -1ns; }),
             ContainsSubstring("time is negative"));
  CHECK(complaint([](ProfileEntry& e) { e.layers[1].split_overhead = 2ms; }).empty());
  CHECK_THAT(
      complaint([](ProfileEntry& e) { e.layers[1].split_overhead = 3ms; }),
      ContainsSubstring("its backward takes 3ms longer in two parts than in one; expected no "
                        "more than the 2ms of both parts"));
  CHECK_THAT(complaint([](ProfileEntry& e) { e.layers[0].spread = NAN; }),
             ContainsSubstring("spread"));
  CHECK_THAT(complaint([](ProfileEntry& e) {
               e.layers[1].selective = {.again = e.layers[1].forward + 1ns};
             }),
             ContainsSubstring("expected a part of the forward's"));
  CHECK_THAT(
      complaint([](ProfileEntry& e) { e.layers[1].selective = {.saved = e.layers[1].saved + 1}; }),
      ContainsSubstring("with selective recomputation it saves"));
  CHECK_THAT(complaint([](ProfileEntry& e) { e.layers.pop_back(); }),
             ContainsSubstring("expected costs of 2 layers, found 1"));
  CHECK_THAT(complaint([](ProfileEntry& e) { e.setting.microbatch = 0; }),
             ContainsSubstring("at least one sample"));
}

TEST_CASE("profiles survive their file") {
  CHECK(rc::check("any profile", [] {
    const Profile profile = random_profile();
    RC_ASSERT(read_profile(Json::parse(write_profile(profile), "p.json")) == profile);
  }));
}

TEST_CASE("files are recognised by their content and named by its hash") {
  const TemporaryFolder folder;
  const Profile profile = measured(3);
  const LoadedProfile loaded = load_profile(folder.file("a.weird", write_profile(profile)));
  CHECK(loaded.profile == profile);
  CHECK(loaded.hash == content_hash(write_profile(profile)));
  const Model model = builtin_model("tiny-llama");
  CHECK(load_profile(folder.file("model", write_model(model))).profile.model == model);
  CHECK(load_profile("tiny-llama").profile.model == model);
  CHECK(load_profile("tiny-llama").hash == content_hash(write_model(model)));
}

TEST_CASE("what is no model is refused with what would be one") {
  const TemporaryFolder folder;
  const auto complaint = [&](const std::string& content) {
    const std::string path = folder.file("m.json", content);
    return message_of([&] { load_profile(path); });
  };
  CHECK_THAT(complaint("hello"), ContainsSubstring("m.json: the content is of no format"));
  CHECK_THAT(complaint("{}"), ContainsSubstring("of no format we know"));
  CHECK_THAT(complaint(""), ContainsSubstring("of no format we know"));
  CHECK_THAT(complaint("{\"format\": \"stagecraft-pln/1\"}"),
             ContainsSubstring("m.json:1:12: format: expected \"stagecraft-model/1\""));
  CHECK_THAT(complaint("{\"format\": \"stagecraft-profile/1\", "),
             ContainsSubstring("m.json:1:") && ContainsSubstring("not valid JSON"));
  CHECK_THAT(message_of([] { load_profile("lama2-7b"); }),
             ContainsSubstring("no model is named \"lama2-7b\"") &&
                 ContainsSubstring("did you mean \"llama2-7b\"?"));
  CHECK(exit_code_of([] { load_profile("lama2-7b"); }) == 2);
  CHECK_THAT(message_of([] { load_profile("./no/config.json"); }),
             ContainsSubstring("./no/config.json: cannot read"));
}

TEST_CASE("the tenths of measured times come all together, in order, and go with their layers") {
  Profile profile = measured(2);
  ProfileEntry& entry = profile.entries.front();
  entry.ranges.resize(2);
  entry.ranges[1].update = {.p10 = 1ms, .p90 = 2ms};
  CHECK_NOTHROW(validate(profile));
  std::string text = write_profile(profile);
  const std::string column = "update_p10_ns";
  text.replace(text.find(column), column.size(), "spread");
  CHECK_THAT(message_of([&] { read_profile(Json::parse(text, "p.json")); }),
             ContainsSubstring("expected update_p10_ns beside the other tenths of times"));
  entry.ranges[1].update.p10 = 3ms;
  CHECK_THAT(message_of([&] { validate(profile); }), ContainsSubstring("layer \"layer1\""));
  entry.ranges.pop_back();
  CHECK_THAT(message_of([&] { validate(profile); }),
             ContainsSubstring("expected the ranges of 2 layers' times, found 1"));
}

TEST_CASE("a profile file with a mistake is refused at its place") {
  const std::string good = write_profile(measured(2));
  const auto complaint = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    text.replace(at, from.size(), to);
    return message_of([&] { read_profile(Json::parse(text, "p.json")); });
  };
  CHECK_THAT(complaint("[1000000, 2000000]", "[1000000]"),
             ContainsSubstring("entries[0].forward_ns: expected 2 values, one for each layer, "
                               "found 1"));
  CHECK_THAT(complaint("[1000000, 2000000]", "[1000000, -5]"),
             ContainsSubstring("entries[0].forward_ns[1]: expected an integer >= 0, found -5"));
  CHECK_THAT(complaint("[1000000, 2000000]", "[1000000, NaN]"),
             ContainsSubstring("not valid JSON"));
  CHECK_THAT(complaint("\"forward_ns\"", "\"forwrd_ns\""),
             ContainsSubstring("did you mean \"forward_ns\"?"));
  CHECK_THAT(complaint("\"fp32\"", "\"fp23\""),
             ContainsSubstring("entries[0].precision: unknown precision \"fp23\""));
  CHECK_THAT(complaint("\"datasheet\"", "\"guessed\""),
             ContainsSubstring("expected one of measured, fitted and datasheet"));
}
