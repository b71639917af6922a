#include "profiles/importers/families/families.hpp"

#include <algorithm>
#include <array>

#include "profiles/importers/families/decoders.hpp"

namespace stagecraft {

namespace {

constexpr std::array families{
    Family{"gpt2", read_gpt2},
    Family{"gpt_bigcode", read_gpt_bigcode},
    Family{"openai-gpt", read_openai_gpt},
    Family{"ctrl", read_ctrl},
    Family{"gptj", read_gptj},
    Family{"codegen", read_gptj},
    Family{"gpt_neox", read_gpt_neox},
    Family{"gpt_neox_japanese", read_gpt_neox_japanese},
    Family{"gpt_neo", read_gpt_neo},
    Family{"mpt", read_mpt},
    Family{"xglm", read_xglm},
    Family{"biogpt", read_biogpt},
    Family{"bloom", read_bloom},
    Family{"falcon", read_falcon},
    Family{"opt", read_opt},
    Family{"phi", read_phi},
    Family{"stablelm", read_stablelm},
    Family{"bert", read_bert},
    Family{"roberta", read_roberta},
    Family{"xlm-roberta", read_xlm_roberta},
    Family{"camembert", read_xlm_roberta},
    Family{"data2vec-text", read_xlm_roberta},
    Family{"roberta-prelayernorm", read_roberta_prelayernorm},
    Family{"xlm-roberta-xl", read_xlm_roberta_xl},
    Family{"megatron-bert", read_megatron_bert},
    Family{"ernie", read_ernie},
    Family{"electra", read_electra},
    Family{"deberta", read_deberta},
    Family{"deberta-v2", read_deberta_v2},
    Family{"esm", read_esm},
    Family{"roformer", read_roformer},
    Family{"rembert", read_rembert},
    Family{"layoutlm", read_layoutlm},
    Family{"distilbert", read_distilbert},
    Family{"mpnet", read_mpnet},
    Family{"nomic_bert", read_nomic_bert},
    Family{"gte", read_gte},
    Family{"jina_embeddings_v3", read_jina_embeddings_v3},
    Family{"eurobert", read_eurobert},
    Family{"modernbert", read_modernbert},
    Family{"modernbert-decoder", read_modernbert_decoder},
    Family{"vit", read_vit},
    Family{"t5", read_t5},
    Family{"mt5", read_mt5},
    Family{"umt5", read_umt5},
    Family{"bart", read_bart},
    Family{"mbart", read_mbart},
    Family{"plbart", read_plbart},
    Family{"mvp", read_mvp},
    Family{"blenderbot", read_blenderbot},
    Family{"blenderbot-small", read_blenderbot_small},
    Family{"marian", read_marian},
    Family{"pegasus", read_pegasus},
    Family{"m2m_100", read_m2m_100},
    Family{"switch_transformers", read_switch_transformers},
    Family{"t5gemma", read_t5gemma},
    Family{"inkling_text", read_inkling},
    Family{"doge", read_doge},
    Family{"jetmoe", read_jetmoe},
    Family{"voxtral_realtime_text", read_voxtral_realtime},
    Family{"deepseek_v2", read_deepseek_v2},
    Family{"deepseek_v3", read_deepseek_v3},
    Family{"deepseek_v32", read_deepseek_v32},
    Family{"deepseek_v4", read_deepseek_v4},
    Family{"mistral4", read_mistral4},
    Family{"axk1", read_axk1},
    Family{"axk2", read_axk2},
    Family{"hy_v4", read_hy_v4},
    Family{"youtu", read_youtu},
    Family{"minicpm3", read_minicpm3},
    Family{"glm4_moe_lite", read_glm4_moe_lite},
    Family{"glm_moe_dsa", read_glm_moe_dsa},
    Family{"longcat_flash", read_longcat_flash},
    Family{"kimi_linear", read_kimi_linear},
    Family{"llama4_text", read_llama4},
    Family{"mimo_v2_flash", read_mimo_v2_flash},
    Family{"cohere2_moe", read_cohere2_moe},
    Family{"laguna", read_laguna},
    Family{"gemma3n_text", read_gemma3n},
    Family{"gemma4_text", read_gemma4},
    Family{"gemma4_unified_text", read_gemma4_unified},
    Family{"qwen3_next", read_qwen3_next},
    Family{"qwen3_5_text", read_qwen3_5},
    Family{"qwen3_5_moe_text", read_qwen3_5_moe},
    Family{"qwen4_exp_text", read_qwen4_exp},
    Family{"zaya", read_zaya},
    Family{"beam", read_beam},
    Family{"bailing_hybrid", read_bailing_hybrid},
    Family{"jamba", read_jamba},
    Family{"olmo_hybrid", read_olmo_hybrid},
    Family{"recurrent_gemma", read_recurrent_gemma},
    Family{"lfm3", read_lfm3},
    Family{"minimax_m3_vl_text", read_minimax_m3},
    Family{"dbrx", read_dbrx},
    Family{"mamba", read_mamba},
    Family{"falcon_mamba", read_falcon_mamba},
    Family{"mamba2", read_mamba2},
    Family{"bamba", read_bamba},
    Family{"falcon_h1", read_falcon_h1},
    Family{"nemotron_h", read_nemotron_h},
    Family{"granitemoehybrid", read_granitemoehybrid},
    Family{"lfm2", read_lfm2},
    Family{"lfm2_moe", read_lfm2_moe},
    Family{"minimax", read_minimax},
    Family{"step3p5", read_step3p5},
    Family{"ernie4_5_vl_moe_text", read_ernie4_5_vl},
    Family{"molmo2_text", read_molmo2},
    Family{"muse_glimmer_text", read_muse_glimmer},
    Family{"muse_spark_text", read_muse_spark},
    Family{"deepseek_ocr2_text", read_deepseek_ocr2},
    Family{"unlimited_ocr_text", read_unlimited_ocr},
    Family{"glm5_next_text", read_glm5_next},
    Family{"mistral_large4_text", read_mistral_large4},
    Family{"dots3_note_text", read_dots3_note},
};

/// The same layers under another name.
struct Alias {
  std::string_view name;
  std::string_view family;
};
constexpr std::array aliases{
    Alias{"kimi_k2", "deepseek_v3"},
    Alias{"qwen2_5_vl_text", "qwen2_vl_text"},
    Alias{"qwen2_5_omni_text", "qwen2_vl_text"},
    Alias{"qwen3_omni_moe_text", "qwen3_moe"},
    Alias{"granite4_vision_text", "granite"},
    Alias{"paddleocr_vl_text", "ernie4_5"},
    Alias{"gpt-sw3", "gpt2"},
    Alias{"step3p7", "step3p5"},
};

struct Unsaid {
  std::string_view model_type;
  std::string_view what;
};
constexpr std::string_view shares_blocks =
    "blocks that stand apart share their weights, and read the words once more";
constexpr std::string_view sees_marked =
    "tokens see a window, and those that the input marks see all";
constexpr std::string_view sees_random =
    "tokens see a window, some tokens that all see, and blocks drawn by chance";
constexpr std::array unsaid{
    Unsaid{"zamba", shares_blocks},
    Unsaid{"zamba2", shares_blocks},
    Unsaid{"hrm_text", "blocks run several times, one stack within the other"},
    Unsaid{"albert", "all its blocks are one and the same, run several times"},
    Unsaid{"mllama_text_model", "some blocks attend to what images were encoded to"},
    Unsaid{"whisper",
           "its encoder reads always as many frames of sound, however few words its "
           "decoder writes"},
    Unsaid{"longformer", sees_marked},
    Unsaid{"led", sees_marked},
    Unsaid{"big_bird", sees_random},
    Unsaid{"bigbird_pegasus", sees_random},
    Unsaid{"reformer", "hashes of keys choose what a token sees"},
    Unsaid{"fnet", "Fourier transforms stand in the place of attention"},
    Unsaid{"inkling2_text", "each half of a block reads a weighed sum of what earlier ones left"},
    Unsaid{"diffusion_gemma_text",
           "its encoder and decoder are the same blocks, and the decoder "
           "refines its words in many passes"},
    Unsaid{"blt", "its words are patches of bytes, as long as the text has them"},
};

}  // namespace

std::string_view why_not_described(std::string_view model_type) {
  for (const Unsaid& row : unsaid) {
    if (row.model_type == model_type) return row.what;
  }
  return "";
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const DecoderRow& row : decoder_rows()) names.emplace_back(row.model_type);
  for (const Family& family : families) names.emplace_back(family.model_type);
  return names;
}

