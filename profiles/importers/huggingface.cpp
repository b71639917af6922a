// config.json of Hugging Face transformers, for the families whose layers we know to the last bias.
// Keys that do not change the layers are many and none of our business; a key that we need and do
// not find is an error, except where the library itself has a default.

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t largest_number = std::int64_t{1} << 40U;
constexpr int most_blocks = 100'000;

/// A key may be there and null, which means the same as being absent.
bool has(const Json& config, std::string_view name) {
  return config.contains(name) && !config[name].is_null();
}

std::int64_t count(const Json& config, std::string_view name) {
  return config[name].integer(1, largest_number);
}

std::int64_t count_or(const Json& config, std::string_view name, std::int64_t otherwise) {
  return has(config, name) ? count(config, name) : otherwise;
}

bool flag_or(const Json& config, std::string_view name, bool otherwise) {
  return has(config, name) ? config[name].boolean() : otherwise;
}

double number_or(const Json& config, std::string_view name, double otherwise) {
  return has(config, name) ? config[name].number() : otherwise;
}

/// Like the library, newer files keep the rotary base in "rope_parameters".
double rotary_base(const Json& config, double otherwise) {
  if (has(config, "rope_theta")) return config["rope_theta"].number();
  if (has(config, "rope_parameters"))
    return number_or(config["rope_parameters"], "rope_theta", otherwise);
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
                    .positions = count(scaling, "original_max_position_embeddings")};
}

/// Costs are the same with another function, results are not.
void require_activation(const Json& config, std::string_view name,
                        const std::vector<std::string>& known, Transformer& transformer) {
  if (!has(config, name)) return;
  const std::string activation = config[name].string();
  if (std::ranges::find(known, activation) != known.end()) return;
  transformer.untrainable = concat("its ", name, " is \"", activation, "\"");
}

void need(const Json& config, const std::vector<std::string>& names) {
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!has(config, name)) missing.push_back("\"" + name + "\"");
  }
  if (missing.empty()) return;
  config.fail(concat("the ", missing.size() == 1 ? "key " : "keys ", join_words(missing),
                     missing.size() == 1 ? " is" : " are", " missing"));
}

/// What a config says of a model.
struct Shape {
  Transformer transformer;
  int blocks = 0;
};

Shape read_gpt2(const Json& config) {
  need(config, {"n_embd", "n_layer", "n_head", "n_positions", "vocab_size"});
  if (flag_or(config, "add_cross_attention", false)) {
    config["add_cross_attention"].fail("blocks with cross-attention are not known here");
  }
  const std::int64_t hidden = count(config, "n_embd");
  const std::int64_t heads = count(config, "n_head");
  if (hidden % heads != 0)
    config["n_head"].fail(concat(heads, " heads do not divide n_embd = ", hidden));
  Transformer transformer;
  transformer.hidden = hidden;
  transformer.heads = heads;
  transformer.key_value_heads = heads;
  transformer.head_width = hidden / heads;
  transformer.feed_forward = count_or(config, "n_inner", 4 * hidden);
  transformer.vocabulary = count(config, "vocab_size");
  transformer.positions = count(config, "n_positions");
  transformer.tied_head = flag_or(config, "tie_word_embeddings", true);
  transformer.norm_epsilon = number_or(config, "layer_norm_epsilon", 1e-5);
  require_activation(config, "activation_function", {"gelu_new", "gelu_pytorch_tanh"}, transformer);
  if (flag_or(config, "scale_attn_by_inverse_layer_idx", false)) {
    transformer.untrainable = "its scale_attn_by_inverse_layer_idx is true";
  }
  if (!flag_or(config, "scale_attn_weights", true)) {
    transformer.untrainable = "its scale_attn_weights is false";
  }
  return {transformer, config["n_layer"].small_integer(1, most_blocks)};
}

