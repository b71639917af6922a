// The second half of a block: a dense feed-forward, or a router with experts and what brings tokens
// to them (dispatch and combine over the expert-parallel peers).

#include <cmath>

#include "profiles/layer_builder.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

/// The second norm's output, which blocks with latent attention have again with their norms.
void keep_input(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const double bytes = share.spread_tokens * share.hidden * share.element;
  if (share.transformer.latent) {
    layer.keep_or_rebuild("feed-forward input", bytes);
  } else {
    layer.keep("feed-forward input", bytes);
  }
}

/// Up, activation and down for `tokens` rows over `met` of `count` experts of this width on the
/// device.
void add_projections(LayerBuilder& layer, double count, double met, double tokens, double inner) {
  const DeviceShare& share = layer.share();
  const double up = projections_up(share.transformer) * inner;
  const bool of_experts = count > 1 || share.transformer.experts.has_value();
  const std::size_t first = layer.operations();
  layer.grouped_linear(of_experts ? "expert up" : "up", met, tokens, up, share.hidden);
  layer.traffic("activation", tokens * (up + inner) * share.element,
                tokens * (2 * up + inner) * share.element);
  layer.grouped_linear(of_experts ? "expert down" : "down", met, tokens, share.hidden, inner);
  if (!share.setting.grouped_experts) layer.repeated_since(first, count);
  layer.keep("activation input", tokens * up * share.element);
  layer.keep("activation", tokens * inner * share.element);
}

void add_routed(LayerBuilder& layer, const Experts& experts) {
  const DeviceShare& share = layer.share();
  const double local = static_cast<double>(experts.count) / share.setting.expert_parallel;
  const double inner = static_cast<double>(experts.feed_forward) / share.expert_tensor;
  const auto active = static_cast<double>(experts.active);
  const RowCopies copies{.count = active, .groups = experts.groups};
  add_dispatch(layer, copies, share.hidden);
  const double rows = routed_rows(share, active).computed;
  const double met = experts_met(share, static_cast<double>(experts.count), active, rows);
  add_projections(layer, local, met, rows, inner);
  add_combine(layer, copies, share.hidden);
  layer.weights(local * (projections_up(share.transformer) + 1) * inner * share.hidden, true);
}

}  // namespace

double experts_met(const DeviceShare& share, double experts, double active, double rows) {
  const double degree = share.setting.expert_parallel;
  const double tokens = rows * degree / active;  // of all peers
  return experts / degree * (1 - std::pow(1 - active / experts, tokens));
}

RoutedRows routed_rows(const DeviceShare& share, double active) {
  const WorkSetting& setting = share.setting;
  // Tokens that enter the exchange here: peers of a tensor-parallel group bring a part each.
  const double own = setting.sequence_parallel || setting.tensor_parallel > 1
                         ? share.tokens / setting.tensor_parallel
                         : share.tokens;
  const double sent = own * active * setting.expert_load;
  return {sent, sent * share.expert_tensor};
}

namespace {

/// Bytes of the rows that a device sends, in training's precision, products in 8 bits or not:
/// Megatron-LM's dispatchers send what the norm has written (token_dispatcher.py), where
/// DeepSeek-V3's own framework had cast it before (section 3.3.3).
double sent_bytes(const DeviceShare& share, double active, double width) {
  return routed_rows(share, active).sent * width * share.element;
}

/// Its kernels are counted with those of the exchange.
void add_sort(LayerBuilder& layer, std::string_view name, double bytes) {
  for (const Pass pass : {Pass::forward, Pass::backward_input})
    layer.add({.name = name, .pass = pass, .bytes = bytes, .launches = 0, .modules = 0});
}

std::int64_t experts_of(const DeviceShare& share) {
  return share.transformer.experts ? share.transformer.experts->count : 0;
}

/// What NCCL exchanges are rows, none of which it knows to be another's copy.
RowCopies copies_sent(const WorkSetting& setting, const RowCopies& copies) {
  return sends_once(setting.dispatcher) ? copies : RowCopies{};
}

/// Whether what came from each peer by expert is put together by expert, and apart again
/// (`sort_chunks_by_idxs`): not where a kernel of the exchange has received tokens, each once, that
/// are copied to their experts afterwards (DeepEP, HybridEP).
bool sorts_by_experts(const DeviceShare& share) {
  const WorkSetting& setting = share.setting;
  return !sends_once(setting.dispatcher) && setting.expert_parallel > 1 &&
         setting.expert_parallel < experts_of(share);
}

}  // namespace

