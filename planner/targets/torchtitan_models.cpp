// As torchtitan 0.3.0 has them (torchtitan/models/*/__init__.py and config_registry.py). Those with
// an encoder of images are left out: our models have text alone. A flavor without a configuration
// of its own is trained by that of a neighbour of the same vocabulary.

#include "planner/targets/torchtitan_models.hpp"

#include <algorithm>
#include <array>

#include "planner/plan/layer_names.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::array titan_models{
    TitanModel{"llama3", "1B", "llama3_8b", 2048, 16, 128256},
    TitanModel{"llama3", "3B", "llama3_8b", 3072, 28, 128256},
    TitanModel{"llama3", "8B", "llama3_8b", 4096, 32, 128256},
    TitanModel{"llama3", "70B", "llama3_70b", 8192, 80, 128256},
    TitanModel{"llama3", "405B", "llama3_405b", 16384, 126, 128256},
    TitanModel{"qwen3", "0.6B", "qwen3_0_6b", 1024, 28, 151936},
    TitanModel{"qwen3", "1.7B", "qwen3_1_7b", 2048, 28, 151936},
    TitanModel{"qwen3", "4B", "qwen3_1_7b", 2560, 36, 151936},
    TitanModel{"qwen3", "8B", "qwen3_14b", 4096, 36, 151936},
    TitanModel{"qwen3", "14B", "qwen3_14b", 5120, 40, 151936},
    TitanModel{"qwen3", "32B", "qwen3_32b", 5120, 64, 151936},
    TitanModel{"qwen3", "30B-A3B", "qwen3_30b_a3b", 2048, 48, 151936, 128},
    TitanModel{"qwen3", "235B-A22B", "qwen3_30b_a3b", 4096, 94, 151936, 128},
    TitanModel{"deepseek_v3", "16B", "deepseek_v3_16b", 2048, 27, 102400, 64},
    TitanModel{"deepseek_v3", "236B", "deepseek_v3_16b", 5120, 60, 102400, 160},
    TitanModel{"deepseek_v3", "671B", "deepseek_v3_671b", 7168, 61, 129280, 256},
    TitanModel{"gpt_oss", "20b", "gpt_oss_20b", 2880, 24, 201088, 32},
    TitanModel{"gpt_oss", "120b", "gpt_oss_120b", 2880, 36, 201088, 128},
    TitanModel{"kimi_k2_7", "moonlight-16B-A3B", "moonlight_16b_a3b", 2048, 27, 163840, 64},
    TitanModel{"muse_glimmer", "30B", "muse_glimmer_30b", 6656, 52, 202048},
};

/// Those that are built in here.
struct BuiltinOfTitan {
  std::string_view module, flavor, model;
};
constexpr std::array builtins{
    BuiltinOfTitan{"llama3", "1B", "llama3.2-1b"},
    BuiltinOfTitan{"llama3", "3B", "llama3.2-3b"},
    BuiltinOfTitan{"llama3", "8B", "llama3-8b"},
    BuiltinOfTitan{"llama3", "70B", "llama3-70b"},
    BuiltinOfTitan{"llama3", "405B", "llama3-405b"},
    BuiltinOfTitan{"llama2", "7B", "llama2-7b"},
    BuiltinOfTitan{"llama2", "13B", "llama2-13b"},
    BuiltinOfTitan{"llama2", "70B", "llama2-70b"},
    BuiltinOfTitan{"deepseek_v3", "16B", "deepseek-v2-lite"},
    BuiltinOfTitan{"deepseek_v3", "236B", "deepseek-v2"},
    BuiltinOfTitan{"deepseek_v3", "671B", "deepseek-v3"},
};

}  // namespace

const TitanModel* find_titan_model(const Model& model) {
  if (!model.transformer) return nullptr;
  const Transformer& numbers = *model.transformer;
  const auto has_same = [&](const TitanModel& row) {
    return row.hidden == numbers.hidden && row.vocabulary == numbers.vocabulary &&
           row.blocks == decoder_layers(model).size() &&
           row.experts == (numbers.experts ? numbers.experts->count : 0);
  };
  const auto found = std::ranges::find_if(titan_models, has_same);
  return found == titan_models.end() ? nullptr : found;
}

std::string_view builtin_of_titan(std::string_view module, std::string_view flavor) {
  const auto found = std::ranges::find_if(builtins, [&](const BuiltinOfTitan& row) {
    return row.module == module && row.flavor == flavor;
  });
  return found == builtins.end() ? std::string_view() : found->model;
}

std::string_view builtin_of_titan_function(std::string_view module, std::string_view function) {
  // Variants have the flavor's function in front: llama3_8b_mxfp8.
  const TitanModel* best = nullptr;
  for (const TitanModel& row : titan_models) {
    if (row.module != module || !function.starts_with(row.function)) continue;
    const bool is_closer = best == nullptr || row.function.size() > best->function.size();
    // Of several flavors with one function, it is named for one.
    std::string own = concat("_", row.flavor);
    std::ranges::transform(own, own.begin(), [](char c) {
      return c == '-' || c == '.' ? '_' : static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    });
    if (is_closer && row.function.ends_with(own)) best = &row;
  }
  return best == nullptr ? std::string_view() : builtin_of_titan(module, best->flavor);
}

std::string titan_models_in_words() {
  std::string words;
  std::string_view module;
  for (const TitanModel& row : titan_models) {
    if (row.module != module) words += concat(words.empty() ? "" : ", ", row.module);
    module = row.module;
    words += concat(" ", row.flavor);
  }
  return words;
}

}  // namespace stagecraft
