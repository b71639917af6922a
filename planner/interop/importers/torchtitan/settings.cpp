#include "planner/interop/importers/torchtitan/settings.hpp"

#include <algorithm>
#include <array>

#include "profiles/cluster.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// What multiplies in 8 bits is costed so.
constexpr std::string_view all_but_head = R"([ "output" ])";

/// The longest row that fits counts.
constexpr std::array titan_keys{
    KeyMeaning{"model.name", Meaning::taken},
    KeyMeaning{"model.flavor", Meaning::taken},
    KeyMeaning{"model.converters", Meaning::taken},
    KeyMeaning{"model.hf_assets_path", Meaning::no_bearing},
    KeyMeaning{"model.tokenizer*", Meaning::no_bearing},
    KeyMeaning{"model.print_after_conversion", Meaning::no_bearing},
    KeyMeaning{"training.local_batch_size", Meaning::taken},
    KeyMeaning{"training.batch_size", Meaning::taken},
    KeyMeaning{"training.global_batch_size", Meaning::taken},
    KeyMeaning{"training.seq_len", Meaning::taken},
    KeyMeaning{"training.mixed_precision_param", Meaning::taken},
    KeyMeaning{"training.mixed_precision_reduce", Meaning::not_modelled, "float32"},
    KeyMeaning{"training.dtype", Meaning::not_modelled, "float32"},
    KeyMeaning{"training.enable_cpu_offload", Meaning::not_modelled},
    KeyMeaning{"training.compile", Meaning::not_modelled},
    KeyMeaning{"training.steps", Meaning::no_bearing},
    KeyMeaning{"training.max_norm", Meaning::no_bearing},
    KeyMeaning{"training.warmup_steps", Meaning::no_bearing},
    KeyMeaning{"training.dataset*", Meaning::no_bearing},
    KeyMeaning{"training.dataloader.*", Meaning::no_bearing},
    KeyMeaning{"training.gc_*", Meaning::no_bearing},
    KeyMeaning{"training.seed", Meaning::no_bearing},
    KeyMeaning{"training.deterministic", Meaning::no_bearing},
    KeyMeaning{"training.data_parallel_*", Meaning::taken},
    KeyMeaning{"training.tensor_parallel_degree", Meaning::taken},
    KeyMeaning{"experimental.pipeline_parallel_*", Meaning::taken},
    KeyMeaning{"experimental.context_parallel_degree", Meaning::taken},
    KeyMeaning{"experimental.enable_async_tensor_parallel", Meaning::not_modelled},
    KeyMeaning{"experimental.custom_*", Meaning::no_bearing},
    KeyMeaning{"parallelism.data_parallel_*", Meaning::taken},
    KeyMeaning{"parallelism.tensor_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.fsdp_reshard_after_forward", Meaning::taken},
    KeyMeaning{"parallelism.pipeline_parallel_*", Meaning::taken},
    KeyMeaning{"parallelism.pipeline_parallel_expert_parallel_overlap", Meaning::no_bearing},
    KeyMeaning{"parallelism.module_fqns_per_model_part", Meaning::taken},
    KeyMeaning{"parallelism.context_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.context_parallel_load_balancer", Meaning::not_modelled, "headtail"},
    KeyMeaning{"parallelism.context_parallel_rotate_method", Meaning::not_modelled, "allgather"},
    KeyMeaning{"parallelism.enable_sequence_parallel", Meaning::taken},
    KeyMeaning{"parallelism.spmd_backend", Meaning::no_bearing},
    KeyMeaning{"parallelism.expert_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.expert_tensor_parallel_degree", Meaning::taken},
    KeyMeaning{"parallelism.expert_parallel_comm_backend", Meaning::not_modelled, "standard"},
    KeyMeaning{"parallelism.disable_loss_parallel", Meaning::not_modelled},
    KeyMeaning{"parallelism.enable_async_tensor_parallel", Meaning::not_modelled},
    KeyMeaning{"parallelism.enable_compiled_autograd", Meaning::not_modelled},
    KeyMeaning{"order", Meaning::taken},
    KeyMeaning{"activation_checkpoint.mode", Meaning::taken},
    KeyMeaning{"activation_checkpoint.selective_ac_option", Meaning::taken},
    KeyMeaning{"activation_checkpoint.*", Meaning::no_bearing},
    KeyMeaning{"optimizer.name", Meaning::taken},
    KeyMeaning{"optimizer.implementation", Meaning::not_modelled, "fused"},
    KeyMeaning{"optimizer.fused", Meaning::no_bearing},
    KeyMeaning{"optimizer.early_step_in_backward", Meaning::not_modelled},
    KeyMeaning{"optimizer.lr", Meaning::no_bearing},
    KeyMeaning{"optimizer.eps", Meaning::no_bearing},
    KeyMeaning{"optimizer.beta*", Meaning::no_bearing},
    KeyMeaning{"optimizer.weight_decay", Meaning::no_bearing},
    KeyMeaning{"compile.enable", Meaning::not_modelled},
    KeyMeaning{"compile.*", Meaning::no_bearing},
    KeyMeaning{"float8.enable_float8_linear", Meaning::taken},
    KeyMeaning{"float8.*", Meaning::not_modelled},
    KeyMeaning{"float8.filter_fqns", Meaning::not_modelled, all_but_head},
    KeyMeaning{"float8.precompute_*", Meaning::no_bearing},
    KeyMeaning{"mx.*", Meaning::not_modelled},
    KeyMeaning{"quantize.*", Meaning::not_modelled},
    KeyMeaning{"quantize.linear.float8.filter_fqns", Meaning::not_modelled, all_but_head},
    KeyMeaning{"quantize.linear.float8.precompute_*", Meaning::no_bearing},
    KeyMeaning{"fault_tolerance.*", Meaning::not_modelled},
    KeyMeaning{"job.*", Meaning::no_bearing},
    KeyMeaning{"profiling.*", Meaning::no_bearing},
    KeyMeaning{"metrics.*", Meaning::no_bearing},
    KeyMeaning{"checkpoint.*", Meaning::no_bearing},
    KeyMeaning{"lr_scheduler.*", Meaning::no_bearing},
    KeyMeaning{"validation.*", Meaning::no_bearing},
    KeyMeaning{"comm.*", Meaning::no_bearing},
    KeyMeaning{"debug.*", Meaning::no_bearing},
    KeyMeaning{"memory_estimation.*", Meaning::no_bearing},
};

}  // namespace

