// The state of a request that a served model keeps between tokens: keys and values of attention,
// and states of recurrences.

#pragma once

#include <cstdint>
#include <vector>

#include "profiles/model.hpp"
#include "profiles/steps.hpp"

namespace stagecraft {

/// Numbers that one of `peers` tensor-parallel devices keeps of a request of `tokens` in a layer of
/// these steps, each rounded up where peers divide it:
///
/// - keys and values of its own key-value heads, of which each device has one at least; of a window
///   no more tokens than it sees; of keys that are made of several tokens, those; nothing where
///   they are an earlier layer's, nor where tokens see later ones (an encoder's);
/// - of latent attention the latent and the part of keys with positions (DeepSeek-V2, section 2.1),
///   whole on each device, and of an indexer its keys. Whichever keys are chosen, all are kept;
/// - a recurrence's states, and the tokens that its convolution looks back at: however long the
///   request is, the same.
std::int64_t numbers_of_request(const std::vector<Step>& steps, std::int64_t tokens, int peers);

/// The same of any layer of the model (its index): of one without steps as the model's transformer
/// says; nothing of layers that look at no other tokens.
std::int64_t numbers_of_request(const Model& model, int layer, std::int64_t tokens, int peers);

}  // namespace stagecraft
