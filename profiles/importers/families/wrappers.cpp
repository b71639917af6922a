#include "profiles/importers/families/wrappers.hpp"

#include <algorithm>
#include <array>
#include <optional>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

/// Which key ties the words of a larger model's language part.
enum class TieRule {
  outer_or_tied,    ///< the outer one; absent: tied
  outer_or_untied,  ///< the outer one; absent: not tied
  outer_or_inner,   ///< the outer one; absent: the part's
  either,           ///< any of the two
  either_or_tied,   ///< any of the two; both absent: tied
  inner,            ///< the part's: the part's class has the head
  never,            ///< the class has no such key
};

struct TieRow {
  std::string_view model_type;
  TieRule rule;
};

/// As transformers 5.23.0 builds each of them for the nine pairs of absent, false and true (of
/// aya_vision, fast_vlm, fun_asr_nano, gemma3n, nemotron_h_omni and perception_lm by its source).
constexpr std::array tie_rows{
    TieRow{"aria", TieRule::outer_or_untied},
    TieRow{"audioflamingo3", TieRule::never},
    TieRow{"aya_vision", TieRule::outer_or_tied},
    TieRow{"blip-2", TieRule::inner},
    TieRow{"cohere2_vision", TieRule::outer_or_tied},
    TieRow{"cohere_compass", TieRule::outer_or_untied},
    TieRow{"cosmos3_edge", TieRule::never},
    TieRow{"cosmos3_omni", TieRule::outer_or_untied},
    TieRow{"deepseek_ocr2", TieRule::outer_or_untied},
    TieRow{"deepseek_vl", TieRule::outer_or_tied},
    TieRow{"deepseek_vl_hybrid", TieRule::outer_or_tied},
    TieRow{"dots3_note", TieRule::outer_or_untied},
    TieRow{"ernie4_5_vl_moe", TieRule::outer_or_tied},
    TieRow{"exaone4_5", TieRule::outer_or_untied},
    TieRow{"fast_vlm", TieRule::either},
    TieRow{"florence2", TieRule::outer_or_tied},
    TieRow{"fun_asr_nano", TieRule::outer_or_tied},
    TieRow{"fuyu", TieRule::outer_or_untied},
    TieRow{"gemma3", TieRule::outer_or_tied},
    TieRow{"gemma3n", TieRule::outer_or_tied},
    TieRow{"gemma4", TieRule::outer_or_tied},
    TieRow{"gemma4_unified", TieRule::outer_or_tied},
    TieRow{"glm46v", TieRule::outer_or_untied},
    TieRow{"glm4v", TieRule::either},
    TieRow{"glm4v_moe", TieRule::either},
    TieRow{"glm5_next", TieRule::outer_or_untied},
    TieRow{"glm_ocr", TieRule::either},
    TieRow{"glmasr", TieRule::outer_or_tied},
    TieRow{"glmga", TieRule::outer_or_untied},
    TieRow{"got_ocr2", TieRule::outer_or_tied},
    TieRow{"granite4_vision", TieRule::outer_or_untied},
    TieRow{"granite_docling", TieRule::outer_or_tied},
    TieRow{"granite_speech", TieRule::outer_or_tied},
    TieRow{"granite_speech_plus", TieRule::outer_or_tied},
    TieRow{"hunyuan_vl", TieRule::either_or_tied},
    TieRow{"hyperclovax_vision_v2", TieRule::outer_or_tied},
    TieRow{"idefics2", TieRule::outer_or_untied},
    TieRow{"idefics3", TieRule::outer_or_untied},
    TieRow{"instructblip", TieRule::inner},
    TieRow{"instructblipvideo", TieRule::inner},
    TieRow{"internvl", TieRule::outer_or_tied},
    TieRow{"janus", TieRule::outer_or_tied},
    TieRow{"kimi_k25", TieRule::outer_or_tied},
    TieRow{"lfm2_vl", TieRule::outer_or_tied},
    TieRow{"lfm3_vl", TieRule::outer_or_tied},
    TieRow{"lighton_ocr", TieRule::outer_or_tied},
    TieRow{"llama4", TieRule::inner},
    TieRow{"llava", TieRule::either},
    TieRow{"llava_next", TieRule::outer_or_untied},
    TieRow{"llava_next_video", TieRule::either},
    TieRow{"llava_onevision", TieRule::either},
    TieRow{"minicpm_ocr", TieRule::outer_or_tied},
    TieRow{"minicpmv4_6", TieRule::outer_or_untied},
    TieRow{"minicpmv4_7", TieRule::outer_or_untied},
    TieRow{"minimax_m3_vl", TieRule::either},
    TieRow{"mistral3", TieRule::outer_or_tied},
    TieRow{"mistral_large4", TieRule::outer_or_untied},
    TieRow{"molmo2", TieRule::never},
    TieRow{"moss_transcribe_diarize", TieRule::outer_or_tied},
    TieRow{"muse_glimmer", TieRule::outer_or_untied},
    TieRow{"muse_spark", TieRule::never},
    TieRow{"musicflamingo", TieRule::never},
    TieRow{"nemo_speechlm", TieRule::never},
    TieRow{"nemotron_h_omni", TieRule::inner},
    TieRow{"ovis2", TieRule::outer_or_tied},
    TieRow{"paddleocr_vl", TieRule::either_or_tied},
    TieRow{"paligemma", TieRule::outer_or_tied},
    TieRow{"perception_lm", TieRule::outer_or_inner},
    TieRow{"pp_chart2table", TieRule::outer_or_tied},
    TieRow{"qianfan_ocr", TieRule::outer_or_untied},
    TieRow{"qwen2_5_omni_thinker", TieRule::outer_or_untied},
    TieRow{"qwen2_5_vl", TieRule::either},
    TieRow{"qwen2_audio", TieRule::never},
    TieRow{"qwen2_vl", TieRule::either},
    TieRow{"qwen3_5", TieRule::outer_or_untied},
    TieRow{"qwen3_5_moe", TieRule::outer_or_untied},
    TieRow{"qwen3_asr", TieRule::outer_or_tied},
    TieRow{"qwen3_omni_moe_thinker", TieRule::outer_or_untied},
    TieRow{"qwen3_vl", TieRule::outer_or_untied},
    TieRow{"qwen3_vl_moe", TieRule::outer_or_untied},
    TieRow{"qwen4_exp", TieRule::outer_or_untied},
    TieRow{"shieldgemma2", TieRule::either},
    TieRow{"smolvlm", TieRule::outer_or_untied},
    TieRow{"step3p7", TieRule::outer_or_untied},
    TieRow{"unlimited_ocr", TieRule::outer_or_untied},
    TieRow{"vibevoice", TieRule::inner},
    TieRow{"vibevoice_asr", TieRule::never},
    TieRow{"video_llama_3", TieRule::either},
    TieRow{"video_llava", TieRule::outer_or_untied},
    TieRow{"vipllava", TieRule::outer_or_untied},
    TieRow{"voxtral", TieRule::never},
    TieRow{"voxtral_realtime", TieRule::outer_or_tied},
};

