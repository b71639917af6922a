#include "tests/profiles/importers/counted_families.hpp"

namespace stagecraft::tests {

namespace {

std::string taking_turns(int layers) {
  std::string words;
  for (int layer = 0; layer < layers; layer += 2)
    words += std::string(layer > 0 ? ", " : "") + R"("conv", "full_attention")";
  return "\"layer_types\": [" + words + "]";
}

}  // namespace

const std::vector<Counted>& counted_families() {
  static const std::vector<Counted> rows{
      {"llama", 6'738'415'616, "", 15'792,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 8, "attention_bias": true, )"
       R"("mlp_bias": true)"},
      {"mistral", 7'241'732'096, "", 105'952,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 24, "sliding_window": 16)"},
      {"qwen2", 12'049'846'272, "", 79'264,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "use_sliding_window": true, )"
       R"("sliding_window": 16, "max_window_layers": 1)"},
      {"gpt2", 124'439'808, "", 102'704,
       R"("vocab_size": 130, "n_embd": 64, "n_layer": 3, "n_head": 8, )"
       R"("n_positions": 64, "n_inner": 80, "tie_word_embeddings": false)"},
      {"mixtral", 46'702'792'704, "", 70'048,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "num_local_experts": 8, )"
       R"("num_experts_per_tok": 1, "head_dim": 8)"},
      {"deepseek_v2", 38'612'307'968, "", 72'208,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "kv_lora_rank": 16, "qk_rope_head_dim": 8, )"
       R"("qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 8, )"
       R"("n_shared_experts": 2, "n_group": 1, "topk_group": 1, )"
       R"("first_k_dense_replace": 1, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 24, "q_lora_rank": null, "attention_bias": false, )"
       R"("mlp_bias": false)"},
      {"deepseek_v3", 671'026'404'352, "", 204'296,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 8, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "kv_lora_rank": 24, "qk_rope_head_dim": 8, )"
       R"("qk_nope_head_dim": 8, "v_head_dim": 8, "n_routed_experts": 4, )"
       R"("n_shared_experts": 1, "n_group": 1, "topk_group": 1, )"
       R"("first_k_dense_replace": 1, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 40, "q_lora_rank": null, "attention_bias": false)"},
      {"qwen3", 12'049'461'248, "", 68'576,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 8, "attention_bias": true)"},
      {"qwen3_moe", 15'350'731'776, "", 150'464,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 24, "decoder_sparse_step": 1, )"
       R"("mlp_only_layers": [0], "head_dim": 16, "num_local_experts": 4, )"
       R"("attention_bias": false)"},
      {"qwen3_next", 79'674'391'296, "", 151'632,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 40, "linear_num_key_heads": 4, )"
       R"("linear_num_value_heads": 8, "linear_key_head_dim": 8, )"
       R"("linear_value_head_dim": 16, "linear_conv_kernel_dim": 2, "head_dim": 8, )"
       R"("num_experts": 4, "decoder_sparse_step": 2, "mlp_only_layers": [], )"
       R"("shared_expert_intermediate_size": 24, "layer_types": ["linear_attention", )"
       R"("full_attention", "full_attention", "full_attention", "full_attention", )"
       R"("linear_attention", "full_attention"], "attention_bias": false)"},
      {"qwen3_5_text", 8'953'803'264, "", 210'904,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "attention_bias": true, )"
       R"("linear_num_key_heads": 2, "linear_num_value_heads": 4, )"
       R"("linear_key_head_dim": 16, "linear_value_head_dim": 16, )"
       R"("linear_conv_kernel_dim": 4, "head_dim": 24, )"
       R"("layer_types": ["linear_attention", "linear_attention", "linear_attention", )"
       R"("linear_attention", "full_attention", "linear_attention", "full_attention"])"},
      {"qwen3_5_moe_text", 34'660'610'688, "", 66'112,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 24, )"
       R"("linear_num_key_heads": 4, "linear_num_value_heads": 4, )"
       R"("linear_key_head_dim": 16, "linear_value_head_dim": 16, )"
       R"("linear_conv_kernel_dim": 4, "head_dim": 8, "num_experts": 4, )"
       R"("shared_expert_intermediate_size": 24, "layer_types": ["linear_attention", )"
       R"("full_attention", "linear_attention"], "attention_bias": false)"},
      {"qwen2_moe", 14'315'784'192, "", 221'440,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 24, "num_experts": 4, "decoder_sparse_step": 2, )"
       R"("mlp_only_layers": [], "shared_expert_intermediate_size": 56, )"
       R"("qkv_bias": false)"},
      {"gemma", 8'537'680'896, "", 58'560,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 24, "attention_bias": false)"},
      {"gemma2", 2'614'341'888, "", 49'984,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 8, "attention_bias": true, )"
       R"("layer_types": ["sliding_attention", "full_attention"], "sliding_window": 8)"},
      {"gemma3_text", 2'628'658'432, "", 169'216,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, "attention_bias": true, )"
       R"("layer_types": ["full_attention", "sliding_attention", "sliding_attention", )"
       R"("full_attention", "full_attention", "sliding_attention"], )"
       R"("sliding_window": 8)"},
      {"gemma3n_text", 6'835'235'568, "", 225'056,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 10, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": [48, 48, 48, 48, 48, 48, 48, 48, 48, 48], )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("head_dim": 8, "vocab_size_per_layer_input": 90, )"
       R"("hidden_size_per_layer_input": 8, "altup_num_inputs": 4, )"
       R"("num_kv_shared_layers": 1, "laurel_rank": 8, "sliding_window": 8, )"
       R"("attention_bias": false)"},
      {"gemma4_text", 5'077'177'856, "", 155'232,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 16, "attention_bias": true, )"
       R"("vocab_size_per_layer_input": 90, "hidden_size_per_layer_input": 8, )"
       R"("attention_k_eq_v": true, "num_kv_shared_layers": 0, )"
       R"("enable_moe_block": true, "num_experts": 4, "top_k_experts": 2, )"
       R"("moe_intermediate_size": 24, "sliding_window": 8, )"
       R"("per_layer_config": {"5": {"num_key_value_heads": 2}}, )"
       R"("use_double_wide_mlp": false)"},
      {"phi", 1'418'270'720, "", 50'240,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "qk_layernorm": false)"},
      {"phi3", 3'821'079'552, "", 171'072,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "pad_token_id": 0)"},
      {"phimoe", 41'872'793'600, "", 101'824,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "attention_bias": true, )"
       R"("num_local_experts": 4, "num_experts_per_tok": 2, "lm_head_bias": false)"},
      {"olmo", 6'888'095'744, "", 81'152,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": false)"},
      {"olmo2", 6'888'624'128, "", 75'284,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "attention_bias": true)"},
      {"olmo3", 6'888'624'128, "", 15'624,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "layer_types": ["sliding_attention"], )"
       R"("sliding_window": 8, "attention_bias": false)"},
      {"olmoe", 13'361'612'800, "", 146'496,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "attention_bias": true, "num_experts": 8, )"
       R"("num_experts_per_tok": 2)"},
      {"glm", 9'399'951'360, "", 30'016,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 8, "pad_token_id": 0, )"
       R"("attention_bias": false)"},
      {"glm4", 9'400'279'040, "", 90'016,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 24, "pad_token_id": 0, )"
       R"("attention_bias": false)"},
      {"glm4_moe", 103'481'200'640, "", 57'408,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 40, "head_dim": 16, "n_routed_experts": 4, )"
       R"("n_shared_experts": 1, "first_k_dense_replace": 0, "attention_bias": false, )"
       R"("use_qk_norm": false)"},
      {"glm4_moe_lite", 29'943'390'976, "", 122'800,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "q_lora_rank": 24, "kv_lora_rank": 24, )"
       R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 8, )"
       R"("n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, )"
       R"("topk_group": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 24, )"
       R"("mlp_layer_types": ["sparse", "dense", "dense", "sparse", "dense", "dense", )"
       R"("dense"], "attention_bias": false)"},
      {"glm_moe_dsa", 743'911'199'232, "", 86'552,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "q_lora_rank": 24, "kv_lora_rank": 16, )"
       R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8, )"
       R"("n_routed_experts": 4, "n_shared_experts": 2, "n_group": 1, )"
       R"("topk_group": 1, "first_k_dense_replace": 2, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 40, "index_n_heads": 4, "index_head_dim": 16, )"
       R"("index_topk": 8, "mlp_bias": true, "mlp_layer_types": ["dense", "dense", )"
       R"("dense"], "attention_bias": false)"},
      {"gpt_oss", 116'829'156'672, "", 573'064,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 24, "num_local_experts": 4, )"
       R"("num_experts_per_tok": 2, "layer_types": ["sliding_attention", )"
       R"("sliding_attention", "sliding_attention", "full_attention", )"
       R"("sliding_attention", "full_attention"], "sliding_window": 8, )"
       R"("attention_bias": false)"},
      {"deepseek_v32", 671'877'929'216, "", 261'120,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 8, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "q_lora_rank": 24, "kv_lora_rank": 24, )"
       R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, )"
       R"("n_routed_experts": 8, "n_shared_experts": 2, "n_group": 1, )"
       R"("topk_group": 1, "first_k_dense_replace": 0, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 40, "index_n_heads": 4, "index_head_dim": 16, )"
       R"("index_topk": 8, "mlp_layer_types": ["dense", "sparse", "sparse", "dense", )"
       R"("dense", "sparse"], "attention_bias": false)"},
      {"deepseek_v4", 284'325'869'015, "", 102'793,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 40, "head_dim": 32, "q_lora_rank": 24, )"
       R"("n_routed_experts": 8, "n_shared_experts": 1, "o_groups": 4, )"
       R"("o_lora_rank": 8, "index_n_heads": 4, "index_head_dim": 16, )"
       R"("index_topk": 8, "hc_mult": 4, "sliding_window": 8, )"
       R"("layer_types": ["sliding_attention", "sliding_attention"], )"
       R"("mlp_layer_types": ["hash_moe", "hash_moe"])"},
      {"granite", 6'738'415'616, "", 35'344,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "attention_bias": true, "mlp_bias": false)"},
      {"granitemoe", 37'039'116'288, "", 225'904,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": true, )"
       R"("num_local_experts": 4, "num_experts_per_tok": 1)"},
      {"granitemoeshared", 37'039'116'288, "", 537'536,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "num_local_experts": 8, )"
       R"("num_experts_per_tok": 1, "shared_intermediate_size": 24, )"
       R"("attention_bias": false)"},
      {"granitemoehybrid", 38'601'064'448, "", 19'680,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "attention_bias": true, "mamba_n_heads": 8, )"
       R"("mamba_n_groups": 1, "mamba_d_state": 8, "mamba_d_conv": 4, )"
       R"("mamba_expand": 2, "mamba_conv_bias": true, "mamba_proj_bias": true, )"
       R"("num_local_experts": 0, "num_experts_per_tok": 2, )"
       R"("shared_intermediate_size": 24, "layer_types": ["linear_attention", )"
       R"("full_attention"])"},
      {"smollm3", 3'075'098'624, "", 47'264,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "mlp_bias": true, "pad_token_id": 0, )"
       R"("attention_bias": false)"},
      {"starcoder2", 3'030'371'328, "", 42'912,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "use_bias": true)"},
      {"falcon", 6'921'720'704, "", 44'320,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "num_kv_heads": 1, "parallel_attn": true, )"
       R"("bias": true, "alibi": true, "num_ln_in_parallel_attn": 2, )"
       R"("ffn_hidden_size": 128, "tie_word_embeddings": false, )"
       R"("new_decoder_architecture": false, "multi_query": false)"},
      {"gpt_neox", 20'554'567'680, "", 58'208,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": false, "use_parallel_residual": false)"},
      {"bloom", 16'156'544, "", 56'384,
       R"("vocab_size": 96, "hidden_size": 64, "n_layer": 1, "n_head": 4, )"
       R"("tie_word_embeddings": true)"},
      {"opt", 125'239'296, "", 23'008,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "ffn_dim": 48, "word_embed_proj_dim": 16, )"
       R"("do_layer_norm_before": true, "enable_bias": true, )"
       R"("_remove_final_layer_norm": true, "layer_norm_elementwise_affine": false)"},
      {"llama4_text", 107'769'861'120, "", 65'056,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, "num_local_experts": 4, )"
       R"("num_experts_per_tok": 1, "interleave_moe_layer_step": 1, )"
       R"("intermediate_size_mlp": 48, "attention_chunk_size": 16, "pad_token_id": 0, )"
       R"("attention_bias": false)"},
      {"ministral", 7'241'732'096, R"("head_dim": 128)", 42'432,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, )"
       R"("layer_types": ["full_attention"], "sliding_window": 8)"},
      {"ministral3", 8'489'553'920, "", 254'144,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 24)"},
      {"cohere", 34'980'831'232, "", 53'984,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": true, "use_qk_norm": false)"},
      {"cohere2", 34'980'831'232, "", 10'304,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "layer_types": ["sliding_attention"], )"
       R"("sliding_window": 8, "attention_bias": false)"},
      {"nemotron", 17'642'041'344, R"("num_key_value_heads": 48)", 153'472,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, "attention_bias": false, )"
       R"("mlp_bias": false)"},
      {"nemotron_h", 1'968'355'712, "", 52'928,
       R"("vocab_size": 96, "hidden_size": 64, "num_attention_heads": 4, )"
       R"("num_key_value_heads": 1, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("head_dim": 8, "mamba_num_heads": 8, "mamba_head_dim": 8, )"
       R"("ssm_state_size": 8, "n_groups": 1, "conv_kernel": 4, )"
       R"("use_conv_bias": true, "use_bias": true, "n_routed_experts": 4, )"
       R"("n_shared_experts": 2, "moe_intermediate_size": 24, )"
       R"("moe_shared_expert_intermediate_size": 24, "num_experts_per_tok": 2, )"
       R"("layers_block_type": ["linear_attention", "mlp", "moe"], )"
       R"("moe_latent_size": null, "mlp_bias": false, "attention_bias": false, )"
       R"("mamba_proj_bias": false)"},
      {"falcon_h1", 8'514'961'408, "", 76'600,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": true, "mamba_n_heads": 8, )"
       R"("mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_conv": 2, )"
       R"("mamba_expand": 2, "projectors_bias": true, "mlp_bias": true, )"
       R"("mamba_d_ssm": null, "mamba_conv_bias": false, "mamba_proj_bias": false, )"
       R"("mamba_rms_norm": false)"},
      {"mamba", 159'308'544, "", 26'832,
       R"("vocab_size": 96, "hidden_size": 48, "num_hidden_layers": 1, )"
       R"("state_size": 8, "expand": 2, "conv_kernel": 2, "use_bias": true, )"
       R"("time_step_rank": 4, "tie_word_embeddings": false, "use_conv_bias": false)"},
      {"mamba2", 7'285'403'648, "", 29'384,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("state_size": 8, "num_heads": 8, "head_dim": 8, "expand": 2, "n_groups": 2, )"
       R"("conv_kernel": 2, "tie_word_embeddings": false, "use_bias": false, )"
       R"("use_conv_bias": false)"},
      {"bamba", 9'992'765'440, "", 82'352,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": true, "mamba_n_heads": 8, )"
       R"("mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_conv": 4, )"
       R"("mamba_expand": 2, "mlp_bias": true, "attn_layer_indices": [], )"
       R"("mamba_conv_bias": false, "mamba_proj_bias": false)"},
      {"ernie4_5", 360'748'032, "", 91'920,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 8, "use_bias": true)"},
      {"ernie4_5_moe", 21'825'437'888, "", 66'760,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "moe_intermediate_size": 24, "moe_k": 1, )"
       R"("moe_num_experts": 8, "moe_num_shared_experts": 1, )"
       R"("moe_layer_start_index": 0, "moe_layer_interval": 1, "use_bias": false)"},
      {"seed_oss", 28'921'040'896, "", 16'992,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 8, "attention_bias": false, )"
       R"("attention_out_bias": false, "mlp_bias": false)"},
      {"hunyuan_v1_dense", 8'859'684'864, R"("head_dim": 128)", 13'488,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 8, "attention_bias": false)"},
      {"hunyuan_v1_moe", 13'188'337'664, R"("head_dim": 128)", 79'456,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 16, "num_experts": 4, )"
       R"("moe_topk": 1, "attention_bias": false)"},
      {"t5", 60'506'624, "", 75'648,
       R"("vocab_size": 96, "d_model": 64, "d_kv": 8, "d_ff": 48, "num_layers": 1, )"
       R"("num_decoder_layers": 2, "num_heads": 4, )"
       R"("relative_attention_num_buckets": 32, "feed_forward_proj": "gated-gelu")"},
      {"bert", 109'514'298, "", 75'810,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3)"},
      {"vit", 85'800'194, "", 30'770,
       R"("hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, )"
       R"("intermediate_size": 48, "image_size": 32, "patch_size": 16, )"
       R"("num_channels": 1, "qkv_bias": false)"},
      {"minimax_m2", 228'689'748'992, "", 574'368,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 24, "num_local_experts": 8, )"
       R"("num_experts_per_tok": 2)"},
      {"minimax", 47'373'946'880, "", 273'824,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, "num_local_experts": 4, )"
       R"("num_experts_per_tok": 2, "layer_types": ["linear_attention", )"
       R"("full_attention", "full_attention", "full_attention", "linear_attention", )"
       R"("full_attention"])"},
      {"kimi_linear", 49'133'074'464, "", 189'332,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "tie_word_embeddings": true, "q_lora_rank": 24, )"
       R"("kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": 16, "topk_group": 1, "moe_intermediate_size": 40, )"
       R"("linear_head_dim": 8, "linear_num_heads": 2, "linear_conv_kernel_dim": 4, )"
       R"("layer_types": ["full_attention", "full_attention", "full_attention", )"
       R"("linear_attention", "linear_attention", "full_attention"], )"
       R"("mlp_layer_types": ["sparse", "dense", "dense", "dense", "dense", )"
       R"("sparse"], "num_experts": 4, "num_shared_experts": 1, )"
       R"("num_experts_per_token": 1, "attention_bias": false)"},
      {"mimo_v2_flash", 308'778'768'832, "", 59'192,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 40, "head_dim": 16, )"
       R"("v_head_dim": 8, "n_routed_experts": 8, )"
       R"("layer_types": ["sliding_attention", "full_attention"], )"
       R"("sliding_window": 8, "mlp_layer_types": ["dense", "sparse"])"},
      {"longcat_flash", 741'053'585'408, "", 162'080,
       R"("vocab_size": 130, "hidden_size": 64, "num_attention_heads": 4, )"
       R"("num_key_value_heads": 4, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "q_lora_rank": 24, "kv_lora_rank": 16, )"
       R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 16, )"
       R"("n_routed_experts": 8, "attention_bias": true, "num_layers": 2, )"
       R"("ffn_hidden_size": 48, "moe_topk": 2, "zero_expert_num": 0, )"
       R"("expert_ffn_hidden_size": 24)"},
      {"hy_v3", 295'033'528'320, "", 163'360,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 16, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 24, "num_experts": 8, "num_shared_experts": 1, )"
       R"("mlp_layer_types": ["sparse", "sparse", "sparse"], "attention_bias": false, )"
       R"("mlp_bias": false)"},
      {"exaone4", 9'429'069'824, "", 17'136,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "layer_types": ["sliding_attention"], )"
       R"("sliding_window": 8)"},
      {"exaone_moe", 28'550'639'616, "", 93'080,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 24, "layer_types": ["sliding_attention", )"
       R"("sliding_attention", "full_attention", "full_attention", "full_attention", )"
       R"("sliding_attention", "sliding_attention"], "sliding_window": 8, )"
       R"("num_experts": 4, "num_shared_experts": 2, "mlp_layer_types": ["dense", )"
       R"("dense", "sparse", "dense", "dense", "sparse", "dense"])"},
      {"lfm2", 2'705'497'600, "", 170'336,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "conv_bias": true, "conv_L_cache": 2, )"
       R"("block_multiple_of": 16, "block_auto_adjust_ff_dim": true, )"
       R"("block_ffn_dim_multiplier": 1.0, "layer_types": ["full_attention", )"
       R"("full_attention", "conv", "conv", "full_attention", "conv"])"},
      {"lfm2_moe", 11'230'351'360, taking_turns(32), 129'872,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 40, "conv_bias": true, "conv_L_cache": 2, )"
       R"("num_experts": 4, "num_dense_layers": 1, "layer_types": ["full_attention", )"
       R"("conv", "conv"])"},
      {"solar_open", 102'651'793'408, "", 38'144,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 1, "moe_intermediate_size": 40, "head_dim": 24, )"
       R"("attention_bias": true, "n_routed_experts": 4, "n_shared_experts": 1)"},
      {"afmoe", 19'232'600'000, "", 343'116,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 40, "head_dim": 8, "attention_bias": true, )"
       R"("num_experts": 4, "num_shared_experts": 1, "num_dense_layers": 0, )"
       R"("layer_types": ["full_attention", "sliding_attention", "full_attention", )"
       R"("full_attention", "sliding_attention", "full_attention", "full_attention"], )"
       R"("sliding_window": 8)"},
      {"apertus", 6'979'596'352, "", 39'394,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "attention_bias": true)"},
      {"arcee", 4'022'766'080, "", 30'272,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 24, "attention_bias": true, )"
       R"("mlp_bias": false)"},
      {"stablelm", 2'795'443'200, "", 64'480,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "use_qkv_bias": true, "qk_layernorm": true, )"
       R"("use_parallel_residual": false)"},
      {"gptj", 6'050'882'784, "", 36'690,
       R"("vocab_size": 130, "n_embd": 32, "n_layer": 3, "n_head": 8, )"
       R"("n_positions": 64, "n_inner": 80, "tie_word_embeddings": false, )"
       R"("rotary_dim": 4)"},
      {"gpt_bigcode", 111'446'784, "", 66'496,
       R"("vocab_size": 96, "n_embd": 64, "n_layer": 1, "n_head": 4, )"
       R"("n_positions": 64, "tie_word_embeddings": false, "multi_query": false)"},
      {"internlm3", 8'804'241'408, "", 24'288,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": null, "qkv_bias": true, "bias": true)"},
      {"qwen2_vl_text", 72'706'203'648, "", 23'968,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false)"},
      {"glm4v_text", 9'400'279'040, "", 30'240,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false)"},
      {"glm_ocr_text", 373'359'616, "", 30'112,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false)"},
      {"qwen3_vl_text", 12'049'461'248, "", 26'208,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "head_dim": 16, "attention_bias": true)"},
      {"qwen3_vl_moe_text", 13'173'956'608, "", 35'104,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, "attention_bias": true, )"
       R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24, )"
       R"("mlp_only_layers": [0], "decoder_sparse_step": 1)"},
      {"glm4v_moe_text", 103'480'368'448, "", 57'696,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, )"
       R"("intermediate_size": 48, "moe_intermediate_size": 24, )"
       R"("n_routed_experts": 4, "n_shared_experts": 2, "num_experts_per_tok": 2, )"
       R"("first_k_dense_replace": 1, "attention_bias": true, )"
       R"("tie_word_embeddings": false, "head_dim": 16)"},
      {"iquestcoder", 39'794'283'520, "", 28'416,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 8, "attention_bias": true, "mlp_bias": true)"},
      {"cwm", 32'581'097'472, "", 68'352,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 16, "sliding_window": 8, "mlp_bias": true, "layer_types": )"
       R"(["sliding_attention", "full_attention"])"},
      {"granite_swa", 2'144'463'840, "", 17'216,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "sliding_window": 8, "mlp_bias": false, )"
       R"("layer_types": ["sliding_attention", "sliding_attention"])"},
      {"granitemoe_swa", 37'039'117'312, "", 189'136,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "sliding_window": 8, "num_local_experts": 8, )"
       R"("num_experts_per_tok": 2, "shared_intermediate_size": 24, "layer_types": )"
       R"(["full_attention", "full_attention"])"},
      {"nanochat", 256'573'440, "", 19'648,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true)"},
      {"vaultgemma", 2'614'222'080, "", 80'832,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 16, "attention_bias": true, "sliding_window": 8, "layer_types": )"
       R"(["full_attention", "full_attention"])"},
      {"helium", 2'172'643'840, "", 49'952,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": true, "mlp_bias": true, "head_dim": 8)"},
      {"persimmon", 9'397'175'296, "", 18'176,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("qk_layernorm": true)"},
      {"jais2", 8'090'401'280, "", 87'072,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 24, "attention_bias": true, "mlp_bias": true)"},
      {"hyperclovax", 6'738'677'760, "", 118'112,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 16, "attention_bias": true, "mlp_bias": true, "use_post_norm": )"
       R"(true)"},
      {"dots1", 163'585'920'960,
       R"("n_routed_experts": 128, "n_shared_experts": 2, "num_experts_per_tok": 6)", 113'504,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 40, "attention_bias": )"
       R"(true, "sliding_window": 8, "n_routed_experts": 4, "n_shared_experts": 1, )"
       R"("n_group": 1, "topk_group": 1, "first_k_dense_replace": 2, "layer_types": )"
       R"(["full_attention", "sliding_attention", "sliding_attention"])"},
      {"flex_olmo", 33'270'665'216, "", 286'784,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "num_experts": 8, "num_experts_per_tok": 2)"},
      {"mellum", 12'149'923'072, "", 77'024,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 24, )"
       R"("attention_bias": true, "sliding_window": 8, "num_experts": 8, )"
       R"("layer_types": ["sliding_attention", "sliding_attention"], )"
       R"("mlp_layer_types": ["dense", "dense"])"},
      {"kolibri1", 78'103'055'360, "", 55'392,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 40, "head_dim": 16, )"
       R"("sliding_window": 8, "num_experts": 4, "shared_expert_intermediate_size": )"
       R"(24, "layer_types": ["full_attention", "sliding_attention"])"},
      {"flint", 39'785'287'456, "", 45'896,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 24, "head_dim": 24, )"
       R"("attention_bias": true, "sliding_window": 8, "num_experts": 4, )"
       R"("decoder_sparse_step": 2, "mlp_only_layers": [0], )"
       R"("shared_expert_intermediate_size": 24, "layer_types": ["full_attention", )"
       R"("full_attention"])"},
      {"aria_text", 18'517'069'824, "", 156'064,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 8, "attention_bias": true, "mlp_bias": true, "moe_num_experts": )"
       R"(8, "moe_topk": 2, "moe_num_shared_experts": 1)"},
      {"cohere2_moe", 190'004'928'512, "", 137'536,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 8, "attention_bias": true, "sliding_window": 8, "num_experts": )"
       R"(4, "num_experts_per_tok": 1, "num_shared_experts": 2, )"
       R"("prefix_dense_intermediate_size": 72, "rms_norm_eps": 1e-05, "layer_types": )"
       R"(["full_attention", "full_attention"], "mlp_layer_types": ["dense", )"
       R"("sparse"])"},
      {"laguna", 33'189'975'808, "", 48'328,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 1, "moe_intermediate_size": 40, "head_dim": 8, )"
       R"("attention_bias": true, "sliding_window": 8, "num_experts": 4, )"
       R"("shared_expert_intermediate_size": 24, "gating": "per-element", )"
       R"("layer_types": ["sliding_attention", "sliding_attention"], )"
       R"("num_attention_heads_per_layer": [4, 4], "mlp_layer_types": ["sparse", )"
       R"("sparse"])"},
      {"gemma4_unified_text", 3'010'758'400, "", 96'944,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 16, "attention_bias": true, "attention_k_eq_v": true, )"
       R"("num_global_key_value_heads": 1, "global_head_dim": 16, )"
       R"("num_kv_shared_layers": 0, "use_double_wide_mlp": true, "sliding_window": 8)"},
      {"axk1", 518'983'052'288, "", 60'144,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, "q_lora_rank": )"
       R"(24, "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": 16, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": )"
       R"(1, "topk_group": 1, "attention_bias": true, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 24, "mlp_layer_types": ["sparse", "sparse"], )"
       R"("num_key_value_heads": 8)"},
      {"youtu", 1'961'560'064, "", 31'152,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, "q_lora_rank": )"
       R"(24, "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": 16, "attention_bias": true, "num_key_value_heads": 4)"},
      {"minicpm3", 4'073'875'968, "", 33'232,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, "q_lora_rank": )"
       R"(24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": null, "attention_bias": true, "mlp_bias": false, )"
       R"("num_key_value_heads": 8)"},
      {"falcon_mamba", 159'308'544, "", 57'648,
       R"("vocab_size": 96, "hidden_size": 48, "num_hidden_layers": 3, "state_size": )"
       R"(8, "expand": 2, "conv_kernel": 4, "use_bias": true, "use_conv_bias": true, )"
       R"("time_step_rank": "auto", "tie_word_embeddings": true)"},
      {"axk2", 20'314'494'976, "", 90'800,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, )"
       R"("qk_nope_head_dim": 16, "v_head_dim": 16, "n_routed_experts": 4, )"
       R"("n_shared_experts": 2, "n_group": 1, "topk_group": 1, "attention_bias": )"
       R"(true, "num_experts_per_tok": 2, "moe_intermediate_size": 24, )"
       R"("index_n_heads": 2, "index_head_dim": 16, "index_topk": 8, )"
       R"("gated_norm_rank": 8, "mlp_layer_types": ["sparse", "dense"], )"
       R"("num_key_value_heads": 4)"},
      {"hy_v4", 58'278'193'133, "", 75'611,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, "q_lora_rank": )"
       R"(24, "kv_lora_rank": 24, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": 16, "n_routed_experts": 8, "n_shared_experts": 1, "n_group": )"
       R"(1, "topk_group": 1, "attention_bias": true, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 24, "index_n_heads": 2, "index_head_dim": 16, )"
       R"("index_topk": 8, "hc_mult": 2, "mlp_layer_types": ["dense", "sparse"], )"
       R"("indexer_types": ["full", "full"], "num_key_value_heads": 8)"},
      {"bailing_hybrid", 124'414'191'072, "", 57'600,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, )"
       R"("v_head_dim": 8, "n_shared_experts": 1, "n_group": 2, "topk_group": 1, )"
       R"("first_k_dense_replace": 2, "attention_bias": true, "num_experts_per_tok": )"
       R"(2, "moe_intermediate_size": 24, "num_local_experts": 4, "head_dim": 16, )"
       R"("short_conv_kernel_size": 2, "layer_types": ["linear_attention", )"
       R"("full_attention"], "mlp_layer_types": ["sparse", "dense"], )"
       R"("num_key_value_heads": 8)"},
      {"jamba", 51'570'323'328, "", 72'804,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts": 4, "num_experts_per_tok": 1, "expert_layer_period": 3, )"
       R"("expert_layer_offset": 1, "attn_layer_period": 4, "attn_layer_offset": 1, )"
       R"("mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_dt_rank": )"
       R"("auto", "mamba_conv_bias": true, "mamba_proj_bias": true)"},
      {"olmo_hybrid", 7'430'870'688, "", 63'904,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": false, "linear_num_key_heads": 2, )"
       R"("linear_num_value_heads": 4, "linear_key_head_dim": 8, )"
       R"("linear_value_head_dim": 16, "linear_conv_kernel_dim": 4, "layer_types": )"
       R"(["linear_attention", "full_attention"])"},
      {"recurrent_gemma", 2'010'263'040, "", 36'704,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "lru_width": 48, "conv1d_width": 4, )"
       R"("attention_window_size": 8, "block_types": ["attention"])"},
      {"lfm3", 1'728'801'536, "", 23'232,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 16, "attention_bias": true, "conv_bias": false, "conv_L_cache": )"
       R"(2, "use_sandwich_norm": true, "use_attention_gate": true, "sliding_window": )"
       R"(8, "layer_types": ["sliding_attention", "conv"])"},
      {"minimax_m3_vl_text", 447'186'441'216, "", 76'768,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, "head_dim": )"
       R"(24, "num_key_value_heads": 2, "index_n_heads": 2, "index_head_dim": 16, )"
       R"("index_block_size": 4, "num_local_experts": 4, "num_experts_per_tok": 2, )"
       R"("rotary_dim": 4, "shared_intermediate_size": 24, "dense_intermediate_size": )"
       R"(72, "layer_types": ["full_attention", "minimax_m3_sparse"], )"
       R"("mlp_layer_types": ["sparse", "dense"])"},
      {"dbrx", 2'459'207'680, R"("attn_config": {"rope_theta": 10000.0})", 199'136,
       R"("vocab_size": 96, "d_model": 32, "n_layers": 3, "n_heads": 8, )"
       R"("attn_config": {"kv_n_heads": 2, "rope_theta": 10000.0}, "ffn_config": )"
       R"({"ffn_hidden_size": 80, "moe_num_experts": 8, "moe_top_k": 1})"},
      {"roberta", 124'696'665, "", 75'746,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 2)"},
      {"xlm-roberta", 109'514'298, "", 65'344,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3)"},
      {"camembert", 109'514'298, "", 23'552,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3)"},
      {"data2vec-text", 109'514'298, "", 75'810,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3)"},
      {"roberta-prelayernorm", 124'698'201, "", 75'938,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3)"},
      {"xlm-roberta-xl", 3'482'741'760, "", 67'490,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 2)"},
      {"megatron-bert", 333'671'808, "", 73'536,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 2)"},
      {"ernie", 109'514'298, "", 75'746,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 2, "use_task_id": false, "task_type_vocab_size": 3)"},
      {"electra", 13'546'682, "", 66'240,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3, "embedding_size": 32)"},
      {"modernbert", 149'655'232, "", 44'096,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": true, "norm_bias": true, "mlp_bias": true, )"
       R"("decoder_bias": true, "classifier_bias": true, "local_attention": 16)"},
      {"modernbert-decoder", 149'655'232, "", 75'040,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": false, "norm_bias": true, "mlp_bias": true, )"
       R"("decoder_bias": true, "classifier_bias": false, "local_attention": 16)"},
      {"codegen", 6'050'882'784, "", 89'266,
       R"("vocab_size": 130, "n_embd": 64, "n_layer": 3, "n_head": 8, "n_positions": )"
       R"(64, "n_inner": 80, "tie_word_embeddings": true, "rotary_dim": 4)"},
      {"gpt_neox_japanese", 2'598'837'760, "", 19'808,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "intermediate_multiple_size": 2)"},
      {"gpt_neo", 1'315'575'808, "", 60'864,
       R"("vocab_size": 130, "hidden_size": 32, "num_layers": 4, "num_heads": 4, )"
       R"("intermediate_size": null, "max_position_embeddings": 64, "window_size": 8, )"
       R"("attention_types": [[["global", "local"], 2]], "tie_word_embeddings": false)"},
      {"mpt", 1'311'213'568, "", 156'224,
       R"("vocab_size": 130, "d_model": 64, "n_layers": 3, "n_heads": 8, )"
       R"("max_seq_len": 64, "tie_word_embeddings": true)"},
      {"xglm", 564'463'616, "", 77'904,
       R"("vocab_size": 130, "d_model": 64, "num_layers": 3, "attention_heads": 4, )"
       R"("ffn_dim": 48, "max_position_embeddings": 64, "tie_word_embeddings": true)"},
      {"biogpt", 346'763'264, "", 23'392,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true)"},
      {"bitnet", 2'741'155'840, "", 62'432,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true)"},
      {"diffllama", 1'204'885'504, "", 26'208,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 4, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("head_dim": 8, "attention_bias": true)"},
      {"phi4_multimodal_text", 4'400'286'720, "", 11'168,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 8, "num_key_value_heads": 1, )"
       R"("intermediate_size": 48, "tie_word_embeddings": true)"},
      {"beam", 501'267'599'808, "", 38'792,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 1, "moe_intermediate_size": 24, "head_dim": 24, )"
       R"("attention_bias": true, "sliding_window": 8, "num_experts": 8, "n_group": )"
       R"(1, "topk_group": 1, "layer_types": ["full_attention", "sliding_attention"], )"
       R"("mlp_layer_types": ["dense", "dense"])"},
      {"cohere_compass_text", 34'980'831'232,
       R"("rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 10000.0}, "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}})",
       26'976,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "sliding_window": 8, "rope_parameters": )"
       R"({"full_attention": {"rope_type": "default", "rope_theta": 10000.0}, )"
       R"("sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}, )"
       R"("layer_types": ["sliding_attention", "full_attention"])"},
      {"emu3_text_model", 8'492'011'520, "", 17'568,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "tie_word_embeddings": true)"},
      {"qwen4_exp_text", 67'368'820'352,
       R"("indexer_n_heads": 8, "indexer_kv_heads": 1, "indexer_head_dim": 256, "indexer_budget": 2048, "indexer_compress_ratio": 16)",
       193'904,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("num_experts_per_tok": 1, "moe_intermediate_size": 24, "attention_bias": )"
       R"(true, "linear_num_key_heads": 4, "linear_num_value_heads": 8, )"
       R"("linear_key_head_dim": 16, "linear_value_head_dim": 8, )"
       R"("linear_conv_kernel_dim": 2, "head_dim": 24, "num_experts": 8, )"
       R"("shared_expert_intermediate_size": 56, "hc_count": 4, "hc_lowrank": 8, )"
       R"("indexer_n_heads": 2, "indexer_kv_heads": 1, "indexer_head_dim": 24, )"
       R"("indexer_budget": 8, "indexer_compress_ratio": 4, "ple_embed_dim": 48, )"
       R"("heads_per_ngram": 2, "ngram_size": 3, "ngram_vocab_size_base": 50, )"
       R"("make_ngram_vocab_size_divisible_by": 1, "ple_conv_kernel_size": 2, )"
       R"("layer_types": ["linear_attention", "linear_attention"], "ple_layer_ids": )"
       R"([1])"},
      {"zaya", 8'840'488'784, "", 126'754,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, "head_dim": )"
       R"(24, "attention_bias": true, "moe_intermediate_size": 24, "num_experts": 4, )"
       R"("router_hidden_size": 8, "cca_time0": 3, "cca_time1": 2, "lm_head_bias": )"
       R"(true, "sliding_window": 8, "layer_types": ["hybrid_sliding", )"
       R"("hybrid_sliding"])"},
      {"mistral4", 118'972'826'624, "", 55'408,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, "q_lora_rank": )"
       R"(24, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 2, "n_group": )"
       R"(1, "topk_group": 1, "first_k_dense_replace": 2, "attention_bias": true, )"
       R"("num_experts_per_tok": 1, "moe_intermediate_size": 24, )"
       R"("num_key_value_heads": 4)"},
      {"openai-gpt", 116'534'784, "", 162'368,
       R"("vocab_size": 130, "n_embd": 64, "n_layer": 3, "n_head": 4, )"
       R"("n_positions": 64, "tie_word_embeddings": true)"},
      {"ctrl", 1'637'964'550, "", 35'056,
       R"("vocab_size": 96, "n_embd": 32, "n_layer": 3, "n_head": 8, )"
       R"("n_positions": 64, "tie_word_embeddings": false, "dff": 80)"},
      {"mt5", 172'119'424, "", 136'320,
       R"("vocab_size": 96, "d_model": 64, "d_kv": 8, "d_ff": 48, )"
       R"("num_layers": 3, "num_decoder_layers": 3, "num_heads": 4, )"
       R"("relative_attention_num_buckets": 8, "feed_forward_proj": "gated-gelu")"},
      {"umt5", 172'122'112, "", 75'776,
       R"("vocab_size": 96, "d_model": 64, "d_kv": 8, "d_ff": 48, )"
       R"("num_layers": 1, "num_decoder_layers": 2, "num_heads": 4, )"
       R"("relative_attention_num_buckets": 32, "feed_forward_proj": "gated-gelu")"},
      {"bart", 406'291'456, "", 58'720,
       R"("vocab_size": 96, "d_model": 32, "encoder_layers": 3, )"
       R"("decoder_layers": 2, "encoder_attention_heads": 8, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 80, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": true)"},
      {"mbart", 406'295'552, "", 141'880,
       R"("vocab_size": 96, "d_model": 64, "encoder_layers": 3, )"
       R"("decoder_layers": 1, "encoder_attention_heads": 8, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 48, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": false)"},
      {"plbart", 139'220'736, "", 53'120,
       R"("vocab_size": 130, "d_model": 32, "encoder_layers": 1, )"
       R"("decoder_layers": 2, "encoder_attention_heads": 8, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 80, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": false)"},
      {"mvp", 406'293'504, "", 72'288,
       R"("vocab_size": 130, "d_model": 32, "encoder_layers": 3, )"
       R"("decoder_layers": 2, "encoder_attention_heads": 8, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 80, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "tie_word_embeddings": false)"},
      {"blenderbot", 2'696'268'800, "", 35'288,
       R"("vocab_size": 96, "d_model": 32, "encoder_layers": 1, )"
       R"("decoder_layers": 1, "encoder_attention_heads": 8, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 48, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": false)"},
      {"blenderbot-small", 85'113'344, "", 42'168,
       R"("vocab_size": 130, "d_model": 32, "encoder_layers": 3, )"
       R"("decoder_layers": 1, "encoder_attention_heads": 4, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 48, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": true)"},
      {"marian", 414'307'328, "", 94'808,
       R"("architectures": ["MarianMTModel"], "vocab_size": 96, "d_model": 64, )"
       R"("encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 4, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 48, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": false)"},
      {"pegasus", 406'287'360, "", 67'808,
       R"("vocab_size": 96, "d_model": 32, "encoder_layers": 3, )"
       R"("decoder_layers": 2, "encoder_attention_heads": 4, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 80, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "forced_eos_token_id": 1, )"
       R"("tie_word_embeddings": false)"},
      {"m2m_100", 483'905'536, "", 33'272,
       R"("vocab_size": 96, "d_model": 32, "encoder_layers": 1, )"
       R"("decoder_layers": 1, "encoder_attention_heads": 8, )"
       R"("decoder_attention_heads": 4, "encoder_ffn_dim": 80, )"
       R"("decoder_ffn_dim": 40, "max_position_embeddings": 64, )"
       R"("decoder_start_token_id": 1, "tie_word_embeddings": false)"},
      {"distilbert", 66'985'530, "", 98'802,
       R"("vocab_size": 130, "dim": 64, "n_layers": 3, "n_heads": 4, )"
       R"("hidden_dim": 80, "max_position_embeddings": 64, )"
       R"("tie_word_embeddings": true)"},
      {"mpnet", 109'516'991, "", 40'496,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 3, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("relative_attention_num_buckets": 32)"},
      {"nomic_bert", 137'354'304, "", 26'884,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("type_vocab_size": 3, "head_dim": 24)"},
      {"gte", 306'210'496, "", 16'480,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("type_vocab_size": 2)"},
      {"jina_embeddings_v3", 559'616'146, "", 50'594,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3)"},
      {"eurobert", 310'266'624, "", 19'168,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 1, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 1, )"
       R"("intermediate_size": 80, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": false, "head_dim": 16, "attention_bias": true, )"
       R"("mlp_bias": false, "mask_token_id": 2)"},
      {"hunyuan_vl_text", 7'667'982'336, R"("head_dim": 128)", 38'496,
       R"("architectures": ["HunYuanVLTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 2, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "head_dim": 16)"},
      {"granite_docling_text", 386'630'656, "", 111'488,
       R"("architectures": ["GraniteDoclingTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 1, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": true, "head_dim": 16, "mlp_bias": true)"},
      {"cosmos3_edge_text", 1'946'273'792, "", 56'720,
       R"("architectures": ["Cosmos3EdgeTextModel"], "vocab_size": 96, )"
       R"("hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": true, "mlp_bias": true, "head_dim": 16, )"
       R"("rope_parameters": {"mrope_section": [4, 2, 2], "rope_theta": 10000.0, )"
       R"("rope_type": "default"})"},
      {"deepseek_ocr2_text", 38'503'739'392,
       R"("mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse", "sparse"], "num_experts_per_tok": 6)",
       30'176,
       R"("architectures": ["DeepseekOcr2TextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("attention_bias": false, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 40, "mlp_layer_types": ["dense"], )"
       R"("mlp_bias": true, "n_routed_experts": 4, "n_shared_experts": 2)"},
      {"unlimited_ocr_text", 2'934'734'080, "", 47'264,
       R"("architectures": ["UnlimitedOcrTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, )"
       R"("num_key_value_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": true, "num_experts_per_tok": 1, )"
       R"("moe_intermediate_size": 24, "mlp_layer_types": ["dense", "dense", )"
       R"("sparse"], "mlp_bias": false, "n_routed_experts": 8, )"
       R"("n_shared_experts": 1, "sliding_window": 8)"},
      {"muse_glimmer_text", 27'854'780'928, "", 45'024,
       R"("architectures": ["MuseGlimmerTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, )"
       R"("num_key_value_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": true, "head_dim": 24, )"
       R"("layer_types": ["sliding_attention", "sliding_attention"], )"
       R"("sliding_window": 8)"},
      {"muse_spark_text", 819'990'536'192, "", 40'448,
       R"("architectures": ["MuseSparkTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": false, "head_dim": 8, )"
       R"("layer_types": ["sliding_attention"], "sliding_window": 8, )"
       R"("mlp_layer_types": ["dense"], "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 40, "num_local_experts": 4, )"
       R"("moe_hidden_size": 24)"},
      {"step3p5", 195'843'833'088, "", 142'112,
       R"("architectures": ["Step3p7TextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, )"
       R"("num_key_value_heads": 2, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": false, "head_dim": 24, )"
       R"("layer_types": ["full_attention", "sliding_attention"], )"
       R"("sliding_window": 8, "mlp_layer_types": ["sparse", "sparse"], )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 40, )"
       R"("mlp_bias": false, "num_sliding_attention_heads": 8, )"
       R"("n_routed_experts": 4, "share_expert_dim": 56, )"
       R"("per_layer_config": {"1": {"num_attention_heads": 8}})"},
      {"molmo2_text", 8'191'259'648, "", 137'656,
       R"("architectures": ["Molmo2TextModel"], "vocab_size": 96, )"
       R"("hidden_size": 64, "num_hidden_layers": 7, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 1, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("attention_bias": false, "head_dim": 8, "additional_vocab_size": 16, )"
       R"("qk_norm_type": "olmo", "norm_after": true)"},
      {"glm5_next_text", 313'326'816'766, "", 106'188,
       R"("architectures": ["Glm5NextTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("q_lora_rank": 24, "kv_lora_rank": 16, "qk_rope_head_dim": 0, )"
       R"("qk_nope_head_dim": 16, "v_head_dim": 8, "n_routed_experts": 4, )"
       R"("n_shared_experts": 1, "n_group": 1, "topk_group": 1, )"
       R"("attention_bias": true, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 24, "mlp_layer_types": ["sparse", "sparse", )"
       R"("dense"], "index_n_heads": 4, "index_head_dim": 16, "index_topk": 8, )"
       R"("indexer_types": ["full", "shared", "full"], "index_kpool": 1, )"
       R"("hc_mult": 2, "linear_num_heads": 2, "linear_head_dim": 8, )"
       R"("linear_conv_kernel_dim": 2, "layer_types": ["indexed_attention", )"
       R"("indexed_attention", "linear_attention"])"},
      {"mistral_large4_text", 1'050'118'202'880, "", 497'144,
       R"("architectures": ["MistralLarge4TextModel"], "vocab_size": 130, )"
       R"("hidden_size": 64, "num_hidden_layers": 7, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("kv_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, )"
       R"("v_head_dim": 8, "n_routed_experts": 8, "n_shared_experts": 1, )"
       R"("n_group": 1, "topk_group": 1, "attention_bias": true, )"
       R"("num_experts_per_tok": 2, "moe_intermediate_size": 40, )"
       R"("mlp_layer_types": ["dense", "sparse", "sparse", "dense", "sparse", )"
       R"("sparse", "dense"], "index_n_heads": 2, "index_head_dim": 16, )"
       R"("index_topk": 8, "indexer_types": ["full", "shared", "shared", "full", )"
       R"("full", "full", "shared"], "kv_source_layers": [0, 1, 2, 3, 4, 5, 6], )"
       R"("no_rope_layers": [0, 1, 0, 1, 0, 1, 0])"},
      {"dots3_note_text", 279'551'718'016, "", 44'448,
       R"("vocab_size": 130, "hidden_size": 32, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 4, )"
       R"("intermediate_size": 48, "max_position_embeddings": 128, )"
       R"("tie_word_embeddings": true, "q_lora_rank": 24, "kv_lora_rank": 16, )"
       R"("qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16, )"
       R"("n_routed_experts": 4, "n_shared_experts": 1, "n_group": 1, )"
       R"("topk_group": 1, "attention_bias": true, "num_experts_per_tok": 2, )"
       R"("moe_intermediate_size": 24, "mlp_layer_types": ["sparse", "dense"], )"
       R"("index_n_heads": 4, "index_head_dim": 16, "index_topk": 8, )"
       R"("sliding_window": 8, "shared_experts_intermediate_size": 56, )"
       R"("layer_types": ["indexed_attention", "indexed_attention"], )"
       R"("per_layer_config": {})"},
      {"ernie4_5_vl_moe_text", 28'624'635'776, "", 243'232,
       R"("architectures": ["Ernie4_5_VLMoeTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 32, "num_hidden_layers": 6, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 2, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("mlp_layer_types": ["sparse", "sparse", "dense", "sparse", "dense", )"
       R"("sparse"], "use_bias": false, "moe_k": 2, )"
       R"("rope_parameters": {"mrope_section": [0, 0, 2], "rope_theta": 500000.0, )"
       R"("rope_type": "default"}, "moe_num_experts": 8, )"
       R"("moe_num_shared_experts": 1, "moe_intermediate_size": [40, 24])"},
      {"deberta", 124'685'913, "", 64'224,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("type_vocab_size": 0, "position_biased_input": false, "legacy": false, )"
       R"("relative_attention": true, "max_relative_positions": 40, "pos_att_type": )"
       R"(["c2p", "p2c"])"},
      {"deberta-v2", 879'999'588, "", 68'464,
       R"("vocab_size": 96, "hidden_size": 32, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 4, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("type_vocab_size": 2, "position_biased_input": true, "legacy": true, )"
       R"("relative_attention": true, "max_relative_positions": 40, "pos_att_type": )"
       R"(["p2c", "c2p"], "position_buckets": 16, "share_att_key": true, )"
       R"("norm_rel_ebd": "layer_norm", "conv_kernel_size": 3, "conv_groups": 1)"},
      {"esm", 86'461'618, R"("vocab_size": 33)", 182'705,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("position_embedding_type": "absolute", "emb_layer_norm_before": true, )"
       R"("mask_token_id": 2)"},
      {"roformer", 124'197'968, "", 213'428,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 7, )"
       R"("num_attention_heads": 8, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("type_vocab_size": 2, "embedding_size": 64, "rotary_value": false)"},
      {"rembert", 993'263'548, "", 176'986,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3, "input_embedding_size": 16, "output_embedding_size": )"
       R"(40)"},
      {"switch_transformers", 317'312'256, "", 123'744,
       R"("vocab_size": 96, "d_model": 32, "d_kv": 16, "d_ff": 48, "num_layers": 3, )"
       R"("num_heads": 4, "num_decoder_layers": 3, "num_sparse_encoder_layers": 0, )"
       R"("num_sparse_decoder_layers": 1, "num_experts": 4, "router_bias": false, )"
       R"("relative_attention_num_buckets": 8, "tie_word_embeddings": false)"},
      {"t5gemma", 5'596'853'760, "", 282'624,
       R"("encoder": {"vocab_size": 130, "hidden_size": 64, "intermediate_size": 80, )"
       R"("num_hidden_layers": 3, "num_attention_heads": 4, "sliding_window": 8, )"
       R"("num_key_value_heads": 2, "head_dim": 16, "attention_bias": false, )"
       R"("layer_types": ["full_attention", "full_attention", "sliding_attention"]}, )"
       R"("decoder": {"vocab_size": 96, "hidden_size": 64, "intermediate_size": 48, )"
       R"("num_hidden_layers": 3, "num_attention_heads": 8, "sliding_window": 8, )"
       R"("num_key_value_heads": 4, "head_dim": 16, "attention_bias": true, )"
       R"("layer_types": ["sliding_attention", "sliding_attention", )"
       R"("full_attention"]}, "tie_word_embeddings": false)"},
      {"inkling_text", 975'340'270'146, "", 75'186,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(48, "max_position_embeddings": 128, "head_dim": 24, "mlp_layer_types": )"
       R"(["dense", "dense"], "num_experts_per_tok": 1, "moe_intermediate_size": 40, )"
       R"("n_routed_experts": 4, "n_shared_experts": 2, "swa_num_attention_heads": )"
       R"(8, "swa_num_key_value_heads": 1, "swa_head_dim": 16, )"
       R"("sliding_window_size": 12, "d_rel": 8, "rel_extent": 16, )"
       R"("conv_kernel_size": 2, "local_layer_ids": [0], "layer_types": )"
       R"(["hybrid_sliding", "hybrid"])"},
      {"doge", 403'055'872, "", 218'860,
       R"("vocab_size": 96, "hidden_size": 64, "num_hidden_layers": 6, )"
       R"("num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": )"
       R"(80, "max_position_embeddings": 128, "tie_word_embeddings": false, )"
       R"("head_dim": 24, "attention_bias": false, "mlp_bias": true, )"
       R"("keep_window_size": 8)"},
      {"jetmoe", 4'293'888'000, "", 111'552,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 1, )"
       R"("num_key_value_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("kv_channels": 16, "num_local_experts": 4, "num_experts_per_tok": 1)"},
      {"voxtral_realtime_text", 7'119'048'704, R"("tie_word_embeddings": true)", 27'872,
       R"("architectures": ["VoxtralRealtimeTextModel"], "vocab_size": 130, )"
       R"("hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 8, )"
       R"("num_key_value_heads": 2, "intermediate_size": 48, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": false, "head_dim": )"
       R"(8, "sliding_window": 8)"},
      {"layoutlm", 113'250'618, "", 96'354,
       R"("vocab_size": 130, "hidden_size": 64, "num_hidden_layers": 2, )"
       R"("num_attention_heads": 4, "intermediate_size": 80, )"
       R"("max_position_embeddings": 128, "tie_word_embeddings": true, )"
       R"("type_vocab_size": 3, "max_2d_position_embeddings": 64)"},
  };
  return rows;
}

}  // namespace stagecraft::tests
