#include "profiles/importers/families/keys.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::int64_t largest_value = std::int64_t{1} << 40U;

constexpr std::array harmless_keys{
    std::string_view{"architectures"},
    std::string_view{"model_type"},
    std::string_view{"_name_or_path"},
    std::string_view{"name_or_path"},
    std::string_view{"_commit_hash"},
    std::string_view{"transformers_version"},
    std::string_view{"dtype"},
    std::string_view{"use_cache"},
    std::string_view{"auto_map"},
    std::string_view{"quantization_config"},
    std::string_view{"compression_config"},
    std::string_view{"finetuning_task"},
    std::string_view{"id2label"},
    std::string_view{"label2id"},
    std::string_view{"num_labels"},
    std::string_view{"problem_type"},
    std::string_view{"task_specific_params"},
    std::string_view{"return_dict"},
    std::string_view{"return_dict_in_generate"},
    std::string_view{"pretraining_tp"},
    std::string_view{"tensor_parallel_degree"},
    std::string_view{"ep_size"},
    std::string_view{"attn_implementation"},
    std::string_view{"attention_implementation"},
    std::string_view{"_attn_implementation_autoset"},
    std::string_view{"_attn_implementation"},
    std::string_view{"_experts_implementation"},
    std::string_view{"use_flash_attn"},
    std::string_view{"use_flash_attention"},
    std::string_view{"use_flash_attention_2"},
    std::string_view{"gradient_checkpointing"},
    std::string_view{"chunk_size_feed_forward"},
    std::string_view{"is_decoder"},
    std::string_view{"is_encoder_decoder"},
    std::string_view{"tie_encoder_decoder"},
    std::string_view{"add_cross_attention"},
    std::string_view{"cross_attention_hidden_size"},
    std::string_view{"prefix"},
    std::string_view{"tokenizer_class"},
    std::string_view{"model_max_length"},
    std::string_view{"max_length"},
    std::string_view{"min_length"},
    std::string_view{"do_sample"},
    std::string_view{"num_beams"},
    std::string_view{"num_beam_groups"},
    std::string_view{"num_return_sequences"},
    std::string_view{"num_assistant_tokens"},
    std::string_view{"num_assistant_tokens_schedule"},
    std::string_view{"assistant_confidence_threshold"},
    std::string_view{"typical_p"},
    std::string_view{"diversity_penalty"},
    std::string_view{"encoder_no_repeat_ngram_size"},
    std::string_view{"renormalize_logits"},
    std::string_view{"remove_invalid_values"},
    std::string_view{"torchscript"},
    std::string_view{"tf_legacy_loss"},
    std::string_view{"use_bfloat16"},
    std::string_view{"is_composition"},
    std::string_view{"temperature"},
    std::string_view{"top_k"},
    std::string_view{"top_p"},
    std::string_view{"repetition_penalty"},
    std::string_view{"length_penalty"},
    std::string_view{"no_repeat_ngram_size"},
    std::string_view{"early_stopping"},
    std::string_view{"n_ctx"},
    std::string_view{"n_positions"},
    std::string_view{"max_position_embeddings"},
    std::string_view{"max_sequence_length"},
    std::string_view{"seq_length"},
    std::string_view{"original_max_position_embeddings"},
    std::string_view{"initializer_range"},
    std::string_view{"initializer_factor"},
    std::string_view{"init_std"},
    std::string_view{"embedding_initializer_range"},
    std::string_view{"init_method_std"},
    std::string_view{"rescale_prenorm_residual"},
    std::string_view{"layerdrop"},
    std::string_view{"dropout"},
    std::string_view{"dropout_rate"},
    std::string_view{"norm_eps"},
    std::string_view{"norm_epsilon"},
    std::string_view{"rms_norm_eps"},
    std::string_view{"layer_norm_eps"},
    std::string_view{"layer_norm_epsilon"},
    std::string_view{"layernorm_epsilon"},
    std::string_view{"router_aux_loss_coef"},
    std::string_view{"router_z_loss_coef"},
    std::string_view{"aux_loss_alpha"},
    std::string_view{"seq_aux"},
    std::string_view{"z_loss_coefficient"},
    std::string_view{"router_jitter_noise"},
    std::string_view{"input_jitter_noise"},
    std::string_view{"norm_topk_prob"},
    std::string_view{"scoring_func"},
    std::string_view{"topk_method"},
    std::string_view{"n_group"},
    std::string_view{"topk_group"},
    std::string_view{"routed_scaling_factor"},
    std::string_view{"rope_scaling"},
    std::string_view{"rope_parameters"},
    std::string_view{"rope_interleave"},
    std::string_view{"rope_local_base_freq"},
    std::string_view{"rotary_emb_base"},
    std::string_view{"rope_ratio"},
    std::string_view{"partial_rotary_factor"},
    std::string_view{"query_pre_attn_scalar"},
    std::string_view{"hidden_act"},
    std::string_view{"hidden_activation"},
    std::string_view{"activation_function"},
    std::string_view{"use_mamba_kernels"},
    std::string_view{"num_logits_to_keep"},
    std::string_view{"residual_in_fp32"},
    std::string_view{"unsloth_version"},
    std::string_view{"unsloth_fixed"},
    std::string_view{"_diffusers_version"},
    std::string_view{"default_theta"},
    std::string_view{"logit_scale"},
    std::string_view{"clip_qkv"},
    std::string_view{"num_image_tokens"},
    std::string_view{"language_model_only"},
};

