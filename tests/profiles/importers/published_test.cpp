// Models that were published in 2025 and 2026, by the keys of their config.json that decide what
// they are made of: parameters as transformers 5.23.0 counts them on the meta device (of models
// that see or hear the language part), without modules for multi-token prediction.

#include "profiles/importers.hpp"
#include "profiles/operations.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/importers/counted_families.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

struct Published {
  std::string name;
  std::int64_t parameters;
  std::string keys;
};

const std::vector<Published>& published_models() {
  static const std::vector<Published> rows{
      {"Qwen3-8B", 8'190'735'360,
       R"("attention_bias": false, "head_dim": 128, "hidden_size": 4096, )"
       R"("intermediate_size": 12288, "max_position_embeddings": 40960, )"
       R"("model_type": "qwen3", "num_attention_heads": 32, "num_hidden_layers": 36, )"
       R"("num_key_value_heads": 8, "tie_word_embeddings": false, )"
       R"("use_sliding_window": false, "vocab_size": 151936)"},
      {"Qwen3-235B-A22B", 235'093'634'560,
       R"("attention_bias": false, "decoder_sparse_step": 1, "head_dim": 128, )"
       R"("hidden_size": 4096, "intermediate_size": 12288, )"
       R"("max_position_embeddings": 40960, "model_type": "qwen3_moe", )"
       R"("moe_intermediate_size": 1536, "num_attention_heads": 64, "num_experts": 128, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 94, "num_key_value_heads": 4, )"
       R"("tie_word_embeddings": false, "use_sliding_window": false, )"
       R"("vocab_size": 151936)"},
      {"Qwen3-Coder-480B-A35B", 480'154'875'392,
       R"("decoder_sparse_step": 1, "head_dim": 128, "hidden_size": 6144, )"
       R"("intermediate_size": 8192, "max_position_embeddings": 262144, )"
       R"("model_type": "qwen3_moe", "moe_intermediate_size": 2560, )"
       R"("num_attention_heads": 96, "num_experts": 160, "num_experts_per_tok": 8, )"
       R"("num_hidden_layers": 62, "num_key_value_heads": 8, "qkv_bias": false, )"
       R"("shared_expert_intermediate_size": 0, "tie_word_embeddings": false, )"
       R"("use_qk_norm": true, "use_sliding_window": false, "vocab_size": 151936)"},
      {"Qwen3-VL-4B", 4'022'468'096,
       R"("model_type": "qwen3_vl", "tie_word_embeddings": true, )"
       R"("text_config": {"attention_bias": false, "head_dim": 128, )"
       R"("hidden_size": 2560, "intermediate_size": 9728, )"
       R"("max_position_embeddings": 262144, "model_type": "qwen3_vl_text", )"
       R"("num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8, )"
       R"("tie_word_embeddings": true, "vocab_size": 151936})"},
      {"Qwen3-VL-235B-A22B", 235'093'634'560,
       R"("model_type": "qwen3_vl_moe", "tie_word_embeddings": false, )"
       R"("text_config": {"attention_bias": false, "decoder_sparse_step": 1, )"
       R"("head_dim": 128, "hidden_size": 4096, "intermediate_size": 12288, )"
       R"("max_position_embeddings": 262144, "model_type": "qwen3_vl_moe_text", )"
       R"("moe_intermediate_size": 1536, "num_attention_heads": 64, "num_experts": 128, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 94, "num_key_value_heads": 4, )"
       R"("vocab_size": 151936})"},
      {"Qwen3.5-27B", 26'895'998'464,
       R"("model_type": "qwen3_5", "tie_word_embeddings": false, )"
       R"("text_config": {"attention_bias": false, "attn_output_gate": true, )"
       R"("full_attention_interval": 4, "head_dim": 256, "hidden_size": 5120, )"
       R"("intermediate_size": 17408, "linear_conv_kernel_dim": 4, )"
       R"("linear_key_head_dim": 128, "linear_num_key_heads": 16, )"
       R"("linear_num_value_heads": 48, "linear_value_head_dim": 128, )"
       R"("max_position_embeddings": 262144, "model_type": "qwen3_5_text", )"
       R"("num_attention_heads": 24, "num_hidden_layers": 64, "num_key_value_heads": 4, )"
       R"("vocab_size": 248320})"},
      {"Qwen3.5-397B-A17B", 396'346'350'336,
       R"("model_type": "qwen3_5_moe", "tie_word_embeddings": false, )"
       R"("text_config": {"attention_bias": false, "attn_output_gate": true, )"
       R"("full_attention_interval": 4, "head_dim": 256, "hidden_size": 4096, )"
       R"("linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, )"
       R"("linear_num_key_heads": 16, "linear_num_value_heads": 64, )"
       R"("linear_value_head_dim": 128, "max_position_embeddings": 262144, )"
       R"("model_type": "qwen3_5_moe_text", "moe_intermediate_size": 1024, )"
       R"("num_attention_heads": 32, "num_experts": 512, "num_experts_per_tok": 10, )"
       R"("num_hidden_layers": 60, "num_key_value_heads": 2, )"
       R"("shared_expert_intermediate_size": 1024, "vocab_size": 248320})"},
      {"Qwen3.6 35B-A3B", 34'660'610'688,
       R"("model_type": "qwen3_5_moe", "tie_word_embeddings": false, )"
       R"("text_config": {"attention_bias": false, "attn_output_gate": true, )"
       R"("full_attention_interval": 4, "head_dim": 256, "hidden_size": 2048, )"
       R"("linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, )"
       R"("linear_num_key_heads": 16, "linear_num_value_heads": 32, )"
       R"("linear_value_head_dim": 128, "max_position_embeddings": 262144, )"
       R"("model_type": "qwen3_5_moe_text", "moe_intermediate_size": 512, )"
       R"("num_attention_heads": 16, "num_experts": 256, "num_experts_per_tok": 8, )"
       R"("num_hidden_layers": 40, "num_key_value_heads": 2, )"
       R"("shared_expert_intermediate_size": 512, "tie_word_embeddings": false, )"
       R"("vocab_size": 248320})"},
      {"DeepSeek-V3", 671'026'404'352,
       R"("attention_bias": false, "first_k_dense_replace": 3, "hidden_size": 7168, )"
       R"("intermediate_size": 18432, "kv_lora_rank": 512, )"
       R"("max_position_embeddings": 163840, "model_type": "deepseek_v3", )"
       R"("moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, )"
       R"("n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 61, )"
       R"("num_key_value_heads": 128, "num_nextn_predict_layers": 1, )"
       R"("q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, )"
       R"("tie_word_embeddings": false, "topk_group": 4, "v_head_dim": 128, )"
       R"("vocab_size": 129280)"},
      {"DeepSeek-V3.2", 671'877'929'216,
       R"("attention_bias": false, "first_k_dense_replace": 3, "hidden_size": 7168, )"
       R"("index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048, )"
       R"("intermediate_size": 18432, "kv_lora_rank": 512, )"
       R"("max_position_embeddings": 163840, "model_type": "deepseek_v32", )"
       R"("moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, )"
       R"("n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 128, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 61, )"
       R"("num_key_value_heads": 128, "num_nextn_predict_layers": 1, )"
       R"("q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, )"
       R"("tie_word_embeddings": false, "topk_group": 4, "v_head_dim": 128, )"
       R"("vocab_size": 129280)"},
      {"DeepSeek-V4-Flash", 284'332'230'231,
       R"("attention_bias": false, "expert_dtype": "fp4", "hc_mult": 4, )"
       R"("head_dim": 512, "hidden_size": 4096, "index_head_dim": 128, )"
       R"("index_n_heads": 64, "index_topk": 512, "max_position_embeddings": 1048576, )"
       R"("model_type": "deepseek_v4", "moe_intermediate_size": 2048, )"
       R"("n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64, )"
       R"("num_experts_per_tok": 6, "num_hidden_layers": 43, "num_hash_layers": 3, )"
       R"("num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 8, )"
       R"("o_lora_rank": 1024, "q_lora_rank": 1024, "qk_rope_head_dim": 64, )"
       R"("sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 129280, )"
       R"("compress_rope_theta": 160000, "compress_ratios": [0, 0, 4, 128, 4, 128, 4, )"
       R"(128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, )"
       R"(4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0])"},
      {"DeepSeek-V4-Pro", 1'572'997'179'491,
       R"("attention_bias": false, "expert_dtype": "fp4", "hc_mult": 4, )"
       R"("head_dim": 512, "hidden_size": 7168, "index_head_dim": 128, )"
       R"("index_n_heads": 64, "index_topk": 1024, "max_position_embeddings": 1048576, )"
       R"("model_type": "deepseek_v4", "moe_intermediate_size": 3072, )"
       R"("n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 128, )"
       R"("num_experts_per_tok": 6, "num_hidden_layers": 61, "num_hash_layers": 3, )"
       R"("num_key_value_heads": 1, "num_nextn_predict_layers": 1, "o_groups": 16, )"
       R"("o_lora_rank": 1024, "q_lora_rank": 1536, "qk_rope_head_dim": 64, )"
       R"("sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 129280, )"
       R"("compress_rope_theta": 160000, "compress_ratios": [128, 128, 4, 128, 4, 128, )"
       R"(4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, )"
       R"(128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, )"
       R"(4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 128, 4, 0])"},
      {"Kimi-K2.5", 1'026'408'209'408,
       R"("model_type": "kimi_k25", "tie_word_embeddings": false, )"
       R"("text_config": {"attention_bias": false, "first_k_dense_replace": 1, )"
       R"("hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, )"
       R"("max_position_embeddings": 262144, "model_type": "kimi_k2", )"
       R"("moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 1, )"
       R"("n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 64, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64, )"
       R"("num_nextn_predict_layers": 0, "q_lora_rank": 1536, "qk_nope_head_dim": 128, )"
       R"("qk_rope_head_dim": 64, "tie_word_embeddings": false, "topk_group": 1, )"
       R"("v_head_dim": 128, "vocab_size": 163840})"},
      {"Kimi K2.7 Code", 1'026'408'209'408,
       R"("model_type": "kimi_k25", "tie_word_embeddings": false, )"
       R"("text_config": {"attention_bias": false, "first_k_dense_replace": 1, )"
       R"("hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, )"
       R"("max_position_embeddings": 262144, "model_type": "deepseek_v3", )"
       R"("moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 1, )"
       R"("n_routed_experts": 384, "n_shared_experts": 1, "num_attention_heads": 64, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 64, )"
       R"("num_nextn_predict_layers": 0, "q_lora_rank": 1536, "qk_nope_head_dim": 128, )"
       R"("qk_rope_head_dim": 64, "tie_word_embeddings": false, "topk_group": 1, )"
       R"("v_head_dim": 128, "vocab_size": 163840})"},
      {"GLM-5", 743'911'199'232,
       R"("attention_bias": false, "first_k_dense_replace": 3, "head_dim": 64, )"
       R"("hidden_size": 6144, "index_head_dim": 128, "index_n_heads": 32, )"
       R"("index_topk": 2048, "intermediate_size": 12288, "kv_lora_rank": 512, )"
       R"("max_position_embeddings": 202752, "moe_intermediate_size": 2048, )"
       R"("moe_layer_freq": 1, "model_type": "glm_moe_dsa", "n_group": 1, )"
       R"("n_routed_experts": 256, "n_shared_experts": 1, "num_attention_heads": 64, )"
       R"("num_experts_per_tok": 8, "num_hidden_layers": 78, "num_key_value_heads": 64, )"
       R"("num_nextn_predict_layers": 1, "q_lora_rank": 2048, "qk_head_dim": 256, )"
       R"("qk_nope_head_dim": 192, "qk_rope_head_dim": 64, )"
       R"("tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 256, )"
       R"("vocab_size": 154880)"},
      {"GLM-5.2", 743'377'000'704,
       R"("attention_bias": false, "first_k_dense_replace": 3, "head_dim": 192, )"
       R"("hidden_size": 6144, "index_head_dim": 128, "index_n_heads": 32, )"
       R"("index_share_for_mtp_iteration": true, "index_skip_topk_offset": 3, )"
       R"("index_topk": 2048, "index_topk_freq": 4, "intermediate_size": 12288, )"
       R"("kv_lora_rank": 512, "max_position_embeddings": 1048576, )"
       R"("model_type": "glm_moe_dsa", "moe_intermediate_size": 2048, )"
       R"("moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 256, )"
       R"("n_shared_experts": 1, "num_attention_heads": 64, "num_experts_per_tok": 8, )"
       R"("num_hidden_layers": 78, "num_key_value_heads": 64, )"
       R"("num_nextn_predict_layers": 1, "q_lora_rank": 2048, "qk_head_dim": 256, )"
       R"("qk_nope_head_dim": 192, "qk_rope_head_dim": 64, )"
       R"("tie_word_embeddings": false, "topk_group": 1, "v_head_dim": 256, )"
       R"("vocab_size": 154880)"},
      {"MiniMax-M2.5", 228'689'748'992,
       R"("model_type": "minimax_m2", "num_hidden_layers": 62, "hidden_size": 3072, )"
       R"("num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, )"
       R"("intermediate_size": 1536, "vocab_size": 200064, "num_experts_per_tok": 8, )"
       R"("num_local_experts": 256, "max_position_embeddings": 196608, )"
       R"("tie_word_embeddings": false, "use_qk_norm": true, )"
       R"("qk_norm_type": "per_layer", "use_routing_bias": true, "num_mtp_modules": 3, )"
       R"("shared_intermediate_size": 0)"},
      {"MiniMax M3", 426'174'565'632,
       R"("model_type": "minimax_m3_vl", "text_config": {"hidden_size": 6144, )"
       R"("intermediate_size": 3072, "num_hidden_layers": 60, )"
       R"("num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, )"
       R"("vocab_size": 200064, "max_position_embeddings": 1048576, )"
       R"("use_gemma_norm": true, "attention_output_gate": false, "use_qk_norm": true, )"
       R"("tie_word_embeddings": false, "dense_intermediate_size": 12288, )"
       R"("shared_intermediate_size": 3072, "num_local_experts": 128, )"
       R"("num_experts_per_tok": 4, "n_shared_experts": 1, "use_routing_bias": true, )"
       R"("qk_norm_type": "per_head", "num_mtp_modules": 1, "moe_layer_freq": [0, 0, 0, )"
       R"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"
       R"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"
       R"(1, 1, 1, 1, 1], "sparse_attention_config": {"use_sparse_attention": true, )"
       R"("sparse_index_dim": 128, "sparse_num_index_heads": 4, )"
       R"("sparse_topk_blocks": 16, "sparse_block_size": 128, )"
       R"("sparse_disable_index_value": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"
       R"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"
       R"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], )"
       R"("sparse_score_type": "max", "sparse_init_block": 0, "sparse_local_block": 1, )"
       R"("sparse_attention_freq": [0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"
       R"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, )"
       R"(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}})"},
      {"MiMo-V2-Flash", 308'778'768'832,
       R"("model_type": "mimo_v2_flash", "num_hidden_layers": 48, "hidden_size": 4096, )"
       R"("num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, )"
       R"("v_head_dim": 128, "intermediate_size": 16384, "vocab_size": 152576, )"
       R"("max_position_embeddings": 262144, "swa_rope_theta": 10000, )"
       R"("sliding_window": 128, "sliding_window_size": 128, )"
       R"("attention_chunk_size": 128, "swa_num_attention_heads": 64, )"
       R"("swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128, )"
       R"("moe_intermediate_size": 2048, "n_routed_experts": 256, )"
       R"("num_experts_per_tok": 8, "n_group": 1, "topk_group": 1, )"
       R"("layernorm_epsilon": 1e-05, "attention_bias": false, )"
       R"("add_swa_attention_sink_bias": true, "add_full_attention_sink_bias": false, )"
       R"("tie_word_embeddings": false)"},
      {"gpt-oss-20b", 20'914'757'184,
       R"("attention_bias": true, "head_dim": 64, "hidden_size": 2880, )"
       R"("intermediate_size": 2880, "max_position_embeddings": 131072, )"
       R"("model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4, )"
       R"("num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32, )"
       R"("sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 201088)"},
      {"gpt-oss-120b", 116'829'156'672,
       R"("attention_bias": true, "head_dim": 64, "hidden_size": 2880, )"
       R"("intermediate_size": 2880, "max_position_embeddings": 131072, )"
       R"("model_type": "gpt_oss", "num_attention_heads": 64, "num_experts_per_tok": 4, )"
       R"("num_hidden_layers": 36, "num_key_value_heads": 8, "num_local_experts": 128, )"
       R"("sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 201088)"},
      {"Llama-4-Scout-17B-16E", 107'769'861'120,
       R"("model_type": "llama4", "text_config": {"attention_bias": false, )"
       R"("attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120, )"
       R"("interleave_moe_layer_step": 1, "intermediate_size": 8192, )"
       R"("intermediate_size_mlp": 16384, "max_position_embeddings": 10485760, )"
       R"("model_type": "llama4_text", "num_attention_heads": 40, )"
       R"("num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, )"
       R"("num_local_experts": 16, "use_qk_norm": true, "vocab_size": 202048})"},
      {"Llama-4-Maverick-17B-128E", 400'711'848'960,
       R"("model_type": "llama4", "text_config": {"attention_bias": false, )"
       R"("attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120, )"
       R"("interleave_moe_layer_step": 2, "intermediate_size": 8192, )"
       R"("intermediate_size_mlp": 16384, "max_position_embeddings": 1048576, )"
       R"("model_type": "llama4_text", "num_attention_heads": 40, )"
       R"("num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, )"
       R"("num_local_experts": 128, "use_qk_norm": false, "vocab_size": 202048})"},
      {"gemma-4-26B-A4B", 25'233'141'760,
       R"("model_type": "gemma4", "tie_word_embeddings": true, )"
       R"("text_config": {"attention_bias": false, "attention_k_eq_v": true, )"
       R"("enable_moe_block": true, "global_head_dim": 512, "head_dim": 256, )"
       R"("hidden_size": 2816, "hidden_size_per_layer_input": 0, )"
       R"("intermediate_size": 2112, "max_position_embeddings": 262144, )"
       R"("model_type": "gemma4_text", "moe_intermediate_size": 704, )"
       R"("num_attention_heads": 16, "num_experts": 128, )"
       R"("num_global_key_value_heads": 2, "num_hidden_layers": 30, )"
       R"("num_key_value_heads": 8, "num_kv_shared_layers": 0, "sliding_window": 1024, )"
       R"("tie_word_embeddings": true, "top_k_experts": 8, )"
       R"("use_bidirectional_attention": "vision", "use_double_wide_mlp": false, )"
       R"("vocab_size": 262144, "vocab_size_per_layer_input": 262144})"},
      {"Gemma 4 31B", 30'697'345'280,
       R"("model_type": "gemma4", "tie_word_embeddings": true, )"
       R"("text_config": {"attention_bias": false, "attention_k_eq_v": true, )"
       R"("enable_moe_block": false, "global_head_dim": 512, "head_dim": 256, )"
       R"("hidden_size": 5376, "hidden_size_per_layer_input": 0, )"
       R"("intermediate_size": 21504, "max_position_embeddings": 262144, )"
       R"("model_type": "gemma4_text", "num_attention_heads": 32, )"
       R"("num_global_key_value_heads": 4, "num_hidden_layers": 60, )"
       R"("num_key_value_heads": 16, "num_kv_shared_layers": 0, "sliding_window": 1024, )"
       R"("tie_word_embeddings": true, "use_bidirectional_attention": "vision", )"
       R"("use_double_wide_mlp": false, "vocab_size": 262144, )"
       R"("vocab_size_per_layer_input": 262144})"},
      {"Nemotron-3-Nano-30B-A3B", 31'577'937'344,
       R"("attention_bias": false, "chunk_size": 128, "conv_kernel": 4, "expand": 2, )"
       R"("head_dim": 128, "hidden_size": 2688, )"
       R"("hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME", )"
       R"("intermediate_size": 1856, "mamba_head_dim": 64, "mamba_num_heads": 64, )"
       R"("mamba_proj_bias": false, "max_position_embeddings": 262144, )"
       R"("mlp_bias": false, "model_type": "nemotron_h", "moe_intermediate_size": 1856, )"
       R"("moe_shared_expert_intermediate_size": 3712, "n_group": 1, "n_groups": 8, )"
       R"("n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 32, )"
       R"("num_experts_per_tok": 6, "num_hidden_layers": 52, "num_key_value_heads": 2, )"
       R"("ssm_state_size": 128, "tie_word_embeddings": false, "topk_group": 1, )"
       R"("use_bias": false, "use_conv_bias": true, "vocab_size": 131072)"},
      {"Nemotron-3-Super-120B-A12B", 120'668'687'360,
       R"("attention_bias": false, "chunk_size": 128, "conv_kernel": 4, "expand": 2, )"
       R"("head_dim": 128, "hidden_size": 4096, )"
       R"("hybrid_override_pattern": "MEMEMEM*EMEMEMEM*EMEMEMEM*EMEMEMEMEM*EMEMEMEMEM*EM)"
       R"(EMEMEMEM*EMEMEMEMEM*EMEMEMEM*EMEMEMEME", )"
       R"("intermediate_size": 2688, "mamba_head_dim": 64, "mamba_num_heads": 128, )"
       R"("mamba_proj_bias": false, "max_position_embeddings": 262144, )"
       R"("mlp_bias": false, "model_type": "nemotron_h", "moe_intermediate_size": 2688, )"
       R"("moe_latent_size": 1024, "moe_shared_expert_intermediate_size": 5376, )"
       R"("moe_shared_expert_overlap": false, "n_group": 1, "n_groups": 8, )"
       R"("n_routed_experts": 512, "n_shared_experts": 1, "num_attention_heads": 32, )"
       R"("num_experts_per_tok": 22, "num_hidden_layers": 88, "num_key_value_heads": 2, )"
       R"("num_nextn_predict_layers": 1, "ssm_state_size": 128, )"
       R"("tie_word_embeddings": false, "topk_group": 1, "use_bias": false, )"
       R"("use_conv_bias": true, "vocab_size": 131072)"},
      {"Nemotron-3-Ultra-550B-A55B", 549'308'968'960,
       R"("attention_bias": false, "chunk_size": 128, "conv_kernel": 4, "expand": 2, )"
       R"("head_dim": 128, "hidden_size": 8192, "intermediate_size": 5120, )"
       R"("mamba_head_dim": 64, "mamba_num_heads": 256, "mamba_proj_bias": false, )"
       R"("max_position_embeddings": 262144, "mlp_bias": false, )"
       R"("model_type": "nemotron_h", "moe_intermediate_size": 5120, )"
       R"("moe_latent_size": 2048, "moe_shared_expert_intermediate_size": 10240, )"
       R"("moe_shared_expert_overlap": false, "n_group": 1, "n_groups": 8, )"
       R"("n_routed_experts": 512, "n_shared_experts": 1, "num_attention_heads": 64, )"
       R"("num_experts_per_tok": 22, "num_key_value_heads": 2, )"
       R"("num_nextn_predict_layers": 1, "ssm_state_size": 128, )"
       R"("tie_word_embeddings": false, "topk_group": 1, "use_bias": false, )"
       R"("use_conv_bias": true, "vocab_size": 131072, "layers_block_type": ["mamba", )"
       R"("moe", "mamba", "moe", "mamba", "moe", "mamba", "attention", "moe", "mamba", )"
       R"("moe", "mamba", "moe", "mamba", "attention", "moe", "mamba", "moe", "mamba", )"
       R"("moe", "mamba", "moe", "mamba", "attention", "moe", "mamba", "moe", "mamba", )"
       R"("moe", "mamba", "moe", "mamba", "attention", "moe", "mamba", "moe", "mamba", )"
       R"("moe", "mamba", "attention", "moe", "mamba", "moe", "mamba", "moe", "mamba", )"
       R"("moe", "mamba", "attention", "moe", "mamba", "moe", "mamba", "moe", "mamba", )"
       R"("moe", "mamba", "attention", "moe", "mamba", "moe", "mamba", "moe", "mamba", )"
       R"("attention", "moe", "mamba", "moe", "mamba", "moe", "mamba", "moe", "mamba", )"
       R"("attention", "moe", "mamba", "moe", "mamba", "moe", "mamba", "moe", "mamba", )"
       R"("attention", "moe", "mamba", "moe", "mamba", "moe", "mamba", "attention", )"
       R"("moe", "mamba", "moe", "mamba", "moe", "mamba", "moe", "mamba", "attention", )"
       R"("moe", "mamba", "moe", "mamba", "moe", "mamba", "moe", "mamba", "moe"])"},
  };
  return rows;
}

}  // namespace

TEST_CASE("models published in 2025 and 2026 have as many parameters as transformers counts") {
  CHECK(published_models().size() >= 20);
  for (const Published& row : published_models()) {
    INFO(row.name);
    const Model model = import_text("{" + row.keys + "}").model;
    CHECK(parameters(model) - prediction_parameters(model) == row.parameters);
  }
}
