#include "planner/interop/importers/megatron_flags.hpp"
#include "planner/interop/importers/arguments_dump.hpp"

#include <algorithm>
#include <array>
#include <charconv>

#include "planner/interop/importers/flag_words.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

[[noreturn]] void fail_at(const FlagWord& word, const std::string& message) {
  const std::string complaint = concat("--", word.name, ": ", message);
  throw Error(ErrorKind::input, complaint, word.place);
}

const std::string& text_of(const FlagWord& word) {
  if (!word.value) fail_at(word, "the value is missing");
  return *word.value;
}

std::int64_t number_of(const FlagWord& word, std::int64_t least = 1) {
  constexpr std::int64_t most = 1'000'000'000;
  const std::string& text = text_of(word);
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc{} && end == text.data() + text.size() && number >= least && number <= most)
    return number;
  fail_at(word, concat("expected an integer >= ", least, ", found \"", text, "\""));
}

int count_of(const FlagWord& word) {
  return static_cast<int>(number_of(word));
}

/// A switch that is on; those that are off are not set.
void require_switch(const FlagWord& word) {
  if (word.value && !word.is_next_word)
    fail_at(word, concat("is a switch, and takes no value such as \"", *word.value, "\""));
}

/// Of "[attn,moe_router]", "['attn']" or "attn moe_router", as overrides and flags list them, the
/// first.
std::string first_of_list(const std::string& value) {
  if (!value.starts_with("[")) return value.substr(0, value.find(' '));
  const std::size_t begin = value.find_first_not_of("[ '\"");
  if (begin == std::string::npos) return "";
  return value.substr(begin, value.find_first_of("],'\"", begin) - begin);
}

using Flags = MegatronFlags;
using Word = FlagWord;

struct KnownFlag {
  std::string_view name;
  void (*set)(Flags& flags, const Word& word);
  bool is_switch = false;
};