constexpr std::array harmless_ends{
    std::string_view{"_id"},          std::string_view{"_token_index"},
    std::string_view{"_token_ids"},   std::string_view{"_dropout"},
    std::string_view{"_pdrop"},       std::string_view{"_dropout_prob"},
    std::string_view{"_softcapping"}, std::string_view{"_multiplier"},
    std::string_view{"_dtype"},       std::string_view{"rope_theta"},
};

constexpr std::array harmless_beginnings{
    std::string_view{"output_"},
    std::string_view{"dropout_"},
    std::string_view{"summary_"},
};

/// Says nothing: the feature it may name is off, or has none.
bool is_silent(const Json& value) {
  const auto& raw = value.raw();
  return raw.is_null() || raw == false || (raw.is_number() && raw == 0) ||
         ((raw.is_object() || raw.is_array()) && raw.empty());
}

}  // namespace

bool is_harmless_key(std::string_view name) {
  if (std::find(harmless_keys.begin(), harmless_keys.end(), name) != harmless_keys.end())
    return true;
  const auto ends = [&](std::string_view end) { return name.ends_with(end); };
  const auto begins = [&](std::string_view beginning) { return name.starts_with(beginning); };
  return std::any_of(harmless_ends.begin(), harmless_ends.end(), ends) ||
         std::any_of(harmless_beginnings.begin(), harmless_beginnings.end(), begins);
}

std::string Keys::found(std::string_view names) {
  std::string first;
  for (const std::string& name : split(names, '|')) {
    read_.insert(name);
    const bool stands = config_.contains(name) && !config_[name].is_null();
    if (first.empty() && stands) first = name;
  }
  return first;
}

bool Keys::has(std::string_view names) {
  return !found(names).empty();
}

bool Keys::is_null(std::string_view names) {
  if (has(names)) return false;
  const std::vector<std::string> all = split(names, '|');
  return std::any_of(all.begin(), all.end(),
                     [this](const std::string& name) { return config_.contains(name); });
}

Json Keys::at(std::string_view names) {
  const std::string name = found(names);
  return config_[name.empty() ? std::string_view(names) : std::string_view(name)];
}

void Keys::require_one_number(std::string_view names) {
  const std::string first = found(names);
  if (first.empty() || !config_[first].is_integer()) return;
  for (const std::string& other : split(names, '|')) {
    if (!config_.contains(other) || !config_[other].is_integer()) continue;
    const std::int64_t one = config_[first].integer(), two = config_[other].integer();
    if (one == two) continue;
    config_[other].fail(concat("found ", two, ", but \"", first, "\" is ", one,
                               ", and both are names of one number: keep the one that holds"));
  }
}

std::int64_t Keys::count(std::string_view names, std::int64_t otherwise) {
  require_one_number(names);
  const std::string name = found(names);
  return name.empty() ? otherwise : config_[name].integer(1, largest_value);
}

std::int64_t Keys::natural(std::string_view names, std::int64_t otherwise) {
  const std::string name = found(names);
  return name.empty() ? otherwise : config_[name].integer(0, largest_value);
}

std::int64_t Keys::integer(std::string_view names, std::int64_t otherwise) {
  const std::string name = found(names);
  return name.empty() ? otherwise : config_[name].integer();
}

bool Keys::flag(std::string_view names, bool otherwise) {
  const std::string name = found(names);
  if (name.empty()) return otherwise && !is_null(names);
  return config_[name].boolean();
}

double Keys::number(std::string_view names, double otherwise) {
  const std::string name = found(names);
  return name.empty() ? otherwise : config_[name].number();
}

