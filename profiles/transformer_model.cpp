// A transformer as a list of layers: "embedding", "block.0" … "block.N-1", "head"; prediction
// modules stand between the last block and the head.

#include "profiles/error.hpp"
#include "profiles/model.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

constexpr int most_blocks = 100'000;
constexpr std::int64_t longest_sequence = 1 << 28;

void check_sequence(const std::string& name, const Transformer& transformer,
                    std::int64_t sequence) {
  if (sequence < 1 || sequence > longest_sequence) {
    fail(name, ": a sequence has from 1 to ", longest_sequence, " tokens, found ", sequence);
  }
  if (transformer.patches && sequence != transformer.positions) {
    fail(name, ": an image is always ", transformer.positions, " tokens, found ", sequence);
  }
  const bool learned = transformer.position == Transformer::Position::learned;
  if (learned && sequence > transformer.positions) {
    fail(name, ": a sequence of ", sequence, " tokens is longer than the model's ",
         transformer.positions, " learned positions");
  }
}

/// Sets the figures that depend on the sequence length.
void set_sequence(Layer& layer, const Transformer& transformer, std::int64_t sequence) {
  const TransformerFlops flops = layer_flops(transformer, layer, sequence);
  layer.flops_forward = flops.linear + flops.attention;
  // The head hands on its loss.
  layer.output_elements =
      layer.kind == LayerKind::head ? 1 : sequence * transformer.hidden * transformer.streams;
}

}  // namespace

LayerKind block_kind(const Transformer& transformer, int block) {
  const bool chooses = transformer.experts && block >= transformer.experts->dense_blocks;
  return chooses ? LayerKind::expert_transformer : LayerKind::transformer;
}

Model make_transformer(std::string name, const Transformer& transformer, int blocks,
                       std::int64_t sequence) {
  validate(transformer);
  if (blocks < 1 || blocks > most_blocks) {
    fail(name, ": a transformer has from 1 to ", most_blocks, " blocks, found ", blocks);
  }
  check_sequence(name, transformer, sequence);
  Model model;
  model.name = std::move(name);
  model.sequence = sequence;
  model.transformer = transformer;
  const auto add = [&](std::string layer_name, LayerKind kind) {
    model.layers.push_back({.name = std::move(layer_name),
                            .kind = kind,
                            .parameters = layer_parameters(transformer, kind)});
    set_sequence(model.layers.back(), transformer, sequence);
  };
  add("embedding", LayerKind::embedding);
  for (int block = 0; block < blocks; ++block) {
    add(concat("block.", block), block_kind(transformer, block));
  }
  for (int module = 0; module < transformer.prediction_modules; ++module) {
    add(concat("prediction.", module), LayerKind::prediction);
  }
  add("head", LayerKind::head);
  const int head = static_cast<int>(model.layers.size()) - 1;
  for (int layer = 0; layer < head; ++layer) model.edges.push_back({layer, layer + 1});
  if (transformer.tied_head) {
    model.ties.push_back({.owner = 0, .user = head, .parameters = tied_parameters(transformer)});
  }
  return model;
}

Model make_stepped(Model model, std::int64_t sequence) {
  const Transformer& transformer = *model.transformer;
  validate(transformer);
  check_sequence(model.name, transformer, sequence);
  model.sequence = sequence;
  for (Layer& layer : model.layers) {
    for (const Step& step : layer.steps) validate(step);
    layer.parameters = parameters(layer.steps);
    set_sequence(layer, transformer, sequence);
  }
  const int last = static_cast<int>(model.layers.size()) - 1;
  if (model.edges.empty()) {
    for (int layer = 0; layer < last; ++layer) model.edges.push_back({layer, layer + 1});
  }
  return model;
}

Model with_sequence(const Model& model, std::int64_t sequence) {
  if (!model.transformer) {
    fail("model ", model.name, " has no sequence length to change: it is not a known transformer");
  }
  check_sequence(model.name, *model.transformer, sequence);
  Model result = model;
  result.sequence = sequence;
  for (Layer& layer : result.layers) set_sequence(layer, *model.transformer, sequence);
  return result;
}

}  // namespace stagecraft