/// Second names are those of Megatron-LM's configuration classes.
constexpr std::array known_flags{
    KnownFlag{"num-layers", [](Flags& f, const Word& w) { f.layers = count_of(w); }},
    KnownFlag{"mtp-num-layers",
              [](Flags& f, const Word& w) {
                f.prediction_modules = static_cast<int>(number_of(w, 0));
              }},
    KnownFlag{"pipeline-model-parallel-size",
              [](Flags& f, const Word& w) { f.pipeline = count_of(w); }},
    KnownFlag{"pipe-parallel-size", [](Flags& f, const Word& w) { f.pipeline = count_of(w); }},
    KnownFlag{"gas", [](Flags& f, const Word& w) { f.accumulation = count_of(w); }},
    KnownFlag{"gradient-accumulation-steps",
              [](Flags& f, const Word& w) { f.accumulation = count_of(w); }},
    KnownFlag{"tensor-model-parallel-size",
              [](Flags& f, const Word& w) { f.tensor = count_of(w); }},
    KnownFlag{"context-parallel-size", [](Flags& f, const Word& w) { f.context = count_of(w); }},
    KnownFlag{"expert-model-parallel-size",
              [](Flags& f, const Word& w) { f.expert = count_of(w); }},
    KnownFlag{"expert-tensor-parallel-size",
              [](Flags& f, const Word& w) { f.expert_tensor = count_of(w); }},
    KnownFlag{"sequence-parallel",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.sequence_parallel = true;
              },
              true},
    KnownFlag{"num-layers-per-virtual-pipeline-stage",
              [](Flags& f, const Word& w) { f.layers_per_virtual_stage = count_of(w); }},
    KnownFlag{"num-virtual-stages-per-pipeline-rank",
              [](Flags& f, const Word& w) { f.virtual_stages = count_of(w); }},
    KnownFlag{"virtual-pipeline-model-parallel-size",
              [](Flags& f, const Word& w) { f.virtual_size = count_of(w); }},
    KnownFlag{"microbatch-group-size-per-virtual-pipeline-stage",
              [](Flags& f, const Word& w) { f.group = count_of(w); }},
    KnownFlag{"microbatch-group-size-per-vp-stage",
              [](Flags& f, const Word& w) { f.group = count_of(w); }},
    KnownFlag{"decoder-first-pipeline-num-layers",
              [](Flags& f, const Word& w) { f.split.first = count_of(w); }},
    KnownFlag{"num-layers-in-first-pipeline-stage",
              [](Flags& f, const Word& w) { f.split.first = count_of(w); }},
    KnownFlag{"decoder-last-pipeline-num-layers",
              [](Flags& f, const Word& w) { f.split.last = count_of(w); }},
    KnownFlag{"num-layers-in-last-pipeline-stage",
              [](Flags& f, const Word& w) { f.split.last = count_of(w); }},
    KnownFlag{"account-for-embedding-in-pipeline-split",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.split.account_for_embedding = true;
              },
              true},
    KnownFlag{"account-for-loss-in-pipeline-split",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.split.account_for_loss = true;
              },
              true},
    KnownFlag{"pipeline-model-parallel-layout",
              [](Flags& f, const Word& w) { f.layout = text_of(w); }},
    KnownFlag{"micro-batch-size", [](Flags& f, const Word& w) { f.microbatch = number_of(w); }},
    KnownFlag{"global-batch-size", [](Flags& f, const Word& w) { f.global_batch = number_of(w); }},
    KnownFlag{"seq-length", [](Flags& f, const Word& w) { f.sequence = number_of(w); }},
    KnownFlag{"world-size", [](Flags& f, const Word& w) { f.world = count_of(w); }},
    KnownFlag{"nnodes", [](Flags& f, const Word& w) { f.nodes = count_of(w); }},
    KnownFlag{"nproc-per-node", [](Flags& f, const Word& w) { f.processes = count_of(w); }},
    KnownFlag{"recompute-granularity", [](Flags& f, const Word& w) { f.recompute = text_of(w); }},
    KnownFlag{"recompute-activations",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.recompute = "selective";
              },
              true},
    KnownFlag{"tp-comm-overlap",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.overlaps_tensor = true;
              },
              true},
    KnownFlag{"ub-tp-comm-overlap",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.overlaps_tensor = true;
              },
              true},
    KnownFlag{"overlap-moe-expert-parallel-comm",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.overlaps_experts = true;
              },
              true},
    KnownFlag{"recompute-modules",
              [](Flags& f, const Word& w) {
                const KnownLayerModules known = known_layer_modules(text_of(w));
                f.recompute_modules = known.modules;
                f.strange_modules = known.unknown;
              }},
    KnownFlag{"moe-layer-recompute",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.recomputes_experts = true;
              },
              true},
    KnownFlag{"recompute-method", [](Flags& f, const Word& w) { f.recompute_method = text_of(w); }},
    // Before recomputation was called so; it then kept the inputs of so many layers at a time.
    KnownFlag{"checkpoint-activations",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.recompute = "full";
                if (f.recompute_method.empty()) f.recompute_method = "uniform";
              },
              true},
    KnownFlag{"checkpoint-num-layers",
              [](Flags& f, const Word& w) { f.recompute_layers = count_of(w); }},
    KnownFlag{"activations-checkpoint-granularity",
              [](Flags& f, const Word& w) { f.recompute = text_of(w); }},
    KnownFlag{"activations-checkpoint-method",
              [](Flags& f, const Word& w) {
                f.recompute_method = text_of(w);
                if (f.recompute.empty()) f.recompute = "full";
              }},
    KnownFlag{"activations-checkpoint-num-layers",
              [](Flags& f, const Word& w) {
                const std::int64_t layers = number_of(w, 0);
                if (layers > 0) f.recompute_layers = static_cast<int>(layers);
              }},
    KnownFlag{"recompute-num-layers",
              [](Flags& f, const Word& w) { f.recompute_layers = count_of(w); }},
    KnownFlag{"use-distributed-optimizer",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.shards_optimizer = true;
              },
              true},
    KnownFlag{"overlap-grad-reduce",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.overlaps_gradients = true;
              },
              true},
    KnownFlag{"ddp-bucket-size",
              [](Flags& f, const Word& w) { f.bucket_parameters = count_of(w); }},
    KnownFlag{"use-torch-fsdp2",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.torch_shards = true;
              },
              true},
    KnownFlag{"use-megatron-fsdp",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fully_sharded = true;
              },
              true},
    KnownFlag{"use-custom-fsdp",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fully_sharded = true;
              },
              true},
    KnownFlag{"data-parallel-sharding-strategy",
              [](Flags& f, const Word& w) { f.shards = text_of(w); }},
    KnownFlag{"optimizer", [](Flags& f, const Word& w) { f.optimizer = text_of(w); }},
    KnownFlag{"bf16",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.bf16 = true;
              },
              true},
    KnownFlag{"fp16",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fp16 = true;
              },
              true},
    KnownFlag{"fp8-format", [](Flags& f, const Word& w) { f.fp8 = text_of(w); }},
    KnownFlag{"cross-entropy-loss-fusion",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fused_loss = true;
              },
              true},
    KnownFlag{"moe-router-fusion",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fuses_router = true;
              },
              true},
    KnownFlag{"cross-entropy-fusion-impl",
              [](Flags& f, const Word& w) { f.loss_fusion = text_of(w); }},
    KnownFlag{"fp8-recipe", [](Flags& f, const Word& w) { f.fp8_recipe = text_of(w); }},
    KnownFlag{"fp8-hybrid",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fp8 = "hybrid";
              },
              true},
    KnownFlag{"fp8-e4m3",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fp8 = "e4m3";
              },
              true},
    // A member of its configuration class, which Megatron Bridge and NeMo set.
    KnownFlag{"fp8-dot-product-attention",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.fp8_attention = true;
              },
              true},
    KnownFlag{"model-parallel-size", [](Flags& f, const Word& w) { f.tensor = count_of(w); }},
    KnownFlag{"batch-size", [](Flags& f, const Word& w) { f.microbatch = number_of(w); }},
    KnownFlag{"zero-stage",
              [](Flags& f, const Word& w) {
                const std::int64_t stage = number_of(w, 0);
                if (stage > 3)
                  fail_at(w, concat("expected a stage of ZeRO, 0 to 3, found ", stage));
                f.zero_stage = static_cast<int>(stage);
              }},
    KnownFlag{"no-pipeline-parallel",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.no_pipeline = true;
              },
              true},
    KnownFlag{"num-seq-splits", [](Flags& f, const Word& w) { f.sequence_chunks = count_of(w); }},
    KnownFlag{"enable-zero-bubble",
              [](Flags& f, const Word& w) {
                require_switch(w);
                if (f.schedule.empty()) f.schedule = "zb-1p";
              },
              true},
    // Megatron-DeepSpeed's.
    KnownFlag{"enable-zbh1-pipeline",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.schedule = "zb-h1";
              },
              true},
    KnownFlag{"zero-bubble-max-pending-backward",
              [](Flags& f, const Word& w) {
                if (text_of(w) != "auto") f.in_flight = count_of(w);
              }},
    KnownFlag{"zero-bubble-v-schedule",
              [](Flags& f, const Word& w) {
                require_switch(w);
                if (f.schedule.empty() || f.schedule == "zb-1p") f.schedule = "zb-v";
              },
              true},
    KnownFlag{"zero-bubble-v-schedule-mem-setup",
              [](Flags& f, const Word& w) {
                const std::string& memory = text_of(w);
                if (memory != "zb" && memory != "half" && memory != "min")
                  fail_at(w, concat("expected zb, half or min, found \"", memory, "\""));
                f.schedule = memory == "zb" ? "zb-v" : "v-" + memory;
              }},
    KnownFlag{"moe-token-dispatcher-type",
              [](Flags& f, const Word& w) { f.dispatcher = text_of(w); }},
    KnownFlag{"moe-flex-dispatcher-backend",
              [](Flags& f, const Word& w) { f.flex = text_of(w); }},
    KnownFlag{"moe-enable-deepep",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.flex = "deepep";
              },
              true},
    KnownFlag{"cuda-graph-impl", [](Flags& f, const Word& w) { f.graphs = text_of(w); }},
    KnownFlag{"enable-cuda-graph",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.graphs = "local";
              },
              true},
    KnownFlag{"external-cuda-graph",
              [](Flags& f, const Word& w) {
                require_switch(w);
                f.graphs = "transformer_engine";
              },
              true},
    KnownFlag{"cuda-graph-scope",
              [](Flags& f, const Word& w) { f.graph_scope = first_of_list(text_of(w)); }},
    KnownFlag{"cuda-graph-modules",
              [](Flags& f, const Word& w) { f.graph_scope = first_of_list(text_of(w)); }},
    KnownFlag{"moe-router-num-groups",
              [](Flags& f, const Word& w) { f.expert_groups = count_of(w); }},
    KnownFlag{"moe-router-group-topk",
              [](Flags& f, const Word& w) { f.expert_group_choice = count_of(w); }},
};