std::string family_called(const std::string& model_type) {
  // What has its language part in a file of its own: "llama4" is "llama4_text" there.
  const std::string part = model_type + "_text";
  for (const Alias& alias : aliases) {
    if (alias.name == model_type || alias.name == part) return std::string(alias.family);
  }
  for (const std::string& name : family_names()) {
    if (name == part) return name;
  }
  return model_type;
}

bool names_modules_its_own_way(std::string_view family) {
  constexpr std::array own_names{"gpt_neox",
                                 "gptj",
                                 "falcon",
                                 "phi",
                                 "mamba",
                                 "mamba2",
                                 "falcon_mamba",
                                 "bamba",
                                 "falcon_h1",
                                 "nemotron_h",
                                 "lfm2",
                                 "lfm2_moe",
                                 "opt",
                                 "persimmon",
                                 "nanochat",
                                 "codegen",
                                 "gpt_neox_japanese",
                                 "gpt_neo",
                                 "mpt",
                                 "xglm",
                                 "biogpt",
                                 "openai-gpt",
                                 "ctrl",
                                 "bart",
                                 "mbart",
                                 "plbart",
                                 "mvp",
                                 "blenderbot",
                                 "blenderbot-small",
                                 "marian",
                                 "pegasus",
                                 "m2m_100",
                                 "distilbert",
                                 "mpnet"};
  return std::find(own_names.begin(), own_names.end(), family) != own_names.end();
}

Blueprint read_family(const std::string& family, Keys& keys) {
  for (const DecoderRow& row : decoder_rows()) {
    if (row.model_type == family) return read_decoder(row, keys);
  }
  for (const Family& row : families) {
    if (row.model_type == family) return row.read(keys);
  }
  keys.fail("model_type", "no reader for \"" + family + "\"");
}

}  // namespace stagecraft
