// Families whose blocks are described step by step, trained on CPUs: the same bits whatever the
// plan, the estimated bytes, and a word for what is not trained.

#include "tests/executor/stepped_models.hpp"

#include "executor/driver/execute.hpp"
#include "executor/layers/layers.hpp"
#include "executor/weights/names.hpp"
#include "executor/weights/tensor_files.hpp"
#include "executor/weights/weights.hpp"
#include "profiles/error.hpp"
#include "profiles/trained_form.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

std::vector<std::string> names_of(const Model& model) {
  std::vector<std::string> all;
  for (const WeightNames& names : weight_naming(model).weights) {
    for (const WeightPart& part : names.parts) all.push_back(part.name);
  }
  return all;
}

}  // namespace

TEST_CASE("blocks with steps end with the reference's bits, whatever the plan", "[seconds]") {
  const Style style = GENERATE(Style::qwen3, Style::olmo2, Style::opt, Style::neox, Style::mixtral,
                               Style::qwen3_moe, Style::gemma);
  const Precision precision = GENERATE(Precision::float32, Precision::float64);
  const std::vector<Setting> settings{
      Setting{.devices = 1},
      Setting{.devices = 2},
      Setting{.devices = 4, .tied = false},
      Setting{.devices = 2, .rows = 4, .replicas = {2, 2}},
      Setting{.devices = 2, .rows = 4, .replicas = {2, 1}},
      Setting{.devices = 2, .replicas = {2, 2}, .policy = ReplicaPolicy::round_robin},
      Setting{.devices = 2, .recompute = Recompute::full},
      Setting{.devices = 2, .again = every_choice()},
      Setting{.devices = 2, .again = in_runs()},
      Setting{.devices = 2, .rows = 4, .replicas = {2, 2}, .sharding = Sharding::zero1},
      Setting{.schedule = "zb-h1", .devices = 2},
      Setting{.schedule = "bpipe", .devices = 4},
      Setting{.schedule = "chimera", .devices = 2},
      Setting{.schedule = "interleaved", .devices = 2, .virtual_stages = 2},
      Setting{.schedule = "seq1f1b", .devices = 2, .sequence_chunks = 2}};
  // Each style begins elsewhere.
  const std::size_t stride = is_watched ? 3 : 1;
  for (std::size_t i = static_cast<std::size_t>(style) % stride; i < settings.size(); i += stride) {
    Setting setting = settings[i];
    setting.style = style;
    setting.precision = precision;
    INFO(describe(setting));
    const Prepared prepared = prepare(setting);
    const RunOptions options{.steps = 2};
    CHECK(first_difference(run(prepared, options), reference(prepared, options)) == "");
  }
}

TEST_CASE("one stage and two have the same bits, and one that is done again") {
  const Style style = GENERATE(Style::qwen3, Style::olmo2, Style::opt, Style::neox, Style::mixtral,
                               Style::qwen3_moe, Style::gemma);
  std::vector<std::vector<double>> losses;
  for (Setting setting : {Setting{.devices = 1}, Setting{.devices = 2},
                          Setting{.devices = 2, .recompute = Recompute::full}}) {
    setting.style = style;
    losses.push_back(run(prepare(setting), {.steps = 3}).losses);
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0] == losses[2]);
  CHECK(losses[0][0] != losses[0][1]);
}

TEST_CASE("weights of blocks with steps have the names of their family") {
  const std::vector<std::string> names = names_of(stepped_model({}));
  CHECK(names ==
        std::vector<std::string>{
            "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
            "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
            "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.q_norm.weight",
            "model.layers.0.self_attn.k_norm.weight", "model.layers.0.self_attn.o_proj.weight",
            "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight",
            "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
            "model.norm.weight"});
  const std::vector<std::string> behind = names_of(stepped_model({.family = "olmo2"}));
  CHECK(std::vector(behind.begin() + 4, behind.end()) ==
        std::vector<std::string>{
            "model.layers.0.self_attn.q_norm.weight", "model.layers.0.self_attn.k_norm.weight",
            "model.layers.0.self_attn.o_proj.weight",
            "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight",
            "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
            "model.layers.0.post_feedforward_layernorm.weight", "model.norm.weight"});
  const std::vector<std::string> opt = names_of(stepped_model({.family = "opt", .bias = true}));
  CHECK(opt.size() == 2 + 16 + 2);
  CHECK(opt[1] == "model.decoder.embed_positions.weight");
  CHECK(opt[2] == "model.decoder.layers.0.self_attn_layer_norm.weight");
  CHECK(opt[10] == "model.decoder.layers.0.self_attn.out_proj.weight");
  CHECK(opt.back() == "model.decoder.final_layer_norm.bias");
}

