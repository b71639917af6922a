#include "planner/interop/importers/flag_kinds.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Words between blanks; one that ends with a star stands for all that begin so.
constexpr std::array not_modelled_flags{
    // Recomputation and offloading of parts.
    " recompute-lgd distribute-saved-activations "
    "distribute-checkpointed-activations checkpoint-in-cpu synchronize-each-layer "
    "partition-activations contigious-checkpointing profile-backward cpu-offload* offload-* "
    "auto-offload-time fine-grained-activation-offloading optimizer-cpu-offload "
    "optimizer-offload-* overlap-cpu-optimizer-d2h-h2d use-torch-optimizer-for-cpu-offload "
    "activation-offload* grad-offload param-offload optimizer-offload gradient-checkpointing "
    "enable-gradient-checkpointing vit-gradient-checkpointing recompute-granularity-per-stage* "
    "enable-recompute* recompute-in-advance swap-attention chunk-loss* optim-offload* ",
    // Communication of gradients and parameters.
    " ddp-num-buckets ddp-pad-buckets-for-high-nccl-busbw ddp-average-in-collective "
    "ddp-reduce-scatter-with-fp32-accumulation num-distributed-optimizer-instances "
    "overlap-param-gather overlap-param-gather-with-optimizer-step align-param-gather "
    "no-align-param-gather align-grad-reduce grad-reduce-in-bf16 fp8-param-gather fp4-param-gather "
    "outer-dp-sharding-strategy enable-full-sharding-in-hsdp torch-fsdp2-no-reshard-after-forward "
    "fsdp-* megatron-fsdp-* use-nccl-ub nccl-ub overlap-dp-param-comm "
    "overlap-distributed-optimizer "
    "scatter-gather-tensors-in-pipeline no-scatter-gather-tensors-in-pipeline contiguous-buffers-* "
    "use-contiguous-buffers-in-local-ddp no-contiguous-buffers-in-local-ddp DDP-impl "
    "overlap-p2p-communication-warmup-flush no-overlap-p2p-communication overlap-p2p-comm "
    "batch-p2p-communication batch-p2p-comm defer-embedding-wgrad-compute wgrad-deferral-limit "
    "delay-wgrad-compute tp-comm-* async-tensor-model-parallel-allreduce "
    "no-async-tensor-model-parallel-allreduce cp-comm-type use-ring-exchange-p2p "
    "no-ring-exchange-p2p context-parallel-algo ulysses-degree* sequence-parallel-size "
    "high-priority-stream-groups deepspeed-* zero-* pp-partition-method "
    "bf16-reduce* reduce-grad-dtype grad-comm-* ",
    // Experts.
    " moe-token-dispatcher-type moe-enable-deepep moe-flex-dispatcher-backend "
    "moe-expert-capacity-factor moe-pad-expert-input-to-capacity moe-token-drop-policy "
    "moe-shared-expert-overlap moe-extended-tp "
    "moe-per-layer-logging-off moe-hybridep* moe-router-force-load-balancing ep-overlap-* "
    "moe-apply-probs-on-input-deferred moe-deepep-num-sms moe-router-padding-for-* "
    "moe-hierarchical* ",
    // What is computed, and how exactly.
    " fp8-recipe cross-entropy-* fp4 fp4-* first-last-layers-bf16 "
    "num-layers-at-start-in-bf16 num-layers-at-end-in-bf16 use-precision-aware-optimizer "
    "exp-avg-dtype exp-avg-sq-dtype main-grads-dtype main-params-dtype fp32-residual-connection "
    "window-size window-attn-skip-freq window-attention* enable-cuda-graph external-cuda-graph "
    "cuda-graph-* linear-attention* experimental-attention-variant dsa-* optimizer-cuda-graph "
    "kitchen-* te-precision-config-file mxfp8* fp4-format precision-recipe ",
    // Batches whose size or length changes.
    " rampup-batch-size use-dynamic-batch-size max-tokens-per-gpu use-dynamic-bsz "
    "ppo-max-token-len-per-gpu packing padding-free variable-seq-lengths sequence-packing "
    "rl-use-sequence-packing curriculum-learning* dynamic-context-parallel hybrid-context-parallel "
    "log-probs-max-tokens-per-gpu decrease-batch-size-if-needed pack-sequences-in-batch "
    "packed-sequence* step-batch-size-schedule full-validation-batch use-remove-padding ",
    // Pipelines of other kinds.
    " allow-padding-num-layers interleave-group-size enable-zb-runtime "
    "enable-optimizer-post-validation enable-exactly-numeric-match enable-vocab-parallel "
    "disable-backward-fusion cpu-offload noop-layers standalone-embedding-stage* "
    "heterogeneous-layers-* schedules-method dualpipe* moe-fb-overlap "
    "transformer-pipeline-model-parallel-size num-layer-list yaml-cfg deepspeed-config "
    "no-pin-cpu-* ",
    // Less than the whole model, or more than one.
    " tuner-type train-type lora-* target-modules modules-to-save freeze-* peft* lora "
    "trainable-parameters* untrainable-parameters* rlhf-type teacher-model load-teacher "
    "export-kd-teacher-load use-kl-loss ref-load critic-* vision-* vit-* image-encoder* "
    "retro-add-retriever kd num-layers-teacher hidden-size-teacher num-attention-heads-teacher "
    "finetuning-type neat-packing use-packed-sequences enable-variable-seq-lengths ",
    // Of DeepSpeed's configuration, of MindSpeed, Primus and MegaBlocks.
    " allgather-partitions allgather-bucket-size reduce-bucket-size overlap-comm reduce-scatter "
    "contiguous-gradients pipe-partition-method moe-train-capacity-factor "
    "moe-eval-capacity-factor moe-min-capacity moe-capacity-factor moe-expert-model-parallelism "
    "tp-2d tp-x tp-y use-ascend-coc use-ascend-mc2 coc-* moe-alltoall-overlap-comm "
    "moe-allgather-overlap-comm moe-permutation-async-comm moe-zero-memory* moe-adaptive-* "
    "recompute-activation-function* recompute-norm* reuse-fp32-param swap-* "
    "use-cp-send-recv-overlap o2-optimizer o2-gradient ampipe-* pipe-experts-* use-nanopipe "
    "nanopipe-* optimize-recomp-* optimize-send-recv-comm optimize-vpp-* automated-pipeline* "
    "enable-primus-turbo use-turbo-* turbo-* patch-primus-pipeline pp-algorithm "
    "fp8-param no-fp8-weight-transpose-cache defer-fp32-logits patch-zero-bubble allgather-cp "
    "sharp fsdp "
    "sync-batch-comm ",
};

