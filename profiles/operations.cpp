#include "profiles/operations.hpp"

#include <algorithm>
#include <cmath>

#include "profiles/error.hpp"
#include "profiles/layer_builder.hpp"
#include "profiles/layer_modules.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

/// Dropout and the sum with the block's input, after each half.
void add_residual(LayerBuilder& layer, std::string_view name) {
  const DeviceShare& share = layer.share();
  const double elements = share.spread_tokens * share.hidden;
  const double mask = share.setting.dropout ? elements : 0;
  layer.traffic(name, 3 * elements * share.element + mask, 2 * elements * share.element + mask);
  if (share.setting.dropout) layer.keep("dropout mask", mask);
}

void add_block(LayerBuilder& layer, bool experts) {
  const DeviceShare& share = layer.share();
  const Transformer& transformer = share.transformer;
  layer.input(share.spread_tokens * share.hidden * share.element);
  add_norm(layer, "first norm");
  if (transformer.latent) {
    add_latent_attention(layer);
  } else {
    add_attention(layer);
  }
  add_residual(layer, "first sum");
  add_norm(layer, "second norm");
  if (experts) {
    add_experts(layer);
  } else {
    add_dense_feed_forward(layer, transformer.feed_forward);
  }
  add_residual(layer, "second sum");
}

/// A device's part of a layer of which only `divided` rows of the hidden width are divided.
double part_of(double all, std::int64_t divided, const DeviceShare& share) {
  const auto rows = static_cast<double>(divided);
  return all - rows * share.hidden + std::ceil(rows / share.setting.tensor_parallel) * share.hidden;
}

/// Rows are looked up, each peer those of its part of the vocabulary.
void add_embedding(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const Transformer& transformer = share.transformer;
  const double elements = share.tokens * share.hidden;
  if (transformer.patches) {
    const Patches& patches = *transformer.patches;
    const auto pixels = static_cast<double>(patches.patch * patches.patch * patches.channels);
    layer.wide_linear("patches", share.tokens, share.hidden, pixels);
  }
  layer.traffic("lookup", 2 * elements * share.element, 3 * elements * share.element);
  sum_tokens(layer, "sum of embeddings");
  if (share.setting.dropout) {
    const double kept = share.spread_tokens * share.hidden;
    layer.traffic("embedding dropout", (2 * share.element + 1) * kept,
                  (2 * share.element + 1) * kept);
    layer.keep("dropout mask", kept);
  }
  layer.input(8 * share.tokens);
  const std::int64_t rows = transformer.patches ? 0 : transformer.vocabulary;
  const auto all = static_cast<double>(layer_parameters(transformer, LayerKind::embedding));
  layer.set_weights(part_of(all, rows, share));
}

/// Of the vocabulary for each token, or of classes for each image.
void add_logits_of_model(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const Transformer& transformer = share.transformer;
  const bool of_images = transformer.patches.has_value();
  add_logits_and_loss(layer,
                      of_images ? static_cast<double>(share.setting.microbatch) : share.tokens,
                      of_images ? transformer.patches->classes : transformer.vocabulary);
}

void add_head(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const Transformer& transformer = share.transformer;
  layer.input(share.spread_tokens * share.hidden * share.element);
  // BERT normalises at the end of each block, and transforms before its head.
  if (transformer.token_types) {
    layer.linear("masked-word transform", share.tokens, share.hidden, share.hidden);
    layer.traffic("masked-word activation", 4 * share.tokens * share.hidden * share.element,
                  6 * share.tokens * share.hidden * share.element);
  } else {
    add_norm(layer, "last norm");
  }
  add_logits_of_model(layer);
  const std::int64_t all =
      layer_parameters(transformer, LayerKind::head) + tied_parameters(transformer);
  layer.set_weights(part_of(static_cast<double>(all), transformer.vocabulary, share));
}

/// Joins a token's state with the next one's embedding: each tensor-parallel peer computes a part
/// of the outputs and gathers the others', whose gradients each has (`eh_proj`, a column-parallel
/// product, in megatron/core/transformer/multi_token_prediction.py).
void add_join(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const double inputs = 2 * share.hidden;
  const double outputs = std::ceil(share.hidden / share.setting.tensor_parallel);
  gather_rows(layer, "gather of joined states", inputs);
  layer.linear("join", share.tokens, outputs, inputs);
  layer.keep("joined states", share.spread_tokens * inputs * share.element);
  layer.weights(inputs * outputs);
  if (share.setting.tensor_parallel == 1) return;
  Operation gather{.name = "gather of joined outputs",
                   .kind = OperationKind::all_gather,
                   .bytes = share.tokens * share.hidden * share.element};
  layer.add(gather);
  // Peers go on with a part of the tokens each: their gradients come together again.
  gather.pass = Pass::backward_input;
  if (share.setting.sequence_parallel) layer.add(gather);
}

/// Two norms, a projection of both states, a block, and the model's own head once more.
void add_prediction(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  add_norm(layer, "state norm");
  add_norm(layer, "embedding norm");
  add_join(layer);
  add_block(layer, share.transformer.experts.has_value());
  add_norm(layer, "last norm");
  add_logits_of_model(layer);
}

