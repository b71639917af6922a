#include "planner/interop/importers/launch_parser.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/importers/flag_kinds.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct Renamed {
  Dialect dialect;
  std::string_view section;  ///< how it ends; empty: any
  std::string_view name;
  std::string_view flag;  ///< of Megatron-LM
};
constexpr std::array renamed_flags{
    // Of recipes in Python, as their scripts have them.
    Renamed{Dialect::megatron, "", "tp-size", "tensor-model-parallel-size"},
    Renamed{Dialect::megatron, "", "pp-size", "pipeline-model-parallel-size"},
    Renamed{Dialect::megatron, "", "cp-size", "context-parallel-size"},
    Renamed{Dialect::megatron, "", "ep-size", "expert-model-parallel-size"},
    Renamed{Dialect::megatron, "", "vp-size", "num-virtual-stages-per-pipeline-rank"},
    Renamed{Dialect::megatron, "", "tp", "tensor-model-parallel-size"},
    Renamed{Dialect::megatron, "", "pp", "pipeline-model-parallel-size"},
    Renamed{Dialect::megatron, "", "cp", "context-parallel-size"},
    Renamed{Dialect::megatron, "", "ep", "expert-model-parallel-size"},
    Renamed{Dialect::megatron, "", "vp", "num-virtual-stages-per-pipeline-rank"},
    Renamed{Dialect::megatron, "", "mbs", "micro-batch-size"},
    Renamed{Dialect::megatron, "", "gbs", "global-batch-size"},
    // Of Megatron-DeepSpeed.
    Renamed{Dialect::megatron, "", "ds-sequence-parallel-size", "context-parallel-size"},
    Renamed{Dialect::megatron, "", "moe-expert-parallel-size", "expert-model-parallel-size"},
    Renamed{Dialect::nemo, "trainer", "devices", "nproc-per-node"},
    Renamed{Dialect::nemo, "trainer", "num-nodes", "nnodes"},
    Renamed{Dialect::nemo, "", "encoder-seq-length", "seq-length"},
    Renamed{Dialect::nemo, "dataset", "sequence-length", "seq-length"},
    Renamed{Dialect::nemo, "", "microbatch-group-size-per-vp-stage",
            "microbatch-group-size-per-virtual-pipeline-stage"},
    Renamed{Dialect::swift, "", "max-length", "seq-length"},
    Renamed{Dialect::slime, "", "actor-num-nodes", "nnodes"},
    Renamed{Dialect::slime, "", "actor-num-gpus-per-node", "nproc-per-node"},
    Renamed{Dialect::verl, "trainer", "n-gpus-per-node", "nproc-per-node"},
    Renamed{Dialect::verl, "trainer", "nnodes", "nnodes"},
    Renamed{Dialect::verl, "actor", "ppo-micro-batch-size-per-gpu", "micro-batch-size"},
    Renamed{Dialect::verl, "actor", "ppo-mini-batch-size", "global-batch-size"},
};

/// Of a program that trains one model and runs others beside it, the parts that are not trained, or
/// have a plan of their own.
bool is_other_model(std::string_view section) {
  constexpr std::array names{"rollout",   "ref",        "critic",       "reward_model",
                             "reward",    "teacher",    "draft",        "validation_ds",
                             "test_ds",   "generation", "distillation", "policy_rollout",
                             "ref_policy"};
  return std::ranges::any_of(split(section, '.'), [&](const std::string& part) {
    return std::ranges::count(names, part) > 0;
  });
}

Dialect dialect_of(const FlagLaunch& launch, FlagReading::Kind kind) {
  const auto has = [&](std::string_view name) {
    return std::ranges::any_of(launch.words,
                               [&](const FlagWord& word) { return word.name == name; });
  };
  const auto has_section = [&](std::string_view begins) {
    return std::ranges::any_of(launch.words, [&](const FlagWord& word) {
      return word.section.starts_with(begins) && word.section != "scheduler";
    });
  };
  if (launch.program.starts_with("megatron ") || launch.program.starts_with("swift "))
    return Dialect::swift;
  if (launch.program.starts_with("verl") || has_section("actor_rollout_ref")) return Dialect::verl;
  if (has("actor-num-gpus-per-node")) return Dialect::slime;
  const bool is_recipe = kind == FlagReading::Kind::yaml || kind == FlagReading::Kind::json;
  const bool has_overrides = has_section("model") || has_section("trainer") || has_section("train");
  if (has_overrides || (is_recipe && has_section("model"))) return Dialect::nemo;
  return Dialect::megatron;
}

