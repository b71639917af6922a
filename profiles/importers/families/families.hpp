// Families of models in config.json: one row each. To add one, write what it is made of (a row of
// `decoder_rows` or a function of its own) and add its name.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/importers/families/blueprint.hpp"

namespace stagecraft {

/// A family whose blocks no row of `decoder_rows` describes.
struct Family {
  std::string_view model_type;
  Blueprint (*read)(Keys& keys);
};

Blueprint read_gpt2(Keys& keys);
Blueprint read_gpt_bigcode(Keys& keys);
Blueprint read_openai_gpt(Keys& keys);
Blueprint read_ctrl(Keys& keys);
Blueprint read_gptj(Keys& keys);
Blueprint read_gpt_neox(Keys& keys);
Blueprint read_bloom(Keys& keys);
Blueprint read_falcon(Keys& keys);
Blueprint read_opt(Keys& keys);
Blueprint read_mpt(Keys& keys);
Blueprint read_gpt_neo(Keys& keys);
Blueprint read_xglm(Keys& keys);
Blueprint read_biogpt(Keys& keys);
Blueprint read_gpt_neox_japanese(Keys& keys);
Blueprint read_phi(Keys& keys);
Blueprint read_stablelm(Keys& keys);
Blueprint read_bert(Keys& keys);
Blueprint read_roberta(Keys& keys);
Blueprint read_xlm_roberta(Keys& keys);
Blueprint read_roberta_prelayernorm(Keys& keys);
Blueprint read_xlm_roberta_xl(Keys& keys);
Blueprint read_megatron_bert(Keys& keys);
Blueprint read_ernie(Keys& keys);
Blueprint read_electra(Keys& keys);
Blueprint read_deberta(Keys& keys);
Blueprint read_deberta_v2(Keys& keys);
Blueprint read_esm(Keys& keys);
Blueprint read_roformer(Keys& keys);
Blueprint read_rembert(Keys& keys);
Blueprint read_layoutlm(Keys& keys);
Blueprint read_distilbert(Keys& keys);
Blueprint read_mpnet(Keys& keys);
Blueprint read_nomic_bert(Keys& keys);
Blueprint read_gte(Keys& keys);
Blueprint read_jina_embeddings_v3(Keys& keys);
Blueprint read_eurobert(Keys& keys);
Blueprint read_modernbert(Keys& keys);
Blueprint read_modernbert_decoder(Keys& keys);
Blueprint read_vit(Keys& keys);
Blueprint read_t5(Keys& keys);
Blueprint read_mt5(Keys& keys);
Blueprint read_umt5(Keys& keys);
Blueprint read_bart(Keys& keys);
Blueprint read_mbart(Keys& keys);
Blueprint read_plbart(Keys& keys);
Blueprint read_mvp(Keys& keys);
Blueprint read_blenderbot(Keys& keys);
Blueprint read_blenderbot_small(Keys& keys);
Blueprint read_marian(Keys& keys);
Blueprint read_pegasus(Keys& keys);
Blueprint read_m2m_100(Keys& keys);
Blueprint read_switch_transformers(Keys& keys);
Blueprint read_t5gemma(Keys& keys);
Blueprint read_inkling(Keys& keys);
Blueprint read_doge(Keys& keys);
Blueprint read_jetmoe(Keys& keys);
Blueprint read_voxtral_realtime(Keys& keys);
Blueprint read_deepseek_v2(Keys& keys);
Blueprint read_deepseek_v3(Keys& keys);
Blueprint read_deepseek_v32(Keys& keys);
Blueprint read_deepseek_v4(Keys& keys);
Blueprint read_mistral4(Keys& keys);
Blueprint read_axk1(Keys& keys);
Blueprint read_axk2(Keys& keys);
Blueprint read_hy_v4(Keys& keys);
Blueprint read_youtu(Keys& keys);
Blueprint read_minicpm3(Keys& keys);
Blueprint read_glm4_moe_lite(Keys& keys);
Blueprint read_glm_moe_dsa(Keys& keys);
Blueprint read_longcat_flash(Keys& keys);
Blueprint read_kimi_linear(Keys& keys);
Blueprint read_llama4(Keys& keys);
Blueprint read_mimo_v2_flash(Keys& keys);
Blueprint read_cohere2_moe(Keys& keys);
Blueprint read_laguna(Keys& keys);
Blueprint read_gemma3n(Keys& keys);
Blueprint read_gemma4(Keys& keys);
Blueprint read_gemma4_unified(Keys& keys);
Blueprint read_qwen3_next(Keys& keys);
Blueprint read_qwen3_5(Keys& keys);
Blueprint read_qwen3_5_moe(Keys& keys);
Blueprint read_bailing_hybrid(Keys& keys);
Blueprint read_jamba(Keys& keys);
Blueprint read_olmo_hybrid(Keys& keys);
Blueprint read_recurrent_gemma(Keys& keys);
Blueprint read_lfm3(Keys& keys);
Blueprint read_minimax_m3(Keys& keys);
Blueprint read_dbrx(Keys& keys);
Blueprint read_qwen4_exp(Keys& keys);
Blueprint read_zaya(Keys& keys);
Blueprint read_beam(Keys& keys);
Blueprint read_mamba(Keys& keys);
Blueprint read_falcon_mamba(Keys& keys);
Blueprint read_mamba2(Keys& keys);
Blueprint read_bamba(Keys& keys);
Blueprint read_falcon_h1(Keys& keys);
Blueprint read_nemotron_h(Keys& keys);
Blueprint read_granitemoehybrid(Keys& keys);
Blueprint read_lfm2(Keys& keys);
Blueprint read_lfm2_moe(Keys& keys);
Blueprint read_minimax(Keys& keys);
Blueprint read_step3p5(Keys& keys);
Blueprint read_ernie4_5_vl(Keys& keys);
Blueprint read_molmo2(Keys& keys);
Blueprint read_muse_glimmer(Keys& keys);
Blueprint read_muse_spark(Keys& keys);
Blueprint read_deepseek_ocr2(Keys& keys);
Blueprint read_unlimited_ocr(Keys& keys);
Blueprint read_glm5_next(Keys& keys);
Blueprint read_mistral_large4(Keys& keys);
Blueprint read_dots3_note(Keys& keys);

/// "q_lora_rank" of latent attention; 0: it is null, and queries have no latent. Throws Error
/// (input) for a 0 in the file, of which the library would build projections without rows.
std::int64_t read_query_rank(Keys& keys, std::int64_t otherwise);

/// Which blocks choose keys for themselves ("full") and which take an earlier one's choice
/// ("shared"): by "indexer_types", "index_topk_pattern", or "index_topk_freq".
std::vector<std::string> indexers_of_blocks(Keys& keys, int blocks);

/// Of "model_type", as they stand in files.
std::vector<std::string> family_names();
/// Other names of families, as larger models call their language parts: "qwen2_5_vl_text" is
/// "qwen2_vl_text".
std::string family_called(const std::string& model_type);
/// Why steps cannot describe a family's layers; "" for any other name.
std::string_view why_not_described(std::string_view model_type);
/// Whose modules in the library are called neither as Llama's nor as GPT-2's, so that nothing that
/// is written for its modules by name would fit.
bool names_modules_its_own_way(std::string_view family);
/// Throws Error (input) as `Keys` do; `family` is one of `family_names`.
Blueprint read_family(const std::string& family, Keys& keys);

}  // namespace stagecraft
