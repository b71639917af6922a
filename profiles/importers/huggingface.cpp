// config.json of Hugging Face transformers, for the families whose layers we know to the last bias
// (`families/`). What a key says is read, known to change nothing, or refused: a number of
// parameters that is nearly right is of no use to anyone.

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/families/assembly.hpp"
#include "profiles/importers/families/families.hpp"
#include "profiles/importers/families/wrappers.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// A key may be there and null, which means the same as being absent.
bool has(const Json& config, std::string_view name) {
  return config.contains(name) && !config[name].is_null();
}

/// Python writes Infinity and NaN, which are not JSON: bounds of what changes no layer. They become
/// null, at the same places.
std::string without_infinities(std::string_view content) {
  std::string text(content);
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && quoted) {
      ++i;
    } else if (text[i] == '"') {
      quoted = !quoted;
    } else if (!quoted) {
      for (const std::string_view word : {"-Infinity", "Infinity", "NaN"}) {
        if (text.compare(i, word.size(), word) != 0) continue;
        std::string same = word.size() < 4 ? "0" : "null";
        same.resize(word.size(), ' ');
        text.replace(i, word.size(), same);
      }
    }
  }
  return text;
}

/// Newer files keep the rotary base in "rope_parameters".
double rotary_base(const Json& config, double otherwise) {
  if (has(config, "rope_theta")) return config["rope_theta"].number();
  if (has(config, "rope_parameters") && has(config["rope_parameters"], "rope_theta"))
    return config["rope_parameters"]["rope_theta"].number();
  return otherwise;
}

/// Newer files say "rope_parameters", older ones "rope_scaling".
void read_rotary_scaling(const Json& config, Transformer& transformer) {
  const char* name = has(config, "rope_parameters") ? "rope_parameters" : "rope_scaling";
  if (!has(config, name)) return;
  const Json scaling = config[name];
  const char* type_name = has(scaling, "rope_type") ? "rope_type" : "type";
  const std::string type = has(scaling, type_name) ? scaling[type_name].string() : "default";
  if (type == "default") return;
  if (type != "llama3") {
    transformer.untrainable = concat("its ", name, " is of type \"", type, "\"");
    return;
  }
  transformer.rotary_scaling =
      RotaryScaling{.factor = scaling["factor"].number(),
                    .low_frequency = scaling["low_freq_factor"].number(),
                    .high_frequency = scaling["high_freq_factor"].number(),
                    .positions = scaling["original_max_position_embeddings"].integer(1)};
}

/// What the executor needs besides shapes, of models that it may train.
void read_numbers_of_training(const Json& config, Blueprint& blueprint) {
  Transformer& transformer = blueprint.numbers;
  if (transformer.position != Transformer::Position::rotary) return;
  if (has(config, "output_router_logits") && config["output_router_logits"].boolean())
    transformer.untrainable = "its loss has a part that balances experts (output_router_logits)";
  if (!blueprint.has_own_arithmetic) {
    transformer.norm_epsilon =
        has(config, "rms_norm_eps") ? config["rms_norm_eps"].number() : blueprint.norm_epsilon;
    const std::string activation =
        has(config, "hidden_act") ? config["hidden_act"].string() : "silu";
    if (activation != "silu" && activation != "swish")
      transformer.untrainable = concat("its hidden_act is \"", activation, "\"");
  }
  if (blueprint.has_own_positions) return;
  transformer.rotary_base = rotary_base(config, transformer.rotary_base);
  read_rotary_scaling(config, transformer);
}

constexpr std::string_view names_families = "\"stagecraft model list\" names the known families";

/// The known family of a file, or of its language part. A part may leave its type to the larger
/// model's, whose class has one kind of part.
std::string family_of(const Json& config, const Json& outer) {
  if (!has(config, "model_type") && has(outer, "model_type")) {
    const std::string type = outer["model_type"].string();
    std::string family = family_called(type);
    if (family != type) return family;
  }
  if (!has(config, "model_type")) {
    config.fail("the key \"model_type\" is missing", {std::string(names_families)});
  }
  const std::string type = config["model_type"].string();
  std::string family = family_called(type);
  const std::vector<std::string> known = family_names();
  if (std::find(known.begin(), known.end(), family) != known.end()) return family;
  if (const std::string_view what = why_not_described(type); !what.empty()) {
    config["model_type"].fail(
        concat("the layers of \"", type, "\" models cannot be described here: ", what),
        {std::string(names_families)});
  }
  // A name alike is no invitation: "rembert" is not "bert", and nobody mistypes it so.
  const std::string alike = closest(type, known);
  config["model_type"].fail(
      concat("the layers of \"", type, "\" models are not known",
             alike.empty() ? ""
                           : concat("; the nearest known name, \"", alike,
                                    "\", is another family unless \"", type, "\" is mistyped")),
      {std::string(names_families),
       "if all its layers are those of a known family, set \"model_type\" to that, with its keys"});
}

/// What else a larger model has, by the names of its parts: "vision_config".
std::vector<std::string> other_parts(const Json& outer, std::string_view part) {
  std::vector<std::string> others;
  for (const std::string& name : outer.names()) {
    if (name.ends_with("_config") && name != part && name != "quantization_config" &&
        name != "generation_config" && has(outer, name))
      others.push_back(name);
  }
  return others;
}

