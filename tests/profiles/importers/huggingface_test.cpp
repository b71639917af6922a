#include <map>

#include "profiles/importers.hpp"
#include "profiles/trained_form.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Model import_config(const std::string& config) {
  return import_huggingface(config, "config.json").model;
}

std::string llama_like(const std::string& type, const std::string& rest) {
  return "{\"architectures\": [\"XForCausalLM\"], \"model_type\": \"" + type +
         "\", \"torch_dtype\": \"bfloat16\", \"eos_token_id\": [1, 2], " + rest + "}";
}

std::string gpt2(const std::string& rest) {
  return "{\"model_type\": \"gpt2\", \"n_positions\": 1024, \"vocab_size\": 50257, " + rest + "}";
}

std::string shape(int hidden, int layers, int heads, int groups, int inner, int vocabulary) {
  return concat("\"hidden_size\": ", hidden, ", \"num_hidden_layers\": ", layers,
                ", \"num_attention_heads\": ", heads, ", \"num_key_value_heads\": ", groups,
                ", \"intermediate_size\": ", inner, ", \"vocab_size\": ", vocabulary);
}

std::string choice(int count, int active) {
  return concat(", \"num_local_experts\": ", count, ", \"num_experts_per_tok\": ", active);
}

std::string latents(const std::string& query_rank) {
  return concat(", \"q_lora_rank\": ", query_rank,
                ", \"kv_lora_rank\": 512, \"qk_rope_head_dim\": 64, \"qk_nope_head_dim\": 128, "
                "\"v_head_dim\": 128");
}

std::string experts(int count, int active, int width, int shared, int dense) {
  return concat(", \"n_routed_experts\": ", count, ", \"num_experts_per_tok\": ", active,
                ", \"moe_intermediate_size\": ", width, ", \"n_shared_experts\": ", shared,
                ", \"first_k_dense_replace\": ", dense);
}

const std::string tied = ", \"tie_word_embeddings\": true";

}  // namespace

