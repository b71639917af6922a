#include "planner/plan/transformers_modules.hpp"

#include <algorithm>
#include <array>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Architectures that name their modules alike, each list separated by blanks.
struct Architectures {
  std::string_view types;
  std::string_view embedding;
  std::string_view block;
  std::string_view head;
};

constexpr std::array architectures{
    Architectures{"llama mistral qwen2 mixtral deepseek_v2 deepseek_v3 qwen3 qwen3_moe "
                  "qwen3_next qwen3_5_text qwen3_5_moe_text qwen2_moe gemma gemma2 "
                  "gemma3_text phi3 phimoe olmo2 olmo3 olmoe glm glm4 glm4_moe "
                  "glm4_moe_lite glm_moe_dsa gpt_oss deepseek_v32 granite granitemoe "
                  "granitemoeshared granitemoehybrid smollm3 starcoder2 llama4_text "
                  "ministral ministral3 cohere cohere2 nemotron ernie4_5 ernie4_5_moe "
                  "seed_oss hunyuan_v1_dense hunyuan_v1_moe minimax_m2 minimax "
                  "kimi_linear mimo_v2_flash hy_v3 exaone4 exaone_moe solar_open afmoe "
                  "apertus arcee stablelm iquestcoder cwm granite_swa granitemoe_swa "
                  "vaultgemma helium jais2 hyperclovax dots1 flex_olmo mellum kolibri1 "
                  "flint aria_text cohere2_moe laguna gemma4_unified_text axk1 youtu "
                  "minicpm3 bitnet diffllama beam cohere_compass_text emu3_text_model "
                  "mistral4 axk2 bailing_hybrid olmo_hybrid minimax_m3_vl_text kimi_k2 "
                  "eurobert longcat_flash dots3_note_text inkling_text doge jetmoe",
                  "model.embed_tokens", "model.layers.", "model.norm lm_head"},
    Architectures{"gpt2 gpt_bigcode gpt_neo gpt-sw3", "transformer.wte transformer.wpe",
                  "transformer.h.", "transformer.ln_f lm_head"},
    Architectures{
        "gemma3n_text",
        "model.embed_tokens model.embed_tokens_per_layer model.per_layer_model_projection "
        "model.per_layer_projection_norm model.altup_projections",
        "model.layers.", "model.norm model.altup_unembed_projections lm_head"},
    Architectures{"phi falcon_h1 bamba persimmon jamba", "model.embed_tokens", "model.layers.",
                  "model.final_layernorm lm_head"},
    Architectures{"olmo nanochat", "model.embed_tokens", "model.layers.", "lm_head"},
    Architectures{"deepseek_v4 hy_v4", "model.embed_tokens", "model.layers.",
                  "model.norm model.hc_head lm_head"},
    Architectures{"falcon", "transformer.word_embeddings", "transformer.h.",
                  "transformer.ln_f lm_head"},
    Architectures{"gpt_neox", "gpt_neox.embed_in", "gpt_neox.layers.",
                  "gpt_neox.final_layer_norm lm_head"},
    Architectures{"bloom", "transformer.word_embeddings transformer.word_embeddings_layernorm",
                  "transformer.h.", "transformer.ln_f lm_head"},
    Architectures{"nemotron_h", "model.embeddings", "model.layers.", "model.norm_f lm_head"},
    Architectures{"mamba mamba2 falcon_mamba", "backbone.embeddings", "backbone.layers.",
                  "backbone.norm_f lm_head"},
    Architectures{"bert", "bert.embeddings", "bert.encoder.layer.", "cls"},
    Architectures{"roberta xlm-roberta camembert", "roberta.embeddings", "roberta.encoder.layer.",
                  "lm_head"},
    Architectures{"data2vec-text", "data2vec_text.embeddings", "data2vec_text.encoder.layer.",
                  "lm_head"},
    Architectures{"roberta-prelayernorm", "roberta_prelayernorm.embeddings",
                  "roberta_prelayernorm.encoder.layer.", "roberta_prelayernorm.LayerNorm lm_head"},
    Architectures{"xlm-roberta-xl", "roberta.embeddings", "roberta.encoder.layer.",
                  "roberta.encoder.LayerNorm lm_head"},
    Architectures{"megatron-bert", "bert.embeddings", "bert.encoder.layer.", "bert.encoder.ln cls"},
    Architectures{"ernie", "ernie.embeddings", "ernie.encoder.layer.", "cls"},
    Architectures{"deberta", "deberta.embeddings deberta.encoder.rel_embeddings",
                  "deberta.encoder.layer.", "cls lm_predictions"},
    Architectures{"deberta-v2",
                  "deberta.embeddings deberta.encoder.rel_embeddings deberta.encoder.LayerNorm "
                  "deberta.encoder.conv",
                  "deberta.encoder.layer.", "cls lm_predictions"},
    Architectures{"esm", "esm.embeddings esm.rotary_embeddings", "esm.encoder.layer.",
                  "esm.encoder.emb_layer_norm_after esm.contact_head lm_head"},
    Architectures{
        "roformer",
        "roformer.embeddings roformer.embeddings_project roformer.encoder.embed_positions",
        "roformer.encoder.layer.", "cls"},
    Architectures{"rembert", "rembert.embeddings rembert.encoder.embedding_hidden_mapping_in",
                  "rembert.encoder.layer.", "cls"},
    Architectures{"layoutlm", "layoutlm.embeddings", "layoutlm.encoder.layer.",
                  "layoutlm.pooler cls"},
    Architectures{"distilbert", "distilbert.embeddings", "distilbert.transformer.layer.",
                  "vocab_transform vocab_layer_norm vocab_projector"},
    Architectures{"mpnet", "mpnet.embeddings mpnet.encoder.relative_attention_bias",
                  "mpnet.encoder.layer.", "lm_head"},
    Architectures{"nomic_bert", "nomic_bert.embeddings", "nomic_bert.layers.", "cls"},
    Architectures{"gte", "gte.embeddings", "gte.layers.", "lm_head"},
    Architectures{"jina_embeddings_v3", "roberta.embeddings", "roberta.layers.", "lm_head"},
    Architectures{"openai-gpt", "transformer.tokens_embed transformer.positions_embed",
                  "transformer.h.", "lm_head"},
    Architectures{"ctrl", "transformer.w", "transformer.h.", "transformer.layernorm lm_head"},
    Architectures{"modernbert", "model.embeddings", "model.layers.",
                  "model.final_norm head decoder"},
    Architectures{"modernbert-decoder", "model.embeddings", "model.layers.",
                  "model.final_norm decoder lm_head"},
    Architectures{"vit", "vit.embeddings", "vit.layers.", "vit.layernorm classifier"},
    Architectures{"lfm2 lfm2_moe lfm3", "model.embed_tokens", "model.layers.",
                  "model.embedding_norm lm_head"},
    Architectures{"gptj codegen", "transformer.wte", "transformer.h.", "transformer.ln_f lm_head"},
    Architectures{"qwen4_exp_text", "model.embed_tokens", "model.layers.",
                  "model.hyper_connection_mixer lm_head"},
    Architectures{"gpt_neox_japanese", "gpt_neox_japanese.embed_in", "gpt_neox_japanese.layers.",
                  "gpt_neox_japanese.final_layer_norm embed_out"},
    Architectures{"mpt dbrx", "transformer.wte", "transformer.blocks.",
                  "transformer.norm_f lm_head"},
    Architectures{"xglm", "model.embed_tokens", "model.layers.", "model.layer_norm lm_head"},
    Architectures{"biogpt", "biogpt.embed_tokens biogpt.embed_positions", "biogpt.layers.",
                  "biogpt.layer_norm output_projection"},
    Architectures{"recurrent_gemma", "model.embed_tokens", "model.layers.",
                  "model.final_norm lm_head"},
    Architectures{"gemma4_text",
                  "model.embed_tokens model.embed_tokens_per_layer "
                  "model.per_layer_model_projection model.per_layer_projection_norm",
                  "model.layers.", "model.norm lm_head"},
    Architectures{
        "opt", "model.decoder.embed_tokens model.decoder.embed_positions model.decoder.project_in",
        "model.decoder.layers.",
        "model.decoder.final_layer_norm model.decoder.project_out lm_head"},
    Architectures{"electra", "electra.embeddings electra.embeddings_project",
                  "electra.encoder.layer.", "generator_predictions generator_lm_head"},
};

