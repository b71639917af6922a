// Keys of single families, as their classes in transformers 5.23.0 read them.

#include <algorithm>
#include <string>
#include <vector>

#include "profiles/devices.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/operations.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/profiles/importers/counted_families.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// "F": a block that sees all tokens, "S": one with a window.
std::string windows_in_words(const Model& model) {
  std::string words;
  for (const Layer& layer : model.layers) {
    for (const Step& step : layer.steps) {
      if (step.kind == StepKind::attention) words += step.window > 0 ? 'S' : 'F';
    }
  }
  return words;
}

std::string windows_by_default(const std::string& family, int layers, const std::string& more) {
  const std::string config =
      concat("{\"text_config\": {\"model_type\": \"", family,
             "\", \"hidden_size\": 32, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, ",
             "\"num_hidden_layers\": ", layers, more, "}}");
  return windows_in_words(import_text(config).model);
}

}  // namespace

namespace {

/// Of a block of DeBERTa's, in a microbatch of so many samples of 128 tokens.
double flops_of_positions(const Model& model, std::int64_t microbatch) {
  const WorkSetting setting{.microbatch = microbatch, .sequence = 128};
  double flops = 0;
  for (const Operation& operation :
       layer_operations(*model.transformer, model.layers[1], setting).operations) {
    if (operation.pass == Pass::forward && operation.name.starts_with("position"))
      flops += operation.flops;
  }
  return flops;
}

}  // namespace

TEST_CASE("scores of distances are as many as there are rows, their projections once a pass") {
  const auto model_of = [](const std::string& more) {
    return import_text(
               R"({"model_type": "deberta-v2", "hidden_size": 64, "num_hidden_layers": 2,
                   "num_attention_heads": 4, "intermediate_size": 80, "vocab_size": 96,
                   "max_position_embeddings": 128, "position_buckets": 16,
                   "pos_att_type": "c2p|p2c")" +
               more + "}")
        .model;
  };
  const Model plain = model_of("");
  const Model relative = model_of(R"(, "relative_attention": true)");
  const Model shared = model_of(R"(, "relative_attention": true, "share_att_key": true)");
  // 16 buckets on either side; for each of two kinds of scores.
  const double projections = 2 * 2.0 * 32 * 64 * 64, scores = 2 * 2.0 * 128 * 32 * 64;
  CHECK(relative.layers[1].flops_forward - plain.layers[1].flops_forward == projections + scores);
  CHECK(shared.layers[1].flops_forward == relative.layers[1].flops_forward);
  CHECK(flops_of_positions(plain, 1) == 0);
  CHECK(flops_of_positions(relative, 1) == projections + scores);
  CHECK(flops_of_positions(relative, 3) == projections + 3 * scores);
  CHECK(relative.layers[1].parameters - plain.layers[1].parameters == 2 * (64 * 64 + 64));
  CHECK(shared.layers[1].parameters == plain.layers[1].parameters);
  CHECK(relative.layers[0].parameters - plain.layers[0].parameters == 32 * 64);
}

TEST_CASE("the head of two towers with words of their own shares the decoder's") {
  const std::string tower = R"({"vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8, "intermediate_size": 48)";
  const auto text_of = [&](const std::string& encoder) {
    return R"({"model_type": "t5gemma", "encoder": )" + encoder + R"(, "decoder": )" + tower + "}}";
  };
  const Model model = import_text(text_of(tower + "}")).model;
  REQUIRE(model.ties.size() == 1);
  CHECK(model.layers[static_cast<std::size_t>(model.ties[0].owner)].name == "decoder_embedding");
  CHECK(model.layers[static_cast<std::size_t>(model.ties[0].user)].name == "head");
  CHECK(model.ties[0].parameters == 96 * 64);
  CHECK_THAT(
      message_of([&] { import_text(text_of(R"({"hidden_size": 96, "num_hidden_layers": 1})")); }),
      ContainsSubstring("states of the encoder are 96 wide, those of the decoder 64; only "
                        "towers of one width are known here"));
}

