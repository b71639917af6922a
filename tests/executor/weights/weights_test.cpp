#include "executor/weights/weights.hpp"

#include <algorithm>
#include <set>

#include "executor/weights/names.hpp"
#include "executor/weights/safetensors.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::vector<NamedTensor> content_of(const std::string& file) {
  const TensorFile read = open_tensor_file(file);
  std::vector<NamedTensor> tensors;
  for (const StoredTensor& stored : read.tensors) {
    tensors.push_back({stored.name, read_tensor(read, stored, Precision::float32)});
  }
  return tensors;
}

std::vector<std::string> names_in(const WeightNaming& naming, const std::string& ours) {
  for (const WeightNames& names : naming.weights) {
    if (names.spec.name != ours) continue;
    std::vector<std::string> all;
    for (const WeightPart& part : names.parts) all.push_back(part.name);
    return all;
  }
  return {};
}

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{{.devices = 2},
                                        {.devices = 2, .tied = false},
                                        {.devices = 2, .style = Style::llama},
                                        {.devices = 2, .style = Style::llama, .tied = false},
                                        {.devices = 2, .style = Style::qwen3},
                                        {.devices = 2, .style = Style::olmo2, .tied = false},
                                        {.devices = 2, .style = Style::opt},
                                        {.devices = 2, .style = Style::network}};
  return all;
}

}  // namespace

TEST_CASE("weights that were saved are those that are loaded, bit by bit, and train on") {
  const TemporaryFolder folder;
  for (Setting setting : settings()) {
    for (const Precision precision : {Precision::float32, Precision::float64}) {
      if (precision == Precision::float64 && setting.tied) continue;
      setting.precision = precision;
      const Prepared prepared = prepare(setting);
      INFO(prepared.profile.model.name << " " << to_string(precision));
      const RunResult saved = reference(prepared, {});
      const std::string file = (folder.path() / "w.safetensors").string();
      save_weights(file, prepared.profile.model, saved);
      RunOptions options;
      options.weights = load_weights(file, prepared.profile.model, precision);
      REQUIRE(options.weights.size() == saved.parameters.size());
      for (std::size_t i = 0; i < saved.parameters.size(); ++i) {
        INFO(saved.parameter_names[i]);
        CHECK(bitwise_equal(options.weights.at(saved.parameter_names[i]), saved.parameters[i]));
      }
      const RunResult trained = run(prepared, options);
      CHECK(first_difference(trained, reference(prepared, options)) == "");
      CHECK(trained.losses != saved.losses);
    }
  }
}

TEST_CASE("weights have the names of their family") {
  const WeightNaming gpt2 = weight_naming(builtin_model("gpt2-124m"));
  CHECK(names_in(gpt2, "embedding.token.weight") ==
        std::vector<std::string>{"transformer.wte.weight"});
  CHECK(names_in(gpt2, "block.11.attention.qkv.bias") ==
        std::vector<std::string>{"transformer.h.11.attn.c_attn.bias"});
  const WeightNaming llama = weight_naming(builtin_model("llama3-8b"));
  CHECK(names_in(llama, "block.31.attention.qkv.weight") ==
        std::vector<std::string>{"model.layers.31.self_attn.q_proj.weight",
                                 "model.layers.31.self_attn.k_proj.weight",
                                 "model.layers.31.self_attn.v_proj.weight"});
  CHECK(names_in(llama, "head.projection.weight") == std::vector<std::string>{"lm_head.weight"});
  const WeightNaming vgg = weight_naming(builtin_model("vgg16"));
  // torchvision.models.vgg16: the first and last convolutions, and the three dense layers.
  CHECK(names_in(vgg, "conv1_1.weight") == std::vector<std::string>{"features.0.weight"});
  CHECK(names_in(vgg, "conv2_1.weight") == std::vector<std::string>{"features.5.weight"});
  CHECK(names_in(vgg, "conv5_3.bias") == std::vector<std::string>{"features.28.bias"});
  CHECK(names_in(vgg, "fc6.weight") == std::vector<std::string>{"classifier.0.weight"});
  CHECK(names_in(vgg, "fc8.bias") == std::vector<std::string>{"classifier.6.bias"});
}

TEST_CASE("every weight of every model that can be trained has names, and no two share one") {
  for (const std::string& name : builtin_models()) {
    const Model model = builtin_model(name);
    if (!can_be_trained(model)) continue;
    INFO(name);
    std::set<std::string> seen;
    for (const WeightNames& names : weight_naming(model).weights) {
      std::int64_t end = 0;
      for (const WeightPart& part : names.parts) {
        CHECK(part.first == end);
        CHECK(part.name.find('#') == std::string::npos);
        CHECK(seen.insert(part.name).second);
        end = part.end;
      }
      CHECK(end == names.spec.shape.back());
    }
  }
}

