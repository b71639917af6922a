#include "profiles/trained_form.hpp"

#include <algorithm>
#include <array>

namespace stagecraft {

namespace {

/// The attention's window, where it is too long to hide anything.
std::int64_t window_of_no_effect(const Transformer& transformer, const Steps& steps) {
  const auto attending = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
    return step.kind == StepKind::attention;
  });
  const std::int64_t window = attending == steps.end() ? 0 : attending->window;
  return window >= transformer.positions ? window : 0;
}

constexpr std::array known_forms{
    TrainedForm{.query_key_norm = QueryKeyNorm::shared},
    TrainedForm{.query_key_norm = QueryKeyNorm::together, .norms_behind = true},
};

Steps expected_steps(const Transformer& transformer, const TrainedForm& form, std::int64_t window) {
  Steps steps;
  if (!form.norms_behind) steps.push_back(norm("first norm", transformer.hidden));
  add_steps(steps, attention({.hidden = transformer.hidden,
                              .heads = transformer.heads,
                              .key_value_heads = transformer.key_value_heads,
                              .width = transformer.head_width,
                              .query_bias = transformer.attention_bias,
                              .key_bias = transformer.attention_bias,
                              .value_bias = transformer.attention_bias,
                              .output_bias = transformer.output_bias,
                              .norms = form.query_key_norm,
                              .window = window,
                              .rotary_width = transformer.head_width}));
  steps.push_back(norm("second norm", transformer.hidden));
  add_steps(steps, feed_forward({.hidden = transformer.hidden,
                                 .inner = transformer.feed_forward,
                                 .up_bias = transformer.feed_forward_bias,
                                 .down_bias = transformer.feed_forward_bias}));
  if (form.norms_behind) steps.push_back(norm("fourth norm", transformer.hidden));
  return steps;
}

bool is_llama_like(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::rms_norm &&
         transformer.activation == Transformer::FeedForward::swiglu &&
         transformer.position == Transformer::Position::rotary && transformer.streams == 1;
}

bool are_words(const Transformer& transformer, const Steps& steps) {
  return steps.size() == 1 && steps.front().name == "words" &&
         steps.front().kind == StepKind::lookup && !steps.front().tied &&
         steps.front().outputs == transformer.hidden &&
         steps.front().inputs == transformer.vocabulary;
}

bool are_norm_and_logits(const Transformer& transformer, const Steps& steps) {
  return steps.size() == 2 && steps.front() == norm("last norm", transformer.hidden) &&
         steps.back().kind == StepKind::logits && steps.back().name == "logits" &&
         !steps.back().bias && steps.back().tied == transformer.tied_head &&
         steps.back().outputs == transformer.vocabulary &&
         steps.back().inputs == transformer.hidden;
}

}  // namespace

std::optional<TrainedForm> trained_form(const Transformer& transformer, const Layer& layer) {
  if (layer.kind != LayerKind::transformer || !is_llama_like(transformer)) return {};
  const std::int64_t window = window_of_no_effect(transformer, layer.steps);
  for (const TrainedForm& form : known_forms) {
    if (layer.steps == expected_steps(transformer, form, window)) return form;
  }
  return {};
}

bool has_plain_steps(const Transformer& transformer, const Layer& layer) {
  if (!is_llama_like(transformer)) return false;
  if (layer.kind == LayerKind::embedding) return are_words(transformer, layer.steps);
  return layer.kind == LayerKind::head && are_norm_and_logits(transformer, layer.steps);
}

}  // namespace stagecraft
