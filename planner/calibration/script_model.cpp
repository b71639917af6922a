#include "planner/calibration/script_model.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "planner/calibration/megatron_arguments.hpp"
#include "planner/interop/importers/flag_words.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Nothing else makes a transformer.
constexpr std::array needed{"num-layers", "hidden-size", "num-attention-heads"};

/// Nothing where what the model needs is not said.
std::optional<MegatronArguments> arguments_of(const FlagLaunch& launch) {
  MegatronArguments arguments;
  for (const FlagWord& word : launch.words) {
    if (word.section == "launcher" || word.is_null) continue;
    const bool is_unknown = !word.missing.empty();
    if (is_unknown) continue;
    arguments.set(word.name, {.text = word.value.value_or("true"), .place = word.place});
  }
  const bool says = std::ranges::all_of(
      needed, [&](std::string_view name) { return arguments.number(name, 0) > 0; });
  return says ? std::optional(arguments) : std::nullopt;
}

double real_number(const MegatronArguments& arguments, std::string_view name, double otherwise) {
  const std::string text = arguments.word(name);
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  return !text.empty() && fault == std::errc() && end == text.data() + text.size() ? number
                                                                                   : otherwise;
}

/// As `recipe_of`, with what has no bearing on a step, and the vocabulary as it is before it is
/// padded.
Transformer transformer_in(const MegatronArguments& arguments) {
  Transformer transformer = recipe_of(arguments).transformer;
  if (!arguments.has("padded-vocab-size"))
    transformer.vocabulary = arguments.number("vocab-size", 50257);
  transformer.positions = arguments.number("max-position-embeddings", transformer.positions);
  if (arguments.flag("add-qkv-bias")) transformer.attention_bias = true;
  if (arguments.flag("squared-relu"))
    transformer.untrainable = "its activation is the square of relu";
  // arguments.py has no rank unless it is said, whatever MLATransformerConfig has.
  if (transformer.latent && !arguments.has("q-lora-rank")) transformer.latent->query_rank = 0;
  transformer.norm_epsilon = real_number(arguments, "norm-epsilon", transformer.norm_epsilon);
  transformer.rotary_base = real_number(arguments, "rotary-base", transformer.rotary_base);
  return transformer;
}

/// What a script need not say to mean the same model, and what it says otherwise.
Transformer compared(Transformer transformer, bool has_vocabulary) {
  transformer.norm_epsilon = 0;
  transformer.rotary_base = 0;
  transformer.rotary_scaling.reset();
  transformer.positions = 0;
  if (!has_vocabulary) transformer.vocabulary = 0;
  return transformer;
}

int blocks_of(const Model& model) {
  return static_cast<int>(
      std::ranges::count_if(model.layers, [](const Layer& layer) { return is_block(layer); }));
}

/// The only one of these numbers.
std::string builtin_called(const Transformer& transformer, int blocks, bool has_vocabulary) {
  std::string found;
  for (const std::string& name : builtin_models()) {
    const Model model = builtin_model(name);
    if (!model.transformer || blocks_of(model) != blocks || has_steps(model)) continue;
    if (compared(*model.transformer, has_vocabulary) != compared(transformer, has_vocabulary))
      continue;
    if (!found.empty()) return "";
    found = name;
  }
  return found;
}

}  // namespace

std::optional<ScriptModel> model_of_script(std::string_view content, const std::string& file,
                                           const ScriptVariables& variables) {
  for (const FlagLaunch& launch : read_flags(content, file, variables).launches) {
    const std::optional<MegatronArguments> arguments = arguments_of(launch);
    if (!arguments) continue;
    const Transformer transformer = transformer_in(*arguments);
    const int blocks = arguments->small("num-layers");
    ScriptModel result{.builtin = {}, .model = {}, .blocks = blocks};
    result.has_vocabulary = arguments->has("vocab-size") || arguments->has("padded-vocab-size");
    result.builtin = builtin_called(transformer, blocks, result.has_vocabulary);
    result.model =
        result.builtin.empty()
            ? make_transformer(std::filesystem::path(file).stem().string(), transformer, blocks,
                               arguments->number("seq-length", transformer.positions))
            : builtin_model(result.builtin);
    return result;
  }
  return {};
}

}  // namespace stagecraft