/// What a model is for, if its texts only steer that.
struct Purpose {
  std::string_view model_type;
  std::string_view purpose;
};
constexpr std::string_view detects = "find in images what a text names";
constexpr std::string_view compares = "compare texts with images";
constexpr std::string_view compares_sounds = "compare texts with sounds";
constexpr std::array purposes{
    Purpose{"grounding-dino", detects},
    Purpose{"mm-grounding-dino", detects},
    Purpose{"omdet-turbo", detects},
    Purpose{"owlv2", detects},
    Purpose{"owlvit", detects},
    Purpose{"clipseg", detects},
    Purpose{"groupvit", detects},
    Purpose{"sam3", detects},
    Purpose{"sam3_lite_text", detects},
    Purpose{"aimv2", compares},
    Purpose{"align", compares},
    Purpose{"altclip", compares},
    Purpose{"bridgetower", compares},
    Purpose{"chinese_clip", compares},
    Purpose{"clip", compares},
    Purpose{"flava", compares},
    Purpose{"metaclip_2", compares},
    Purpose{"siglip", compares},
    Purpose{"siglip2", compares},
    Purpose{"tipsv2", compares},
    Purpose{"videoprism", compares},
    Purpose{"vision-text-dual-encoder", compares},
    Purpose{"xclip", compares},
    Purpose{"clap", compares_sounds},
    Purpose{"clvp", compares_sounds},
    Purpose{"pe_audio", compares_sounds},
    Purpose{"pe_audio_video", compares_sounds},
    Purpose{"pe_video", compares},
};

