// Larger models' files with a language part: which key ties its words, and which have none.

#include "profiles/importers.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Whether transformers 5.23.0 builds one weight for words and head ("T"), on the meta device, with
/// default configurations: three letters each for an outer key that is absent, false and true, of
/// which each is for a key of the language part that is absent, false and true.
struct Wrapper {
  std::string model_type;
  std::string part;
  std::string ties;
};

const std::vector<Wrapper>& wrappers() {
  static const std::vector<Wrapper> rows{
      {"audioflamingo3", "qwen2", "FFF FFF FFF"},
      {"blip-2", "opt", "TFT TFT TFT"},
      {"cohere2_vision", "cohere2", "TTT FFF TTT"},
      {"cosmos3_edge", "cosmos3_edge_text", "FFF FFF FFF"},
      {"cosmos3_omni", "qwen3_vl_text", "FFF FFF TTT"},
      {"deepseek_vl", "llama", "TTT FFF TTT"},
      {"deepseek_vl_hybrid", "llama", "TTT FFF TTT"},
      {"dots3_note", "dots3_note_text", "FFF FFF TTT"},
      {"exaone4_5", "exaone4", "FFF FFF TTT"},
      {"florence2", "bart", "TTT FFF TTT"},
      {"gemma3", "gemma3_text", "TTT FFF TTT"},
      {"gemma4", "gemma4_text", "TTT FFF TTT"},
      {"glm46v", "glm4v_text", "FFF FFF TTT"},
      {"glm4v", "glm4v_text", "FFT FFT TTT"},
      {"glm4v_moe", "glm4v_moe_text", "FFT FFT TTT"},
      {"glm5_next", "glm5_next_text", "FFF FFF TTT"},
      {"glm_ocr", "glm_ocr_text", "FFT FFT TTT"},
      {"glmasr", "llama", "TTT FFF TTT"},
      {"glmga", "glm4v_text", "FFF FFF TTT"},
      {"got_ocr2", "qwen2", "TTT FFF TTT"},
      {"granite4_vision", "granite", "FFF FFF TTT"},
      {"granite_docling", "granite_docling_text", "TTT FFF TTT"},
      {"granite_speech", "granite", "TTT FFF TTT"},
      {"granite_speech_plus", "granite", "TTT FFF TTT"},
      {"hunyuan_vl", "hunyuan_vl_text", "TTT TFT TTT"},
      {"hyperclovax_vision_v2", "hyperclovax", "TTT FFF TTT"},
      {"idefics2", "mistral", "FFF FFF TTT"},
      {"idefics3", "llama", "FFF FFF TTT"},
      {"instructblip", "opt", "TFT TFT TFT"},
      {"instructblipvideo", "opt", "TFT TFT TFT"},
      {"internvl", "qwen2", "TTT FFF TTT"},
      {"janus", "llama", "TTT FFF TTT"},
      {"kimi_k25", "deepseek_v3", "TTT FFF TTT"},
      {"lfm2_vl", "lfm2", "TTT FFF TTT"},
      {"lfm3_vl", "lfm3", "TTT FFF TTT"},
      {"lighton_ocr", "qwen3", "TTT FFF TTT"},
      {"llama4", "llama4_text", "FFT FFT FFT"},
      {"llava", "llama", "FFT FFT TTT"},
      {"llava_next", "llama", "FFF FFF TTT"},
      {"llava_next_video", "llama", "FFT FFT TTT"},
      {"llava_onevision", "qwen2", "FFT FFT TTT"},
      {"minicpm_ocr", "qwen3_5_text", "TTT FFF TTT"},
      {"minicpmv4_6", "qwen3_5_text", "FFF FFF TTT"},
      {"minicpmv4_7", "qwen3_5_text", "FFF FFF TTT"},
      {"mistral3", "mistral", "TTT FFF TTT"},
      {"mistral_large4", "mistral_large4_text", "FFF FFF TTT"},
      {"molmo2", "molmo2_text", "FFF FFF FFF"},
      {"moss_transcribe_diarize", "qwen3", "TTT FFF TTT"},
      {"muse_glimmer", "muse_glimmer_text", "FFF FFF TTT"},
      {"muse_spark", "muse_spark_text", "FFF FFF FFF"},
      {"musicflamingo", "qwen2", "FFF FFF FFF"},
      {"ovis2", "qwen2", "TTT FFF TTT"},
      {"paddleocr_vl", "ernie4_5", "TTT TFT TTT"},
      {"paligemma", "gemma", "TTT FFF TTT"},
      {"pp_chart2table", "qwen2", "TTT FFF TTT"},
      {"qianfan_ocr", "qwen3", "FFF FFF TTT"},
      {"qwen2_5_omni_thinker", "qwen2_5_omni_text", "FFF FFF TTT"},
      {"qwen2_5_vl", "qwen2_5_vl_text", "FFT FFT TTT"},
      {"qwen2_audio", "qwen2", "FFF FFF FFF"},
      {"qwen2_vl", "qwen2_vl_text", "FFT FFT TTT"},
      {"qwen3_5", "qwen3_5_text", "FFF FFF TTT"},
      {"qwen3_5_moe", "qwen3_5_moe_text", "FFF FFF TTT"},
      {"qwen3_asr", "qwen3", "TTT FFF TTT"},
      {"qwen3_omni_moe_thinker", "qwen3_omni_moe_text", "FFF FFF TTT"},
      {"qwen3_vl", "qwen3_vl_text", "FFF FFF TTT"},
      {"qwen3_vl_moe", "qwen3_vl_moe_text", "FFF FFF TTT"},
      {"shieldgemma2", "gemma3_text", "TFT TFT TTT"},
      {"smolvlm", "llama", "FFF FFF TTT"},
      {"step3p7", "step3p5", "FFF FFF TTT"},
      {"unlimited_ocr", "unlimited_ocr_text", "FFF FFF TTT"},
      {"vibevoice", "qwen2", "FFT FFT FFT"},
      {"vibevoice_asr", "qwen2", "FFF FFF FFF"},
      {"video_llama_3", "qwen2", "FFT FFT TTT"},
      {"video_llava", "llama", "FFF FFF TTT"},
      {"vipllava", "llama", "FFF FFF TTT"},
      {"voxtral", "llama", "FFF FFF FFF"},
  };
  return rows;
}