class LaunchParser {
 public:
  LaunchParser(const FlagLaunch& launch, const FlagReading& reading)
      : from_(launch), reading_(reading) {
    parsed_.dialect = dialect_of(launch, reading.kind);
    parsed_.place = launch.place;
    parsed_.program = launch.program;
    parsed_.starts = launch.starts;
  }

  ParsedLaunch parse() {
    take_ranks("scheduler");
    take_environment();
    take_ranks("launcher");
    for (const FlagWord& word : from_.words) {
      if (word.section != "launcher" && word.section != "scheduler") take(word);
    }
    for (const FlagWord& word : from_.open) take_open(word);
    settle_ranks();
    settle_switches();
    settle_sequence();
    settle_deepspeed();
    settle_defaults();
    return std::move(parsed_);
  }

 private:
  MegatronFlags& flags() { return parsed_.launch.flags; }

  std::string text_of_word(const FlagWord& word) const {
    if (reading_.kind == FlagReading::Kind::shell && word.section.empty())
      return "--" + word.name + (word.value ? " " + *word.value : "");
    std::string name = word.name;
    std::replace(name.begin(), name.end(), '-', '_');
    const std::string section = word.section.empty() ? "" : word.section + ".";
    const bool is_override = reading_.kind == FlagReading::Kind::shell;
    return section + name + (is_override ? "=" : ": ") + word.value.value_or("true");
  }
  void understood(const FlagWord& word) {
    parsed_.launch.understood.push_back({text_of_word(word), word.place});
  }

  // --- Ranks ---

  void take_rank_flag(const FlagWord& word) {
    const std::string& value = word.value ? *word.value : std::string();
    const bool is_number =
        !value.empty() && value.size() < 10 &&
        std::all_of(value.begin(), value.end(), [](char c) { return c >= '0' && c <= '9'; }) &&
        value.find_first_not_of('0') != std::string::npos;
    if (!is_number) {
      if (value != "-1") {
        const std::string known = reading_.kind == FlagReading::Kind::shell && !word.missing.empty()
                                      ? concat("; --set ", word.missing.front().name, "=… says it")
                                      : std::string();
        unknown_ranks_.push_back(concat(word.place.file, ":", word.place.line, ": --", word.name,
                                        " ", value, " is no number", known,
                                        "; all devices of the cluster are taken"));
      }
      ranks_are_known_ = false;
      return;
    }
    FlagWord flag = word;
    flag.missing.clear();
    flag.is_next_word = false;
    if (word.name == "ranks") flag.name = "world-size";
    if (word.name == "tasks-per-node") {
      parsed_.tasks_per_node = std::stoi(value);
    } else if (word.name == "gpus-per-node") {
      parsed_.gpus_per_node = std::stoi(value);
    } else if (word.name == "ranks") {
      ranks_ = std::stoi(value);
    } else {
      take_megatron_flag(flag, flags());
    }
    understood(word);
  }

  void take_ranks(std::string_view section) {
    for (const FlagWord& word : from_.words) {
      if (word.section == section) take_rank_flag(word);
    }
  }

  /// ms-swift starts torchrun itself.
  void take_environment() {
    if (parsed_.dialect != Dialect::swift) return;
    for (const auto& [name, word] : from_.environment) {
      FlagWord flag = word;
      flag.name = plain_flag_name(name == "NNODES" ? "nnodes" : "nproc-per-node");
      take_rank_flag(flag);
    }
  }

  /// Where torchrun does not say how many processes a node has, the scheduler does.
  void settle_ranks() {
    MegatronFlags& f = flags();
    if (!ranks_are_known_) {
      f.world.reset();
      f.processes.reset();
      f.nodes.reset();
      if (parsed_.starts || !unknown_ranks_.empty()) {
        for (const std::string& note : unknown_ranks_) parsed_.launch.notes.push_back(note);
      }
      return;
    }
    if (f.world || f.processes) return;
    if (ranks_) {
      f.world = ranks_;
    } else if (parsed_.tasks_per_node && parsed_.tasks_per_node.value() > 1) {
      f.processes = parsed_.tasks_per_node;
    } else if (parsed_.gpus_per_node && f.nodes) {
      f.processes = parsed_.gpus_per_node;
    }
    if (!f.processes && !f.world) f.nodes.reset();
  }

