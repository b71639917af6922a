// Larger models whose config.json holds a language part: where it stands, whether it may be counted
// alone, and which "tie_word_embeddings" ties its head to its words.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "profiles/json.hpp"

namespace stagecraft {

/// Of models that think and speak with networks of their own (Qwen's Omni models): the one that
/// thinks, under this key; of any other file the whole.
inline constexpr std::string_view thinker_key = "thinker_config";
Json thinking_part(const Json& whole);

/// The key under which the language part stands, "text_config" for most; "" of a file that is a
/// language model's own. Throws Error (input) at "model_type" of models whose texts only steer
/// something else: detectors, and encoders that compare texts with images or sounds.
std::string_view language_part(const Json& outer);

/// Whether the head of the language part `part` is its word embedding. The library reads the outer
/// file's key in most classes, whatever the part's own key says (get_expanded_tied_weights_keys of
/// modeling_utils.py, transformers 5.23.0), the default of the outer class where it is absent, and
/// has exceptions; of classes that it does not have, either key ties. `inner`: what the part's own
/// key or else its class's default says. Adds to `notes` where the two keys differ.
bool ties_words(const Json& outer, const Json& part, bool inner, std::vector<std::string>& notes);

}  // namespace stagecraft
