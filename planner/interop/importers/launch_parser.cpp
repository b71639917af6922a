#include "planner/interop/importers/launch_parser.hpp"

#include <algorithm>
#include <array>

#include "planner/interop/importers/flag_kinds.hpp"
#include "planner/interop/importers/launch/consequences.hpp"
#include "planner/interop/importers/launch/dialects.hpp"
#include "planner/interop/importers/launch/flag_text.hpp"
#include "planner/interop/importers/launch/own_flags.hpp"
#include "planner/interop/importers/launch/ranks.hpp"

namespace stagecraft {

namespace {

/// A member of a part of a recipe that is about something else.
bool is_of_same_name(const FlagWord& word) {
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

/// Takes a launch word by word, then settles what its words say together.
class LaunchParser {
 public:
  LaunchParser(const FlagLaunch& launch, const FlagReading& reading)
      : from_(launch), reading_(reading) {
    parsed_.dialect = dialect_of(launch, reading.kind);
    parsed_.place = launch.place;
    parsed_.program = launch.program;
    parsed_.starts = launch.starts;
    parsed_.has_roles = std::ranges::any_of(
        launch.words, [](const FlagWord& word) { return word.section.starts_with("actor_train"); });
  }

  ParsedLaunch parse() {
    ranks_.take_section(from_, "scheduler", reading_.kind, parsed_);
    ranks_.take_environment(from_, reading_.kind, parsed_);
    ranks_.take_section(from_, "launcher", reading_.kind, parsed_);
    for (const FlagWord& word : from_.words) {
      if (word.section != "launcher" && word.section != "scheduler") take(word);
    }
    for (const FlagWord& word : from_.open) take_open(word);
    for (const NamedRecipe& recipe : from_.recipes) note_absent(recipe);
    ranks_.settle(parsed_);
    settle_switches(parsed_);
    settle_sequence(parsed_);
    settle_deepspeed(parsed_);
    set_program_defaults(parsed_);
    return std::move(parsed_);
  }

 private:
  MegatronFlags& flags() { return parsed_.launch.flags; }
  std::string text_of(const FlagWord& word) const { return text_of_flag(word, reading_.kind); }
  void understood(const FlagWord& word) { note_understood(word, reading_.kind, parsed_); }

  void note_absent(const NamedRecipe& recipe) {
    const auto& [text, place] = recipe.said;
    parsed_.launch.notes.push_back(concat(place.file, ":", place.line, ": ", text,
                                          " names a recipe that is not beside the script; what "
                                          "that file alone sets is not in the plan"));
  }

  /// That there is none says something of a switch, and nothing of the rest.
  void take_null(const FlagWord& word) {
    const bool is_granularity =
        word.name == "activations-checkpoint-granularity" || word.name == "recompute-granularity";
    if (is_granularity && !is_other_model(word.section)) parsed_.recomputes_nothing = true;
  }

  void take(const FlagWord& original) {
    if (original.is_null || original.value == "[]") return take_null(original);
    ++parsed_.flags;
    const FlagWord word = in_megatron(original, parsed_.dialect);
    if (original.name == "ds-sequence-parallel-size") parsed_.has_ulysses = true;
    if (take_own_flag(word, reading_, parsed_)) {
      ++parsed_.plan_flags;
      return understood(word);
    }
    const MegatronFlagKind kind = megatron_flag_kind(word.name);
    const bool is_plan_flag =
        (kind == MegatronFlagKind::valued || kind == MegatronFlagKind::on_or_off) &&
        !is_of_same_name(word) && !is_other_value(word);
    if (is_plan_flag && is_other_model(word.section)) {
      parsed_.other_models.insert(word.section);
      parsed_.launch.not_modelled.push_back({text_of(original), word.place});
      return;
    }
    if (is_about_ranks(word.name) && is_plan_flag) {
      ++parsed_.plan_flags;
      return ranks_.take(word, reading_.kind, parsed_);
    }
    // Python takes 1 and 0 for on and off.
    const bool is_member = kind == MegatronFlagKind::on_or_off &&
                           (reading_.kind != FlagReading::Kind::shell || !word.section.empty());
    const bool is_off =
        word.value == "false" || word.value == "False" || (is_member && word.value == "0");
    if (is_off) parsed_.said.insert(word.name);
    if (is_plan_flag) {
      ++parsed_.plan_flags;
      if (is_off) return understood(original);
      FlagWord taken = word;
      if (is_member && word.value == "1") taken.value.reset();
      return take_plan_flag(original, taken, kind);
    }
    if (kind == MegatronFlagKind::refused && !is_off && word.missing.empty()) {
      ++parsed_.plan_flags;
      take_megatron_flag(word, flags());
      return understood(original);  // a degree of one
    }
    classify(original, word, is_off);
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
      return understood(original);
    }
    take_megatron_flag(flag, flags());
    if (flag.name == "recompute-activations") parsed_.recomputes_attention = true;
    parsed_.launch.understood.push_back(
        {text_of(is_switch && !flag.value ? flag : original), word.place});
  }

  /// A word that is not known, where flags might be.
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

  /// A flag that the plan does not have.
  void classify(const FlagWord& original, const FlagWord& word, bool is_off) {
    if (word.is_next_word && !word.missing.empty() && !word.open_flags.empty()) take_open(word);
    if (word.section.empty() || !is_of_same_name(word)) keep_megatron_shape(word, flags());
    const ReadText text{text_of(original), word.place};
    switch (kind_of(word, is_off)) {
      case FlagKind::not_modelled: parsed_.launch.not_modelled.push_back(text); break;
      case FlagKind::no_bearing: parsed_.launch.understood.push_back(text); break;
      case FlagKind::unknown: parsed_.launch.unknown.push_back(text); break;
    }
  }

  /// Of recipes of programs that do more than train, what is about the training step.
  bool is_of_training(const std::string& section) const {
    const auto has = [&](const char* part) { return section.find(part) != std::string::npos; };
    switch (parsed_.dialect) {
      case Dialect::verl: return has("actor_rollout_ref.actor");
      case Dialect::nemo_rl: return section == "policy" || has("megatron_cfg");
      case Dialect::primus: return has(".overrides");
      case Dialect::mcore_adapter:
        return has("actor_train.strategy_args") || has("actor_train.training_args") ||
               (section.empty() && !parsed_.has_roles);
      // Of several kinds of adapters, one is chosen.
      case Dialect::nemo: return !has("model.peft.");
      case Dialect::megatron:
      case Dialect::swift:
      case Dialect::slime:
      case Dialect::neox: return true;
    }
    return true;
  }

  FlagKind kind_of(const FlagWord& word, bool is_off) const {
    const FlagKind kind = kind_of_flag(word.name);
    const bool is_beside = is_section_without_bearing(word.section) ||
                           word.section.starts_with("trainer") || is_other_model(word.section) ||
                           !is_of_training(word.section);
    if (kind == FlagKind::unknown && is_beside) return FlagKind::no_bearing;
    if (kind == FlagKind::not_modelled && (is_off || is_other_model(word.section)))
      return FlagKind::no_bearing;
    return kind;
  }

  const FlagLaunch& from_;
  const FlagReading& reading_;
  ParsedLaunch parsed_;
  LaunchRanks ranks_;
};

}  // namespace

bool is_about_ranks(std::string_view name) {
  return name == "nnodes" || name == "nproc-per-node" || name == "world-size" || name == "ranks" ||
         name == "tasks-per-node" || name == "gpus-per-node";
}

bool is_of_plan(const FlagWord& word, const FlagLaunch& launch, const FlagReading& reading) {
  ParsedLaunch parsed;
  parsed.dialect = dialect_of(launch, reading.kind);
  const FlagWord flag = in_megatron(word, parsed.dialect);
  const MegatronFlagKind kind = megatron_flag_kind(flag.name);
  return kind == MegatronFlagKind::valued || kind == MegatronFlagKind::on_or_off ||
         take_own_flag(flag, reading, parsed);
}

ParsedLaunch parse_launch(const FlagLaunch& launch, const FlagReading& reading) {
  return LaunchParser(launch, reading).parse();
}

}  // namespace stagecraft