TEST_CASE("without layer_types blocks have windows as the family's class gives them") {
  CHECK(windows_by_default("cwm", 9, "") == "FSSSFSSSF");
  CHECK(windows_by_default("granite_swa", 6, "") == "FSSSFS");
  CHECK(windows_by_default("granitemoe_swa", 6, "") == "FSSSFS");
  CHECK(windows_by_default("vaultgemma", 4, "") == "SFSF");
  CHECK(windows_by_default("kolibri1", 6, "") == "SSSSFS");
  CHECK(windows_by_default("flint", 12, "") == "FFSSSFSSSFSF");
  CHECK(windows_by_default("mellum", 3, "") == "FFF");
  CHECK(windows_by_default("laguna", 3, "") == "FFF");
  CHECK(windows_by_default("cohere2_moe", 6, "") == "SSSFSS");
  CHECK(windows_by_default("cohere2_moe", 6, R"(, "first_k_dense_replace": 1)") == "FSSSFS");
  CHECK(windows_by_default("bailing_hybrid", 13, "") == "FF");
  CHECK(windows_by_default("zaya", 2, "") == "FF");
  CHECK(windows_by_default("beam", 8, "") == "SSSSSFSF");
  const std::string indexer =
      R"(, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 32,
         "indexer_budget": 64, "indexer_compress_ratio": 8)";
  CHECK(windows_by_default("qwen4_exp_text", 9, indexer) == "FSFS");
  CHECK(windows_by_default("modernbert", 5, "") == "FSSFS");
  CHECK(windows_by_default("modernbert-decoder", 5, "") == "FSSFS");
  CHECK(windows_by_default("jamba", 13, "") == "FF");
  CHECK(windows_by_default("olmo_hybrid", 9, "") == "FF");
  CHECK(windows_by_default("olmo_hybrid", 2, "") == "F");
  CHECK(windows_by_default("recurrent_gemma", 6, "") == "SS");
  CHECK(windows_by_default("lfm3", 7, "") == "FSF");
  CHECK(windows_by_default("minimax_m3_vl_text", 2, "") == "FF");
  // Before a window of chosen keys the indexer looks at all of them.
  const std::string sparse =
      R"(, "sparse_attention_config": {"sparse_attention_freq": [0, 1], "sparse_topk_blocks": 2})";
  CHECK(windows_by_default("minimax_m3_vl_text", 2, sparse) == "FFS");
  const std::string experts =
      R"(, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2)";
  CHECK(windows_by_default("dots1", 3, experts + R"(, "max_window_layers": 1)") == "FSS");
  CHECK(windows_by_default("dots1", 3, experts) == "FFF");
}

TEST_CASE("gates of Laguna's heads: one number for each head, or one for each of its numbers") {
  const auto weights_of_gate = [](const std::string& gating) {
    const Model model = import_text(concat(R"({"text_config": {"model_type": "laguna", )",
                                           R"("num_hidden_layers": 1, "hidden_size": 32, )",
                                           R"("num_attention_heads": 8, "head_dim": 16, )",
                                           "\"gating\": ", gating, "}}"))
                            .model;
    for (const Step& step : model.layers[1].steps) {
      if (step.name == "attention gate" && step.kind == StepKind::product)
        return parameters(step) / 32;
    }
    return std::int64_t{0};
  };
  CHECK(weights_of_gate("true") == 8);
  CHECK(weights_of_gate("\"per-head\"") == 8);
  CHECK(weights_of_gate("\"per-element\"") == 8 * 16);
  CHECK_THAT(message_of([&] { weights_of_gate("\"per-word\""); }),
             ContainsSubstring("\"per-word\" is not known here"));
}

TEST_CASE("NanoChat's base model is no chat model of InternVL's, and has no head") {
  const std::string config = R"("model_type": "nanochat", "hidden_size": 32, "vocab_size": 96,
    "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48)";
  const Model base = import_text("{\"architectures\": [\"NanoChatModel\"], " + config + "}").model;
  const Model whole =
      import_text("{\"architectures\": [\"NanoChatForCausalLM\"], " + config + "}").model;
  CHECK(parameters(whole) - parameters(base) == 96 * 32);
}

