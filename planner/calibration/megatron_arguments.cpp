#include "planner/calibration/megatron_arguments.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/megatron_names.hpp"

namespace stagecraft {

namespace {

std::string plain_name(std::string_view name) {
  while (name.starts_with('-')) name.remove_prefix(1);
  std::string plain(name);
  std::ranges::replace(plain, '_', '-');
  return plain;
}

bool is_false(const std::string& text) {
  return text == "false" || text == "False";
}

Experts experts_of(const MegatronArguments& arguments, const Transformer& transformer) {
  const ExpertGroups groups{.count = arguments.number("moe-router-num-groups", 1),
                            .active = arguments.number("moe-router-group-topk", 0)};
  return {
      .count = arguments.number("num-experts", 1),
      .active = arguments.number("moe-router-topk", 2),
      .feed_forward = arguments.number("moe-ffn-hidden-size", transformer.feed_forward),
      .shared_feed_forward = arguments.number("moe-shared-expert-intermediate-size", 0),
      .dense_blocks = arguments.number(
          "moe-dense-blocks", leading_dense_blocks(arguments.word("moe-layer-freq")).value_or(0)),
      .score_bias = arguments.flag("moe-router-enable-expert-bias"),
      .groups = groups.active > 0 ? groups : ExpertGroups{}};
}

/// The vocabulary, GPT-2's unless one is given, is padded to a multiple that tensor-parallel peers
/// divide.
std::int64_t vocabulary_of(const MegatronArguments& arguments) {
  if (arguments.has("padded-vocab-size")) return arguments.number("padded-vocab-size", 1);
  const std::int64_t multiple = arguments.number("make-vocab-size-divisible-by", 128) *
                                arguments.number("tensor-model-parallel-size", 1);
  const std::int64_t words = arguments.number("vocab-size", 50257);
  return (words + multiple - 1) / multiple * multiple;
}

/// Defaults are those of megatron/core's MLATransformerConfig.
LatentAttention latent_of(const MegatronArguments& arguments) {
  return {.query_rank = arguments.number("q-lora-rank", 512),
          .key_value_rank = arguments.number("kv-lora-rank", 512),
          .rotary_width = arguments.number("qk-pos-emb-head-dim", 64),
          .plain_width = arguments.number("qk-head-dim", 128),
          .value_width = arguments.number("v-head-dim", 128)};
}

bool is_zero(const MegatronArguments& arguments, std::string_view name) {
  return arguments.has(name) && arguments.word(name) == "0.0";
}

/// Scores are written to memory where Transformer Engine or flash attention is not asked.
bool has_fused_attention(const MegatronArguments& arguments) {
  const std::string backend = arguments.word("attention-backend");
  const bool local = arguments.word("transformer-impl") == "local";
  return (!local || arguments.flag("use-flash-attn")) && !backend.ends_with("unfused") &&
         !backend.ends_with("local");
}

/// Of a feed-forward that does not say: gated ones have a third fewer in each of their projections,
/// in multiples of 64.
std::int64_t usual_inner(std::int64_t hidden, bool gated) {
  return gated ? 8 * hidden / 3 / 64 * 64 : 4 * hidden;
}

Transformer transformer_of(const MegatronArguments& arguments) {
  const std::int64_t hidden = arguments.number("hidden-size", 0);
  const std::int64_t heads = arguments.number("num-attention-heads", 1);
  if (hidden < 1 || heads < 1) fail("expected a hidden size and heads above zero");
  const bool gated = arguments.flag("swiglu");
  // A dump has a number of groups whether or not they are used.
  const bool grouped =
      !arguments.has("group-query-attention") || arguments.flag("group-query-attention");
  Transformer transformer{
      .hidden = hidden,
      .heads = heads,
      .key_value_heads = grouped ? arguments.number("num-query-groups", heads) : heads,
      .head_width = arguments.number("kv-channels", hidden / heads),
      .feed_forward = arguments.number("ffn-hidden-size", usual_inner(hidden, gated)),
      .vocabulary = vocabulary_of(arguments),
      .positions = arguments.number("seq-length", 1),
      .activation = gated ? Transformer::FeedForward::swiglu : Transformer::FeedForward::gelu};
  if (arguments.word("normalization") == "RMSNorm") transformer.norm = Transformer::Norm::rms_norm;
  if (arguments.word("position-embedding-type") == "rope")
    transformer.position = Transformer::Position::rotary;
  if (arguments.flag("untie-embeddings-and-output-weights")) transformer.tied_head = false;
  if (arguments.has("num-experts")) transformer.experts = experts_of(arguments, transformer);
  if (arguments.flag("multi-latent-attention")) {
    transformer.latent = latent_of(arguments);
    transformer.key_value_heads = heads;
    transformer.head_width = transformer.latent->plain_width + transformer.latent->rotary_width;
  }
  transformer.prediction_modules = arguments.number("mtp-num-layers", 0);
  const bool bias = arguments.has("add-bias-linear") ? arguments.flag("add-bias-linear")
                                                     : !arguments.flag("disable-bias-linear");
  transformer.attention_bias = transformer.output_bias = transformer.feed_forward_bias = bias;
  return transformer;
}

/// Those that are known.
LayerModules modules_of(const MegatronArguments& arguments) {
  if (arguments.word("recompute-granularity") != "selective") return {};
  return known_layer_modules(arguments.word("recompute-modules")).modules;
}

/// Without modules, of which it is one, the attention's core.
Recomputed recompute_of(const MegatronArguments& arguments) {
  const std::string word = arguments.word("recompute-granularity");
  // Before recomputation was called so.
  const bool before =
      arguments.flag("checkpoint-activations") || arguments.flag("activations-checkpoint-method");
  if (word == "full" || (word.empty() && before)) return Recomputed::full;
  if (word != "selective") return Recomputed::none;
  const bool core = arguments.word("recompute-modules").empty() ||
                    modules_of(arguments).has(LayerModule::core_attention);
  return core ? Recomputed::selective : Recomputed::none;
}

Precision precision_of(const MegatronArguments& arguments) {
  if (arguments.flag("fp8") || arguments.flag("fp8-format")) {
    return arguments.flag("fp8-dot-product-attention") ? Precision::float8_with_attention
                                                       : Precision::float8;
  }
  if (arguments.flag("fp16")) return Precision::float16;
  return arguments.flag("bf16") ? Precision::bfloat16 : Precision::float32;
}

/// Megatron's FSDP shards as its strategy says; otherwise the distributed optimizer's flag decides.
void shard(Recipe& recipe, const MegatronArguments& arguments) {
  recipe.sharded_optimizer = arguments.flag("use-distributed-optimizer");
  const std::string strategy = arguments.word("data-parallel-sharding-strategy");
  if (!arguments.flag("use-megatron-fsdp") || strategy.empty()) return;
  recipe.sharded_optimizer = strategy.starts_with("optim");
  recipe.sharded_gradients = strategy.starts_with("optim_grads");
  recipe.sharded_parameters = strategy == "optim_grads_params";
}

int virtual_stages_of(const MegatronArguments& arguments, const Recipe& recipe) {
  // A dump has what follows from the other two.
  if (arguments.has("virtual-pipeline-model-parallel-size"))
    return arguments.small("virtual-pipeline-model-parallel-size");
  const int chunk = arguments.small("num-layers-per-virtual-pipeline-stage", 0);
  return chunk > 0 ? std::max(1, recipe.blocks / (recipe.pipeline * chunk))
                   : arguments.small("num-virtual-stages-per-pipeline-rank");
}

}  // namespace

void MegatronArguments::set(std::string_view name, Value value) {
  if (value.text == "None") return;
  values_[plain_name(name)] = std::move(value);
}

bool MegatronArguments::flag(std::string_view name) const {
  return has(name) && !is_false(word(name));
}

std::int64_t MegatronArguments::number(std::string_view name, std::int64_t otherwise) const {
  const auto found = values_.find(name);
  if (found == values_.end()) return otherwise;
  const std::string& text = found->second.text;
  const bool digits = !text.empty() && text.size() < 10 &&
                      text.find_first_not_of("0123456789") == std::string::npos;
  if (!digits) {
    throw Error(ErrorKind::input, concat(name, ": expected a whole number, found \"", text, "\""),
                found->second.place);
  }
  const std::int64_t value = std::stoll(text);
  constexpr std::int64_t most_counted = 1'000'000;
  const bool counts = name.ends_with("-parallel-size") || name == "world-size" ||
                      name == "num-layers" || name == "num-experts" || name == "micro-batch-size";
  if (name.ends_with("-parallel-size") && value < 1) {
    throw Error(ErrorKind::input, concat(name, ": expected at least 1, found ", value),
                found->second.place);
  }
  if (counts && value > most_counted) {
    throw Error(ErrorKind::input,
                concat(name, ": expected at most ", most_counted, ", found ", value),
                found->second.place);
  }
  return value;
}

std::string MegatronArguments::word(std::string_view name) const {
  const auto found = values_.find(name);
  return found == values_.end() ? "" : found->second.text;
}

std::optional<std::int64_t> leading_dense_blocks(std::string_view frequency) {
  if (frequency.empty() || frequency == "1") return 0;
  if (frequency.find('[') == std::string_view::npos) return {};
  // Digits in brackets are blocks, a number behind a star repeats the bracket's.
  std::string blocks, bracket;
  for (std::size_t at = 0; at < frequency.size(); ++at) {
    const char c = frequency[at];
    if (c == '[') bracket.clear();
    if (c == '0' || c == '1') bracket += c;
    if (c != ']') continue;
    std::size_t times = 1;
    if (at + 1 < frequency.size() && frequency[at + 1] == '*') {
      times = 0;
      for (at += 2; at < frequency.size() && frequency[at] >= '0' && frequency[at] <= '9'; ++at) {
        times = std::min<std::size_t>(10'000,
                                      times * 10 + static_cast<std::size_t>(frequency[at] - '0'));
      }
      --at;
    }
    for (std::size_t i = 0; i < times; ++i) blocks += bracket;
    bracket.clear();
  }
  const std::size_t first = std::min(blocks.find('1'), blocks.size());
  if (blocks.find('0', first) != std::string::npos) return {};
  return static_cast<std::int64_t>(first);
}

Recipe recipe_of(const MegatronArguments& arguments) {
  Recipe recipe;
  recipe.transformer = transformer_of(arguments);
  recipe.blocks = arguments.small("num-layers");
  recipe.pipeline = arguments.small("pipeline-model-parallel-size");
  recipe.first_stage_blocks = arguments.small("decoder-first-pipeline-num-layers", 0);
  recipe.last_stage_blocks = arguments.small("decoder-last-pipeline-num-layers", 0);
  recipe.virtual_stages = virtual_stages_of(arguments, recipe);
  if (arguments.flag("account-for-embedding-in-pipeline-split") &&
      arguments.flag("account-for-loss-in-pipeline-split"))
    count_ends_as_blocks(recipe);
  shard(recipe, arguments);
  recipe.overlapped_gradients = arguments.flag("overlap-grad-reduce");
  recipe.overlapped_parameters = arguments.flag("overlap-param-gather");
  recipe.overlapped_messages = arguments.flag("tp-comm-overlap");
  recipe.overlapped_transfers =
      recipe.virtual_stages > 1 && !arguments.flag("no-overlap-p2p-communication");
  recipe.weight_stubs = arguments.word("transformer-impl") == "transformer_engine";
  const bool fused = arguments.flag("cross-entropy-loss-fusion");
  recipe.work = {
      .microbatch = arguments.number("micro-batch-size", 1),
      .sequence = arguments.number("seq-length", 1),
      .tensor_parallel = arguments.small("tensor-model-parallel-size"),
      .sequence_parallel = arguments.flag("sequence-parallel"),
      .context_parallel = arguments.small("context-parallel-size"),
      .expert_parallel = arguments.small("expert-model-parallel-size"),
      .precision = precision_of(arguments),
      .recompute = recompute_of(arguments),
      .fused_attention = has_fused_attention(arguments),
      .fused_loss = !fused                                                ? FusedLoss::none
                    : arguments.word("cross-entropy-fusion-impl") == "te" ? FusedLoss::te
                                                                          : FusedLoss::native,
      .dropout =
          !(is_zero(arguments, "hidden-dropout") && is_zero(arguments, "attention-dropout"))};
  recipe.float8_gathers = is_float8(recipe.work.precision) && arguments.flag("fp8-param-gather");
  recipe.optimizer_instances = arguments.small("num-distributed-optimizer-instances");
  recipe.work.grouped_experts = arguments.flag("moe-grouped-gemm");
  recipe.work.dispatcher = dispatcher_in_megatron(arguments.word("moe-token-dispatcher-type"),
                                                  arguments.word("moe-flex-dispatcher-backend"));
  if (arguments.flag("moe-router-fusion")) recipe.work.router_fusion = RouterFusion::on;
  recipe.work.float8_recipe =
      float8_recipe_in_megatron(arguments.word("fp8-recipe")).value_or(Float8Recipe::delayed);
  recipe.overlapped_exchanges = arguments.flag("overlap-moe-expert-parallel-comm");
  recipe.graphs = graphs_of(arguments);
  recipe.again = modules_of(arguments);
  recipe.work.expert_tensor_parallel = arguments.small("expert-tensor-parallel-size", 0);
  return recipe;
}

Bytes gradient_bytes_of(const MegatronArguments& arguments, Precision precision) {
  constexpr std::string_view wide = "accumulate-allreduce-grads-in-fp32";
  const bool narrow = arguments.has(wide) && !arguments.flag(wide);
  return narrow && precision != Precision::float32 ? 2 : 4;
}

CudaGraphs graphs_of(const MegatronArguments& arguments) {
  // MLPerf's variables say 1 and 0.
  const bool by_switch = std::ranges::any_of(
      std::array{"enable-cuda-graph", "external-cuda-graph"},
      [&](std::string_view name) { return arguments.flag(name) && arguments.word(name) != "0"; });
  return graphs_in_megatron(by_switch ? "local" : arguments.word("cuda-graph-impl"),
                            arguments.word("cuda-graph-scope"));
}

bool spread(Recipe& recipe, int world, int batch) {
  const int each = device_count(recipe);
  if (each < 1 || world % each != 0) return false;
  recipe.data = world / each;
  const std::int64_t at_once = std::int64_t{recipe.data} * recipe.work.microbatch;
  if (at_once < 1 || batch % at_once != 0) return false;
  recipe.microbatches = static_cast<int>(batch / at_once);
  const int ends = (recipe.first_stage_blocks > 0 ? 1 : 0) + (recipe.last_stage_blocks > 0 ? 1 : 0);
  return recipe.blocks + ends >= std::int64_t{recipe.pipeline} * recipe.virtual_stages;
}

}  // namespace stagecraft