/// Of a file with these two keys; "" for an absent one.
Profile import_wrapper(const std::string& type, const std::string& part, const std::string& outer,
                       const std::string& inner) {
  const auto key = [](const std::string& value) {
    return value.empty() ? value : ", \"tie_word_embeddings\": " + value;
  };
  const std::string layers = part == "opt" ? "" : ", \"num_hidden_layers\": 2";
  return import_huggingface("{\"model_type\": \"" + type + "\"" + key(outer) +
                                ", \"text_config\": {\"model_type\": \"" + part + "\"" + layers +
                                key(inner) + "}, \"vision_config\": {}}",
                            "config.json");
}

const std::vector<std::string> values{"", "false", "true"};

}  // namespace

TEST_CASE("a larger model's words are tied as transformers ties them, whichever key says what") {
  for (const Wrapper& row : wrappers()) {
    std::string found;
    for (const std::string& outer : values) {
      if (!found.empty()) found += ' ';
      for (const std::string& inner : values) {
        const Profile profile = import_wrapper(row.model_type, row.part, outer, inner);
        found += profile.model.ties.empty() ? 'F' : 'T';
        // What stands and does not hold is said.
        const bool unheeded = (found.back() == 'T') != (outer == "true") && !outer.empty();
        const bool inner_unheeded = (found.back() == 'T') != (inner == "true") && !inner.empty();
        if (!outer.empty() || !inner.empty())
          CHECK((profile.warnings.size() > 1) == (unheeded || inner_unheeded));
      }
    }
    INFO(row.model_type);
    CHECK(found == row.ties);
  }
}

TEST_CASE("a tied head of a larger model costs its words once") {
  // Of transformers 5.23.0 by default: 604,127,232 numbers of words (262,208 x 2304).
  const auto count = [](const std::string& outer, const std::string& inner) {
    return parameters(import_wrapper("gemma3", "gemma3_text", outer, inner).model);
  };
  CHECK(count("false", "true") - count("", "false") == 604'127'232);
  CHECK_THAT(import_wrapper("gemma3", "gemma3_text", "", "false").warnings.at(1),
             Catch::Matchers::Equals(
                 "tie_word_embeddings is absent in the file and false in its language part: the "
                 "head is counted as tied, as transformers builds it"));
}

TEST_CASE("a default of the larger model's class that the part's own would contradict is said") {
  // Mistral 3's class ties, and Mistral's does not; of Gemma 3 both do.
  const Profile profile = import_wrapper("mistral3", "mistral", "", "");
  CHECK_FALSE(profile.model.ties.empty());
  CHECK_THAT(
      profile.warnings.at(1),
      Catch::Matchers::Equals(
          "tie_word_embeddings is absent: transformers ties the head of \"mistral3\" models by "
          "default, which is counted; if the weights say otherwise, write false into the file"));
  CHECK(import_wrapper("gemma3", "gemma3_text", "", "").warnings.size() == 1);
}