/// Values of flags that plans have.
struct KnownValues {
  std::string_view name;
  std::string_view values;
};
constexpr std::array known_values{
    KnownValues{"moe-token-dispatcher-type", "alltoall flex"},
    KnownValues{"moe-flex-dispatcher-backend", "deepep hybridep"},
    KnownValues{"cross-entropy-fusion-impl", "native te"},
    KnownValues{"fp8-recipe", "delayed tensorwise blockwise mxfp8"},
    KnownValues{"cuda-graph-impl", "none local transformer_engine full_iteration"},
    // The first of several: what a layer begins with.
    KnownValues{"cuda-graph-scope", "full full_iteration attn"},
    KnownValues{"cuda-graph-modules", "full full_iteration attn"},
};

/// Kinds of parallelism that plans do not have; a degree of 1 is none.
struct RefusedFlag {
  std::string_view name;
  std::string_view what;
};
constexpr std::array refused_flags{
    RefusedFlag{"hierarchical-context-parallel-sizes", "context parallelism in several levels"},
    RefusedFlag{"pipeline-model-parallel-split-rank", "encoders beside decoders"},
    RefusedFlag{"encoder-pipeline-model-parallel-size", "encoders beside decoders"},
    RefusedFlag{"decoder-num-layers", "encoders beside decoders"},
};