std::string left_out(const std::vector<std::string>& others, std::string_view part) {
  std::vector<std::string> quoted;
  for (const std::string& name : others) quoted.push_back("\"" + name + "\"");
  return concat("only the language part (", part.empty() ? "the file's own keys" : part,
                ") is counted and planned; ",
                others.empty() ? "what sees or hears" : join_words(quoted),
                " and what joins them to it are left out");
}

/// "llama-3-8b/config.json" → "llama-3-8b": the file's own name says nothing.
std::string model_name(const Json& config, const std::string& type, const std::string& file) {
  const std::filesystem::path path(file);
  if (path.filename() != "config.json") return path.stem().string();
  if (path.has_parent_path() && path.parent_path().has_filename()) {
    return path.parent_path().filename().string();
  }
  if (has(config, "_name_or_path") && !config["_name_or_path"].string().empty()) {
    return config["_name_or_path"].string();
  }
  return type;
}

/// Modules of a form that is not known here, and that the library does not build either.
void note_prediction(Blueprint& blueprint, Keys& keys) {
  const std::int64_t modules =
      keys.natural("num_nextn_predict_layers|num_mtp_layers|mtp_num_layers|num_mtp_modules", 0);
  if (modules > 0 && blueprint.prediction_modules == 0)
    blueprint.notes.push_back(concat("modules for multi-token prediction (", modules,
                                     ") are left out, as transformers leaves them out"));
}

}  // namespace

std::vector<std::string> huggingface_families() {
  return family_names();
}

bool looks_like_huggingface(std::string_view content) {
  try {
    const Json json = Json::parse(without_infinities(content), "config.json");
    if (!json.is_object() || json.contains("format")) return false;
    return json.contains("model_type") || json.contains("architectures") ||
           json.contains("text_config") || json.contains("num_hidden_layers") ||
           json.contains("n_layer");
  } catch (const Error&) {
    return false;
  }
}

Profile import_huggingface(std::string_view content, const std::string& file) {
  const Json whole = Json::parse(without_infinities(content), file);
  const Json outer = thinking_part(whole);
  const std::string_view part = language_part(outer);
  const bool is_part = !part.empty();
  const Json config = is_part ? outer[part] : outer;
  const std::string family = family_of(config, outer);
  const std::string type = has(config, "model_type") ? config["model_type"].string() : family;
  Keys keys(config, is_part);
  std::vector<std::string> others = other_parts(outer, part);
  if (has(whole, thinker_key))
    std::ranges::copy(other_parts(whole, thinker_key), std::back_inserter(others));
  // Older files of Qwen2-VL and the like have the keys of the language part among the others.
  const bool is_flat = !is_part && !others.empty() && family.ends_with("_text");
  if (is_flat) keys.ignore(others);
  Blueprint blueprint = read_family(family, keys);
  note_prediction(blueprint, keys);
  keys.refuse_unread(family);
  Transformer& numbers = blueprint.numbers;
  if (is_part || is_flat)
    numbers.tied_head = ties_words(outer, config, numbers.tied_head, blueprint.notes);
  if (blueprint.own_head && std::exchange(numbers.tied_head, false))
    blueprint.notes.push_back(
        "tie_word_embeddings is true, but the family's class in transformers keeps a head of its "
        "own, which is counted");
  const ModelHead head = read_head(outer, blueprint);
  blueprint.is_plain = blueprint.is_plain && head == ModelHead::words;
  blueprint.is_trained = blueprint.is_trained && head == ModelHead::words;
  const bool may_train = blueprint.is_plain || blueprint.is_trained;
  if (may_train) {
    read_numbers_of_training(config, blueprint);
  } else if (names_modules_its_own_way(family)) {
    numbers.position = Transformer::Position::none;
  }
  if (blueprint.is_plain) numbers.prediction_modules = blueprint.prediction_modules;
  if (!may_train && numbers.untrainable.empty()) {
    numbers.untrainable = concat("its layers are those of \"", type,
                                 "\" models, which are planned and not computed here");
  }
  // Files may promise contexts of a million tokens; costs are for what training commonly uses.
  constexpr std::int64_t longest = 4096;
  const std::int64_t sequence = std::min(numbers.positions, longest);
  Profile profile;
  const std::string name = model_name(config, type, file);
  try {
    profile.model =
        blueprint.is_plain
            ? make_transformer(name, numbers, static_cast<int>(blueprint.blocks.size()), sequence)
            : assemble(name, blueprint, head, read_classes(outer, blueprint.classes), sequence);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), SourcePlace{file, 0, 0});
  }
  if (is_part || is_flat) profile.warnings.push_back(left_out(others, part));
  for (const std::string& note : blueprint.notes) profile.warnings.push_back(note);
  if (has(config, "quantization_config"))
    profile.warnings.push_back(
        "quantization_config is not modelled: weights have the precision that is planned for");
  profile.source = concat("Hugging Face config.json (", family, ")");
  return profile;
}

}  // namespace stagecraft