TEST_CASE("OPT's first position is the third row of its table") {
  const Model model = stepped_model({.family = "opt", .positions = 8});
  const auto embedding = make_layer(model, 0);
  CHECK(embedding->parameters()[1].shape == std::vector<std::int64_t>{10, 16});
  CHECK(rows_before_positions(*model.transformer, model.layers[0]) == 2);
}

TEST_CASE("files that are not a family's are refused with its name") {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "w.safetensors").string();
  const Prepared prepared = prepare({.devices = 2, .style = Style::gpt2});
  save_weights(file, prepared.profile.model, reference(prepared, {}));
  CHECK_THAT(
      message_of([&] { load_weights(file, tiny_model(Style::qwen3, true), Precision::float32); }),
      ContainsSubstring("(names as in Hugging Face Qwen3)"));
  CHECK_THAT(
      message_of([&] { load_weights(file, tiny_model(Style::olmo2, true), Precision::float32); }),
      ContainsSubstring("(names as in Hugging Face OLMo 2)"));
}

TEST_CASE("layers with steps hold as many parameters as the model says") {
  const std::string family =
      GENERATE("qwen3", "olmo2", "opt", "gpt_neox", "mixtral", "qwen3_moe", "gemma3_text");
  for (const bool tied : {true, false}) {
    for (const bool bias : {true, false}) {
      const Model model = stepped_model({.family = family, .tied = tied, .bias = bias});
      for (std::size_t i = 0; i < model.layers.size(); ++i) {
        std::int64_t count = 0;
        for (const ParameterSpec& spec : make_layer(model, static_cast<int>(i))->parameters()) {
          const bool is_copy = i > 0 && spec.name == "embedding.token.weight";
          if (!is_copy) count += elements_of(spec.shape);
        }
        INFO(model.layers[i].name);
        CHECK(count == model.layers[i].parameters);
      }
    }
  }
}

TEST_CASE("steps that are not those of a form that is trained are refused in words") {
  Model model = stepped_model({});
  REQUIRE(trained_form(*model.transformer, model.layers[1]));
  const auto refused = [](const Model& changed, int layer) {
    return message_of([&] { make_layer(changed, layer); });
  };
  Model changed = model;
  for (Step& step : changed.layers[1].steps) {
    if (step.kind == StepKind::attention) step.causal = false;
  }
  CHECK_THAT(refused(changed, 1),
             ContainsSubstring("cannot train layer \"block.0\" of tiny: its steps (attention, "
                               "feed-forward) are planned and not computed here"));
  changed = model;
  changed.layers[1].steps.pop_back();
  CHECK_THAT(refused(changed, 1), ContainsSubstring("planned and not computed here"));
  changed = model;
  changed.layers.back().steps.back().bias = true;
  CHECK_THAT(refused(changed, 2), ContainsSubstring("cannot train layer \"head\""));
}

TEST_CASE("attention over a window is that over all tokens where it hides none") {
  std::vector<std::vector<double>> losses;
  for (const std::int64_t window : {0, 3, 8}) {
    Prepared prepared = prepare({.devices = 1, .style = Style::qwen3});
    for (Layer& layer : prepared.profile.model.layers) {
      for (Step& step : layer.steps) {
        if (step.kind == StepKind::attention) step.window = window;
      }
    }
    losses.push_back(run(prepared, {.steps = 2}).losses);
  }
  CHECK(losses[0] == losses[2]);
  CHECK(losses[0] != losses[1]);
}