TEST_CASE("a larger model's file may have the keys of its language part among its own") {
  // Qwen2-VL 7B as published: 7,070,619,136 of the language model, 544,997,376 of the head.
  const std::string keys = R"("hidden_size": 3584, "intermediate_size": 18944,
      "max_window_layers": 28, "num_attention_heads": 28, "num_hidden_layers": 28,
      "num_key_value_heads": 4, "sliding_window": 32768, "use_sliding_window": false,
      "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 152064,
      "vision_token_id": 151654, "vision_config": {"depth": 32, "embed_dim": 1280},)";
  for (const std::string type : {"qwen2_vl", "qwen2_5_vl"}) {
    const auto read = [&](const std::string& tie) {
      return import_huggingface(
          "{\"model_type\": \"" + type + "\", " + keys + "\"tie_word_embeddings\": " + tie + "}",
          "config.json");
    };
    CHECK(parameters(read("false").model) == 7'615'616'512);
    CHECK(parameters(read("true").model) == 7'070'619'136);
    CHECK_THAT(read("true").warnings.at(0),
               ContainsSubstring("the language part (the file's own keys) is counted and planned; "
                                 "\"vision_config\" and what joins"));
  }
}

TEST_CASE("of a larger model that transformers does not have, either key ties the words") {
  const auto ties = [](const std::string& outer, const std::string& inner) {
    return !import_wrapper("internvl_chat", "qwen2", outer, inner).model.ties.empty();
  };
  CHECK_FALSE(ties("", ""));
  CHECK_FALSE(ties("false", ""));
  CHECK(ties("", "true"));
  CHECK(ties("false", "true"));
  CHECK(ties("true", "false"));
  CHECK(import_wrapper("internvl_chat", "qwen2", "false", "true").warnings.size() == 2);
  const Model chat = import_huggingface(R"({"architectures": ["InternVLChatModel"],
      "llm_config": {"model_type": "qwen2", "num_hidden_layers": 2}})",
                                        "config.json")
                         .model;
  CHECK(parameters(chat) == parameters(import_wrapper("own", "qwen2", "", "").model));
  // A part that is tied by default stays so unless something is said.
  CHECK_FALSE(import_wrapper("own", "gemma3_text", "", "").model.ties.empty());
  CHECK(import_wrapper("own", "gemma3_text", "false", "").model.ties.empty());
}

TEST_CASE("detectors and encoders that compare are refused by name, for all their texts") {
  const auto complaint = [](const std::string& type, const std::string& part) {
    return message_of([&] { import_wrapper(type, part, "", ""); });
  };
  for (const std::string type : {"grounding-dino", "mm-grounding-dino", "omdet-turbo"}) {
    CHECK_THAT(complaint(type, "bert"),
               ContainsSubstring("config.json:1:16: model_type: \"" + type +
                                 "\" models find in images what a text names and are no language "
                                 "models: their layers are not known, and their \"text_config\" "
                                 "alone would be another model"));
  }
  for (const std::string type : {"vision-text-dual-encoder", "siglip", "clip"}) {
    CHECK_THAT(complaint(type, "llama"),
               ContainsSubstring("\"" + type + "\" models compare texts with images and are no"));
  }
  CHECK_THAT(message_of([] {
               import_huggingface(R"({"model_type": "llava", "text_config": 5})", "config.json");
             }),
             ContainsSubstring("text_config: expected the keys of a language model, in braces"));
  CHECK_THAT(
      complaint("finder", "bert"),
      ContainsSubstring("text_config.model_type: \"bert\" is an encoder and no language part "
                        "of \"finder\", whose layers are not known"));
}

TEST_CASE("a larger model's class ties its language part's head by default, or does not") {
  const auto tied = [](const std::string& outer, const std::string& inner) {
    return import_huggingface("{\"model_type\": \"" + outer +
                                  "\", \"text_config\": {\"model_type\": \"" + inner +
                                  "\", \"num_hidden_layers\": 1}}",
                              "config.json")
        .model.transformer->tied_head;
  };
  CHECK(tied("gemma4_unified", "gemma4_unified_text"));
  CHECK(tied("ernie4_5_vl_moe", "ernie4_5_vl_moe_text"));
  CHECK(!tied("aria", "aria_text"));
  CHECK(!tied("cohere_compass", "cohere_compass_text"));
  CHECK(!tied("fuyu", "persimmon"));
  CHECK(!tied("minimax_m3_vl", "minimax_m3_vl_text"));
}

TEST_CASE(
    "of Omni models the part that thinks is counted, and what speaks is said to be left out") {
  const std::string language =
      R"("text_config": {"model_type": "qwen2_5_omni_text", "vocab_size": 300, "hidden_size": 64,
         "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2})";
  const Profile profile = import_huggingface(
      R"({"model_type": "qwen2_5_omni", "architectures": ["Qwen2_5OmniModel"],
          "talker_config": {"hidden_size": 896}, "thinker_config": {
          "model_type": "qwen2_5_omni_thinker", "audio_config": {}, )" +
          language + "}}",
      "config.json");
  CHECK(parameters(profile.model) == 100'416);
  CHECK_THAT(profile.warnings.front(),
             ContainsSubstring("\"audio_config\"") && ContainsSubstring("talker_config"));
}

TEST_CASE("a part that leaves its type to the larger model's is of the kind that its class has") {
  const auto imported = [](const std::string& type, const std::string& inner) {
    return import_huggingface("{\"model_type\": \"" + type + "\", \"text_config\": {" + inner +
                                  "\"num_hidden_layers\": 2}}",
                              "config.json")
        .model;
  };
  CHECK(imported("step3p7", "") == imported("step3p7", R"("model_type": "step3p5", )"));
  CHECK(imported("minimax_m3_vl", "") ==
        imported("minimax_m3_vl", R"("model_type": "minimax_m3_vl_text", )"));
  CHECK_THAT(message_of([&] { imported("llava", ""); }),
             ContainsSubstring("the key \"model_type\" is missing"));
}