const TomlSetting* TitanSettings::find(std::string_view path) const {
  const auto found = std::ranges::find(settings_, path, &TomlSetting::path);
  return found == settings_.end() ? nullptr : &*found;
}

const TomlSetting* TitanSettings::parallelism(std::string_view key) const {
  for (const std::string_view table : {"parallelism.", "training.", "experimental."}) {
    if (const TomlSetting* setting = find(concat(table, key))) return setting;
  }
  return nullptr;
}

std::string TitanSettings::word(const TomlSetting* setting, std::string_view otherwise) const {
  if (setting == nullptr) return std::string(otherwise);
  if (const auto* value = std::get_if<std::string>(&setting->value)) return *value;
  fail_at(*setting, "expected a word in quotes");
}

std::int64_t TitanSettings::number(const TomlSetting* setting, std::int64_t otherwise,
                                   std::int64_t least, std::int64_t most) const {
  if (setting == nullptr) return otherwise;
  const auto* value = std::get_if<std::int64_t>(&setting->value);
  if (value == nullptr || *value < least || *value > most)
    fail_at(*setting, concat("expected a whole number from ", least, " to ", most));
  return *value;
}

int TitanSettings::degree(std::string_view key) const {
  return static_cast<int>(number(parallelism(key), 1, 1, most_devices));
}

bool TitanSettings::is_on(std::string_view path) const {
  const TomlSetting* setting = find(path);
  const auto* value = setting == nullptr ? nullptr : std::get_if<bool>(&setting->value);
  return value != nullptr && *value;
}

void TitanSettings::fail_at(const TomlSetting& setting, const std::string& message) const {
  throw Error(ErrorKind::input, concat(setting.path, ": ", message, ", found ", setting.text),
              setting.place);
}

void TitanSettings::refuse(const TomlSetting* setting, const std::string& why) const {
  throw Error(ErrorKind::input, concat("torchtitan refuses: ", why),
              setting == nullptr ? SourcePlace{file_, 0, 0} : setting->place);
}

/// Converters swap modules for those that multiply in 8 bits.
bool multiplies_in_8_bits(const TitanSettings& settings) {
  if (settings.is_on("float8.enable_float8_linear")) return true;
  const TomlSetting* converters = settings.find("model.converters");
  if (converters == nullptr) return false;
  const auto* words = std::get_if<std::vector<std::string>>(&converters->value);
  if (words == nullptr) settings.fail_at(*converters, "expected a list of words in quotes");
  return std::ranges::any_of(*words, [](const std::string& word) {
    return word == "float8" || word == "mx" || word.starts_with("quantize.linear.");
  });
}

namespace {

bool is_off(const TitanSettings& settings, const TomlSetting& setting) {
  if (const auto* value = std::get_if<bool>(&setting.value); value != nullptr && !*value)
    return true;
  if (const auto* value = std::get_if<std::string>(&setting.value); value != nullptr)
    if (value->empty()) return true;
  const std::string table = setting.path.substr(0, setting.path.rfind('.'));
  const TomlSetting* enabled = settings.find(table + ".enable");
  if (enabled != nullptr && !settings.is_on(table + ".enable")) return true;
  const bool is_of_8_bits = setting.path.starts_with("float8.") ||
                            setting.path.starts_with("mx.") ||
                            setting.path.starts_with("quantize.");
  return is_of_8_bits && !multiplies_in_8_bits(settings);
}

}  // namespace

void list_settings(const TitanSettings& settings, ImportedPlan& imported) {
  for (const TomlSetting& setting : settings.all()) {
    constexpr std::size_t longest = 60;
    const KeyMeaning* row = meaning_of(titan_keys, setting.path);
    const auto* word = std::get_if<std::string>(&setting.value);
    const std::string_view value = word == nullptr ? std::string_view(setting.text) : *word;
    const bool as_modelled =
        is_off(settings, setting) || (row != nullptr && value == row->as_modelled);
    list_text(imported, row, as_modelled,
              {concat(setting.path, " = ", setting.text.size() > longest ? "…" : setting.text),
               setting.place});
  }
}

}  // namespace stagecraft