TEST_CASE("imported models have the published number of parameters, to the unit") {
  const std::map<std::string, std::int64_t> published{
      {gpt2(R"("n_embd": 768, "n_layer": 12, "n_head": 12, "n_inner": null)"), 124'439'808},
      {gpt2(R"("n_embd": 768, "n_layer": 6, "n_head": 12)"), 81'912'576},
      {gpt2(R"("n_embd": 1600, "n_layer": 48, "n_head": 25)"), 1'557'611'200},
      {llama_like("llama", shape(2048, 22, 32, 4, 5632, 32000)), 1'100'048'384},
      {llama_like("llama", shape(2048, 16, 32, 8, 8192, 128256) + tied), 1'235'814'400},
      {llama_like("llama", shape(3072, 28, 24, 8, 8192, 128256) + ", \"head_dim\": 128" + tied),
       3'212'749'824},
      {llama_like("llama", shape(8192, 80, 64, 8, 28672, 128256)), 70'553'706'496},
      {llama_like("mistral", shape(4096, 32, 32, 8, 14336, 32000)), 7'241'732'096},
      {llama_like("mistral", shape(4096, 32, 32, 8, 14336, 32768)), 7'248'023'552},
      {llama_like("qwen2", shape(896, 24, 14, 2, 4864, 151936) + tied), 494'032'768},
      {llama_like("qwen2", shape(1536, 28, 12, 2, 8960, 151936) + tied), 1'543'714'304},
      {llama_like("qwen2", shape(3584, 28, 28, 4, 18944, 152064)), 7'615'616'512},
      {llama_like("qwen2", shape(8192, 80, 64, 8, 29568, 152064)), 72'706'203'648},
      {llama_like("mixtral", shape(4096, 32, 32, 8, 14336, 32000) + choice(8, 2)), 46'702'792'704},
      {llama_like("deepseek_v2", shape(2048, 27, 16, 16, 10944, 102400) + latents("null") +
                                     experts(64, 6, 1408, 2, 1)),
       15'706'484'224},
      {llama_like("deepseek_v2", shape(5120, 60, 128, 128, 12288, 102400) + latents("1536") +
                                     experts(160, 6, 1536, 2, 1)),
       235'741'434'880},
      {llama_like("deepseek_v3", shape(7168, 61, 128, 128, 18432, 129280) + latents("1536") +
                                     experts(256, 8, 2048, 1, 3)),
       671'026'404'352},
  };
  for (const auto& [config, count] : published) {
    INFO(config);
    const Model model = import_config(config);
    CHECK(parameters(model) == count);
    CHECK_NOTHROW(validate(model));
  }
}

TEST_CASE("biases, head width and ties follow the keys") {
  const std::string base = shape(64, 2, 4, 2, 96, 100);
  const auto count = [&](const std::string& rest) {
    return parameters(import_config(llama_like("llama", base + rest)));
  };
  const std::int64_t plain = count("");
  CHECK(count(tied) == plain - 100 * 64);
  CHECK(count(", \"attention_bias\": true") == plain + 2 * (64 + 2 * 32 + 64));
  CHECK(count(", \"mlp_bias\": true") == plain + 2 * (2 * 96 + 64));
  CHECK(count(", \"head_dim\": 32") == plain + 2 * (2 * 64 * 64 + 2 * 64 * 32));
  CHECK(count(", \"head_dim\": null") == plain);
  const std::int64_t qwen = parameters(import_config(llama_like("qwen2", base)));
  CHECK(qwen == plain + 2 * (64 + 2 * 32));
}

TEST_CASE("GPT-2 may have an inner width and a head of its own") {
  const Model model = import_config(gpt2(
      R"("n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 100, "tie_word_embeddings": false)"));
  CHECK(model.transformer->feed_forward == 100);
  CHECK(model.ties.empty());
  CHECK(model.layers.back().parameters == 50257 * 64 + 2 * 64);
}

TEST_CASE("the text part of a larger model is found") {
  const std::string text = llama_like("llama", shape(64, 2, 4, 2, 96, 100));
  const Model model =
      import_config("{\"model_type\": \"llava\", \"text_config\": " + text + ", \"x\": 1}");
  CHECK(parameters(model) == parameters(import_config(text)));
  CHECK(parameters(import_config("{\"text_config\": " + text + tied + "}")) ==
        parameters(model) - 100 * 64);
}

TEST_CASE("architectures decide the head") {
  const std::string base = shape(64, 3, 4, 2, 172, 1000);
  const auto count = [&](const std::string& head, const std::string& rest = "") {
    return parameters(import_config("{\"model_type\": \"llama\", \"architectures\": [\"Llama" +
                                    head + "\"], " + base + rest + "}"));
  };
  // 64,000 of words, three blocks of 45,440, and the last norm.
  CHECK(count("Model") == 64000 + 3 * 45440 + 64);
  CHECK(count("ForCausalLM") == count("Model") + 64000);
  CHECK(count("ForCausalLM", tied) == count("Model"));
  CHECK(count("ForSequenceClassification", R"(, "id2label": {"0": "LABEL_0"})") == 200'448);
  CHECK(count("ForSequenceClassification") == count("Model") + 2 * 64);
  CHECK(count("ForTokenClassification", R"(, "num_labels": 5)") == count("Model") + 5 * 65);
  CHECK(count("ForQuestionAnswering") == count("Model") + 2 * 65);
  CHECK_THAT(message_of([&] { count("ForRewards"); }),
             ContainsSubstring("the head of \"LlamaForRewards\" is not known; known are names of "
                               "the form ") &&
                 ContainsSubstring("…ForCausalLM"));
}

TEST_CASE("a larger model's words may be tied by either file, and what it sees with is left out") {
  const std::string text = llama_like("llama", shape(64, 2, 4, 2, 172, 1000));
  const Profile profile = import_huggingface(
      "{\"model_type\": \"llava\", \"tie_word_embeddings\": true, \"text_config\": " + text +
          ", \"vision_config\": {\"hidden_size\": 32}}",
      "config.json");
  CHECK(parameters(profile.model) == 154'944);
  REQUIRE(profile.warnings.size() == 1);
  CHECK_THAT(profile.warnings.front(),
             ContainsSubstring("only the language part (text_config) is counted") &&
                 ContainsSubstring("\"vision_config\""));
}

TEST_CASE("windows, recurrences and experts change work where parameters stay") {
  const std::string base = shape(64, 2, 4, 2, 96, 100) + ", \"head_dim\": 16, ";
  const auto model = [&](const std::string& type, const std::string& rest) {
    return with_sequence(import_config(llama_like(type, base + rest)), 1024);
  };
  const Model mixed =
      model("gemma3_text", R"("layer_types": ["sliding_attention", "full_attention"],
                                              "sliding_window": 128)");
  const Layer& local = mixed.layers[1];
  const Layer& global = mixed.layers[2];
  CHECK(local.parameters == global.parameters);
  // 128 keys for each of 1024 tokens instead of 1024: scores and weighted sum of 4 heads.
  CHECK(global.flops_forward - local.flops_forward == 2.0 * 1024 * (1024 - 128) * 4 * 32);
  CHECK(in_words(local.steps) == "attention over 128 tokens, feed-forward");
  const Model experts = model("qwen3_moe", R"("num_experts": 8, "num_experts_per_tok": 2,
                                              "moe_intermediate_size": 24)");
  CHECK(experts.layers[1].kind == LayerKind::expert_transformer);
  CHECK(experts.transformer->experts->count == 8);
  CHECK(in_words(experts.layers[1].steps) == "attention, 2 of 8 experts");
  const Model recurring = model("qwen3_next", R"("num_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 24, "layer_types": ["linear_attention", "full_attention"])");
  const double twice = with_sequence(recurring, 2048).layers[1].flops_forward;
  CHECK(twice == Approx(2 * recurring.layers[1].flops_forward));  // no term in its square
  CHECK(with_sequence(recurring, 2048).layers[2].flops_forward >
        2.01 * recurring.layers[2].flops_forward);
}

TEST_CASE("numbers that Python writes and JSON does not know are read as absent") {
  const std::string mamba = R"({"model_type": "mamba2", "hidden_size": 32, "num_hidden_layers": 1,
      "vocab_size": 96, "num_heads": 8, "head_dim": 8, "time_step_limit": [-Infinity, Infinity],
      "time_step_min": NaN, "_name_or_path": "To Infinity"})";
  CHECK(import_config(mamba).layers.size() == 3);
  CHECK(looks_like_huggingface(mamba));
}

TEST_CASE("T5's decoder blocks read the encoder's last states") {
  const Model model = import_config(
      R"({"model_type": "t5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2,
          "num_heads": 4, "vocab_size": 100})");
  REQUIRE(model.layers.size() == 7);  // two embeddings, two blocks each, a head
  CHECK(model.layers[2].name == "encoder.1");
  CHECK(model.layers[4].name == "decoder.0");
  CHECK(crossing(model, 5) == std::vector<int>{2, 4});
  CHECK_NOTHROW(validate(model));
}

TEST_CASE("a model is called what its folder is called") {
  const std::string config = llama_like("llama", shape(64, 2, 4, 2, 96, 100));
  CHECK(import_huggingface(config, "models/mine-7b/config.json").model.name == "mine-7b");
  CHECK(import_huggingface(config, "mine.json").model.name == "mine");
  CHECK(import_huggingface(config, "config.json").model.name == "llama");
}

TEST_CASE("Llama 3.1's rotary scaling is read, in both of its spellings") {
  const std::string base = shape(64, 2, 4, 2, 96, 100);
  const std::string scaling =
      R"(: {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192, "rope_theta": 500000.0}})";
  const auto read = [&](const std::string& rest) {
    return *import_config(llama_like("llama", base + rest)).transformer;
  };
  for (const std::string name : {", \"rope_scaling\"", ", \"rope_parameters\""}) {
    const Transformer transformer = read(name + scaling.substr(0, scaling.size() - 1));
    CHECK(transformer.rotary_scaling == RotaryScaling{});
    CHECK(transformer.untrainable.empty());
  }
  CHECK_FALSE(read(", \"rope_scaling\": null").rotary_scaling);
  CHECK_FALSE(read(R"(, "rope_parameters": {"rope_type": "default"})").rotary_scaling);
  CHECK_THAT(message_of([&] { read(R"(, "rope_scaling": {"type": "llama3"})"); }),
             ContainsSubstring("factor"));
}

TEST_CASE("what changes results but no costs is remembered") {
  const std::string base = shape(64, 2, 4, 2, 96, 100);
  const auto reason = [](const std::string& config) {
    return import_config(config).transformer->untrainable;
  };
  CHECK(reason(llama_like("llama", base + R"(, "rope_scaling": {"type": "yarn"})")) ==
        "its rope_scaling is of type \"yarn\"");
  CHECK(reason(llama_like("llama", base + R"(, "hidden_act": "gelu")")) ==
        "its hidden_act is \"gelu\"");
  CHECK(reason(llama_like("llama", base + R"(, "hidden_act": "silu")")).empty());
  CHECK(reason(llama_like("mistral", base + R"(, "sliding_window": 4096)")).empty());
  CHECK(reason(llama_like("mistral", base + R"(, "sliding_window": null)")).empty());
  CHECK(reason(llama_like("qwen2", base + R"(, "sliding_window": 4096)")).empty());
  CHECK(reason(llama_like("qwen2", base + R"(, "sliding_window": 8, "use_sliding_window": true,
                                            "max_window_layers": 1)"))
            .empty());
  CHECK(reason(llama_like("qwen3", base + R"(, "sliding_window": 8, "use_sliding_window": true,
                                            "max_window_layers": 1)"))
            .empty());
  CHECK(reason(llama_like("qwen3", base + R"(, "hidden_act": "gelu")")) ==
        "its hidden_act is \"gelu\"");
  CHECK(reason(llama_like("gemma", base)) ==
        "its layers are those of \"gemma\" models, which are planned and not computed here");
  const std::string small = R"("n_embd": 64, "n_layer": 2, "n_head": 4)";
  CHECK(reason(gpt2(small + R"(, "activation_function": "gelu_new")")).empty());
  CHECK(reason(gpt2(small + R"(, "activation_function": "relu")")) ==
        "its activation_function is \"relu\"");
  CHECK(reason(gpt2(small + R"(, "scale_attn_by_inverse_layer_idx": true)")) ==
        "its scale_attn_by_inverse_layer_idx is true");
  CHECK(reason(gpt2(small + R"(, "scale_attn_weights": false)")) ==
        "its scale_attn_weights is false");
}

TEST_CASE("Qwen3 keeps its steps, and has all numbers that training needs") {
  const Model model =
      import_config(llama_like("qwen3", shape(64, 2, 4, 2, 96, 100) +
                                            R"(, "head_dim": 32, "rms_norm_eps": 1e-5,
                                               "rope_theta": 5000, "attention_bias": true)"));
  const Transformer& transformer = *model.transformer;
  CHECK(transformer.untrainable.empty());
  CHECK(transformer.norm_epsilon == 1e-5);
  CHECK(transformer.rotary_base == 5000);
  CHECK((transformer.attention_bias && transformer.output_bias));
  CHECK_FALSE(transformer.feed_forward_bias);
  CHECK(has_plain_steps(transformer, model.layers.front()));
  CHECK(has_plain_steps(transformer, model.layers.back()));
  REQUIRE(trained_form(transformer, model.layers[1]));
  CHECK(trained_form(transformer, model.layers[1])->query_key_norm == QueryKeyNorm::shared);
}

TEST_CASE("OPT is trained where its norms come first and its activation is relu") {
  const auto reason = [](const std::string& rest) {
    const Model model =
        import_config(R"({"model_type": "opt", "hidden_size": 64, "num_hidden_layers": 2,
                          "num_attention_heads": 4, "ffn_dim": 96, "vocab_size": 100,
                          "max_position_embeddings": 32)" +
                      rest + "}");
    if (model.transformer->untrainable.empty()) {
      const auto form = trained_form(*model.transformer, model.layers[1]);
      CHECK((form && form->relu));
      CHECK(rows_before_positions(*model.transformer, model.layers[0]) == 2);
    }
    return model.transformer->untrainable;
  };
  const std::string planned =
      "its layers are those of \"opt\" models, which are planned and not computed here";
  CHECK(reason(R"(, "word_embed_proj_dim": 64)").empty());
  CHECK(reason(R"(, "word_embed_proj_dim": 64, "enable_bias": false)").empty());
  CHECK(reason(R"(, "word_embed_proj_dim": 32)") == planned);
  CHECK(reason(R"(, "do_layer_norm_before": false)") == planned);
  CHECK(reason(R"(, "layer_norm_elementwise_affine": false)") == planned);
  CHECK(reason(R"(, "activation_function": "gelu")") == planned);
}

TEST_CASE("OLMo 2 keeps its steps, and the default of its norms") {
  const Model model = import_config(llama_like("olmo2", shape(64, 2, 4, 2, 96, 100)));
  const Transformer& transformer = *model.transformer;
  CHECK(transformer.untrainable.empty());
  CHECK(transformer.norm_epsilon == 1e-5);
  const auto form = trained_form(transformer, model.layers[1]);
  REQUIRE(form);
  CHECK(form->query_key_norm == QueryKeyNorm::together);
  CHECK(form->norms_behind);
  const Model other = import_config(llama_like("qwen3", shape(64, 2, 4, 2, 96, 100)));
  CHECK(other.transformer->norm_epsilon == 1e-6);
}

TEST_CASE("what is missing or does not fit is named, never guessed") {
  const auto complaint = [](const std::string& config) {
    return message_of([&] { import_config(config); });
  };
  CHECK_THAT(complaint(llama_like("ibert", shape(64, 2, 4, 2, 96, 100))),
             ContainsSubstring("model_type: the layers of \"ibert\" models are not known"));
  CHECK_THAT(complaint(llama_like("whisper", shape(64, 2, 4, 2, 96, 100))),
             ContainsSubstring("model_type: the layers of \"whisper\" models cannot be described "
                               "here: its encoder reads always as many frames of sound"));
  CHECK_THAT(
      complaint(llama_like("lama", "\"a\": 1")),
      ContainsSubstring("the nearest known name, \"llama\", is another family unless \"lama\" "
                        "is mistyped"));
  CHECK(complaint(llama_like("albert", "\"a\": 1")).size() < 200);
  CHECK_THAT(complaint(llama_like("llama", "\"hidden_size\": 64, \"vocab_size\": 10")),
             ContainsSubstring("config.json:1:1: the keys \"num_hidden_layers\", "
                               "\"num_attention_heads\" and \"intermediate_size\" are missing"));
  CHECK_THAT(complaint(gpt2(R"("n_embd": 768, "n_layer": 12)")),
             ContainsSubstring("the key \"n_head\" is missing"));
  CHECK_THAT(complaint("{\"num_hidden_layers\": 3}"),
             ContainsSubstring("\"model_type\" is missing"));
  CHECK_THAT(complaint(gpt2(R"("n_embd": 100, "n_layer": 12, "n_head": 12)")),
             ContainsSubstring("n_head: 12 heads do not divide n_embd = 100"));
  CHECK_THAT(complaint(llama_like("llama", shape(64, 2, 4, 3, 96, 100))),
             ContainsSubstring("3 key-value heads do not divide the 4 attention heads"));
  CHECK_THAT(complaint(llama_like("llama", shape(66, 2, 4, 2, 96, 100))),
             ContainsSubstring("4 heads do not divide hidden_size = 66"));
  CHECK_THAT(complaint(llama_like("llama", shape(64, 0, 4, 2, 96, 100))),
             ContainsSubstring("num_hidden_layers: expected an integer from 1 to"));
  CHECK_THAT(complaint(llama_like("llama", shape(-64, 2, 4, 2, 96, 100))),
             ContainsSubstring("hidden_size: expected an integer from 1"));
  CHECK_THAT(complaint(llama_like("llama", shape(2'000'000'000, 2, 4, 2, 96, 100))),
             ContainsSubstring("hidden must be from 1"));
  CHECK_THAT(complaint("{\"model_type\": 7}"), ContainsSubstring("expected a text, found 7"));
}

TEST_CASE("no importer throws when asked whether it knows a text") {
  for (const Importer& importer : importers) {
    INFO(importer.name);
    for (const char* text :
         {"", "{", "[1, 2]", "\xff\xfe", "node", "{\"format\": \"x\"}", "null"}) {
      CHECK_NOTHROW(importer.recognise(text));
    }
    CHECK_FALSE(importer.recognise(""));
    CHECK_FALSE(importer.recognise("{\"format\": \"stagecraft-model/1\"}"));
    CHECK_FALSE(importer.summary.empty());
  }
}