TEST_CASE("MiniMax-M3's files may have lists of numbers where its class has words") {
  const auto imported = [](const std::string& more) {
    return import_text(
               "{\"text_config\": {\"model_type\": \"minimax_m3_vl_text\", "
               "\"num_hidden_layers\": 2" +
               more + "}}")
        .model;
  };
  CHECK(imported(R"(, "moe_layer_freq": [0, 1])") ==
        imported(R"(, "mlp_layer_types": ["dense", "sparse"])"));
  CHECK(imported(R"(, "sparse_attention_config": {"sparse_num_index_heads": 2,
                      "sparse_index_dim": 64, "sparse_block_size": 16, "sparse_topk_blocks": 8,
                      "sparse_local_block": 1, "sparse_attention_freq": [1, 0]})") ==
        imported(R"(, "layer_types": ["minimax_m3_sparse", "full_attention"], "index_n_heads": 2,
                      "index_head_dim": 64, "index_block_size": 16, "index_topk_blocks": 8)"));
  CHECK_THAT(message_of([&] { imported(R"(, "moe_layer_freq": [0])"); }),
             ContainsSubstring("expected a number for each of the 2 layers, found 1"));
}

TEST_CASE("GPT-Neo's blocks have windows as a list says, or as patterns that repeat") {
  const auto windows = [](const std::string& more) {
    return windows_in_words(
        import_text("{\"model_type\": \"gpt_neo\", \"hidden_size\": 32, \"num_layers\": 4, "
                    "\"num_heads\": 4, \"vocab_size\": 96" +
                    more + "}")
            .model);
  };
  CHECK(windows("") == "FSFS");
  CHECK(windows(R"(, "attention_types": [[["local"], 3], [["global"], 1]])") == "SSSF");
  CHECK(windows(R"(, "attention_layers": ["global", "global", "local", "local"])") == "FFSS");
  CHECK_THAT(message_of([&] { windows(R"(, "attention_layers": ["global"])"); }),
             ContainsSubstring("for each of the 4 layers, found 1"));
  CHECK_THAT(message_of([&] { windows(R"(, "attention_types": [[["near"], 4]])"); }),
             ContainsSubstring("\"near\" is not known here"));
}

TEST_CASE("RoBERTa's positions start behind the row of the padding token") {
  const auto positions = [](const std::string& family) {
    return import_text("{\"text_config\": {\"model_type\": \"" + family +
                       "\", \"max_position_embeddings\": 514}}")
        .model.transformer->positions;
  };
  CHECK(positions("roberta") == 512);
  CHECK(positions("xlm-roberta") == 512);
  CHECK(positions("bert") == 514);
}

TEST_CASE("usual keys that a family's class does not read say what it builds, or are refused") {
  const auto import_with = [](const std::string& family, const std::string& key) {
    std::string more = ", \"intermediate_size\": 80, ";
    if (family == "opt") more = ", \"ffn_dim\": 80, ";
    if (family == "olmoe") more += "\"num_experts\": 4, \"num_experts_per_tok\": 2, ";
    return import_text("{\"model_type\": \"" + family +
                       "\", \"vocab_size\": 96, \"hidden_size\": 64, \"num_hidden_layers\": 1, "
                       "\"num_attention_heads\": 4, \"max_position_embeddings\": 128" +
                       more + key + "}");
  };
  const std::string builds = "but the class in transformers does not read it and builds ";
  for (const std::string family :
       {"opt", "gpt_neox", "gpt_neox_japanese", "persimmon", "biogpt", "bert", "roberta",
        "roberta-prelayernorm", "data2vec-text", "ernie", "megatron-bert", "modernbert"}) {
    INFO(family);
    CHECK_THAT(message_of([&] { import_with(family, "\"num_key_value_heads\": 2"); }),
               ContainsSubstring("found 2, " + builds + "4"));
    CHECK(import_with(family, "\"num_key_value_heads\": 4").model.transformer->key_value_heads ==
          4);
    CHECK_THAT(message_of([&] { import_with(family, "\"head_dim\": 24"); }),
               ContainsSubstring("found 24, " + builds + "16"));
  }
  CHECK_THAT(
      message_of([&] { import_with("stablelm", "\"num_key_value_heads\": 2, \"head_dim\": 24"); }),
      ContainsSubstring("found 24, " + builds + "16"));
  for (const std::string family : {"glm5_next_text", "dots3_note_text"}) {
    INFO(family);
    CHECK_THAT(message_of([&] {
                 import_text("{\"text_config\": {\"model_type\": \"" + family +
                             "\", \"num_attention_heads\": 4, \"num_key_value_heads\": 2}}");
               }),
               ContainsSubstring("found 2, " + builds + "4"));
  }
}