/// What an architecture's word has before the modules that one configuration of it does without.
constexpr std::string_view without = " without ";

/// An integer of the file, or the library's default.
std::int64_t integer_of(const Json& config, std::string_view key, std::int64_t otherwise) {
  if (!config.contains(key) || !config[key].is_integer()) return otherwise;
  return config[key].integer();
}

bool is_on(const Json& config, std::string_view key, bool otherwise) {
  return config.contains(key) && config[key].is_boolean() ? config[key].boolean() : otherwise;
}

/// Modules that the configuration has not, of those in the architecture's row.
std::string absent_modules(std::string_view type, const Json& config) {
  std::string absent;
  if (type == "gemma4_text" && integer_of(config, "hidden_size_per_layer_input", 256) == 0)
    absent = " embed_tokens_per_layer per_layer_model_projection per_layer_projection_norm";
  if (type == "electra" &&
      integer_of(config, "embedding_size", 128) == integer_of(config, "hidden_size", 256))
    absent = " embeddings_project";
  if (type == "roformer") {
    const std::int64_t width = integer_of(config, "hidden_size", 768);
    if (integer_of(config, "embedding_size", width) == width) absent = " embeddings_project";
  }
  if (type == "esm") {
    const bool turns = config.contains("position_embedding_type") &&
                       config["position_embedding_type"].is_string() &&
                       config["position_embedding_type"].string() == "rotary";
    if (!turns) absent = " rotary_embeddings";
  }
  if (type == "deberta" || type == "deberta-v2") {
    absent = is_on(config, "legacy", true) ? " lm_predictions" : " cls";
    if (!is_on(config, "relative_attention", false)) absent += " rel_embeddings";
    if (integer_of(config, "conv_kernel_size", 0) == 0) absent += " conv";
    const bool normed = config.contains("norm_rel_ebd") && config["norm_rel_ebd"].is_string() &&
                        config["norm_rel_ebd"].string().find("layer_norm") != std::string::npos;
    if (!normed) absent += " LayerNorm";
  }
  if (type == "opt") {
    const std::int64_t width = integer_of(config, "hidden_size", 768);
    if (integer_of(config, "word_embed_proj_dim", width) == width)
      absent += " project_in project_out";
    if (!is_on(config, "do_layer_norm_before", true) ||
        is_on(config, "_remove_final_layer_norm", false))
      absent += " final_layer_norm";
  }
  return absent;
}