/// Switches that change what a plan is about.
constexpr std::array refused_switches{
    RefusedFlag{"use-tp-pp-dp-mapping",
                "only ranks that count data parallelism before pipelines are read"},
    RefusedFlag{"standalone-embedding-stage",
                "an embedding of its own is a matter of --pipeline-model-parallel-layout now"},
    RefusedFlag{"enable-1f1b-v",
                "plans have no 1F1B folded into a V; they have zb-v, v-half and v-min"},
    RefusedFlag{"use-fsdp2", "torch's FSDP of this program is not read"},
};

/// Patterns of layers of several kinds: M Mamba, * attention, - MLP, E experts, | between pipeline
/// stages.
constexpr std::array pattern_flags{"hybrid-layer-pattern", "hybrid-override-pattern"};

const KnownFlag* find_flag(std::string_view name) {
  for (const KnownFlag& flag : known_flags) {
    if (flag.name == name) return &flag;
  }
  return nullptr;
}

constexpr std::array shape_flags{"hidden-size",      "num-attention-heads", "ffn-hidden-size",
                                 "num-query-groups", "kv-channels",         "vocab-size",
                                 "num-experts",      "moe-router-topk",     "moe-ffn-hidden-size"};

/// What is no number says nothing.
void keep_shape(const FlagWord& word, MegatronFlags& flags) {
  if (std::ranges::count(shape_flags, word.name) == 0 || !word.value) return;
  const std::string& text = *word.value;
  std::int64_t number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault == std::errc{} && end == text.data() + text.size() && number > 0)
    flags.shape.push_back({word.name, number});
}

void refuse_pattern(const FlagWord& word) {
  if (std::ranges::count(pattern_flags, word.name) == 0) return;
  fail_at(word,
          concat("\"", text_of(word),
                 "\" is a model of several kinds of layers (M Mamba, * attention, - MLP, with "
                 "bars between pipeline stages); plans of Megatron-LM have transformer layers "
                 "only"));
}

void refuse(const FlagWord& word) {
  refuse_pattern(word);
  for (const RefusedFlag& flag : refused_flags) {
    if (flag.name != word.name || number_of(word, 0) <= 1) continue;
    fail_at(word, concat("plans have no ", flag.what));
  }
  for (const RefusedFlag& flag : refused_switches) {
    if (flag.name == word.name) fail_at(word, std::string(flag.what));
  }
}

}  // namespace

bool has_megatron_flags(std::string_view content) {
  const auto has = [&](std::string_view name) {
    return content.find(name) != std::string_view::npos;
  };
  return has("pipeline-model-parallel-") || has("pipeline_model_parallel") ||
         has("tensor-model-parallel-size") || has("tensor_model_parallel_size") ||
         has_arguments_dump(content);
}

bool is_other_value(const FlagWord& word) {
  const auto known = std::ranges::find(known_values, word.name, &KnownValues::name);
  if (known == known_values.end() || !word.value || !word.missing.empty()) return false;
  const std::vector<std::string> values = split(std::string(known->values), ' ');
  return std::ranges::count(values, first_of_list(*word.value)) == 0;
}

MegatronFlagKind megatron_flag_kind(std::string_view name) {
  const auto named = [&](const auto& row) { return row.name == name; };
  if (std::ranges::any_of(refused_flags, named) || std::ranges::any_of(refused_switches, named) ||
      std::ranges::count(pattern_flags, name) > 0) {
    return MegatronFlagKind::refused;
  }
  const KnownFlag* flag = find_flag(name);
  if (flag == nullptr) return MegatronFlagKind::other;
  return flag->is_switch ? MegatronFlagKind::on_or_off : MegatronFlagKind::valued;
}

void take_megatron_flag(const FlagWord& word, MegatronFlags& flags) {
  refuse(word);
  keep_shape(word, flags);
  if (const KnownFlag* flag = find_flag(word.name)) flag->set(flags, word);
}

void keep_megatron_shape(const FlagWord& word, MegatronFlags& flags) {
  keep_shape(word, flags);
}

MegatronFlags read_megatron_flags(std::string_view content, const std::string& file) {
  return read_megatron_launch(content, file, {}).flags;
}

}  // namespace stagecraft
