#!/usr/bin/env python3
"""Parameters of models as transformers counts them, against `stagecraft model show`.

    python tools/peers/check_parameters.py STAGECRAFT [--families NAME,NAME] [--configs N]

For each family: the configuration class's default, and N small ones with every key drawn that changes
parameters (biases, ties, norms, heads, experts, kinds of layers). transformers builds each on the meta
device, writes its config.json, and Stagecraft reads that file; totals and the sums of each layer must
be equal to the unit. Judge: transformers 5.23.0 with torch 2.15.0; no weights are downloaded. Ends with
77 where they are not there.
"""

import argparse
import importlib.util
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import warnings

from common import skip

warnings.filterwarnings("ignore")
try:
    import torch
    import transformers
    from transformers import AutoConfig, CONFIG_MAPPING  # noqa: F401
except ImportError as error:
    skip(f"{sys.executable} has no transformers with torch ({error})")

transformers.logging.set_verbosity_error()

FLAG = [False, True]
# What small models of nearly all families are made of; each family adds its own keys.
GROUPED = dict(vocab_size=[96, 130], hidden_size=[32, 64], num_hidden_layers=[1, 2, 3, 6, 7],
               num_attention_heads=[4, 8], num_key_value_heads=[1, 2, 4], intermediate_size=[48, 80],
               max_position_embeddings=[128], tie_word_embeddings=FLAG)
EXPERTS = dict(num_experts_per_tok=[1, 2], moe_intermediate_size=[24, 40])
LATENT = dict(GROUPED, num_key_value_heads=None, q_lora_rank=[None, 24], kv_lora_rank=[16, 24],
              qk_rope_head_dim=[8], qk_nope_head_dim=[8, 16], v_head_dim=[8, 16],
              n_routed_experts=[4, 8], n_shared_experts=[1, 2], n_group=[1], topk_group=[1],
              first_k_dense_replace=[0, 1, 2], attention_bias=FLAG, **EXPERTS)
DELTA = dict(linear_num_key_heads=[2, 4], linear_num_value_heads=[4, 8], linear_key_head_dim=[8, 16],
             linear_value_head_dim=[8, 16], linear_conv_kernel_dim=[2, 4])
MIXER = dict(mamba_n_heads=[8], mamba_n_groups=[1, 2], mamba_d_state=[8, 16], mamba_d_conv=[2, 4],
             mamba_expand=[2], mamba_conv_bias=FLAG, mamba_proj_bias=FLAG)
GPT = dict(vocab_size=[96, 130], n_embd=[32, 64], n_layer=[1, 3], n_head=[4, 8], n_positions=[64],
           n_inner=[None, 80], tie_word_embeddings=FLAG)
BERT = {k: v for k, v in GROUPED.items() if k != "num_key_value_heads"} | dict(type_vocab_size=[2, 3])
DEBERTA = dict(BERT, type_vocab_size=[0, 2], position_biased_input=FLAG, legacy=FLAG, relative_attention=FLAG,
               max_relative_positions=[-1, 40], pos_att_type=[None, "c2p|p2c", ["c2p"], ["p2c"], ["p2c", "c2p"]])
BIAS = dict(attention_bias=FLAG)
WIDTH = dict(head_dim=[8, 16, 24])


def drop(keys, *names):
    return {k: v for k, v in keys.items() if k not in names}


def words(*options):
    """A word for each layer."""
    return lambda draw, drawn: [draw.choice(options) for _ in range(drawn["num_hidden_layers"])]


WINDOWS = dict(layer_types=words("full_attention", "sliding_attention"), sliding_window=[8])
ROPES = {kind: {"rope_type": "default", "rope_theta": 1e4} for kind in ("full_attention", "sliding_attention")}
DENSE_FIRST = dict(mlp_layer_types=words("dense", "sparse"))


def fills(draw, drawn):
    """A width by which heads fill the hidden one."""
    return drawn["hidden_size"] // drawn["num_attention_heads"]


BART = dict(vocab_size=[96, 130], d_model=[32, 64], encoder_layers=[1, 3], decoder_layers=[1, 2],
            encoder_attention_heads=[4, 8], decoder_attention_heads=[4], encoder_ffn_dim=[48, 80],
            decoder_ffn_dim=[40], max_position_embeddings=[64], decoder_start_token_id=[1],
            forced_eos_token_id=[1], tie_word_embeddings=FLAG)
T5 = dict(vocab_size=[96], d_model=[32, 64], d_kv=[8, 16], d_ff=[48], num_layers=[1, 3],
          num_decoder_layers=[None, 2], num_heads=[4], relative_attention_num_buckets=[8, 32],
          feed_forward_proj=["relu", "gated-gelu"])
OWN_KEYS = drop(GROUPED, "num_key_value_heads")
CHOOSES = dict(index_n_heads=[2, 4], index_head_dim=[16], index_topk=[8],
               indexer_types=lambda draw, drawn: ["full"] + [
                   draw.choice(["full", "shared"]) for _ in range(drawn["num_hidden_layers"] - 1)])

def gemma_tower(draw, hidden):
    """Of T5Gemma, whose towers differ in all but their width."""
    blocks = draw.choice([1, 2, 3])
    return dict(vocab_size=draw.choice([96, 130]), hidden_size=hidden, intermediate_size=draw.choice([48, 80]),
                num_hidden_layers=blocks, num_attention_heads=draw.choice([4, 8]), sliding_window=8,
                num_key_value_heads=draw.choice([1, 2, 4]), head_dim=draw.choice([8, 16]),
                attention_bias=draw.choice(FLAG), layer_types=[
                    draw.choice(["full_attention", "sliding_attention"]) for _ in range(blocks)])