TEST_CASE("weights of experts and of heads side by side have the names of their family") {
  const std::vector<std::string> mixtral =
      names_of(stepped_model({.family = "mixtral", .blocks = 2}));
  CHECK(mixtral.size() == 1 + 2 * (2 + 3 + 1 + 1 + 4 * 3) + 1);
  CHECK(mixtral[7] == "model.layers.0.block_sparse_moe.gate.weight");
  CHECK(mixtral[8] == "model.layers.0.block_sparse_moe.experts.0.w1.weight");
  CHECK(mixtral[9] == "model.layers.0.block_sparse_moe.experts.0.w3.weight");
  CHECK(mixtral[10] == "model.layers.0.block_sparse_moe.experts.0.w2.weight");
  CHECK(mixtral[38] == "model.layers.1.block_sparse_moe.experts.3.w2.weight");
  const std::vector<std::string> qwen = names_of(stepped_model({.family = "qwen3_moe"}));
  CHECK(qwen[9] == "model.layers.0.mlp.gate.weight");
  CHECK(qwen[19] == "model.layers.0.mlp.experts.3.gate_proj.weight");
  const std::vector<std::string> gemma = names_of(stepped_model({.family = "gemma3_text"}));
  CHECK(std::vector(gemma.begin() + 7, gemma.begin() + 10) ==
        std::vector<std::string>{"model.layers.0.self_attn.o_proj.weight",
                                 "model.layers.0.post_attention_layernorm.weight",
                                 "model.layers.0.pre_feedforward_layernorm.weight"});
  const Model neox = stepped_model({.family = "gpt_neox", .tied = false, .bias = true});
  const WeightNaming naming = weight_naming(neox);
  CHECK(naming.weights[3].parts.front().name ==
        "gpt_neox.layers.0.attention.query_key_value.weight");
  CHECK(naming.weights[3].parts.front().heads == 4);
  CHECK(naming.weights.back().parts.front().name == "embed_out.weight");
}

TEST_CASE("weights of every family come back from a file as they went") {
  const TemporaryFolder folder;
  const Style style = GENERATE(Style::qwen3, Style::olmo2, Style::opt, Style::neox, Style::mixtral,
                               Style::qwen3_moe, Style::gemma);
  const Prepared prepared = prepare({.devices = 2, .style = style});
  const RunResult result = run(prepared, {.steps = 1});
  const std::string file = (folder.path() / "w.safetensors").string();
  save_weights(file, prepared.profile.model, result);
  const auto loaded = load_weights(file, prepared.profile.model, Precision::float32);
  for (std::size_t i = 0; i < result.parameter_names.size(); ++i)
    CHECK(bitwise_equal(loaded.at(result.parameter_names[i]), result.parameters[i]));
}

TEST_CASE("GPT-NeoX's files have the queries, keys and values of a head side by side") {
  const TemporaryFolder folder;
  const Prepared prepared = prepare({.devices = 1, .style = Style::neox});
  const RunResult result = run(prepared, {.steps = 1});
  const std::string file = (folder.path() / "w.safetensors").string();
  save_weights(file, prepared.profile.model, result);
  const TensorFiles files = open_tensor_files(file);
  const FoundTensor found = find(files, "gpt_neox.layers.0.attention.query_key_value.weight");
  REQUIRE(found.tensor != nullptr);
  const Tensor stored = read_tensor(*found.file, *found.tensor, Precision::float32);
  const auto name = std::ranges::find(result.parameter_names, "block.0.attention.qkv.weight");
  const Tensor& weight =
      result.parameters[static_cast<std::size_t>(name - result.parameter_names.begin())];
  const Transformer& transformer = *prepared.profile.model.transformer;
  const std::int64_t width = transformer.head_width, heads = transformer.heads;
  REQUIRE(heads > 1);
  std::int64_t wrong = 0;
  for (std::int64_t third = 0; third < 3; ++third) {
    for (std::int64_t head = 0; head < heads; ++head) {
      for (std::int64_t i = 0; i < width; ++i) {
        for (std::int64_t input = 0; input < transformer.hidden; ++input) {
          const std::int64_t ours = (third * heads + head) * width + i;
          const std::int64_t theirs = (head * 3 + third) * width + i;
          const float own = weight.data<float>()[input * 3 * heads * width + ours];
          if (stored.data<float>()[theirs * transformer.hidden + input] != own) ++wrong;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("GPUs refuse norms of queries and keys before anything else") {
  const Prepared prepared = prepare({.devices = 2, .style = Style::qwen3});
  CHECK(message_of([&] { run(prepared, {.backend = BackendKind::cuda}); }) ==
        "run: tiny norms queries and keys, which GPUs do not compute yet; use --backend cpu");
  const Prepared opt = prepare({.devices = 2, .style = Style::opt});
  CHECK(message_of([&] { run(opt, {.backend = BackendKind::cuda}); }) ==
        "run: tiny has relu as its activation, which GPUs do not compute yet; use --backend cpu");
  const Prepared mixture = prepare({.devices = 2, .style = Style::mixtral});
  CHECK(message_of([&] { run(mixture, {.backend = BackendKind::cuda}); }) ==
        "run: tiny has experts, which GPUs do not compute yet; use --backend cpu");
  const Prepared neox = prepare({.devices = 2, .style = Style::neox});
  CHECK(message_of([&] { run(neox, {.backend = BackendKind::cuda}); }) ==
        "run: tiny adds attention and feed-forward to the same input, which GPUs do not compute "
        "yet; use --backend cpu");
}