  // --- Flags ---

  /// The word as Megatron-LM has it.
  FlagWord in_megatron(const FlagWord& word) const {
    FlagWord flag = word;
    for (const Renamed& row : renamed_flags) {
      const bool is_for_all = row.dialect == Dialect::megatron;
      const bool fits = (is_for_all || row.dialect == parsed_.dialect) && row.name == word.name &&
                        (row.section.empty() || word.section.ends_with(row.section));
      if (fits) flag.name = row.flag;
    }
    return flag;
  }

  /// "bf16-mixed", 16, "torch.bfloat16". False if it says nothing about the plan.
  bool take_precision(const FlagWord& word) {
    constexpr std::array names{"precision", "dtype",        "torch-dtype",   "mixed-precision",
                               "amp-dtype", "params-dtype", "autocast-dtype"};
    const bool is_own = parsed_.dialect != Dialect::megatron && parsed_.dialect != Dialect::slime;
    if (!is_own || std::ranges::count(names, word.name) == 0 || !word.value) return false;
    const std::string& value = *word.value;
    const bool is_half = value == "16" || value.starts_with("16-") ||
                         value.find("fp16") != std::string::npos ||
                         value.find("float16") != std::string::npos;
    if (value.find("bf16") != std::string::npos || value.find("bfloat16") != std::string::npos) {
      flags().bf16 = true;
    } else if (is_half) {
      flags().fp16 = true;
    } else if (value != "32" && value.find("32") == std::string::npos) {
      return false;
    }
    if (value.find("fp8") != std::string::npos) flags().fp8 = "hybrid";
    parsed_.said.insert("precision");
    understood(word);
    return true;
  }

  /// A number that the plan's batch follows from.
  std::optional<std::int64_t> number_in(const FlagWord& word) const {
    if (!word.value || !word.missing.empty()) return {};
    FlagWord flag = word;
    flag.name = "micro-batch-size";
    MegatronFlags number;
    take_megatron_flag(flag, number);
    return number.microbatch;
  }

  /// Its members are switched by one: `fp8: false` beside `fp8_hybrid: true` is no FP8.
  bool take_fp8(const FlagWord& word) {
    if (word.name != "fp8" || is_other_model(word.section)) return false;
    const std::string value = word.value.value_or("");
    parsed_.fp8_is_off = value == "false" || value == "False";
    if (value == "hybrid" || value == "e4m3") {
      flags().fp8 = value;
    } else if (value.empty() || value == "True") {
      if (flags().fp8.empty()) flags().fp8 = "hybrid";
    } else if (!parsed_.fp8_is_off) {
      return false;
    }
    understood(word);
    return true;
  }

  /// Lengths of encoders and decoders: which is the model's, all flags together say.
  bool take_length(const FlagWord& word) {
    auto* const place = word.name == "encoder-seq-length"   ? &parsed_.encoder_sequence
                        : word.name == "decoder-seq-length" ? &parsed_.decoder_sequence
                                                            : nullptr;
    if (place == nullptr || is_other_model(word.section)) return false;
    *place = number_in(word);
    if (!*place) return false;
    understood(word);
    return true;
  }

