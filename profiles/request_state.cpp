#include "profiles/request_state.hpp"

#include <algorithm>

namespace stagecraft {

namespace {

std::int64_t divided_up(std::int64_t whole, std::int64_t parts) {
  return (whole + parts - 1) / parts;
}

const Step* step_called(const std::vector<Step>& steps, std::string_view name) {
  const auto found =
      std::find_if(steps.begin(), steps.end(), [&](const Step& step) { return step.name == name; });
  return found == steps.end() ? nullptr : &*found;
}

/// Whether a layer makes the keys that it looks at.
bool has_own_keys(const std::vector<Step>& steps) {
  return step_called(steps, "key") != nullptr || step_called(steps, "query key value") != nullptr;
}

/// Of each key that is kept, on one of the peers.
std::int64_t numbers_of_key(const std::vector<Step>& steps, const Step& attention, int peers) {
  const Step* latent = step_called(steps, "key value down");
  // An indexer's keys, and those that are values as well (DeepSeek-V4), have one head for all.
  if (attention.value_width == 0) return attention.score_width;
  if (latent != nullptr)
    return attention.name == "attention" ? latent->outputs : attention.score_width;
  const std::int64_t heads = divided_up(attention.key_value_heads, peers);
  return heads * (attention.score_width + attention.value_width);
}

std::int64_t keys_kept(const std::vector<Step>& steps, const Step& attention, std::int64_t tokens) {
  const bool chooses = step_called(steps, "key value up") != nullptr || attention.stride > 1;
  if (attention.window > 0 && !chooses) return std::min(tokens, attention.window);
  return divided_up(tokens, attention.stride);
}

std::int64_t numbers_of_attention(const std::vector<Step>& steps, const Step& attention,
                                  std::int64_t tokens, int peers) {
  const bool crosses = attention.name == "cross attention";
  if ((!attention.causal && !crosses) || attention.rows > 0) return 0;
  if (!has_own_keys(steps) && step_called(steps, "key value down") == nullptr) return 0;
  return keys_kept(steps, attention, tokens) * numbers_of_key(steps, attention, peers);
}

std::int64_t numbers_of_attention(const Transformer& transformer, std::int64_t tokens, int peers) {
  if (!transformer.causal) return 0;
  if (transformer.latent)
    return tokens * (transformer.latent->key_value_rank + transformer.latent->rotary_width);
  return 2 * tokens * divided_up(transformer.key_value_heads, peers) * transformer.head_width;
}

}  // namespace

std::int64_t numbers_of_request(const std::vector<Step>& steps, std::int64_t tokens, int peers) {
  std::int64_t numbers = 0;
  for (const Step& step : steps) {
    if (step.kind == StepKind::attention)
      numbers += numbers_of_attention(steps, step, tokens, peers);
    if (step.kind == StepKind::recurrence)
      numbers += divided_up(step.heads, peers) * step.inputs * step.outputs;
    if (step.kind == StepKind::convolution)
      numbers += divided_up(step.inputs, peers) * (step.outputs - 1);
  }
  return numbers;
}

std::int64_t numbers_of_request(const Model& model, int layer, std::int64_t tokens, int peers) {
  const Layer& of = model.layers[static_cast<std::size_t>(layer)];
  if (!of.steps.empty()) return numbers_of_request(of.steps, tokens, peers);
  return is_block(of) && model.transformer ? numbers_of_attention(*model.transformer, tokens, peers)
                                           : 0;
}

}  // namespace stagecraft