/// What Llama, Mistral and Qwen2 share. `positions` is the library's default.
Shape read_llama_like(const Json& config, std::int64_t positions) {
  need(config, {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                "vocab_size"});
  const std::int64_t hidden = count(config, "hidden_size");
  const std::int64_t heads = count(config, "num_attention_heads");
  const std::int64_t groups = count_or(config, "num_key_value_heads", heads);
  if (!has(config, "head_dim") && hidden % heads != 0) {
    config["num_attention_heads"].fail(
        concat(heads, " heads do not divide hidden_size = ", hidden));
  }
  if (heads % groups != 0) {
    config["num_key_value_heads"].fail(
        concat(groups, " key-value heads do not divide the ", heads, " attention heads"));
  }
  Transformer transformer;
  transformer.hidden = hidden;
  transformer.heads = heads;
  transformer.key_value_heads = groups;
  transformer.head_width = count_or(config, "head_dim", hidden / heads);
  transformer.feed_forward = count(config, "intermediate_size");
  transformer.vocabulary = count(config, "vocab_size");
  transformer.positions = count_or(config, "max_position_embeddings", positions);
  transformer.norm = Transformer::Norm::rms_norm;
  transformer.activation = Transformer::FeedForward::swiglu;
  transformer.position = Transformer::Position::rotary;
  transformer.attention_bias = false;
  transformer.output_bias = false;
  transformer.feed_forward_bias = false;
  transformer.tied_head = flag_or(config, "tie_word_embeddings", false);
  transformer.norm_epsilon = number_or(config, "rms_norm_eps", 1e-6);
  transformer.rotary_base = rotary_base(config, 10000.0);
  require_activation(config, "hidden_act", {"silu", "swish"}, transformer);
  read_rotary_scaling(config, transformer);
  return {transformer, config["num_hidden_layers"].small_integer(1, most_blocks)};
}

/// `attention_bias` covers all four attention projections, the output's included.
Shape read_llama(const Json& config) {
  Shape shape = read_llama_like(config, 2048);
  shape.transformer.attention_bias = flag_or(config, "attention_bias", false);
  shape.transformer.output_bias = shape.transformer.attention_bias;
  shape.transformer.feed_forward_bias = flag_or(config, "mlp_bias", false);
  return shape;
}

/// Attention that forgets is not the executor's.
void require_full_attention(const Json& config, Transformer& transformer) {
  if (!has(config, "sliding_window")) return;
  const std::int64_t window = count(config, "sliding_window");
  if (window < transformer.positions) {
    transformer.untrainable = concat("its attention slides over ", window, " tokens");
  }
}

/// Without the number of key-value heads, the library's classes for Mistral and Qwen2 assume that
/// of their first model: a guess that we leave to the user.
Shape read_mistral(const Json& config) {
  need(config, {"num_key_value_heads"});
  Shape shape = read_llama_like(config, 131072);
  require_full_attention(config, shape.transformer);
  return shape;
}

/// Biases on query, key and value only, always.
Shape read_qwen2(const Json& config) {
  need(config, {"num_key_value_heads"});
  Shape shape = read_llama_like(config, 32768);
  shape.transformer.attention_bias = true;
  if (flag_or(config, "use_sliding_window", false)) {
    require_full_attention(config, shape.transformer);
  }
  return shape;
}

Shape read_mixtral(const Json& config) {
  need(config, {"num_key_value_heads", "num_local_experts", "num_experts_per_tok"});
  Shape shape = read_llama_like(config, 131072);
  shape.transformer.experts = Experts{.count = count(config, "num_local_experts"),
                                      .active = count(config, "num_experts_per_tok"),
                                      .feed_forward = shape.transformer.feed_forward};
  return shape;
}

std::int64_t natural_or_none(const Json& config, std::string_view name) {
  return has(config, name) ? config[name].integer(0, largest_number) : 0;
}