void add_dispatch(LayerBuilder& layer, const RowCopies& copies, double width) {
  const DeviceShare& share = layer.share();
  const WorkSetting& setting = share.setting;
  const double sent = sent_bytes(share, copies.count, width);
  const double moved = routed_rows(share, copies.count).computed * width * share.element;
  layer.routed(true);
  const std::size_t first = layer.operations();
  layer.traffic("permute", 2 * moved, 2 * moved);
  // Seven that count tokens by expert and peer, with an exchange, and five copies of counts to the
  // host; six that find where tokens go and move them with their probabilities; these exchanged and
  // gathered as tokens are, and both put together by expert (MoEAlltoAllTokenDispatcher, `permute`
  // and `sort_chunks_by_idxs` of megatron/core/transformer/moe).
  // The other dispatchers choose the best again and cast their weights; three count, tell peers and
  // send; three find where copies go, and make them (`_DeepepManager`). In backward: told, summed.
  if (sends_once(setting.dispatcher)) {
    layer.kernels_since(first, 9, 3);
  } else {
    layer.kernels_since(first, 22, 8);
  }
  if (setting.expert_parallel > 1) {
    layer.message("dispatch", OperationKind::all_to_all, OperationKind::all_to_all,
                  PeerGroup::expert, sent, sent, copies_sent(setting, copies));
  }
  if (sorts_by_experts(share)) add_sort(layer, "sort by experts", 2 * moved);
  if (share.expert_tensor > 1) {
    layer.message("gather of expert inputs", OperationKind::all_gather,
                  OperationKind::reduce_scatter, PeerGroup::expert_tensor, moved);
  }
  layer.keep("expert input", moved);
}

void add_combine(LayerBuilder& layer, const RowCopies& copies, double width) {
  const DeviceShare& share = layer.share();
  const WorkSetting& setting = share.setting;
  const double sent = sent_bytes(share, copies.count, width);
  const double moved = routed_rows(share, copies.count).computed * width * share.element;
  if (share.expert_tensor > 1) {
    layer.message("sum of expert outputs", OperationKind::reduce_scatter, OperationKind::all_gather,
                  PeerGroup::expert_tensor, moved);
  }
  if (sorts_by_experts(share)) add_sort(layer, "sort by peers", 2 * moved);
  if (setting.expert_parallel > 1) {
    layer.message("combine", OperationKind::all_to_all, OperationKind::all_to_all,
                  PeerGroup::expert, sent, sent, copies_sent(setting, copies));
  }
  const std::size_t first = layer.operations();
  layer.traffic("unpermute", 2 * moved, 3 * moved);
  layer.kernels_since(first, sends_once(setting.dispatcher) ? 3 : 5, 3);
  layer.routed(false);
}

void add_choice(LayerBuilder& layer, double count) {
  const DeviceShare& share = layer.share();
  // Scores in fp32: softmax or sigmoid, choice of the best, their probabilities.
  const std::size_t first = layer.operations();
  layer.traffic("choice of experts", 4 * share.spread_tokens * count * 4,
                4 * share.spread_tokens * count * 4);
  // Logits, softmax, the best, their map and probabilities; the same of the balancing loss, with
  // its sums; in backward the scatters, both softmaxes and the loss (TopKRouter of
  // megatron/core/transformer/moe/router.py). Fused, the choice, the loss's scores and the loss are
  // a kernel each, forward and back; beside them tokens are counted, and the loss is noted and
  // scaled (transformer_engine/pytorch/router.py).
  if (share.setting.router_fusion == RouterFusion::on) {
    layer.kernels_since(first, 6, 6);
  } else {
    layer.kernels_since(first, 22, 10);
  }
  layer.keep("scores of experts", share.spread_tokens * count * 4);
}

void add_dense_feed_forward(LayerBuilder& layer, std::int64_t inner) {
  const DeviceShare& share = layer.share();
  const double part = std::ceil(static_cast<double>(inner) / share.setting.tensor_parallel);
  const double up = projections_up(share.transformer) * part;
  keep_input(layer);
  gather_tokens(layer, "gather of feed-forward inputs");
  layer.linear("up", share.tokens, up, share.hidden);
  layer.traffic("activation", share.tokens * (up + part) * share.element,
                share.tokens * (2 * up + part) * share.element);
  layer.linear("down", share.tokens, share.hidden, part);
  layer.keep("activation input", share.tokens * up * share.element);
  layer.keep("activation", share.tokens * part * share.element);
  // In backward: the gradients of the activation and of its input.
  layer.working(share.tokens * (up + part) * share.element);
  layer.weights((up + part) * share.hidden +
                (share.transformer.feed_forward_bias ? up + share.hidden : 0));
  sum_tokens(layer, "sum of feed-forward outputs");
}

void add_experts(LayerBuilder& layer) {
  const DeviceShare& share = layer.share();
  const Experts& experts = *share.transformer.experts;
  const auto count = static_cast<double>(experts.count);
  layer.wide_linear("router", share.spread_tokens, count, share.hidden);
  add_choice(layer, count);
  layer.weights(count * share.hidden);
  if (experts.shared_feed_forward > 0) {
    add_dense_feed_forward(layer, experts.shared_feed_forward);
  } else {
    keep_input(layer);
  }
  add_routed(layer, experts);
}

}  // namespace stagecraft
