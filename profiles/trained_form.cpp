#include "profiles/trained_form.hpp"

#include <algorithm>
#include <array>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::int64_t window_of(const Steps& steps) {
  const auto attending = std::find_if(steps.begin(), steps.end(), [](const Step& step) {
    return step.kind == StepKind::attention;
  });
  return attending == steps.end() ? 0 : attending->window;
}

constexpr std::array known_forms{
    TrainedForm{},
    TrainedForm{.query_key_norm = QueryKeyNorm::shared},
    TrainedForm{.query_key_norm = QueryKeyNorm::shared, .norms_behind = true},
    TrainedForm{
        .query_key_norm = QueryKeyNorm::together, .norms_before = false, .norms_behind = true},
    TrainedForm{.relu = true},
    TrainedForm{.experts = true},
    TrainedForm{.query_key_norm = QueryKeyNorm::shared, .experts = true},
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
  if (form.experts) {
    return mixture({.hidden = transformer.hidden,
                    .experts = transformer.experts->count,
                    .active = transformer.experts->active,
                    .inner = transformer.experts->feed_forward});
  }
  Steps steps = feed_forward({.hidden = transformer.hidden,
                              .inner = transformer.feed_forward,
                              .gated = is_gated(transformer),
                              .up_bias = transformer.feed_forward_bias,
                              .down_bias = transformer.feed_forward_bias});
  if (form.relu) steps[1].name = "relu";
  return steps;
}

Steps expected_steps(const Transformer& transformer, const TrainedForm& form, std::int64_t window) {
  Steps steps;
  const auto add_norm = [&](std::string_view name) {
    steps.push_back(norm(name, transformer.hidden, weights_of(transformer)));
  };
  const bool around = form.norms_before && form.norms_behind;
  if (form.norms_before) add_norm("first norm");
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
                       .rotary_width = is_rotary(transformer) ? turned_width(transformer) : 0}));
  add_norm("second norm");
  if (around) add_norm("third norm");
  add_steps(steps, expected_feed_forward(transformer, form));
  if (form.norms_behind) add_norm("fourth norm");
  return steps;
}

/// Numbers that go with a form: Llama's, GPT-NeoX's, or OPT's.
bool fit(const Transformer& transformer, const TrainedForm& form) {
  const bool is_rms = transformer.norm == Transformer::Norm::rms_norm;
  if (transformer.streams != 1) return false;
  if (form.experts && !transformer.experts) return false;
  if (form.relu) {
    return !is_rms && !is_gated(transformer) &&
           transformer.position == Transformer::Position::learned;
  }
  if (!is_rotary(transformer)) return false;
  const bool is_neox = !is_rms && !is_gated(transformer) && form == TrainedForm{};
  return is_neox || (is_rms && is_gated(transformer));
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

/// Of a block that the numbers describe: experts have a gate, and nothing else takes part.
std::optional<TrainedForm> form_of_plain_block(const Transformer& transformer, const Layer& layer) {
  if (layer.kind == LayerKind::transformer) return TrainedForm{};
  const auto& experts = transformer.experts;
  const bool alone = experts && experts->shared_feed_forward == 0 && !experts->score_bias &&
                     is_gated(transformer) && !transformer.feed_forward_bias;
  if (!alone) return {};
  return TrainedForm{.experts = true};
}

std::string reason_against_numbers(const Transformer& transformer) {
  if (!transformer.untrainable.empty()) return transformer.untrainable;
  if (!transformer.causal) return "only causal attention can be trained";
  if (transformer.token_types) return "token types (BERT) cannot be trained";
  if (transformer.latent) return "latent attention cannot be trained";
  if (transformer.patches) return "vision transformers cannot be trained";
  if (transformer.heads <= 0 || transformer.key_value_heads <= 0 ||
      transformer.heads % transformer.key_value_heads != 0) {
    return "its heads do not fall into equal groups";
  }
  if (is_rotary(transformer) && turned_width(transformer) % 2 != 0)
    return "rotary positions need an even head width";
  return "";
}

std::string reason_against_experts(const Experts& experts) {
  if (experts.score_bias) return "numbers that balance its router cannot be trained";
  if (experts.shared_feed_forward > 0) return "experts that all tokens pass cannot be trained";
  return "only experts with a gate and without biases can be trained";
}

}  // namespace

std::optional<TrainedForm> trained_form(const Transformer& transformer, const Layer& layer) {
  if (!is_block(layer)) return {};
  if (layer.steps.empty()) return form_of_plain_block(transformer, layer);
  const std::int64_t window = window_of(layer.steps);
  for (TrainedForm form : known_forms) {
    if (!fit(transformer, form) || layer.steps != expected_steps(transformer, form, window))
      continue;
    form.window = window;
    return form;
  }
  return {};
}

std::string reason_against_training(const Model& model, const Layer& layer) {
  if (!model.transformer) return "the numbers of its transformer are not known";
  const Transformer& transformer = *model.transformer;
  const std::string reason = reason_against_numbers(transformer);
  if (!reason.empty()) return reason;
  const bool computed = is_block(layer) ? trained_form(transformer, layer).has_value()
                                        : has_plain_steps(transformer, layer);
  if (computed) return "";
  if (layer.steps.empty()) return reason_against_experts(*transformer.experts);
  return concat("its steps (", in_words(layer.steps), ") are planned and not computed here");
}

std::string reason_against_dividing(const Transformer& transformer, const Layer& layer, int peers) {
  const auto form = trained_form(transformer, layer);
  if (!form || peers == 1) return "";
  if (transformer.key_value_heads % peers != 0) {
    return concat("its ", transformer.key_value_heads, " key-value heads do not divide among ",
                  peers, " tensor-parallel devices");
  }
  if (form->query_key_norm == QueryKeyNorm::together)
    return "its norms of queries and keys look at all heads, which tensor-parallel devices divide";
  return form->experts ? "its experts are computed whole on one device" : "";
}

std::int64_t turned_width(const Transformer& transformer) {
  const std::int64_t width = transformer.arithmetic.rotary_width;
  return width > 0 ? width : transformer.head_width;
}

std::string only_on_cpus(const Transformer& transformer, const Layer& layer) {
  const auto form = trained_form(transformer, layer);
  if (!form) return "";
  const Arithmetic& arithmetic = transformer.arithmetic;
  if (form->relu) return "has relu as its activation";
  if (form->query_key_norm != QueryKeyNorm::none) return "norms queries and keys";
  if (form->experts) return "has experts";
  if (form->window > 0 && form->window < transformer.positions)
    return "has attention that sees a window only";
  if (arithmetic.parallel_residual) return "adds attention and feed-forward to the same input";
  if (arithmetic.activation != Arithmetic::Activation::usual) return "has another form of GELU";
  if (arithmetic != Arithmetic{}) return "turns a part of its heads, or scales what others do not";
  return "";
}

bool has_plain_steps(const Transformer& transformer, const Layer& layer) {
  if (layer.steps.empty()) return true;
  if (!fit_any(transformer)) return false;
  if (layer.kind == LayerKind::embedding) return are_words(transformer, layer.steps);
  return layer.kind == LayerKind::head && are_norm_and_logits(transformer, layer.steps);
}

std::int64_t rows_before_positions(const Transformer& transformer, const Layer& layer) {
  const bool has_table = layer.steps.size() == 2 && has_plain_steps(transformer, layer);
  return has_table ? layer.steps.back().inputs - transformer.positions : 0;
}

}  // namespace stagecraft