/// DeepSeek-V2 and V3: latent attention, shared experts, dense blocks first.
Shape read_deepseek(const Json& config) {
  need(config, {"kv_lora_rank", "qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim",
                "moe_intermediate_size", "n_routed_experts", "num_experts_per_tok"});
  Shape shape = read_llama_like(config, 2048);
  Transformer& transformer = shape.transformer;
  transformer.latent = LatentAttention{.query_rank = natural_or_none(config, "q_lora_rank"),
                                       .key_value_rank = count(config, "kv_lora_rank"),
                                       .rotary_width = count(config, "qk_rope_head_dim"),
                                       .plain_width = count(config, "qk_nope_head_dim"),
                                       .value_width = count(config, "v_head_dim")};
  transformer.head_width = transformer.latent->rotary_width + transformer.latent->plain_width;
  const std::int64_t width = count(config, "moe_intermediate_size");
  transformer.experts =
      Experts{.count = count(config, "n_routed_experts"),
              .active = count(config, "num_experts_per_tok"),
              .feed_forward = width,
              .shared_feed_forward = natural_or_none(config, "n_shared_experts") * width,
              .dense_blocks = natural_or_none(config, "first_k_dense_replace"),
              .score_bias = config["model_type"].string() == "deepseek_v3"};
  transformer.prediction_modules = natural_or_none(config, "num_nextn_predict_layers");
  return shape;
}

struct Family {
  std::string_view model_type;
  Shape (*read)(const Json& config);
};
constexpr std::array families{
    Family{"gpt2", read_gpt2},
    Family{"llama", read_llama},
    Family{"mistral", read_mistral},
    Family{"qwen2", read_qwen2},
    Family{"mixtral", read_mixtral},
    Family{"deepseek_v2", read_deepseek},
    Family{"deepseek_v3", read_deepseek},
};

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family& family : families) names.emplace_back(family.model_type);
  return names;
}

const Family& family_of(const Json& config) {
  if (!has(config, "model_type")) {
    config.fail(
        concat("the key \"model_type\" is missing; known families: ", join_words(family_names())));
  }
  const std::string type = config["model_type"].string();
  for (const Family& family : families) {
    if (family.model_type == type) return family;
  }
  const std::string suggestion = closest(type, family_names());
  config["model_type"].fail(
      concat("the layers of \"", type,
             "\" models are not known; known families: ", join_words(family_names()),
             suggestion.empty() ? "" : "; did you mean \"" + suggestion + "\"?"),
      {"if its layers are those of a known family, set \"model_type\" to that and give its keys: "
       "for "
       "llama, mistral and qwen2 hidden_size, num_hidden_layers, num_attention_heads, "
       "num_key_value_heads, intermediate_size, vocab_size; for gpt2 n_embd, n_layer, n_head, "
       "n_positions, vocab_size"});
}

/// "llama-3-8b/config.json" → "llama-3-8b": the file's own name says nothing.
std::string model_name(const Json& config, const std::string& file) {
  const std::filesystem::path path(file);
  if (path.filename() != "config.json") return path.stem().string();
  if (path.has_parent_path() && path.parent_path().has_filename()) {
    return path.parent_path().filename().string();
  }
  if (has(config, "_name_or_path") && !config["_name_or_path"].string().empty()) {
    return config["_name_or_path"].string();
  }
  return config["model_type"].string();
}

}  // namespace

bool looks_like_huggingface(std::string_view content) {
  try {
    const Json json = Json::parse(std::string(content), "config.json");
    if (!json.is_object() || json.contains("format")) return false;
    return json.contains("model_type") || json.contains("architectures") ||
           json.contains("text_config") || json.contains("num_hidden_layers") ||
           json.contains("n_layer");
  } catch (const Error&) {
    return false;
  }
}

Profile import_huggingface(std::string_view content, const std::string& file) {
  const Json outer = Json::parse(std::string(content), file);
  // A model that also sees or hears keeps its language part in here.
  const Json config = has(outer, "text_config") ? outer["text_config"] : outer;
  const Family& family = family_of(config);
  Shape shape = family.read(config);
  if (!has(config, "tie_word_embeddings")) {
    shape.transformer.tied_head =
        flag_or(outer, "tie_word_embeddings", shape.transformer.tied_head);
  }
  // Files may promise contexts of a million tokens; costs are for what training commonly uses.
  constexpr std::int64_t longest = 4096;
  const std::int64_t sequence = std::min(shape.transformer.positions, longest);
  Profile profile;
  try {
    profile.model =
        make_transformer(model_name(config, file), shape.transformer, shape.blocks, sequence);
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), SourcePlace{file, 0, 0});
  }
  profile.source = concat("Hugging Face config.json (", family.model_type, ")");
  return profile;
}

}  // namespace stagecraft