TEST_CASE(
    "heads wider than the hidden state's part are counted where the family's class reads them") {
  const auto counted = [](const std::string& more) {
    return parameters(import_text(R"({"model_type": "phi", "vocab_size": 96, "hidden_size": 64,
      "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
      "intermediate_size": 80, "max_position_embeddings": 128, "tie_word_embeddings": false)" +
                                  more + "}")
                          .model);
  };
  // Of transformers 5.23.0 on the meta device.
  CHECK(counted("") == 35'504);
  CHECK(counted(", \"head_dim\": 24") == 41'712);
  CHECK(counted(", \"qk_layernorm\": true") == 35'568);
}

TEST_CASE("heads must fill the hidden width where norms are built for that") {
  const auto import_with = [](const std::string& family, const std::string& key) {
    const std::string experts =
        family == "olmoe" ? R"("num_experts": 4, "num_experts_per_tok": 2, )" : "";
    return import_text("{\"model_type\": \"" + family + "\", " + experts +
                       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 1,
                          "num_attention_heads": 4, "max_position_embeddings": 128,
                          "intermediate_size": 80, "num_key_value_heads": 2, )" +
                       key + "}");
  };
  for (const std::string family : {"olmoe", "bitnet", "phi"}) {
    INFO(family);
    const std::string norms = family == "phi" ? "\"qk_layernorm\": true, " : "";
    CHECK_THAT(message_of([&] { import_with(family, norms + "\"head_dim\": 24"); }),
               ContainsSubstring("head_dim: 4 heads of 24 do not fill hidden_size = 64"));
    CHECK(import_with(family, norms + "\"head_dim\": 16").model.transformer->head_width == 16);
  }
}

TEST_CASE("a ViT's heads may be wider, and Apertus's activation may have nothing to learn") {
  CHECK(parameters(import_text(R"({"model_type": "vit", "hidden_size": 32, "num_hidden_layers": 3,
    "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32, "patch_size": 16,
    "num_channels": 1, "qkv_bias": false, "head_dim": 16})")
                       .model) == 43'058);
  CHECK(parameters(import_text(R"({"model_type": "apertus", "vocab_size": 96, "hidden_size": 64,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4,
    "intermediate_size": 80, "max_position_embeddings": 128, "tie_word_embeddings": false,
    "attention_bias": true, "hidden_act": "gelu"})")
                       .model) == 39'392);
}

TEST_CASE("of Phi-4-multimodal the language part is counted, and a sentence says so") {
  const Profile profile = import_text(R"({"model_type": "phi4_multimodal", "hidden_size": 32,
    "vocab_size": 130, "num_hidden_layers": 1, "num_attention_heads": 8, "num_key_value_heads": 1,
    "intermediate_size": 48, "tie_word_embeddings": true, "vision_config": {"hidden_size": 1152},
    "audio_config": {"hidden_size": 1024}})");
  CHECK(parameters(profile.model) == 11'168);
  REQUIRE(!profile.warnings.empty());
  CHECK_THAT(profile.warnings.front(),
             ContainsSubstring("only the language part") && ContainsSubstring("vision_config"));
}

TEST_CASE("an MPT without ALiBi, or with biases, is not what its class builds") {
  const std::string config = R"("model_type": "mpt", "d_model": 32, "n_layers": 1, "n_heads": 4,
    "vocab_size": 96)";
  CHECK_NOTHROW(import_text("{" + config + R"(, "attn_config": {"alibi": true}})"));
  CHECK_THAT(
      message_of([&] { import_text("{" + config + R"(, "attn_config": {"alibi": false}})"); }),
      ContainsSubstring("the class in transformers does not read it and builds true"));
  CHECK_THAT(message_of([&] { import_text("{" + config + R"(, "no_bias": false})"); }),
             ContainsSubstring("builds true"));
}