std::int64_t Keys::for_all_layers(std::string_view names, int layers, std::int64_t otherwise,
                                  std::int64_t least) {
  require_one_number(names);
  const std::string name = found(names);
  if (name.empty()) return otherwise;
  const Json value = config_[name];
  if (!value.is_array()) return value.integer(least, largest_value);
  const std::vector<Json> elements = value.elements();
  if (std::cmp_not_equal(elements.size(), layers)) {
    value.fail(concat("expected an integer, or one for each of the ", layers, " layers, found ",
                      elements.size()));
  }
  const std::int64_t first = elements.front().integer(least, largest_value);
  for (std::size_t layer = 1; layer < elements.size(); ++layer) {
    const std::int64_t other = elements[layer].integer(least, largest_value);
    if (other == first) continue;
    elements[layer].fail(concat("only the same number for all layers is known here; layer 0 has ",
                                first, ", layer ", layer, " has ", other));
  }
  return first;
}

std::string Keys::word(std::string_view names, const std::string& otherwise) {
  const std::string name = found(names);
  return name.empty() ? otherwise : config_[name].string();
}

std::vector<std::string> Keys::words(std::string_view names) {
  std::vector<std::string> words;
  const std::string name = found(names);
  if (name.empty()) return words;
  for (const Json& element : config_[name].elements()) words.push_back(element.string());
  return words;
}

std::vector<std::int64_t> Keys::numbers(std::string_view names) {
  std::vector<std::int64_t> numbers;
  const std::string name = found(names);
  if (name.empty()) return numbers;
  for (const Json& element : config_[name].elements()) numbers.push_back(element.integer());
  return numbers;
}

void Keys::need(const std::vector<std::string>& names) {
  if (is_part_) return;
  std::vector<std::string> missing;
  for (const std::string& name : names) {
    if (!has(name)) missing.push_back("\"" + split(name, '|').front() + "\"");
  }
  if (missing.empty()) return;
  config_.fail(concat("the ", missing.size() == 1 ? "key " : "keys ", join_words(missing),
                      missing.size() == 1 ? " is" : " are", " missing"));
}

void Keys::ignore(const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    if (!name.empty()) read_.insert(name);
  }
}

void Keys::only(std::string_view name, const std::vector<std::string>& words) {
  if (!has(name)) return;
  const std::string found_word = config_[name].string();
  if (std::find(words.begin(), words.end(), found_word) != words.end()) return;
  config_[name].fail(concat("\"", found_word, "\" is not known here; known: ", join_words(words)));
}

void Keys::refuse_true(std::string_view name, const std::string& why) {
  if (flag(name, false)) config_[name].fail(why);
}

void Keys::same(std::string_view name, std::int64_t built) {
  const std::int64_t said = integer(name, built);
  if (said != built) {
    fail(name, concat("found ", said,
                      ", but the class in transformers does not read it and builds ", built));
  }
}

void Keys::same(std::string_view name, bool built) {
  if (!has(name) || flag(name, built) == built) return;
  fail(name, concat("found ", built ? "false" : "true",
                    ", but the class in transformers does not read it and builds ",
                    built ? "true" : "false"));
}

void Keys::same(std::string_view name, const std::vector<std::int64_t>& built) {
  const std::vector<std::int64_t> said = numbers(name);
  if (said.empty()) return;
  if (said.size() != built.size()) {
    fail(name, concat("expected a number for each of the ", built.size(), " layers, found ",
                      said.size()));
  }
  for (std::size_t layer = 0; layer < said.size(); ++layer) {
    if (said[layer] != built[layer]) {
      fail(name,
           concat("found ", said[layer], " for layer ", layer,
                  ", but the class in transformers does not read it and builds ", built[layer]));
    }
  }
}

void Keys::fail(std::string_view names, const std::string& message) {
  std::string name = found(names);
  for (const std::string& candidate : split(names, '|')) {
    if (name.empty() && config_.contains(candidate)) name = candidate;  // null
  }
  (name.empty() ? config_ : config_[name]).fail(message);
}

void Keys::refuse_unread(std::string_view family) const {
  for (const std::string& name : config_.names()) {
    if (read_.contains(name) || is_harmless_key(name)) continue;
    const Json value = config_[name];
    const bool is_single = name.ends_with("num_experts") && value.raw() == 1;  // no choice
    if (is_silent(value) || is_single) continue;
    std::string text = value.raw().dump();
    if (text.size() > 60) text = text.substr(0, 57) + "…";
    const std::vector<std::string> known(read_.begin(), read_.end());
    const std::string guess = closest(name, known);
    value.fail(concat("the key \"", name, "\" with the value ", text, " is not known for \"",
                      family, "\" models and may change their layers; keys that are read: ",
                      join_words(known), guess.empty() ? "" : "; did you mean \"" + guess + "\"?"),
               {"if it changes neither parameters nor work, take it out of the file"});
  }
}

}  // namespace stagecraft