  bool take_own_flag(const FlagWord& word) {
    if (take_precision(word) || take_fp8(word) || take_length(word)) return true;
    if (word.name == "deepspeed") parsed_.deepspeed = word.value != "false";
    if (word.name == "zero-stage" && word.missing.empty()) parsed_.zero_stage = word;
    if (parsed_.dialect == Dialect::slime) {
      auto* const place = word.name == "rollout-batch-size"      ? &parsed_.prompts
                          : word.name == "n-samples-per-prompt"  ? &parsed_.samples_per_prompt
                          : word.name == "num-steps-per-rollout" ? &parsed_.steps_per_rollout
                                                                 : nullptr;
      if (place == nullptr) return false;
      *place = number_in(word);
      understood(word);
      return true;
    }
    if (parsed_.dialect == Dialect::verl && word.section.ends_with("rollout") && word.name == "n") {
      parsed_.samples_per_prompt = number_in(word);
      understood(word);
      return true;
    }
    const bool names_optimizer = word.name == "name" && word.section.ends_with("optim");
    if (parsed_.dialect == Dialect::nemo && names_optimizer && word.value) {
      if (word.value->find("distributed") != std::string::npos) flags().shards_optimizer = true;
      if (word.value->find("adam") != std::string::npos) flags().optimizer = "adam";
      if (*word.value == "sgd") flags().optimizer = "sgd";
      understood(word);
      return true;
    }
    if (word.name == "deepspeed-config") return take_deepspeed_config(word);
    if (word.name == "pp-partition-method") return take_partition_method(word);
    return false;
  }

  /// A ds_config that the script itself writes.
  bool take_deepspeed_config(const FlagWord& word) {
    const auto found = reading_.documents.find(word.value.value_or(""));
    if (found == reading_.documents.end()) return false;
    try {
      const Json json = Json::parse(found->second, word.place.file);
      if (json.contains("zero_optimization") && json["zero_optimization"].contains("stage")) {
        const std::int64_t stage = json["zero_optimization"]["stage"].integer(0, 3);
        flags().zero_stage = static_cast<int>(stage);
        parsed_.zero_stage = word;
      }
    } catch (const Error&) {
      return false;  // with what is not known in it, it is no JSON
    }
    understood(word);
    return true;
  }

  /// DeepSpeed counts layers by type; embedding and head among them, as BLOOM did.
  bool take_partition_method(const FlagWord& word) {
    if (word.value != "type:transformer|embedding") return false;
    flags().split.account_for_embedding = true;
    flags().split.account_for_loss = true;
    understood(word);
    return true;
  }

  /// A member of a part of a recipe that is about something else.
  static bool is_of_same_name(const FlagWord& word) {
    constexpr std::array anywhere{"use-distributed-optimizer",
                                  "overlap-grad-reduce",
                                  "ddp-bucket-size",
                                  "optimizer",
                                  "seq-length",
                                  "bf16",
                                  "fp16",
                                  "micro-batch-size",
                                  "global-batch-size"};
    return is_section_without_bearing(word.section) && std::ranges::count(anywhere, word.name) == 0;
  }

  /// That there is none says something of a switch, and nothing of the rest.
  void take_null(const FlagWord& word) {
    const bool is_granularity =
        word.name == "activations-checkpoint-granularity" || word.name == "recompute-granularity";
    if (is_granularity && !is_other_model(word.section)) parsed_.recomputes_nothing = true;
  }

  void take(const FlagWord& original) {
    if (original.is_null) return take_null(original);
    ++parsed_.flags;
    const FlagWord word = in_megatron(original);
    if (original.name == "ds-sequence-parallel-size") parsed_.has_ulysses = true;
    if (take_own_flag(word)) {
      ++parsed_.plan_flags;
      return;
    }
    const MegatronFlagKind kind = megatron_flag_kind(word.name);
    const bool is_plan_flag =
        (kind == MegatronFlagKind::valued || kind == MegatronFlagKind::on_or_off) &&
        !is_of_same_name(word);
    if (is_plan_flag && is_other_model(word.section)) {
      parsed_.other_models.insert(word.section);
      parsed_.launch.not_modelled.push_back({text_of_word(original), word.place});
      return;
    }
    if (is_about_ranks(word.name) && is_plan_flag) {
      ++parsed_.plan_flags;
      take_rank_flag(word);
      return;
    }
    const bool is_off = word.value == "false" || word.value == "False";
    if (is_off) parsed_.said.insert(word.name);
    if (is_plan_flag) {
      ++parsed_.plan_flags;
      if (is_off) {
        understood(original);
      } else {
        take_plan_flag(original, word, kind);
      }
      return;
    }
    if (kind == MegatronFlagKind::refused && !is_off && word.missing.empty()) {
      ++parsed_.plan_flags;
      take_megatron_flag(word, flags());
      understood(original);  // a degree of one
      return;
    }
    classify(original, word, is_off);
  }