std::string word_of(const Json& where, std::string_view name) {
  return where.contains(name) && where[name].is_string() ? where[name].string() : "";
}

/// Refuses what has texts and does not write any: known ones by name, others by an encoder where
/// the language part should stand.
void require_language_model(const Json& outer, std::string_view part) {
  const std::string type = word_of(outer, "model_type");
  if (type.empty()) return;
  const std::vector<std::string> help{
      concat("to plan its text encoder alone, write the content of \"", part,
             "\" into a file of its own")};
  const auto row = std::find_if(purposes.begin(), purposes.end(),
                                [&](const Purpose& purpose) { return purpose.model_type == type; });
  if (row != purposes.end()) {
    outer["model_type"].fail(
        concat("\"", type, "\" models ", row->purpose,
               " and are no language models: their layers are not known, and their \"", part,
               "\" alone would be another model"),
        help);
  }
  const std::string inner = word_of(outer[part], "model_type");
  if (inner == "bert" || inner == "vit") {
    outer[part]["model_type"].fail(
        concat("\"", inner, "\" is an encoder and no language part of \"", type,
               "\", whose layers are not known"),
        help);
  }
}

std::optional<bool> tie_in(const Json& where) {
  constexpr std::string_view key = "tie_word_embeddings";
  if (!where.contains(key) || where[key].is_null()) return std::nullopt;
  return where[key].boolean();
}

std::optional<TieRule> rule_of(const Json& outer) {
  const std::string type = word_of(outer, "model_type");
  for (const TieRow& row : tie_rows) {
    if (row.model_type == type) return row.rule;
  }
  return std::nullopt;
}

bool tied_by(TieRule rule, std::optional<bool> outside, bool inner) {
  switch (rule) {
    case TieRule::outer_or_tied: return outside.value_or(true);
    case TieRule::outer_or_untied: return outside.value_or(false);
    case TieRule::outer_or_inner: return outside.value_or(inner);
    case TieRule::either: return inner || outside.value_or(false);
    case TieRule::either_or_tied: return inner || outside.value_or(true);
    case TieRule::inner: return inner;
    case TieRule::never: return false;
  }
  return inner;
}

std::string spelt(std::optional<bool> says) {
  return !says ? "absent" : *says ? "true" : "false";
}

}  // namespace

Json thinking_part(const Json& whole) {
  const bool speaks =
      whole.is_object() && whole.contains(thinker_key) && whole[thinker_key].is_object();
  return speaks ? whole[thinker_key] : whole;
}

std::string_view language_part(const Json& outer) {
  for (const std::string_view name : {"text_config", "llm_config", "language_config"}) {
    if (!outer.contains(name) || outer[name].is_null()) continue;
    if (!outer[name].is_object())
      outer[name].fail("expected the keys of a language model, in braces");
    require_language_model(outer, name);
    return name;
  }
  return "";
}

bool ties_words(const Json& outer, const Json& part, bool inner, std::vector<std::string>& notes) {
  const std::optional<bool> outside = tie_in(outer), inside = tie_in(part);
  const std::optional<TieRule> rule = rule_of(outer);
  bool ties = outside || inside ? outside.value_or(false) || inside.value_or(false) : inner;
  if (rule) ties = tied_by(*rule, outside, inner);
  const bool differs = (outside && *outside != ties) || (inside && *inside != ties);
  if (differs) {
    notes.push_back(
        concat("tie_word_embeddings is ", spelt(outside), " in the file and ", spelt(inside),
               " in its language part: the head is counted as ", ties ? "tied" : "one of its own",
               rule ? ", as transformers builds it" : ", since one of the two ties it"));
  }
  // Files that older versions wrote lack the key where it says nothing new to them.
  if (!outside && !inside && ties != inner) {
    notes.push_back(concat("tie_word_embeddings is absent: transformers ",
                           ties ? "ties the head" : "unties the head", " of \"",
                           word_of(outer, "model_type"),
                           "\" models by default, which is counted; if the weights say otherwise, "
                           "write ",
                           ties ? "false" : "true", " into the file"));
  }
  return ties;
}

}  // namespace stagecraft