TEST_CASE("Qwen4's tables of n-grams have primes of rows, and its indexer is not guessed") {
  const auto imported = [](const std::string& more) {
    return import_text(R"({"text_config": {"model_type": "qwen4_exp_text", "num_hidden_layers": 2,
      "hidden_size": 32, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 32,
      "indexer_compress_ratio": 8, "ngram_size": 2, "ple_embed_dim": 8,
      "ngram_vocab_size_base": 10, "make_ngram_vocab_size_divisible_by": 1)" +
                       more + "}}")
        .model;
  };
  const auto words_of_layers = [&](const Model& model) {
    std::vector<std::int64_t> counts;
    for (const Layer& layer : model.layers) {
      std::int64_t count = 0;
      for (const Step& step : layer.steps)
        count += step.name == "per-layer words" ? parameters(step) : 0;
      if (count > 0) counts.push_back(count);
    }
    return counts;
  };
  const std::string budget = R"(, "indexer_budget": 64)";
  // 11 + 13 + 17 + 19 + 23 + 29 + 31 + 37 rows of one number, then 41 + 43 + 47 + … + 71.
  CHECK(words_of_layers(imported(budget + R"(, "ple_layer_ids": [2, 1])")) ==
        std::vector<std::int64_t>{180, 442});
  CHECK(words_of_layers(imported(budget)).empty());
  CHECK_THAT(message_of([&] { imported(""); }),
             ContainsSubstring("the key \"indexer_budget\" is missing"));
  CHECK_THAT(message_of([&] { imported(budget + R"(, "ple_layer_ids": [3])"); }),
             ContainsSubstring("from 1 to 2"));
  CHECK_THAT(
      message_of([&] { imported(budget + R"(, "ple_layer_ids": [1], "heads_per_ngram": 8192)"); }),
      ContainsSubstring("more than the 4096 known here"));
}

TEST_CASE("tensor-parallel peers share Qwen4's tables of n-grams") {
  const Model model =
      import_text(R"({"text_config": {"model_type": "qwen4_exp_text", "num_hidden_layers": 2,
        "hidden_size": 32, "indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 32,
        "indexer_compress_ratio": 8, "indexer_budget": 64, "ngram_size": 2, "ple_embed_dim": 8,
        "ngram_vocab_size_base": 100000, "ple_layer_ids": [1]}})")
          .model;
  const auto weights = [&](int peers) {
    std::int64_t most = 0;
    for (const Layer& layer : model.layers) {
      if (!is_block(layer)) continue;
      most = std::max(most, layer_operations(*model.transformer, layer,
                                             {.sequence = 64, .tensor_parallel = peers})
                                .weights);
    }
    return static_cast<double>(most);
  };
  // Nearly all of the layer is its tables.
  CHECK(weights(2) == Approx(weights(1) / 2).epsilon(0.05));
}

TEST_CASE("groups of experts are those of classes that choose them first") {
  const auto imported = [](const std::string& family) {
    const std::vector<Counted>& rows = counted_families();
    const auto row = std::ranges::find(rows, family, &Counted::family);
    REQUIRE(row != rows.end());
    return import_text(small_config(*row, R"(, "n_group": 2, "topk_group": 1)"));
  };
  const Profile mixture = imported("qwen3_moe");
  CHECK(mixture.model.transformer->experts->groups == ExpertGroups{});
  CHECK_THAT(mixture.warnings.back(), ContainsSubstring("chooses among all experts"));
  for (const std::string family : {"glm4_moe", "exaone_moe", "solar_open"}) {
    INFO(family);
    CHECK(imported(family).model.transformer->experts->groups ==
          ExpertGroups{.count = 2, .active = 1});
  }
}

TEST_CASE("a family whose layers no steps say is refused with what they have") {
  CHECK_THAT(message_of([] { import_text(R"({"model_type": "zamba2", "hidden_size": 64})"); }),
             ContainsSubstring("blocks that stand apart share their weights"));
  CHECK_THAT(
      message_of([] { import_text(R"({"text_config": {"model_type": "mllama_text_model"}})"); }),
      ContainsSubstring("some blocks attend to what images were encoded to"));
}

TEST_CASE(
    "files of GLM-4.5 and dots.llm1 may say that experts are in each block, and not that they "
    "are in every other") {
  const auto imported = [](const std::string& family, int frequency) {
    return import_text(concat("{\"text_config\": {\"model_type\": \"", family,
                              "\", \"num_hidden_layers\": 2, \"n_routed_experts\": 4, ",
                              "\"n_shared_experts\": 1, \"num_experts_per_tok\": 2, ",
                              "\"moe_layer_freq\": ", frequency, "}}"));
  };
  for (const std::string family : {"glm4_moe", "dots1"}) {
    CHECK_NOTHROW(imported(family, 1));
    CHECK_THAT(message_of([&] { imported(family, 2); }),
               ContainsSubstring("the class in transformers does not read it and builds 1"));
  }
}