  void classify(const FlagWord& original, const FlagWord& word, bool is_off) {
    if (word.is_next_word && !word.missing.empty() && !word.open_flags.empty()) take_open(word);
    if (word.section.empty() || !is_of_same_name(word)) keep_megatron_shape(word, flags());
    const ReadText text{text_of_word(original), word.place};
    FlagKind kind = kind_of_flag(word.name);
    const bool is_beside = is_section_without_bearing(word.section) ||
                           word.section.starts_with("trainer") || is_other_model(word.section) ||
                           (parsed_.dialect == Dialect::verl &&
                            word.section.find("actor_rollout_ref.actor") == std::string::npos);
    if (kind == FlagKind::unknown && is_beside) kind = FlagKind::no_bearing;
    if (kind == FlagKind::not_modelled && is_other_model(word.section)) kind = FlagKind::no_bearing;
    const bool is_usual = is_off || is_as_modelled(word.name, word.value.value_or(""));
    if (kind == FlagKind::not_modelled && is_usual) kind = FlagKind::no_bearing;
    switch (kind) {
      case FlagKind::not_modelled: parsed_.launch.not_modelled.push_back(text); break;
      case FlagKind::no_bearing: parsed_.launch.understood.push_back(text); break;
      case FlagKind::unknown: parsed_.launch.unknown.push_back(text); break;
    }
  }

  void take_plan_flag(const FlagWord& original, const FlagWord& word, MegatronFlagKind kind) {
    FlagWord flag = word;
    const bool is_switch = kind == MegatronFlagKind::on_or_off;
    if (is_switch && word.is_next_word && !word.missing.empty()) {
      take_open(word);
      flag.value.reset();
      flag.missing.clear();
      flag.is_next_word = false;
    }
    parsed_.said.insert(word.name);
    if (!flag.missing.empty()) {
      for (const MissingVariable& one : flag.missing)
        parsed_.missing.emplace_back(one, "--" + word.name);
      return;
    }
    if (flag.value == "none" && (flag.name == "recompute-granularity" ||
                                 flag.name == "activations-checkpoint-granularity")) {
      parsed_.recomputes_nothing = true;
      understood(original);
      return;
    }
    take_megatron_flag(flag, flags());
    parsed_.launch.understood.push_back(
        {text_of_word(is_switch && !flag.value ? flag : original), word.place});
  }

  void take_open(const FlagWord& word) {
    std::string flag;
    for (const std::string& name : word.open_flags) {
      if (megatron_flag_kind(name) != MegatronFlagKind::other) flag = "--" + name;
    }
    if (flag.empty()) {
      parsed_.open.push_back(word);
      return;
    }
    for (const MissingVariable& one : word.missing) parsed_.missing.emplace_back(one, flag);
  }

  // --- What programs set by themselves ---

  /// A language model behind an encoder of images has the decoder's length, `--seq-length` being
  /// the encoder's; `--encoder-seq-length` alone is the other word for it.
  void settle_sequence() {
    MegatronFlags& f = flags();
    if (parsed_.decoder_sequence) {
      if (f.sequence && f.sequence != parsed_.decoder_sequence) {
        parsed_.launch.notes.push_back(
            concat("the language model's sequence is --decoder-seq-length ",
                   *parsed_.decoder_sequence, "; --seq-length ", *f.sequence, " is the encoder's"));
      }
      f.sequence = parsed_.decoder_sequence;
    } else if (!f.sequence) {
      f.sequence = parsed_.encoder_sequence;
    }
  }

  /// Its pipelines take ZeRO-1 at most; its optimizer for bf16 shards states in any case
  /// (deepspeed/runtime/bf16_optimizer.py).
  void settle_deepspeed() {
    MegatronFlags& f = flags();
    if (f.zero_stage > 1 && !f.no_pipeline) {
      const FlagWord& said = *parsed_.zero_stage;
      throw Error(
          ErrorKind::input,
          concat("--", said.name, ": DeepSpeed refuses ZeRO-", f.zero_stage, " with pipelines"),
          said.place, {"--no-pipeline-parallel trains without them"});
    }
    if (f.zero_stage == 1) f.shards_optimizer = true;
    const bool is_deepspeed = parsed_.deepspeed || parsed_.zero_stage;
    if (is_deepspeed && f.bf16 && f.zero_stage == 0 && !f.shards_optimizer) {
      f.shards_optimizer = true;
      parsed_.launch.notes.emplace_back(
          "DeepSpeed sets by itself: in bf16 its optimizer's states are divided over replicas, as "
          "by ZeRO-1");
    }
    if (parsed_.has_ulysses && f.context > 1) {
      parsed_.launch.notes.emplace_back(
          "DeepSpeed's Ulysses exchanges heads among its peers; the plan's context parallelism "
          "passes keys and values round them");
    }
  }