constexpr std::array no_bearing_flags{
    // The model's inside, which comes with the model; its sizes are compared where they are
    // numbers.
    " hidden-size ffn-hidden-size num-attention-heads num-query-groups group-query-attention "
    "kv-channels max-position-embeddings position-embedding-type rotary-* rope-* use-rotary-* "
    "no-rope-* mrope-* no-position-embedding use-rope-scaling apply-rope-fusion normalization "
    "norm-epsilon layernorm-epsilon rms-norm-* swiglu squared-relu quick-geglu openai-gelu geglu "
    "glu-* onnx-safe bert-* untie-embeddings-and-output-weights share-embeddings* disable-bias-* "
    "add-* qk-* q-lora-rank kv-lora-rank v-head-dim multi-latent-attention mscale* yarn-* "
    "attention-dropout hidden-dropout dropout* init-method-* embedding-init-* num-experts "
    "moe-ffn-* "
    "moe-router-* moe-aux-* moe-z-* moe-layer-freq moe-shared-expert-* moe-grouped-gemm "
    "moe-permute-fusion moe-use-* moe-input-jitter* moe-token-* moe-latent-size moe-upcycling-* "
    "enable-shared-expert shared-moe-* mtp-* apply-* no-apply-* no-query-key-layer-scaling "
    "attention-softmax-in-fp32 softmax-type embed-* embedding-* vocab-* make-vocab-* "
    "padded-vocab-size pad-vocab-size-to extra-vocab-* extra-num-vocabs megatron-vocab-size "
    "num-channels patch-* img-* class-token* spec mamba-* is-hybrid-model hybrid-* "
    "attention-head-type "
    "n-head-kv use-alibi* alibi* mup* clone-scatter* multi-modal* model-type transformer-type "
    "use-mcore-models use-legacy-models model-* sliding-window* max-sequence-* base-num-tokens "
    "encoder-num-layers decoder-num-layers encoder-seq-length decoder-seq-length max-length "
    "truncation-* use-llama2-* use-swiglu use-rmsnorm rmsnorm-* no-bias-* no-masked-* no-persist-* "
    "no-gradient-* bias-* masked-softmax-fusion gradient-accumulation-fusion cross-entropy-* "
    "use-flash-* flash-* attention-backend use-te transformer-impl use-fused-* fused-* "
    "attention-output-gate linear-decoupled-* use-qk-norm no-use-* gated-* sequence-length "
    "calculate-per-token-loss transformer-block-type bias activation* intermediate-size "
    "num-key-value-heads num-hidden-layers head-dim layer-norm* persist-* share-* hidden-act "
    "expert-hidden* ffn-* num-moe-* ",
    // Data and tokenizers.
    " data-* dataset* data dataloader-* dataloader-type tokenizer-* tokenizer split train-data* "
    "valid-data* test-data* train-weighted* valid-weighted* test-weighted* mock-data num-workers "
    "merge-file vocab-file vocab-file* tiktoken-* reset-position-ids reset-attention-mask "
    "eod-mask-loss create-attention-mask* no-create-attention-mask* no-mmap-bin-files "
    "mmap-bin-files "
    "num-dataset-builder-threads s3-* object-storage-* mid-level-* per-split-* blend* fim-* "
    "sft sft-* apply-chat-template prompt-* input-key label-key metadata-key messages* "
    "chat-template* "
    "task* epochs num-epoch* num-train-epochs train-mode patch-tokenizer-type max-padding-length "
    "special-tokens* append-eod load-from-cache-file load-data-args split-dataset-ratio system "
    "streaming shuffle* group-by-length max-pixels* interleave* energon* image-* pixel-* "
    "use-tiling "
    "use-thumbnail use-tile-tags max-num-tiles num-frames disable-vision-class-token "
    "language-model-* "
    "allow-missing-vision-* extra-vocab-size loss-scale-* data-impl tool-* template* agent-* "
    "custom-* "
    "columns remove-unused-columns strict truncation use-packed* no-data-sharding "
    "optimizer-name text-* seed-data valid-num* limit-* ",
    // Learning.
    " lr lr-* min-lr decoupled-* head-lr-mult weight-decay* start-weight-decay end-weight-decay "
    "wd-* no-weight-decay* adam-* sgd-* muon-* lion-* soap-* clip-grad* seed train-iters "
    "train-samples "
    "train-tokens exit-* iterations warmup* override-* use-checkpoint-* no-wd-* optimizer-type "
    "learning-rate initial-loss-scale loss-scale min-loss-scale hysteresis mask-* short-seq-prob "
    "label-smoothing loss-* norm-target-loss reset-progress use-one-sent-docs phase-transition-* "
    "max-steps max-epochs max-train-samples num-steps-per-* log-probs-chunk-size temperature beta "
    "sgdr* decay-* scheduler* epsilon epsilon-* rpo-alpha desirable-weight undesirable-weight "
    "no-load-* finetune* continue-* pretrain* skip-train eval-* test-mode train-sync* "
    "steps-per-generation accumulate-allreduce-grads-in-fp32 "
    "no-accumulate-allreduce-grads-in-fp32 check-for-* no-check-for-* rerun-* error-injection-* "
    "fp16-lm-cross-entropy fp32-* fp8-amax-* fp8-interval fp8-margin fp8-wgrad no-fp8-wgrad "
    "fp8-quantizer* keep-fp8-* reuse-grad-buf* attention-mask* deterministic* "
    "use-cpu-initialization data-parallel-random-init te-rng-tracker sync-tp-duplicated-parameters "
    "inference-rng-tracker micro-bs-multiplier hpu* patience ",
    // Logs, checkpoints, starting and stopping.
    " log-* wandb* use-wandb tensorboard-* one-logger* no-one-logger enable-one-logger timing-* "
    "timers* barrier-with-* no-barrier-with-* profile profile-* use-pytorch-profiler "
    "record-memory* "
    "memory-* report-to swanlab* comet* mlflow* no-log* print-* save save-* load load-* ckpt-* "
    "dist-ckpt-* use-dist-ckpt* async-save no-save-* non-persistent-* pretrained-* "
    "auto-detect-ckpt-format checkpoint-path universal-checkpoint kill-switch-path output-dir "
    "output-* run-name experiment* project-name app-tag-* config* adlr-* distributed-* "
    "nccl-* use-tp-pp-dp-mapping-off lazy-mpu-init local-rank local_rank rank device-* gloo* "
    "disable-gloo-* enable-gloo-* use-gloo-* use-sharp use-nccl* sharp-* straggler* enable-ft-* "
    "ft-* "
    "calc-ft-* inprocess-* heartbeat* high-priority* manual-gc* empty-unused-memory-level "
    "enable-experimental enable-msc disable-msc disable-symmetric-* create-all-gather-group "
    "fake-process-group debug* help verbose codecarbon-* abort-on-* use-gpu mpi hint force no-sync "
    "merge-lora add-version external-plugins deepspeed no-deepspeed megatron-path "
    "kill-on-* model model-author model-name hf-* huggingface-* to-* from-* trust-remote-code "
    "mcore-* torch-dtype use-hf use-mcore ray-* colocate balance-data version name "
    "explicit-log-dir "
    "create-* resume-* every-n-* logger* enable-checkpointing accelerator strategy gpu* "
    "max-time val-check-interval num-sanity-val-steps replace-sampler-ddp use-distributed-sampler "
    "benchmark git* distributed-backend rdzv* no-container-* target data-parallel-size "
    "consumed-* padded-* world-size-* transformer-pipeline-off exit-interval iteration variant "
    "nsys* torch-profile* mem-* cuda-device-* dynamic-* overlong-filter update-* use-tis "
    "check-weight-hash-* suggested-communication-unit-size ",
    // Generating, evaluating, and what reinforcement learning does beside its training steps.
    " inference-* inference rollout-* sglang-* vllm-* use-vllm router-* generation-* "
    "max-new-tokens "
    "top-k top-p num-rollout n-samples-* over-sampling-* reward-* rm-* rm-type kl-* entropy-* "
    "eps-* "
    "advantage-estimator gamma grpo-* rl-* langrl-* perform-rl-step actor-num-* critic-num-* "
    "num-generations max-completion-length num-iterations async-* scale-rewards importance-* "
    "completion-* sleep-level num-prompt-* retriever-* biencoder-* ict-* query-* indexer-* "
    "evidence-* block-* titles-* retro-* dino-* export-* modelopt* use-rollout-* use-opsm opd-* "
    "buffer-* partial-rollout mask-offpolicy* sft-loss* mtp-loss* multi-turn* max-turns "
    "iter-per-epoch classes-fraction data-per-class-fraction num-classes swin-* "
    "result-* output-bert-embeddings sample-* local-* num-speculative-* decode-* "
    "disable-compute-advantages-* normalize-advantages observe-* get-mismatch-metrics "
    "qkv-format use-gym-env group-rm logits-* relative-attention-* cache-mla-* mla-* dump-* "
    "answer-loss-only cyclic-train-iters no-yarn-* allow-ambiguous-* refit-method run-workload-* "
    "use-legacy-* use-same-* max-tokens-to-oom packing-buffer-size ddp-param-* no-initialization "
    "logging-* valid-path init-model-* num-labels enable-thinking tau-* new-special-* adapters* "
    "use-tensorboard prefill-* use-opd post-* check-model use-gated-* skip-train-* audio-* "
    "total-seq-* "
    "use-loss-scaling use-area-* test-freq total-epochs path mode "
    "pre-process post-process native-amp-* megatron-amp-* grad-allreduce-* grad-div-* apex-* "
    "gradient-as-bucket-view accumulate-grad-* gradient-clip-* restore-* every-* recipe recipe-* "
    "perform-initialization scatter-embedding-sequence-parallel "
    "use-mcore-inference no-paired-barrier enable-chunked-prefill ",
    // Of GPT-NeoX, MindSpeed, Primus, FlagScale, NeMo and the trainers of Hugging Face.
    " norm pos-emb no-weight-tying gpt-j-residual attention-config scaled-* gradient-clipping "
    "initial-scale-power checkpoint-factor checkpoint-scale extra-save-iters steps-per-print "
    "wall-clock-breakdown keep-last-n-checkpoints layernorm-* rope-fusion mlp-* expansion-factor "
    "hostfile launcher sparsity-config handler-name is-instruction-dataset no-pad-to-* "
    "enable-hf2mg-convert enable-mg2hf-convert no-shared-storage no-shared-fs "
    "first-k-dense-replace n-shared-experts norm-topk-prob full-attention-interval linear-key-* "
    "linear-value-* linear-num-* partial-rotary-factor use-triton-* gelu-tanh input-embeds-norm "
    "ai-framework stderr-sink-level auto-continue-train disable-last-saving hidden-dim-multiplier "
    "norm-init-weight multiple-of gc-interval transformer-engine use-scaled-init-method "
    "normalize-attention-scores headscale do-layer-norm-weight-decay attention-type "
    "do-train do-eval preprocessing-num-workers overwrite-* video-* max-grad-norm "
    "per-device-eval-batch-size use-mca use-mpi use-z-loss moe-loss-* out-seq-length num-samples "
    "pipeline-dtype moe-per-layer-logging force-reconvert-* logprob-batch-size "
    "skip-save mock init-method "
    "enable-zbh1-exact-semantics use-persistent-* structured-logs* action genfile tis-* TEST-TYPE "
    "use-bias-in-* make-sequence-length-* "
    "extra-config ",
};

