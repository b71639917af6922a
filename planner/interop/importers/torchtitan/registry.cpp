#include "planner/interop/importers/torchtitan/registry.hpp"

#include <algorithm>
#include <array>

#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// torchtitan/models/*/config_registry.py of 0.3.0; numbers of 1 and empty words are not said.
struct TitanConfiguration {
  std::string_view function, module, flavor;
  std::int64_t local_batch = 1;
  std::int64_t sequence = 0;
  std::string_view checkpoints = {};
  std::int64_t tensor = 1;
  std::int64_t expert = 1;
  bool interleaved = false;
  bool float8 = false;
};
constexpr std::array configurations{
    TitanConfiguration{"llama3_debugmodel", "llama3", "debugmodel", 8, 2048, "selective", 1, 1,
                       true},
    TitanConfiguration{"llama3_8b", "llama3", "8B", 1, 8192, "selective"},
    TitanConfiguration{"llama3_70b", "llama3", "70B", 8, 8192, "full", 8},
    TitanConfiguration{"llama3_405b", "llama3", "405B", 2, 8192, "full", 8, 1, false, true},
    TitanConfiguration{"qwen3_0_6b", "qwen3", "0.6B", 4, 4096, "selective"},
    TitanConfiguration{"qwen3_1_7b", "qwen3", "1.7B", 4, 4096, "selective"},
    TitanConfiguration{"qwen3_14b", "qwen3", "14B", 4, 4096, "full"},
    TitanConfiguration{"qwen3_32b", "qwen3", "32B", 2, 4096, "full"},
    TitanConfiguration{"qwen3_30b_a3b", "qwen3", "30B-A3B", 2, 4096, "full"},
    TitanConfiguration{"deepseek_v3_16b", "deepseek_v3", "16B", 4, 4096, "selective", 1, 8, true},
    TitanConfiguration{"deepseek_v3_671b", "deepseek_v3", "671B", 4, 4096, "selective", 1, 2, true},
    TitanConfiguration{"gpt_oss_20b", "gpt_oss", "20b", 1, 8192, "full"},
    TitanConfiguration{"gpt_oss_120b", "gpt_oss", "120b", 1, 8192, "full"},
    TitanConfiguration{"moonlight_16b_a3b", "kimi_k2_7", "moonlight-16B-A3B", 4, 4096, "full", 1,
                       8},
    TitanConfiguration{"muse_glimmer_30b", "muse_glimmer", "30B", 1, 8192, "full"},
};

}  // namespace

std::vector<TomlSetting> titan_registry(std::string_view function, const SourcePlace& place) {
  const auto row = std::ranges::find(configurations, function, &TitanConfiguration::function);
  if (row == configurations.end()) return {};
  std::vector<TomlSetting> settings;
  const auto add = [&](const char* path, TomlValue value, std::string text) {
    settings.push_back(
        {.path = path, .value = std::move(value), .text = std::move(text), .place = place});
  };
  const auto word = [&](const char* path, std::string_view text) {
    add(path, std::string(text), std::string(text));
  };
  const auto number = [&](const char* path, std::int64_t value) {
    add(path, value, std::to_string(value));
  };
  word("model.name", row->module);
  word("model.flavor", row->flavor);
  number("training.local_batch_size", row->local_batch);
  number("training.seq_len", row->sequence);
  if (row->tensor > 1) number("parallelism.tensor_parallel_degree", row->tensor);
  if (row->expert > 1) number("parallelism.expert_parallel_degree", row->expert);
  if (row->interleaved) word("parallelism.pipeline_parallel_schedule", "Interleaved1F1B");
  word("activation_checkpoint.mode", row->checkpoints);
  if (row->checkpoints == "selective") word("activation_checkpoint.selective_ac_option", "op");
  if (row->float8) add("float8.enable_float8_linear", true, "true");
  return settings;
}

std::string titan_registry_in_words() {
  std::vector<std::string> names;
  for (const TitanConfiguration& row : configurations) names.emplace_back(row.function);
  return join_words(names);
}

}  // namespace stagecraft