  /// Members that one switch turns off say nothing.
  void settle_switches() {
    MegatronFlags& f = flags();
    if (parsed_.fp8_is_off) f.fp8.clear();
    if (!parsed_.recomputes_nothing) return;
    f.recompute.clear();
    f.recompute_method.clear();
    f.recompute_layers.reset();
  }

  void settle_defaults() {
    MegatronFlags& f = flags();
    const auto is_said = [&](std::string_view name) {
      return parsed_.said.contains(std::string(name));
    };
    const auto note = [&](std::string_view program, const std::string& what) {
      if (!what.empty()) parsed_.launch.notes.push_back(concat(program, " sets by itself: ", what));
    };
    std::string set;
    const auto add = [&](std::string_view what) { set += concat(set.empty() ? "" : ", ", what); };
    const bool has_precision =
        f.bf16 || f.fp16 || is_said("bf16") || is_said("fp16") || is_said("precision");
    if (parsed_.dialect != Dialect::megatron && parsed_.dialect != Dialect::nemo) {
      if (!has_precision) {
        f.bf16 = true;
        add("bf16");
      }
      if (!is_said("use-distributed-optimizer")) {
        f.shards_optimizer = true;
        add("the distributed optimizer");
      }
    }
    if (parsed_.dialect == Dialect::swift) {
      if (!f.microbatch && !is_said("micro-batch-size")) {
        f.microbatch = 1;
        add("--micro_batch_size 1");
      }
      if (!f.global_batch && !is_said("global-batch-size")) {
        f.global_batch = 16;
        add("--global_batch_size 16");
      }
      // Its experts are not cut unless it says so.
      if (f.expert > 1 && f.expert_tensor == 0) f.expert_tensor = 1;
      if (!is_said("recompute-granularity")) {
        f.recompute = "selective";
        add("--recompute_granularity selective");
      }
      note("ms-swift", set);
    } else if (parsed_.dialect == Dialect::slime) {
      if (!f.global_batch && parsed_.prompts && parsed_.samples_per_prompt &&
          parsed_.steps_per_rollout && !is_said("global-batch-size")) {
        f.global_batch =
            *parsed_.prompts * *parsed_.samples_per_prompt / *parsed_.steps_per_rollout;
        add(concat("--global-batch-size ", *f.global_batch));
      }
      if (!f.microbatch && !is_said("micro-batch-size")) {
        f.microbatch = 1;
        add("--micro-batch-size 1");
      }
      note("slime", set);
    } else if (parsed_.dialect == Dialect::verl) {
      if (!is_said("sequence-parallel")) {
        f.sequence_parallel = true;
        add("sequence_parallel");
      }
      if (!f.global_batch && !is_said("global-batch-size")) {
        f.global_batch = 256;
        add("ppo_mini_batch_size 256");
      }
      if (f.global_batch && parsed_.samples_per_prompt)
        *f.global_batch *= *parsed_.samples_per_prompt;
      note("verl", set);
    }
  }

  const FlagLaunch& from_;
  const FlagReading& reading_;
  ParsedLaunch parsed_;
  std::vector<std::string> unknown_ranks_;
  std::optional<int> ranks_;
  bool ranks_are_known_ = true;
};

}  // namespace

bool is_about_ranks(std::string_view name) {
  return name == "nnodes" || name == "nproc-per-node" || name == "world-size" || name == "ranks" ||
         name == "tasks-per-node" || name == "gpus-per-node";
}

ParsedLaunch parse_launch(const FlagLaunch& launch, const FlagReading& reading) {
  return LaunchParser(launch, reading).parse();
}

}  // namespace stagecraft