/// Of inference: each peer's part of the vocabulary, which all get whole; chosen among by their
/// softmax in fp32 (vLLM's LogitsProcessor and Sampler).
void add_last_logits(LayerBuilder& layer, double rows, std::int64_t outputs) {
  const DeviceShare& share = layer.share();
  const int degree = share.setting.tensor_parallel;
  const auto all = static_cast<double>(outputs);
  layer.keep("head input", rows * share.hidden * share.element);
  layer.wide_linear("logits", rows, std::ceil(all / degree), share.hidden);
  if (degree > 1) {
    layer.add({.name = "gather of logits",
               .kind = OperationKind::all_gather,
               .bytes = rows * all * share.element});
  }
  layer.traffic("choice of tokens", rows * all * (share.element + 3 * 4), 0);
  layer.keep("logits in fp32", rows * all * 4);
  layer.working(rows * all * share.element);
}

}  // namespace

/// The vocabulary's logits are divided over the peers; the loss needs their maxima and sums.
void add_logits_and_loss(LayerBuilder& layer, double rows, std::int64_t outputs) {
  const DeviceShare& share = layer.share();
  if (const std::int64_t last = share.setting.last_tokens; last > 0)
    return add_last_logits(layer, std::min(rows, static_cast<double>(last)), outputs);
  const double part = std::ceil(static_cast<double>(outputs) / share.setting.tensor_parallel);
  const double logits = rows * part;
  layer.keep("head input", share.spread_tokens * share.hidden * share.element);
  gather_tokens(layer, "gather of head inputs");
  layer.wide_linear("logits", rows, part, share.hidden);
  const bool native = share.setting.fused_loss == FusedLoss::native;
  if (share.setting.fused_loss == FusedLoss::te) {
    // Logits are read for the maximum and the sum of exponentials, and overwritten by their
    // gradient.
    layer.traffic("loss", 2 * logits * share.element, 2 * logits * share.element);
    layer.keep("logits", logits * share.element);
  } else if (share.setting.framework == Framework::torch) {
    // PyTorch widens the logits and has one kernel for the logarithms of softmax; in backward a
    // gradient of zeros gets its ones, passes that kernel's, and is rounded (cross_entropy).
    layer.traffic("loss", logits * (share.element + 3 * 4), logits * (share.element + 5 * 4));
    layer.keep("logits in fp32", logits * 4);
    layer.working(logits * share.element);
  } else {
    // A copy in fp32 passes the maximum, a difference, the exponentials, their sum and a division;
    // backward subtracts, scales and rounds. Compiled, these are three kernels with messages in
    // between, and one.
    layer.traffic("loss", logits * (share.element + (native ? 5 : 9) * 4),
                  logits * ((native ? 1 : 5) * 4 + share.element));
    layer.keep("logits in fp32", logits * 4);
    // The softmax becomes its gradient in place; rounded, that is a tensor of its own. Compiled,
    // the exponentials are not written over the logits but beside them (fused_cross_entropy.py).
    layer.working(logits * (share.element + (native ? 4 : 0)));
  }
  if (share.setting.tensor_parallel == 1) return;
  const auto sum = [&](std::string_view name, double numbers) {
    layer.add({.name = name, .kind = OperationKind::all_reduce, .bytes = 4 * numbers * rows});
  };
  sum("largest logit", 1);
  if (native) return sum("sum of exponentials and own logit", 2);
  sum("sum of exponentials", 1);
  sum("own logit", 1);
}

double places_in_reach(const RowCopies& copies, double places) {
  const double chosen = static_cast<double>(copies.groups.active);
  const double each = places / static_cast<double>(copies.groups.count);
  return std::min(places, chosen * std::max(each, 1.0));
}

LayerOperations layer_operations(const Transformer& transformer, LayerKind kind,
                                 const WorkSetting& setting) {
  const DeviceShare share(transformer, setting);
  LayerBuilder layer(share);
  switch (kind) {
    case LayerKind::embedding: add_embedding(layer); break;
    case LayerKind::transformer: add_block(layer, false); break;
    case LayerKind::expert_transformer: add_block(layer, true); break;
    case LayerKind::prediction: add_prediction(layer); break;
    case LayerKind::head: add_head(layer); break;
    default: fail("a layer of kind ", to_string(kind), " does not belong to a transformer");
  }
  return layer.take();
}

Bytes kept_bytes(const LayerOperations& layer, Recomputed recompute) {
  return kept_bytes(layer, recompute, {});
}

std::string_view to_string(OperationKind kind) {
  switch (kind) {
    case OperationKind::product: return "product";
    case OperationKind::attention: return "attention";
    case OperationKind::traffic: return "traffic";
    case OperationKind::all_reduce: return "all_reduce";
    case OperationKind::all_gather: return "all_gather";
    case OperationKind::reduce_scatter: return "reduce_scatter";
    case OperationKind::all_to_all: return "all_to_all";
    case OperationKind::ring_exchange: return "ring_exchange";
  }
  return "";
}

std::string_view to_string(Recomputed recompute) {
  switch (recompute) {
    case Recomputed::none: return "none";
    case Recomputed::selective: return "selective";
    case Recomputed::full: return "full";
    case Recomputed::with_next: return "with next";
  }
  return "";
}

}  // namespace stagecraft