bool is_among(std::string_view name, const auto& lists) {
  return std::any_of(lists.begin(), lists.end(), [&](std::string_view list) {
    const std::string whole = " " + std::string(name) + " ";
    if (list.find(whole) != std::string_view::npos) return true;
    for (std::size_t end = 1; end <= name.size(); ++end) {
      const std::string family = " " + std::string(name.substr(0, end)) + "* ";
      if (list.find(family) != std::string_view::npos) return true;
    }
    return false;
  });
}

}  // namespace

FlagKind kind_of_flag(std::string_view name) {
  if (is_among(name, not_modelled_flags)) return FlagKind::not_modelled;
  return is_among(name, no_bearing_flags) ? FlagKind::no_bearing : FlagKind::unknown;
}

bool is_section_without_bearing(std::string_view section) {
  constexpr std::array names{"exp_manager",
                             "experiment",
                             "data",
                             "dataset",
                             "tokenizer",
                             "checkpoint",
                             "logger",
                             "callbacks",
                             "optim",
                             "sched",
                             "scheduler",
                             "hydra",
                             "rng",
                             "profiling",
                             "nsys_profile",
                             "inference",
                             "generate",
                             "rope_scaling",
                             "optimizer",
                             "dist",
                             "log",
                             "resume",
                             "algorithm",
                             "reward_model",
                             "custom_reward_function",
                             "checkpoint_callback_params",
                             "create_wandb_logger",
                             "global_profiler",
                             "validation",
                             "run",
                             "ENV_VARS",
                             "METRICS",
                             "SCRIPT",
                             "BEFORE_SCRIPT",
                             "AFTER_SCRIPT",
                             "peft_inference",
                             "memory_profile",
                             "tb"};
  return std::ranges::any_of(split(section, '.'), [&](const std::string& part) {
    return std::ranges::count(names, part) > 0;
  });
}

}  // namespace stagecraft
