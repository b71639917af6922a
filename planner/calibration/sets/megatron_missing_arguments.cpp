// Arguments are those of tests/functional_tests/test_cases/NAME/model_config.yaml in
// NVIDIA/Megatron-LM; tokenizers of "nemotron_2_256k" have 256,000 words.
//
// Recipes of release runs, with their `nodes`, stand in a repository of NVIDIA's own, which
// .gitlab/ stages/04.functional-tests.yml adds as "megatron-lm-convergence-tests". So the numbers
// of devices are inferred, from no time and no peak: of the powers of two that degrees and batch
// allow, the one whose weights, gradients and optimizer states (12 bytes a parameter, over the
// replicas) come nearest below what a run holds between two steps ("mem-allocated-bytes") less what
// libraries keep:
//
//   mixtral, H100   17.70 GB held; 12.61 of weights and sums, 4.75 of states over 16 replicas, 0.32
//                   of stubs and workspaces: 17.68. Over 8 it were 22.4, over 32 15.3.
//   gpt3_15b, A100  12.70 GB held; 11.73 and 0.73 over 32 replicas. Over 16 it were 13.2, and 64 do
//                   not divide the batch of 384.
//   deepseek proxy  33.4 GB held on H100, 58.5 on GB200; over 8 replicas 30.7 and 55.5. Over 4 it
//                   were 42.7 and 76.7, over 16 24.7 and 44.9.
//
// The batch of gpt3_15b grows from 384 by 384 each 48.8 million samples, of which it trained 4.9
// million: 12,715 steps, one of a hundred measured.

#include "planner/calibration/sets/megatron_missing_arguments.hpp"

#include <array>
#include <span>

namespace stagecraft {

namespace {

struct Argument {
  std::string_view name, value;
};

constexpr std::array llama_like{
    Argument{"untie-embeddings-and-output-weights", "true"}, Argument{"hidden-dropout", "0.0"},
    Argument{"attention-dropout", "0.0"}, Argument{"disable-bias-linear", "true"},
    Argument{"position-embedding-type", "rope"}};
constexpr std::array gpt3{Argument{"vocab-size", "256000"}, Argument{"global-batch-size", "384"},
                          Argument{"world-size", "256"}};
constexpr std::array mixtral{Argument{"vocab-size", "256000"}, Argument{"normalization", "RMSNorm"},
                             Argument{"moe-grouped-gemm", "true"}, Argument{"world-size", "128"}};
constexpr std::array latent_experts{Argument{"normalization", "RMSNorm"},
                                    Argument{"moe-grouped-gemm", "true"},
                                    Argument{"make-vocab-size-divisible-by", "3232"},
                                    Argument{"multi-latent-attention", "true"},
                                    Argument{"q-lora-rank", "1536"},
                                    Argument{"moe-router-enable-expert-bias", "true"},
                                    Argument{"expert-tensor-parallel-size", "1"},
                                    Argument{"cross-entropy-loss-fusion", "true"}};
constexpr std::array deepseek{Argument{"vocab-size", "256000"},
                              Argument{"cross-entropy-fusion-impl", "te"},
                              Argument{"moe-token-dispatcher-type", "flex"},
                              Argument{"mtp-num-layers", "1"},
                              Argument{"moe-dense-blocks", "3"},
                              Argument{"moe-ffn-hidden-size", "2048"},
                              Argument{"moe-shared-expert-intermediate-size", "2048"}};
constexpr std::array small_experts{Argument{"moe-dense-blocks", "1"},
                                   Argument{"moe-ffn-hidden-size", "1024"},
                                   Argument{"moe-shared-expert-intermediate-size", "1024"}};
constexpr std::array fused_loss{Argument{"cross-entropy-loss-fusion", "true"}};
constexpr std::array two_instances{Argument{"num-distributed-optimizer-instances", "2"}};
constexpr std::array divided_experts{Argument{"expert-tensor-parallel-size", "2"}};
constexpr std::array predicting{Argument{"mtp-num-layers", "1"}};
constexpr std::array grouped{Argument{"moe-grouped-gemm", "true"}};
constexpr std::array on_64{Argument{"world-size", "64"}};
constexpr std::array on_32{Argument{"world-size", "32"}};
constexpr std::array small_latent{Argument{"multi-latent-attention", "true"},
                                  Argument{"q-lora-rank", "192"},
                                  Argument{"kv-lora-rank", "64"},
                                  Argument{"qk-head-dim", "16"},
                                  Argument{"qk-pos-emb-head-dim", "8"},
                                  Argument{"v-head-dim", "16"},
                                  Argument{"sequence-parallel", "true"},
                                  Argument{"num-layers", "4"}};

using Arguments = std::span<const Argument>;

/// Cases whose names begin so, in the order of the table.
struct Case {
  std::string_view name;
  Arguments first, second = {}, third = {};
};
constexpr std::array cases{
    Case{"gpt/gpt3_15b_8t_release", llama_like, gpt3},
    Case{"gpt/gpt3_mcore_te_tp2_pp2_mla", small_latent},
    Case{"gpt/gpt3_mcore_te_tp2_pp2_cross_entropy_loss_fusion", fused_loss},
    Case{"gpt/gpt3_mcore_te_tp2_pp2_resume_torch_dist_cross_entropy_loss_fusion", fused_loss},
    Case{"gpt/gpt3_mcore_te_tp2_pp1_multi_dist_optimizer_instances", two_instances},
    Case{"gpt/gpt3_mcore_te_tp2_pp1_resume_torch_dist_multi_dist_optimizer_instances",
         two_instances},
    Case{"moe/gpt3_mcore_te_tp2_pp1_resume_torch_dist_te_8experts2parallel_multi_dist_optimizer_"
         "instances",
         two_instances},
    Case{"moe/gpt3_mcore_tp2_pp2_ep2_etp2_te_4experts2parallel", divided_experts},
    Case{"moe/gpt3_mcore_te_tp1_pp1_te_4experts_groupedGEMM", grouped},
    Case{"moe/gpt3_mcore_te_tp2_pp1_te_8experts2parallel_overlap_grad_reduce_param_gather_"
         "groupedGEMM",
         grouped},
    Case{"moe/gpt3_mcore_te_tp2_pp1_resume_torch_dist_te_8experts2parallel_groupedGEMM", grouped},
    Case{"moe/gpt3_mcore_te_tp2_pp1_resume_torch_dist_te_8experts2parallel_top2router", grouped},
    Case{"mixtral/mixtral_8x7b_alltoall_tp2pp4ep4_release", llama_like, mixtral},
    Case{"mixtral/deepseekv3_proxy_flex", llama_like, latent_experts, deepseek},
    Case{"mixtral/deepseekv3_proxy_flex_tp1pp4emp16etp1cp1_release", on_64},
    Case{"mixtral/deepseekv3_proxy_flex_tp2pp2emp16etp1cp1_gb_200_release", on_32},
    Case{"moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_", llama_like, latent_experts, small_experts},
    Case{"moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_memory_speed", predicting},
    Case{"moe/gpt3_mcore_te_tp2_pp2_ep4_etp1_mtp", predicting},
};

}  // namespace

void complete_arguments(std::string_view name, MegatronArguments& arguments) {
  for (const Case& known : cases) {
    if (!name.starts_with(known.name)) continue;
    for (const Arguments of_case : {known.first, known.second, known.third}) {
      for (const auto& [argument, value] : of_case)
        arguments.set(argument, {std::string(value), {}});
    }
  }
}

}  // namespace stagecraft