FAMILIES = {
    "llama": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG),
    "mistral": dict(GROUPED, **WIDTH, sliding_window=[None, 16, 4096]),
    "qwen2": dict(GROUPED, use_sliding_window=FLAG, sliding_window=[16], max_window_layers=[1]),
    "gpt2": GPT,
    "mixtral": dict(GROUPED, num_local_experts=[4, 8], num_experts_per_tok=[1, 2], head_dim=[8, 16]),
    "deepseek_v2": dict(LATENT, mlp_bias=FLAG),
    "deepseek_v3": LATENT,
    "qwen3": dict(GROUPED, **WIDTH, **BIAS),
    "qwen3_moe": dict(GROUPED, **EXPERTS, **BIAS, num_experts=[4, 8], decoder_sparse_step=[1, 2],
                      mlp_only_layers=[[], [0]], head_dim=[16]),
    "qwen3_next": dict(GROUPED, **EXPERTS, **BIAS, **DELTA, **WIDTH, num_experts=[4, 8],
                       decoder_sparse_step=[1, 2], mlp_only_layers=[[], [0]],
                       shared_expert_intermediate_size=[24, 56],
                       layer_types=words("full_attention", "linear_attention")),
    "qwen3_5_text": dict(GROUPED, **BIAS, **DELTA, **WIDTH,
                         layer_types=words("full_attention", "linear_attention")),
    "qwen3_5_moe_text": dict(drop(GROUPED, "intermediate_size"), **EXPERTS, **BIAS, **DELTA, **WIDTH,
                             num_experts=[4, 8], shared_expert_intermediate_size=[24, 56],
                             layer_types=words("full_attention", "linear_attention")),
    "qwen2_moe": dict(GROUPED, **EXPERTS, num_experts=[4, 8], decoder_sparse_step=[1, 2],
                      mlp_only_layers=[[], [0]], shared_expert_intermediate_size=[24, 56],
                      qkv_bias=FLAG),
    "gemma": dict(GROUPED, **WIDTH, **BIAS),
    "gemma2": dict(GROUPED, **WIDTH, **BIAS, **WINDOWS),
    "gemma3_text": dict(GROUPED, **WIDTH, **BIAS, **WINDOWS),
    "gemma3n_text": dict(GROUPED, **WIDTH, **BIAS, num_hidden_layers=[6, 10], vocab_size_per_layer_input=[90],
                         hidden_size_per_layer_input=[8, 16], altup_num_inputs=[2, 4],
                         num_kv_shared_layers=[0, 1], laurel_rank=[4, 8], sliding_window=[8]),
    "gemma4_text": dict(GROUPED, **WIDTH, **BIAS, num_hidden_layers=[6, 12],
                        vocab_size_per_layer_input=[90], hidden_size_per_layer_input=[0, 8, 16],
                        attention_k_eq_v=FLAG, num_global_key_value_heads=[1, 2],
                        global_head_dim=[16, 32], num_kv_shared_layers=[0], use_double_wide_mlp=FLAG,
                        enable_moe_block=FLAG, num_experts=[4], top_k_experts=[2],
                        moe_intermediate_size=[24], sliding_window=[8]),
    "glm4v_text": GROUPED,
    "glm_ocr_text": GROUPED,
    "phi": dict(GROUPED, qk_layernorm=FLAG, num_key_value_heads=[2, 4],
                head_dim=lambda draw, drawn: fills(draw, drawn) if drawn["qk_layernorm"]
                else draw.choice([8, 16, 24])),
    "phi3": dict(GROUPED, pad_token_id=[0]),
    "phimoe": dict(GROUPED, **BIAS, num_local_experts=[4], num_experts_per_tok=[2], lm_head_bias=FLAG),
    "olmo": dict(GROUPED, **BIAS),
    "olmo2": dict(GROUPED, **BIAS),
    "olmo3": dict(GROUPED, **BIAS, **WINDOWS),
    "olmoe": dict(GROUPED, **BIAS, head_dim=fills, num_experts=[4, 8], num_experts_per_tok=[1, 2]),
    "glm": dict(GROUPED, **WIDTH, **BIAS, pad_token_id=[0]),
    "glm4": dict(GROUPED, **WIDTH, **BIAS, pad_token_id=[0]),
    "glm4_moe": dict(GROUPED, **EXPERTS, **BIAS, head_dim=[16], n_routed_experts=[4, 8],
                     n_shared_experts=[1, 2], first_k_dense_replace=[0, 1, 2], use_qk_norm=FLAG),
    "glm4_moe_lite": dict(drop(LATENT, "first_k_dense_replace"), **DENSE_FIRST),
    "glm_moe_dsa": dict(LATENT, q_lora_rank=[24], index_n_heads=[2, 4], index_head_dim=[16],
                        index_topk=[8], mlp_bias=FLAG, **DENSE_FIRST),
    "gpt_oss": dict(GROUPED, **WIDTH, **BIAS, num_local_experts=[4, 8], num_experts_per_tok=[1, 2],
                    **WINDOWS),
    "deepseek_v32": dict(LATENT, q_lora_rank=[24], index_n_heads=[2, 4], index_head_dim=[16],
                         index_topk=[8], **DENSE_FIRST),
    "deepseek_v4": dict(drop(GROUPED, "num_key_value_heads", "intermediate_size"), **EXPERTS,
                        head_dim=[16, 32], q_lora_rank=[16, 24], n_routed_experts=[4, 8],
                        n_shared_experts=[1], o_groups=[2, 4], o_lora_rank=[8, 16],
                        index_n_heads=[2, 4], index_head_dim=[16], index_topk=[8], hc_mult=[2, 4],
                        sliding_window=[8],
                        layer_types=words("sliding_attention", "compressed_sparse_attention",
                                          "heavily_compressed_attention")),
    "granite": dict(GROUPED, **BIAS, mlp_bias=FLAG),
    "granitemoe": dict(GROUPED, **BIAS, num_local_experts=[4, 8], num_experts_per_tok=[1, 2]),
    "granitemoeshared": dict(GROUPED, **BIAS, num_local_experts=[4, 8], num_experts_per_tok=[1, 2],
                             shared_intermediate_size=[0, 24]),
    "granitemoehybrid": dict(GROUPED, **BIAS, **MIXER, num_local_experts=[0, 4],
                             num_experts_per_tok=[2], shared_intermediate_size=[24, 40],
                             layer_types=words("full_attention", "linear_attention")),
    "smollm3": dict(GROUPED, **BIAS, mlp_bias=FLAG, pad_token_id=[0]),
    "starcoder2": dict(GROUPED, use_bias=FLAG),
    "falcon": dict(vocab_size=[96], hidden_size=[32, 64], num_hidden_layers=[1, 3],
                   num_attention_heads=[4, 8], num_kv_heads=[1, 2, 4], new_decoder_architecture=FLAG,
                   multi_query=FLAG, parallel_attn=FLAG, bias=FLAG, alibi=FLAG,
                   num_ln_in_parallel_attn=[None, 1, 2], ffn_hidden_size=[None, 80],
                   tie_word_embeddings=FLAG),
    "gpt_neox": dict(drop(GROUPED, "num_key_value_heads"), **BIAS, use_parallel_residual=FLAG),
    "bloom": dict(vocab_size=[96], hidden_size=[32, 64], n_layer=[1, 3], n_head=[4, 8],
                  tie_word_embeddings=FLAG),
    "opt": dict(drop(GROUPED, "num_key_value_heads", "intermediate_size"), ffn_dim=[48],
                word_embed_proj_dim=[None, 16], do_layer_norm_before=FLAG, enable_bias=FLAG,
                layer_norm_elementwise_affine=FLAG, _remove_final_layer_norm=FLAG),
    "llama4_text": dict(GROUPED, **BIAS, head_dim=[16], num_local_experts=[4], num_experts_per_tok=[1],
                        interleave_moe_layer_step=[1, 2], intermediate_size_mlp=[48, 72],
                        attention_chunk_size=[16], pad_token_id=[0]),
    "ministral": dict(GROUPED, **WIDTH, **WINDOWS),
    "ministral3": dict(GROUPED, **WIDTH),
    "cohere": dict(GROUPED, **BIAS, use_qk_norm=FLAG),
    "cohere2": dict(GROUPED, **BIAS, **WINDOWS),
    "nemotron": dict(GROUPED, **BIAS, mlp_bias=FLAG, head_dim=[16]),
    "nemotron_h": dict(drop(GROUPED, "num_hidden_layers"), head_dim=[8, 16], mamba_num_heads=[4, 8],
                       mamba_head_dim=[8], ssm_state_size=[8, 16], n_groups=[1, 2], conv_kernel=[2, 4],
                       use_conv_bias=FLAG, use_bias=FLAG, mlp_bias=FLAG, attention_bias=FLAG,
                       mamba_proj_bias=FLAG, n_routed_experts=[4], n_shared_experts=[1, 2],
                       moe_intermediate_size=[24], moe_shared_expert_intermediate_size=[24, 40],
                       moe_latent_size=[None, 16], num_experts_per_tok=[2],
                       layers_block_type=[["linear_attention", "moe", "full_attention", "mlp"],
                                          ["linear_attention", "mlp", "moe"]]),
    "falcon_h1": dict(GROUPED, **BIAS, **MIXER, mamba_d_ssm=[None, 64], mamba_rms_norm=FLAG,
                      projectors_bias=FLAG, mlp_bias=FLAG),
    "mamba": dict(vocab_size=[96], hidden_size=[32, 48], num_hidden_layers=[1, 3], state_size=[8, 16],
                  expand=[2], conv_kernel=[2, 4], use_bias=FLAG, use_conv_bias=FLAG,
                  time_step_rank=["auto", 4], tie_word_embeddings=FLAG),
    "mamba2": dict(vocab_size=[96], hidden_size=[32], num_hidden_layers=[1, 3], state_size=[8, 16],
                   num_heads=[8], head_dim=[8], expand=[2], n_groups=[1, 2], conv_kernel=[2, 4],
                   use_bias=FLAG, use_conv_bias=FLAG, tie_word_embeddings=FLAG),
    "bamba": dict(GROUPED, **BIAS, **MIXER, mlp_bias=FLAG, attn_layer_indices=[[], [0]]),
    "ernie4_5": dict(GROUPED, **WIDTH, use_bias=FLAG),
    "ernie4_5_moe": dict(GROUPED, moe_intermediate_size=[24, 40], use_bias=FLAG, moe_k=[1, 2],
                         moe_num_experts=[4, 8], moe_num_shared_experts=[1, 2],
                         moe_layer_start_index=[0, 1], moe_layer_interval=[1, 2]),
    "seed_oss": dict(GROUPED, **WIDTH, **BIAS, attention_out_bias=FLAG, mlp_bias=FLAG),
    "hunyuan_v1_dense": dict(GROUPED, **BIAS, head_dim=[8, 16]),
    "hunyuan_v1_moe": dict(GROUPED, **BIAS, head_dim=[8, 16], num_experts=[4], moe_topk=[1, 2]),
    "t5": T5, "mt5": T5, "umt5": T5,
    "switch_transformers": dict(
        vocab_size=[96], d_model=[32, 64], d_kv=[8, 16], d_ff=[48], num_layers=[1, 3, 6], num_heads=[4],
        num_decoder_layers=[None, 2, 4], num_sparse_encoder_layers=[0, 1, 2, 3],
        num_sparse_decoder_layers=[0, 1, 2], num_experts=[4, 8], router_bias=FLAG,
        relative_attention_num_buckets=[8, 32], tie_word_embeddings=FLAG),
    "t5gemma": dict(encoder=lambda draw, drawn: gemma_tower(draw, 64), decoder=lambda draw, drawn: gemma_tower(draw, 64),
                    tie_word_embeddings=FLAG),
    "inkling_text": dict(
        drop(GROUPED, "tie_word_embeddings"), **WIDTH, **DENSE_FIRST, **EXPERTS, n_routed_experts=[4, 8],
        n_shared_experts=[1, 2], swa_num_attention_heads=[4, 8], swa_num_key_value_heads=[1, 2, 4],
        swa_head_dim=[8, 16], sliding_window_size=[8, 12], d_rel=[4, 8], rel_extent=[16, 20],
        conv_kernel_size=[2, 4], local_layer_ids=[None, [0], [0, 2]],
        layer_types=lambda draw, drawn: draw.choice([None, words("hybrid", "hybrid_sliding")(draw, drawn)])),
    "doge": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG, sliding_window=[None, 8], keep_window_size=[8]),
    "jetmoe": dict(drop(GROUPED, "num_attention_heads"), kv_channels=[8, 16], num_local_experts=[4, 8],
                   num_experts_per_tok=[1, 2]),
    "voxtral_realtime_text": dict(GROUPED, **WIDTH, sliding_window=[None, 8]),
    "bart": BART, "mbart": BART, "plbart": BART, "mvp": BART, "blenderbot": BART,
    "blenderbot-small": BART, "marian": BART, "pegasus": BART, "m2m_100": BART,
    "bert": BERT, "roberta": BERT, "xlm-roberta": BERT, "camembert": BERT, "data2vec-text": BERT,
    "roberta-prelayernorm": BERT, "xlm-roberta-xl": BERT, "megatron-bert": BERT,
    "ernie": dict(BERT, use_task_id=FLAG, task_type_vocab_size=[3, 5]),
    "electra": dict(BERT, embedding_size=[16, 32, 64]),
    "deberta": dict(DEBERTA), "deberta-v2": dict(
        DEBERTA, position_buckets=[-1, 16], share_att_key=FLAG, norm_rel_ebd=["none", "layer_norm"],
        conv_kernel_size=[0, 3], conv_groups=[1, 2]),
    "esm": dict(drop(BERT, "type_vocab_size"), position_embedding_type=["absolute", "rotary"],
                emb_layer_norm_before=[None, *FLAG], mask_token_id=[2]),
    "roformer": dict(BERT, embedding_size=[None, 16], rotary_value=FLAG),
    "rembert": dict(BERT, input_embedding_size=[16, 24], output_embedding_size=[40, 48]),
    "layoutlm": dict(BERT, max_2d_position_embeddings=[48, 64]),
    "distilbert": dict(vocab_size=[96, 130], dim=[32, 64], n_layers=[1, 3], n_heads=[4, 8],
                       hidden_dim=[48, 80], max_position_embeddings=[64], tie_word_embeddings=FLAG),
    "mpnet": dict(drop(BERT, "type_vocab_size"), relative_attention_num_buckets=[8, 32]),
    "nomic_bert": dict(BERT, **WIDTH), "gte": dict(BERT, type_vocab_size=[0, 1, 2]),
    "jina_embeddings_v3": BERT,
    "eurobert": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG, mask_token_id=[2]),
    "modernbert": dict(drop(GROUPED, "num_key_value_heads"), **BIAS, norm_bias=FLAG, mlp_bias=FLAG,
                       decoder_bias=FLAG, classifier_bias=FLAG, local_attention=[8, 16]),
    "modernbert-decoder": dict(drop(GROUPED, "num_key_value_heads"), **BIAS, norm_bias=FLAG, mlp_bias=FLAG,
                               decoder_bias=FLAG, classifier_bias=FLAG, local_attention=[8, 16]),
    "vit": dict(hidden_size=[32, 64], num_hidden_layers=[1, 3], num_attention_heads=[4],
                intermediate_size=[48], image_size=[32, 48], patch_size=[8, 16], num_channels=[1, 3],
                qkv_bias=FLAG),
    "minimax_m2": dict(GROUPED, **WIDTH, num_local_experts=[4, 8], num_experts_per_tok=[1, 2]),
    "minimax": dict(GROUPED, head_dim=[8, 16], num_local_experts=[4], num_experts_per_tok=[2],
                    layer_types=words("full_attention", "linear_attention")),
    "kimi_linear": dict(drop(LATENT, "n_routed_experts", "first_k_dense_replace"),
                        num_local_experts=[4, 8], linear_head_dim=[8, 16], linear_num_heads=[2, 4],
                        linear_conv_kernel_dim=[2, 4],
                        layer_types=words("full_attention", "linear_attention"), **DENSE_FIRST),
    "mimo_v2_flash": dict(GROUPED, **BIAS, **EXPERTS, head_dim=[16, 24], v_head_dim=[8, 16],
                          n_routed_experts=[4, 8], num_key_value_heads=[1, 2], **WINDOWS, **DENSE_FIRST),
    "longcat_flash": dict(drop(LATENT, "num_hidden_layers", "intermediate_size", "n_shared_experts",
                               "moe_intermediate_size", "num_experts_per_tok", "first_k_dense_replace",
                               "n_group", "topk_group"),
                          q_lora_rank=[24], num_layers=[1, 2], ffn_hidden_size=[48], moe_topk=[2],
                          zero_expert_num=[0, 2], expert_ffn_hidden_size=[24]),
    "hy_v3": dict(GROUPED, **WIDTH, **BIAS, **EXPERTS, mlp_bias=FLAG, num_experts=[4, 8],
                  num_shared_experts=[1, 2], **DENSE_FIRST),
    "exaone4": dict(GROUPED, **WINDOWS),
    "exaone_moe": dict(GROUPED, **EXPERTS, **WINDOWS, num_experts=[4], num_shared_experts=[1, 2],
                       **DENSE_FIRST),
    "lfm2": dict(GROUPED, conv_bias=FLAG, conv_L_cache=[2, 3], block_multiple_of=[16],
                 block_auto_adjust_ff_dim=FLAG, block_ffn_dim_multiplier=[1.0, 1.3],
                 layer_types=words("full_attention", "conv")),
    "lfm2_moe": dict(GROUPED, **EXPERTS, conv_bias=FLAG, conv_L_cache=[2, 3], num_experts=[4],
                     num_dense_layers=[0, 1], layer_types=words("full_attention", "conv")),
    "solar_open": dict(drop(GROUPED, "intermediate_size"), **EXPERTS, **WIDTH, **BIAS,
                       n_routed_experts=[4], n_shared_experts=[1, 2]),
    "afmoe": dict(GROUPED, **EXPERTS, **WIDTH, **BIAS, num_experts=[4], num_shared_experts=[1, 2],
                  num_dense_layers=[0, 1], **WINDOWS),
    "apertus": dict(GROUPED, **BIAS),
    "arcee": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG),
    "stablelm": dict(GROUPED, use_qkv_bias=FLAG, qk_layernorm=FLAG, use_parallel_residual=FLAG),
    "gptj": dict(GPT, rotary_dim=[4]),
    "gpt_bigcode": dict(GPT, multi_query=FLAG),
    "openai-gpt": drop(GPT, "n_inner"), "ctrl": dict(drop(GPT, "n_inner"), dff=[48, 80]),
    "iquestcoder": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG),
    "cwm": dict(GROUPED, **WIDTH, **WINDOWS, mlp_bias=FLAG),
    "granite_swa": dict(GROUPED, **BIAS, **WINDOWS, mlp_bias=FLAG),
    "granitemoe_swa": dict(GROUPED, **BIAS, **WINDOWS, num_local_experts=[4, 8], num_experts_per_tok=[1, 2],
                           shared_intermediate_size=[0, 24]),
    "nanochat": dict(GROUPED, **BIAS),
    "vaultgemma": dict(GROUPED, **WIDTH, **BIAS, **WINDOWS),
    # Its output projection is square: heads fill the hidden width.
    "helium": dict(GROUPED, **BIAS, mlp_bias=FLAG, head_dim=fills),
    "persimmon": dict(drop(GROUPED, "num_key_value_heads"), qk_layernorm=FLAG),
    "jais2": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG),
    "hyperclovax": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG, use_post_norm=FLAG),
    "dots1": dict(GROUPED, **EXPERTS, **BIAS, **WINDOWS, n_routed_experts=[4, 8], n_shared_experts=[1, 2],
                  n_group=[1, 2], topk_group=[1], first_k_dense_replace=[0, 1, 2]),
    "flex_olmo": dict(GROUPED, **BIAS, num_experts=[4, 8], num_experts_per_tok=[1, 2]),
    "mellum": dict(GROUPED, **EXPERTS, **WIDTH, **BIAS, **WINDOWS, num_experts=[4, 8], **DENSE_FIRST),
    "kolibri1": dict(drop(GROUPED, "intermediate_size"), **EXPERTS, **WIDTH, **WINDOWS, num_experts=[4, 8],
                     shared_expert_intermediate_size=[24, 56]),
    "flint": dict(GROUPED, **EXPERTS, **WIDTH, **BIAS, **WINDOWS, num_experts=[4, 8],
                  decoder_sparse_step=[1, 2], mlp_only_layers=[None, [], [0]],
                  shared_expert_intermediate_size=[24, 56]),
    "aria_text": dict(GROUPED, **WIDTH, **BIAS, mlp_bias=FLAG, moe_num_experts=[4, 8], moe_topk=[1, 2],
                      moe_num_shared_experts=[1, 2]),
    "cohere2_moe": dict(GROUPED, **WIDTH, **BIAS, **WINDOWS, num_experts=[4, 8], num_experts_per_tok=[1, 2],
                        num_shared_experts=[0, 1, 2], prefix_dense_intermediate_size=[None, 72],
                        rms_norm_eps=[None, 1e-5], **DENSE_FIRST),
    "laguna": dict(GROUPED, **EXPERTS, **WIDTH, **BIAS, **WINDOWS, num_experts=[4, 8],
                   shared_expert_intermediate_size=[24, 56], gating=[True, "per-head", "per-element"],
                   num_attention_heads_per_layer=lambda draw, drawn: [
                       draw.choice([4, 8]) for _ in range(drawn["num_hidden_layers"])], **DENSE_FIRST),
    "gemma4_unified_text": dict(GROUPED, **WIDTH, **BIAS, num_hidden_layers=[6, 12],
                                attention_k_eq_v=FLAG, num_global_key_value_heads=[1, 2],
                                global_head_dim=[16, 32], num_kv_shared_layers=[0],
                                use_double_wide_mlp=FLAG, sliding_window=[8]),
    "axk1": dict(drop(LATENT, "first_k_dense_replace"), q_lora_rank=[24], **DENSE_FIRST),
    "youtu": drop(LATENT, "n_routed_experts", "n_shared_experts", "n_group", "topk_group",
                  "first_k_dense_replace", "num_experts_per_tok", "moe_intermediate_size"),
    "minicpm3": dict(drop(LATENT, "n_routed_experts", "n_shared_experts", "n_group", "topk_group",
                          "first_k_dense_replace", "num_experts_per_tok", "moe_intermediate_size"),
                     v_head_dim=[None, 8, 16], mlp_bias=FLAG),
    "bitnet": dict(GROUPED, **BIAS, head_dim=fills),
    "diffllama": dict(GROUPED, **WIDTH, **BIAS, num_key_value_heads=[2, 4]),
    "beam": dict(GROUPED, **EXPERTS, **WIDTH, **BIAS, **WINDOWS, num_experts=[4, 8], n_group=[1, 2],
                 topk_group=[1], **DENSE_FIRST),
    "cohere_compass_text": dict(GROUPED, **BIAS, **WINDOWS, rope_parameters=[ROPES]),
    "emu3_text_model": GROUPED,
    "qwen4_exp_text": dict(drop(GROUPED, "intermediate_size"), **EXPERTS, **BIAS, **DELTA, head_dim=[16, 24],
                           num_experts=[4, 8], shared_expert_intermediate_size=[24, 56], hc_count=[2, 4],
                           hc_lowrank=[4, 8], indexer_n_heads=[2], indexer_kv_heads=[1],
                           indexer_head_dim=[24, 32], indexer_budget=[8], indexer_compress_ratio=[2, 4],
                           layer_types=lambda draw, drawn: ["linear_attention"] + [
                               draw.choice(["linear_attention", "indexed_attention"])
                               for _ in range(drawn["num_hidden_layers"] - 1)],
                           ple_layer_ids=lambda draw, drawn: draw.choice([None, [1], [
                               i + 1 for i, word in enumerate(drawn["layer_types"])
                               if word == "linear_attention"]]),
                           ple_embed_dim=[24, 48], heads_per_ngram=[2, 3], ngram_size=[2, 3],
                           ngram_vocab_size_base=[50, 101], make_ngram_vocab_size_divisible_by=[1, 16],
                           ple_conv_kernel_size=[2, 4]),
    "zaya": dict(drop(GROUPED, "intermediate_size"), **WIDTH, **BIAS, moe_intermediate_size=[24, 40],
                 num_experts=[4, 8], router_hidden_size=[8, 16], cca_time0=[2, 3], cca_time1=[2, 3],
                 lm_head_bias=FLAG, sliding_window=[8],
                 layer_types=words("hybrid", "hybrid_sliding")),
    "mistral4": LATENT,
    "codegen": dict(GPT, rotary_dim=[4]),
    "gpt_neox_japanese": dict(drop(GROUPED, "num_key_value_heads", "intermediate_size"),
                              intermediate_multiple_size=[2, 4]),
    "gpt_neo": dict(vocab_size=[96, 130], hidden_size=[32, 64], num_layers=[4], num_heads=[4, 8],
                    intermediate_size=[None, 80], max_position_embeddings=[64], window_size=[8],
                    attention_types=[[[["global", "local"], 2]], [[["local"], 3], [["global"], 1]]],
                    tie_word_embeddings=FLAG),
    "mpt": dict(vocab_size=[96, 130], d_model=[32, 64], n_layers=[1, 3], n_heads=[4, 8],
                max_seq_len=[64], tie_word_embeddings=FLAG),
    "xglm": dict(vocab_size=[96, 130], d_model=[32, 64], num_layers=[1, 3], attention_heads=[4, 8],
                 ffn_dim=[48, 80], max_position_embeddings=[64], tie_word_embeddings=FLAG),
    "biogpt": drop(GROUPED, "num_key_value_heads"),
    "axk2": dict(drop(LATENT, "first_k_dense_replace"), q_lora_rank=[24], index_n_heads=[2, 4],
                 index_head_dim=[16], index_topk=[8], gated_norm_rank=[4, 8], **DENSE_FIRST),
    "hy_v4": dict(drop(LATENT, "first_k_dense_replace"), q_lora_rank=[24], index_n_heads=[2, 4],
                  index_head_dim=[16], index_topk=[8], hc_mult=[2, 4], **DENSE_FIRST,
                  indexer_types=lambda draw, drawn: ["full"] + [
                      draw.choice(["full", "shared"]) for _ in range(drawn["num_hidden_layers"] - 1)]),
    "bailing_hybrid": dict(drop(LATENT, "q_lora_rank", "n_routed_experts"), num_local_experts=[4, 8],
                           n_group=[1, 2], head_dim=[8, 16], short_conv_kernel_size=[2, 4],
                           layer_types=words("full_attention", "linear_attention"), **DENSE_FIRST),
    "jamba": dict(GROUPED, num_experts=[1, 4], num_experts_per_tok=[1, 2], expert_layer_period=[2, 3],
                  expert_layer_offset=[0, 1], attn_layer_period=[2, 4], attn_layer_offset=[0, 1],
                  mamba_d_state=[8, 16], mamba_d_conv=[2, 4], mamba_expand=[2], mamba_dt_rank=["auto", 4],
                  mamba_conv_bias=FLAG, mamba_proj_bias=FLAG),
    "olmo_hybrid": dict(GROUPED, **BIAS, num_hidden_layers=[2, 3, 6], linear_num_key_heads=[None, 2, 4],
                        linear_num_value_heads=[4, 8], linear_key_head_dim=[None, 8, 16],
                        linear_value_head_dim=[None, 8, 16], linear_conv_kernel_dim=[2, 4],
                        layer_types=lambda draw, drawn: draw.choice([None, ["linear_attention"] + [
                            "full_attention"] * (drawn["num_hidden_layers"] - 1)])),
    "recurrent_gemma": dict(GROUPED, **BIAS, lru_width=[None, 16, 48], conv1d_width=[2, 4],
                            attention_window_size=[8],
                            block_types=[("recurrent", "attention"), ("recurrent",), ("attention",)]),
    "lfm3": dict(GROUPED, **WIDTH, **BIAS, conv_bias=FLAG, conv_L_cache=[2, 3], use_sandwich_norm=FLAG,
                 use_attention_gate=FLAG, sliding_window=[8],
                 layer_types=words("full_attention", "sliding_attention", "conv")),
    "minimax_m3_vl_text": dict(drop(GROUPED, "num_key_value_heads"), **WIDTH, num_key_value_heads=[2],
                               index_n_heads=[2], index_head_dim=[8, 16], index_block_size=[4],
                               num_local_experts=[4, 8], num_experts_per_tok=[1, 2], rotary_dim=[4],
                               shared_intermediate_size=[24, 56], dense_intermediate_size=[72],
                               layer_types=words("full_attention", "minimax_m3_sparse"), **DENSE_FIRST),
    "dbrx": dict(vocab_size=[96], d_model=[32, 64], n_layers=[1, 3], n_heads=[4, 8],
                 attn_config=[{"kv_n_heads": 2, "rope_theta": 1e4}, {"kv_n_heads": 4, "rope_theta": 1e4}],
                 ffn_config=[{"ffn_hidden_size": 48, "moe_num_experts": 4, "moe_top_k": 2},
                             {"ffn_hidden_size": 80, "moe_num_experts": 8, "moe_top_k": 1}]),
    "falcon_mamba": dict(vocab_size=[96], hidden_size=[32, 48], num_hidden_layers=[1, 3],
                         state_size=[8, 16], expand=[2], conv_kernel=[2, 4], use_bias=FLAG,
                         use_conv_bias=FLAG, time_step_rank=["auto", 4], tie_word_embeddings=FLAG),
    "hunyuan_vl_text": dict(GROUPED, **BIAS, **WIDTH),
    "granite_docling_text": dict(GROUPED, **BIAS, **WIDTH, mlp_bias=FLAG),
    "cosmos3_edge_text": dict(GROUPED, **BIAS, mlp_bias=FLAG, head_dim=[16, 24],
                              rope_parameters=lambda draw, drawn: {
                                  "rope_type": "default", "rope_theta": 1e4,
                                  "mrope_section": [drawn["head_dim"] // 2 - 4, 2, 2]}),
    "deepseek_ocr2_text": dict(GROUPED, **BIAS, **EXPERTS, **DENSE_FIRST, mlp_bias=FLAG,
                               n_routed_experts=[4, 8], n_shared_experts=[1, 2]),
    "unlimited_ocr_text": dict(GROUPED, **BIAS, **EXPERTS, **DENSE_FIRST, mlp_bias=FLAG,
                               n_routed_experts=[4, 8], n_shared_experts=[1, 2], sliding_window=[8]),
    "muse_glimmer_text": dict(GROUPED, **BIAS, **WIDTH, **WINDOWS),
    "muse_spark_text": dict(GROUPED, **BIAS, **WIDTH, **WINDOWS, **DENSE_FIRST, **EXPERTS,
                            num_local_experts=[4, 8], moe_hidden_size=[16, 24]),
    "step3p5": dict(GROUPED, **BIAS, **WIDTH, **WINDOWS, **DENSE_FIRST, **EXPERTS, mlp_bias=FLAG,
                    num_sliding_attention_heads=[None, 8, 16], n_routed_experts=[4, 8],
                    share_expert_dim=[24, 56]),
    "ernie4_5_vl_moe_text": dict(GROUPED, **DENSE_FIRST, use_bias=FLAG, moe_k=[1, 2],
                                 rope_parameters=lambda draw, drawn: {
                                     "rope_type": "default", "rope_theta": 5e5,
                                     "mrope_section": [fills(draw, drawn) // 4 - 1] * 2 + [2]},
                                 moe_num_experts=[4, 8], moe_num_shared_experts=[0, 1, 2],
                                 moe_intermediate_size=[[24, 16], [40, 24]]),
    "molmo2_text": dict(GROUPED, **BIAS, **WIDTH, additional_vocab_size=[0, 16],
                        qk_norm_type=["qwen3", "olmo"], norm_after=FLAG),
    "glm5_next_text": dict(drop(LATENT, "first_k_dense_replace"), **DENSE_FIRST, **CHOOSES,
                           num_hidden_layers=[3, 6, 7], q_lora_rank=[24], qk_rope_head_dim=[0],
                           index_kpool=[1, 4], hc_mult=[2, 4],
                           linear_num_heads=[2, 4], linear_head_dim=[8, 16],
                           linear_conv_kernel_dim=[2, 4],
                           layer_types=words("indexed_attention", "linear_attention")),
    "mistral_large4_text": dict(drop(LATENT, "first_k_dense_replace", "q_lora_rank"), **DENSE_FIRST,
                                **CHOOSES, kv_source_layers=lambda draw, drawn: draw.choice([
                                    None, [i - i % 2 for i in range(drawn["num_hidden_layers"])]]),
                                no_rope_layers=lambda draw, drawn: draw.choice([
                                    None, [i % 2 for i in range(drawn["num_hidden_layers"])]])),
    "dots3_note_text": dict(drop(LATENT, "first_k_dense_replace"), **DENSE_FIRST, q_lora_rank=[24],
                            n_routed_experts=[4, 8], index_n_heads=[2, 4], index_head_dim=[16],
                            index_topk=[8], sliding_window=[8], swa_num_attention_heads=[4],
                            swa_num_key_value_heads=[4], swa_q_lora_rank=[16, 24],
                            swa_kv_lora_rank=[16, 24], swa_head_dim=[24], swa_qk_nope_head_dim=[8, 16],
                            swa_v_head_dim=[8, 16], shared_experts_intermediate_size=[24, 56],
                            layer_types=words("indexed_attention", "sliding_attention")),
}

# Larger models that see or hear: the language part's keys as the family's above.
LARGER = {
    "llava": "llama", "mistral3": "mistral", "paligemma": "gemma", "gemma3": "gemma3_text",
    "gemma3n": "gemma3n_text", "gemma4": "gemma4_text", "qwen2_vl": "qwen2", "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3", "qwen3_vl_moe": "qwen3_moe", "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text", "llama4": "llama4_text", "internvl": "qwen2",
    "glm4v": "glm4v_text", "glm46v": "glm4v_text", "glm_ocr": "glm_ocr_text",
    "idefics3": "llama", "aya_vision": "cohere2", "glm4v_moe": "glm4_moe", "smolvlm": "llama",
    "cosmos3_edge": "cosmos3_edge_text", "deepseek_ocr2": "deepseek_ocr2_text",
    "dots3_note": "dots3_note_text", "ernie4_5_vl_moe": "ernie4_5_vl_moe_text",
    "glm5_next": "glm5_next_text", "glmga": "glm4v_text", "granite_docling": "granite_docling_text",
    "hunyuan_vl": "hunyuan_vl_text", "lfm3_vl": "lfm3", "mistral_large4": "mistral_large4_text",
    "molmo2": "molmo2_text", "muse_glimmer": "muse_glimmer_text", "muse_spark": "muse_spark_text",
    "step3p7": "step3p5", "unlimited_ocr": "unlimited_ocr_text", "inkling_mm_model": "inkling_text",
    "voxtral_realtime": "voxtral_realtime_text", "nemotron_h_omni": "nemotron_h",
}

# Defaults of the class that transformers itself cannot build, mended.
DEFAULTS = {
    "ministral": dict(head_dim=128), "hunyuan_v1_dense": dict(head_dim=128),
    "hunyuan_v1_moe": dict(head_dim=128), "nemotron": dict(num_key_value_heads=48),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"] * 16),
    "deepseek_v2": dict(num_experts_per_tok=6),
    "cohere_compass_text": dict(rope_parameters=ROPES),
    "qwen4_exp_text": dict(indexer_n_heads=8, indexer_kv_heads=1, indexer_head_dim=256, indexer_budget=2048,
                           indexer_compress_ratio=16),
    "dbrx": dict(attn_config={"rope_theta": 1e4}),
    "hunyuan_vl_text": dict(head_dim=128),
    "deepseek_ocr2_text": dict(mlp_layer_types=["dense"] + ["sparse"] * 31, num_experts_per_tok=6),
    "esm": dict(vocab_size=33, pad_token_id=1),
    "dots1": dict(n_routed_experts=128, n_shared_experts=2, num_experts_per_tok=6),
}

HEADS = ["ForCausalLM", "ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
         "Model"]


def classes_of(family):
    """The library's classes for the family's heads, by the ends of their names."""
    found = {}
    config_class = CONFIG_MAPPING[family]
    module = sys.modules[config_class.__module__]
    name = config_class.__module__.replace("configuration_", "modeling_")
    if importlib.util.find_spec(name) is None:  # another family's classes build it
        return {"ForCausalLM": transformers.MODEL_FOR_CAUSAL_LM_MAPPING[config_class]}
    __import__(name)
    module = sys.modules[name]
    for name, value in vars(module).items():
        is_model = isinstance(value, type) and issubclass(value, transformers.PreTrainedModel)
        if not is_model or getattr(value, "config_class", None) is not config_class:
            continue
        for end in HEADS + ["LMHeadModel", "ForConditionalGeneration", "ForMaskedLM",
                            "ForImageClassification", "MTModel"]:
            # A decoder without its encoder is another model.
            if end == "ForCausalLM" and getattr(config_class, "is_encoder_decoder", False):
                continue
            if name.endswith(end) and not name.startswith(("Encoder",)) and "pretrained" not in name.lower() \
                    and "DoubleHeads" not in name and "EncoderModel" not in name:
                if end == "Model" and ("LMHead" in name or name.endswith(("DecoderModel",))):
                    continue
                found.setdefault(end, value)
    return found


def usual_class(found):
    for end in ("LMHeadModel", "ForCausalLM", "ForConditionalGeneration", "ForMaskedLM",
                "ForImageClassification", "MTModel", "Model"):
        if end in found:
            return found[end]
    raise KeyError("no class")


LAYER = re.compile(r"(?:^|\.)(layers|h|block|layer|blocks)\.(\d+)\.")


def expected_counts(config, model_class):
    with torch.device("meta"):
        model = model_class(config)
    layers = {}
    for name, parameter in model.named_parameters():
        # The convolution beside DeBERTa's first block stands behind all of them.
        match = LAYER.search(name.replace(".encoder.conv.", ".encoder.layer.0.conv."))
        if match:
            # Of encoders and decoders side by side each has its own.
            side = re.search(r"(?:^|\.)(encoder|decoder)\.", name)
            part = side.group(1) if side and config.is_encoder_decoder else "block"
            key = (part, int(match.group(2)))
            layers[key] = layers.get(key, 0) + parameter.numel()
    return sum(p.numel() for p in model.parameters()), layers


def stagecraft_counts(binary, folder):
    done = subprocess.run([binary, "model", "show", str(folder / "config.json"), "--json"],
                          capture_output=True, text=True)
    answer = json.loads(done.stdout) if done.stdout else {}
    if done.returncode != 0:
        return None, done.stderr.strip() or answer.get("error", {}).get("message", "")
    result = answer["result"]
    return result["parameters"], {layer["name"]: layer["parameters"] for layer in result["layers"]}


def draw_config(family, draw, labels):
    keys = FAMILIES[family]
    drawn = {}
    for key, options in keys.items():
        if options is not None and not callable(options):
            drawn[key] = draw.choice(options)
    for key, options in keys.items():
        if callable(options):
            drawn[key] = options(draw, drawn)
    if "num_key_value_heads" in drawn and "num_attention_heads" in drawn:
        drawn["num_key_value_heads"] = min(drawn["num_key_value_heads"], drawn["num_attention_heads"])
    if keys.get("num_key_value_heads", 0) is None:
        drawn["num_key_value_heads"] = drawn["num_attention_heads"]
    for key in ("bos_token_id", "eos_token_id"):
        drawn[key] = 1
    drawn.setdefault("pad_token_id", 0)
    drawn["num_labels"] = labels
    return CONFIG_MAPPING[family](**drawn)


def compare(binary, config, model_class, folder):
    """None if all is equal, else what is not."""
    expected, layers = expected_counts(config, model_class)
    config.architectures = [model_class.__name__]
    config.save_pretrained(folder)
    found, rows = stagecraft_counts(binary, folder)
    if found is None:
        return f"refused: {rows}"
    if found != expected:
        wrong = [f"layer {key[1]}: {rows.get('%s.%d' % key)}, expected {count}"
                 for key, count in layers.items() if rows.get("%s.%d" % key) not in (count, None)]
        return f"{found:,}, expected {expected:,}; {'; '.join(wrong[:2]) or 'outside of layers'}"
    for (part, index), count in layers.items():
        ours = rows.get(f"{part}.{index}")
        # The norm behind the encoder is in its last layer here.
        is_last = part == "encoder" and f"encoder.{index + 1}" not in rows
        if ours is not None and not is_last and ours != count:
            return f"{part} layer {index} has {ours:,}, expected {count:,}"
    return None


def ties_words(config):
    """Of a larger model: which key counts, and its default, are its class's business."""
    try:
        with torch.device("meta"):
            model = transformers.AutoModelForImageTextToText.from_config(config)
    except (ImportError, ValueError):  # its eyes need a package, or have heads that do not divide
        return bool(getattr(config, "tie_word_embeddings", False))
    if model.get_output_embeddings() is None:  # its language part is a model with a head
        model = model.language_model
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def compare_larger(binary, outer, family, draw, folder, index):
    """The language part: its base model, and a head unless the whole model ties it to the words."""
    keys = {} if index == 0 else draw_config(family, draw, 2).to_dict()
    defaults = {k: v for k, v in keys.items() if k in FAMILIES[family]}
    text_type = CONFIG_MAPPING[outer]().get_text_config().model_type
    generic = text_type if text_type in CONFIG_MAPPING else family
    tied = draw.choice(FLAG)
    if index == 0:
        config = CONFIG_MAPPING[outer]()
    else:
        config = CONFIG_MAPPING[outer](text_config=CONFIG_MAPPING[generic](**defaults),
                                       tie_word_embeddings=tied)
    text = config.get_text_config()
    with torch.device("meta"):
        try:
            base = transformers.AutoModel.from_config(text)
        except ValueError:  # not registered by itself
            base = classes_of(text.model_type)["Model"](text)
    expected = sum(p.numel() for p in base.parameters())
    if not ties_words(config):
        expected += text.vocab_size * text.hidden_size
    config.save_pretrained(folder)
    found, rows = stagecraft_counts(binary, folder)
    if found is None:
        return f"refused: {rows}"
    return None if found == expected else f"{found:,}, expected {expected:,}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("stagecraft")
    parser.add_argument("--families", default=",".join([*FAMILIES, *LARGER]))
    parser.add_argument("--configs", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{'family':<20}{'configs':>8}{'equal':>7}")
    all_equal = True
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for family in arguments.families.split(","):
            draw = random.Random(f"{arguments.seed} {family}")
            found = {} if family in LARGER else classes_of(family)
            tried = equal = 0
            complaints = []
            for index in range(arguments.configs + 1):
                try:
                    if family in LARGER:
                        wrong = compare_larger(arguments.stagecraft, family, LARGER[family], draw,
                                               folder, index)
                        tried += 1
                        equal += wrong is None
                        if wrong is not None:
                            complaints.append(f"  {wrong}")
                        continue
                    if index == 0:
                        model_class = usual_class(found)
                        config = CONFIG_MAPPING[family](**DEFAULTS.get(family, {}))
                        if family in DEFAULTS and config.num_labels != 2:
                            config.num_labels = 2
                    else:
                        ends = sorted(found)
                        # Mostly the usual head, each other one now and then.
                        model_class = usual_class(found) if index % 2 else found[draw.choice(ends)]
                        # BART's class has three unless a file says more than their number.
                        labels = [1, 3, 5] if family == "bart" else [1, 2, 5]
                        config = draw_config(family, draw, draw.choice(labels))
                    wrong = compare(arguments.stagecraft, config, model_class, folder)
                except Exception as error:  # a combination that the library itself refuses
                    complaints.append(f"  (not built: {type(error).__name__}: {str(error)[:150]})")
                    continue
                tried += 1
                equal += wrong is None
                if wrong is not None:
                    complaints.append(f"  {model_class.__name__}: {wrong}")
            all_equal = all_equal and equal == tried and tried > 0
            print(f"{family:<20}{tried:>8}{equal:>7}", flush=True)
            for complaint in complaints:
                print(complaint, flush=True)
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