TEST_CASE("ZAYA's files need a window where layers have one, and pass one expert") {
  const std::string config = R"("model_type": "zaya", "hidden_size": 32, "vocab_size": 96,
    "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
    "num_experts": 4, "moe_intermediate_size": 24)";
  const std::string words = R"(, "layer_types": ["hybrid", "hybrid_sliding"])";
  CHECK(windows_in_words(import_text("{" + config + words + R"(, "sliding_window": 8})").model) ==
        "FS");
  CHECK_THAT(message_of([&] { import_text("{" + config + words + "}"); }),
             ContainsSubstring("expected a window"));
  CHECK_THAT(message_of([&] { import_text("{" + config + R"(, "num_experts_per_tok": 2})"); }),
             ContainsSubstring("only 1 is known"));
}

TEST_CASE(
    "BART's decoder alone is refused, and its words are kept three times where none are tied") {
  const auto imported = [](const std::string& more) {
    return import_text(R"({"model_type": "bart", "vocab_size": 96, "d_model": 32,
      "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 4,
      "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 40,
      "max_position_embeddings": 64)" +
                       more + "}");
  };
  CHECK_THAT(message_of([&] { imported(R"(, "architectures": ["BartForCausalLM"])"); }),
             ContainsSubstring("\"BartForCausalLM\" is a decoder without its encoder"));
  // Encoder, decoder, head and a table for all of them, instead of one.
  CHECK(parameters(imported(R"(, "tie_word_embeddings": false)").model) -
            parameters(imported("").model) ==
        3 * 96 * 32);
  CHECK_THAT(message_of([&] { imported(R"(, "normalize_before": true)"); }),
             ContainsSubstring("found true, but the class in transformers does not read it and "
                               "builds false"));
  CHECK_THAT(message_of([] { import_text(R"({"model_type": "albert", "hidden_size": 64})"); }),
             ContainsSubstring("all its blocks are one and the same"));
}

TEST_CASE("Step 3.5's published files say once how many heads blocks with a window have") {
  const auto imported = [](const std::string& more) {
    return import_text(R"({"text_config": {"model_type": "step3p5", "num_hidden_layers": 4,
      "hidden_size": 64, "num_attention_heads": 4, "num_attention_groups": 2, "head_dim": 16,
      "sliding_window": 8, "layer_types": ["full_attention", "sliding_attention",
      "sliding_attention", "full_attention"], )" +
                       more + "}}")
        .model;
  };
  const Model model = imported(R"("num_sliding_attention_heads": 6)");
  CHECK(model == imported(R"("attention_other_setting": {"attention_type": "sliding_attention",
      "num_attention_heads": 6, "num_attention_groups": 2, "head_dim": 16})"));
  CHECK(model == imported(R"("per_layer_config": {"01": {"num_attention_heads": 6},
      "2": {"num_attention_heads": 6}})"));
  CHECK_THAT(message_of([&] { imported(R"("num_sliding_attention_heads": 5)"); }),
             ContainsSubstring("2 key-value heads do not divide the 5 heads of layer 1"));
  CHECK_THAT(message_of([&] { imported(R"("per_layer_config": {"7": {}})"); }),
             ContainsSubstring("expected the index of a layer"));
  // Experts from the fourth layer on, or where a list says.
  CHECK(imported(R"("moe_layers_enum": "3")") == imported(R"("moe_layers_enum": [3])"));
  CHECK(imported(R"("moe_layers_enum": "3")") == imported(R"("rms_norm_eps": 1e-5)"));
}

TEST_CASE("ERNIE 4.5 VL keeps experts of images, which lie where experts do") {
  const Profile profile = import_text(R"({"text_config": {"model_type": "ernie4_5_vl_moe_text",
    "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 4,
    "moe_num_experts": 8, "moe_k": 2, "moe_intermediate_size": [32, 16]}})");
  CHECK_THAT(profile.warnings.back(), ContainsSubstring("experts of images (8 in each layer"));
  const Layer& layer = profile.model.layers[2];
  const auto weights = [&](int parts) {
    return layer_operations(*profile.model.transformer, layer,
                            {.sequence = 64, .expert_parallel = parts})
        .expert_weights;
  };
  // Three matrices of 32 x 64 and three of 16 x 64 in each of eight experts.
  CHECK(weights(1) == 8 * 3 * (32 + 16) * 64);
  CHECK(weights(2) == weights(1) / 2);
}