std::string last_word(const std::string& path) {
  return split(path, '.').back();
}

std::vector<std::string> present_modules(std::string_view names,
                                         const std::vector<std::string>& absent) {
  std::vector<std::string> modules = split(names, ' ');
  std::erase_if(modules, [&](const std::string& module) {
    return std::ranges::find(absent, last_word(module)) != absent.end();
  });
  return modules;
}

bool ends_one_of(std::string_view Architectures::*names, std::string_view word) {
  return std::ranges::any_of(architectures, [&](const Architectures& row) {
    const std::vector<std::string> modules = split(row.*names, ' ');
    return std::ranges::any_of(
        modules, [&](const std::string& module) { return last_word(module) == word; });
  });
}

}  // namespace

std::string transformers_architecture(const Json& config) {
  if (!config.is_object() || !config.contains("model_type")) return "";
  const std::string type = config["model_type"].string();
  const std::string absent = absent_modules(type, config);
  return absent.empty() ? type : concat(type, without, absent.substr(1));
}

std::optional<ModuleVocabulary> transformers_modules(std::string_view architecture) {
  const std::size_t end = architecture.find(without);
  const std::string_view type = architecture.substr(0, end);
  std::vector<std::string> absent;
  if (end != std::string_view::npos) absent = split(architecture.substr(end + without.size()), ' ');
  for (const Architectures& row : architectures) {
    const std::vector<std::string> types = split(row.types, ' ');
    if (std::ranges::find(types, type) == types.end()) continue;
    return ModuleVocabulary{.embedding = present_modules(row.embedding, absent),
                            .block = std::string(row.block),
                            .head = present_modules(row.head, absent)};
  }
  return {};
}

bool is_embedding_module(std::string_view word) {
  return ends_one_of(&Architectures::embedding, word);
}

bool is_head_module(std::string_view word) {
  return ends_one_of(&Architectures::head, word);
}

}  // namespace stagecraft
