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
    TrainedForm{.relu = true},
};

NormWeights weights_of(const Transformer& transformer) {
  return transformer.norm == Transformer::Norm::layer_norm ? NormWeights::weight_and_bias
                                                           : NormWeights::weight;
}

bool is_gated(const Transformer& transformer) {
  return transformer.activation == Transformer::FeedForward::swiglu;
}

bool is_rotary(const Transformer& transformer) {
  return transformer.position == Transformer::Position::rotary;
}

Steps expected_feed_forward(const Transformer& transformer, const TrainedForm& form) {
  Steps steps = feed_forward({.hidden = transformer.hidden,
                              .inner = transformer.feed_forward,
                              .gated = is_gated(transformer),
                              .up_bias = transformer.feed_forward_bias,
                              .down_bias = transformer.feed_forward_bias});
  if (form.relu) steps[1].name = "relu";
  return steps;
}

Steps expected_steps(const Transformer& transformer, const TrainedForm& form, std::int64_t window) {
  const auto normed = [&](std::string_view name) {
    return norm(name, transformer.hidden, weights_of(transformer));
  };
  Steps steps;
  if (!form.norms_behind) steps.push_back(normed("first norm"));
  add_steps(steps,
            attention({.hidden = transformer.hidden,
                       .heads = transformer.heads,
                       .key_value_heads = transformer.key_value_heads,
                       .width = transformer.head_width,
                       .query_bias = transformer.attention_bias,
                       .key_bias = transformer.attention_bias,
                       .value_bias = transformer.attention_bias,
                       .output_bias = transformer.output_bias,
                       .norms = form.query_key_norm,
                       .window = window,
                       .rotary_width = is_rotary(transformer) ? transformer.head_width : 0}));
  steps.push_back(normed("second norm"));
  add_steps(steps, expected_feed_forward(transformer, form));
  if (form.norms_behind) steps.push_back(normed("fourth norm"));
  return steps;
}

/// Numbers that go with a form: Llama's, or OPT's.
bool fit(const Transformer& transformer, const TrainedForm& form) {
  const bool is_rms = transformer.norm == Transformer::Norm::rms_norm;
  if (transformer.streams != 1) return false;
  if (!form.relu) return is_rms && is_gated(transformer) && is_rotary(transformer);
  return !is_rms && !is_gated(transformer) &&
         transformer.position == Transformer::Position::learned;
}

bool fit_any(const Transformer& transformer) {
  return std::any_of(known_forms.begin(), known_forms.end(),
                     [&](const TrainedForm& form) { return fit(transformer, form); });
}

bool are_words(const Transformer& transformer, const Steps& steps) {
  const bool learned = transformer.position == Transformer::Position::learned;
  if (steps.size() != (learned ? 2 : 1)) return false;
  if (learned && (steps.back().name != "positions" || steps.back().kind != StepKind::lookup ||
                  steps.back().tied || steps.back().outputs != transformer.hidden ||
                  steps.back().inputs < transformer.positions)) {
    return false;
  }
  return steps.front().name == "words" && steps.front().kind == StepKind::lookup &&
         !steps.front().tied && steps.front().outputs == transformer.hidden &&
         steps.front().inputs == transformer.vocabulary;
}

bool are_norm_and_logits(const Transformer& transformer, const Steps& steps) {
  return steps.size() == 2 &&
         steps.front() == norm("last norm", transformer.hidden, weights_of(transformer)) &&
         steps.back().kind == StepKind::logits && steps.back().name == "logits" &&
         !steps.back().bias && steps.back().tied == transformer.tied_head &&
         steps.back().outputs == transformer.vocabulary &&
         steps.back().inputs == transformer.hidden;
}

}  // namespace

std::optional<TrainedForm> trained_form(const Transformer& transformer, const Layer& layer) {
  if (layer.kind != LayerKind::transformer || layer.steps.empty()) return {};
  const std::int64_t window = window_of_no_effect(transformer, layer.steps);
  for (const TrainedForm& form : known_forms) {
    if (fit(transformer, form) && layer.steps == expected_steps(transformer, form, window))
      return form;
  }
  return {};
}

bool has_plain_steps(const Transformer& transformer, const Layer& layer) {
  if (!fit_any(transformer)) return false;
  if (layer.kind == LayerKind::embedding) return are_words(transformer, layer.steps);
  return layer.kind == LayerKind::head && are_norm_and_logits(transformer, layer.steps);
}

std::int64_t rows_before_positions(const Transformer& transformer, const Layer& layer) {
  const bool has_table = layer.steps.size() == 2 && has_plain_steps(transformer, layer);
  return has_table ? layer.steps.back().inputs - transformer.positions : 0;
}

}  // namespace stagecraft