TEST_CASE("queries, keys, values, gates and biases land in their columns") {
  const TemporaryFolder folder;
  Transformer shape = *tiny_model(Style::llama, true).transformer;
  shape.attention_bias = shape.output_bias = shape.feed_forward_bias = true;
  const Model model = make_transformer("m", shape, 1, 8);
  const auto backend = make_cpu_backend();
  std::vector<NamedTensor> tensors;
  unsigned seed = 0;
  for (const WeightNames& names : weight_naming(model).weights) {
    for (const WeightPart& part : names.parts) {
      std::vector<std::int64_t> stored = names.spec.shape;
      stored.back() = part.end - part.first;
      if (part.transposed) std::ranges::reverse(stored);
      tensors.push_back({part.name, noise(*backend, stored, Precision::float32, ++seed)});
    }
  }
  const std::string file = (folder.path() / "m.safetensors").string();
  write_tensor_file(file, tensors);
  const auto weights = load_weights(file, model, Precision::float32);
  const auto in_file = [&](const std::string& name) -> const Tensor& {
    return std::ranges::find(tensors, name, &NamedTensor::name)->tensor;
  };
  // 2 heads and 1 key-value head of 8, hidden 16: q is 16 wide, k and v are 8; the gate 32.
  const Tensor& qkv = weights.at("block.0.attention.qkv.weight");
  const Tensor& q = in_file("model.layers.0.self_attn.q_proj.weight");
  const Tensor& k = in_file("model.layers.0.self_attn.k_proj.weight");
  const Tensor& v = in_file("model.layers.0.self_attn.v_proj.weight");
  const Tensor& up = weights.at("block.0.feed_forward.up.weight");
  const Tensor& gate = in_file("model.layers.0.mlp.gate_proj.weight");
  REQUIRE(qkv.shape == std::vector<std::int64_t>{16, 32});
  for (std::size_t in = 0; in < 16; ++in) {
    CHECK(value(qkv, in * 32 + 3) == value(q, 3 * 16 + in));
    CHECK(value(qkv, in * 32 + 16 + 5) == value(k, 5 * 16 + in));
    CHECK(value(qkv, in * 32 + 24 + 7) == value(v, 7 * 16 + in));
    CHECK(value(up, in * 64 + 9) == value(gate, 9 * 16 + in));
    CHECK(value(up, in * 64 + 32 + 9) ==
          value(in_file("model.layers.0.mlp.up_proj.weight"), 9 * 16 + in));
  }
  CHECK(value(weights.at("block.0.attention.qkv.bias"), 16 + 2) ==
        value(in_file("model.layers.0.self_attn.k_proj.bias"), 2));
}

TEST_CASE("names without the family's prefix, buffers and a copy of a tied table are accepted") {
  const TemporaryFolder folder;
  const Prepared prepared = prepare({});
  const Model& model = prepared.profile.model;
  const std::string file = (folder.path() / "w.safetensors").string();
  save_weights(file, model, reference(prepared, {}));
  const auto expected = load_weights(file, model, Precision::float32);
  std::vector<NamedTensor> tensors = content_of(file);
  const auto backend = make_cpu_backend();
  for (NamedTensor& tensor : tensors) tensor.name = tensor.name.substr(12);  // "transformer."
  tensors.push_back({"h.0.attn.bias", noise(*backend, {1, 1, 8, 8}, Precision::float32, 1)});
  const auto table = std::ranges::find(tensors, "wte.weight", &NamedTensor::name);
  REQUIRE(table != tensors.end());
  tensors.push_back({"lm_head.weight", Tensor(table->tensor)});
  write_tensor_file(file, tensors);
  const auto found = load_weights(file, model, Precision::float32);
  for (const auto& [name, weight] : expected) {
    INFO(name);
    CHECK(bitwise_equal(found.at(name), weight));
  }
  tensors.back().tensor = noise(*backend, tensors.back().tensor.shape, Precision::float32, 2);
  write_tensor_file(file, tensors);
  CHECK_THROWS_WITH(load_weights(file, model, Precision::float32),
                    ContainsSubstring("\"lm_head.weight\" is not the token embedding, but in tiny "
                                      "they are tied"));
}

TEST_CASE("weights of another model are refused by name") {
  const TemporaryFolder folder;
  const Prepared prepared = prepare({});
  const Model& model = prepared.profile.model;
  const std::string file = (folder.path() / "w.safetensors").string();
  save_weights(file, model, reference(prepared, {}));
  const std::vector<NamedTensor> whole = content_of(file);
  const auto refused = [&](std::vector<NamedTensor> tensors) {
    write_tensor_file(file, std::move(tensors));
    return message_of([&] { load_weights(file, model, Precision::float32); });
  };
  CHECK_THROWS_WITH(
      load_weights(file, tiny_model(Style::llama, true), Precision::float32),
      ContainsSubstring("has no tensor \"model.embed_tokens.weight\", which tiny needs "
                        "(names as in Hugging Face Llama)"));
  auto tensors = whole;
  const auto backend = make_cpu_backend();
  tensors.push_back({"other.weight", noise(*backend, {2}, Precision::float32, 1)});
  CHECK_THAT(refused(tensors),
             ContainsSubstring("the tensor \"other.weight\" has no place in tiny"));
  tensors = whole;
  std::erase_if(tensors, [](const NamedTensor& tensor) {
    return tensor.name == "transformer.h.2.mlp.c_fc.bias";
  });
  CHECK_THAT(refused(tensors),
             ContainsSubstring("has no tensor \"transformer.h.2.mlp.c_fc.bias\""));
  tensors = whole;
  std::ranges::find(tensors, "transformer.h.2.mlp.c_fc.weight", &NamedTensor::name)->tensor =
      noise(*backend, {32, 16}, Precision::float32, 1);
  CHECK_THAT(
      refused(tensors),
      ContainsSubstring("\"transformer.h.2.mlp.c_fc.weight\" has the shape [32, 16], but tiny "
                        "needs [16, 32]"));
}

TEST_CASE("start values that are not the plan's are refused") {
  const Prepared prepared = prepare({});
  RunOptions options;
  options.weights = {{"something", make_cpu_backend()->allocate({1}, Precision::float32)}};
  CHECK_THROWS_WITH(reference(prepared, options),
                    ContainsSubstring("the start values have no embedding.token.weight"));
}
