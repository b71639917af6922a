#include "profiles/model.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <set>

#include "profiles/error.hpp"
#include "profiles/model_graph.hpp"
#include "profiles/text.hpp"
#include "profiles/transformer.hpp"

namespace stagecraft {

namespace {

template <class Value>
struct Named {
  Value value;
  std::string_view name;
};

constexpr std::array layer_kinds{
    Named<LayerKind>{LayerKind::embedding, "embedding"},
    Named<LayerKind>{LayerKind::transformer, "transformer"},
    Named<LayerKind>{LayerKind::expert_transformer, "expert_transformer"},
    Named<LayerKind>{LayerKind::prediction, "prediction"},
    Named<LayerKind>{LayerKind::head, "head"},
    Named<LayerKind>{LayerKind::convolution, "convolution"},
    Named<LayerKind>{LayerKind::dense, "dense"},
    Named<LayerKind>{LayerKind::pool, "pool"},
    Named<LayerKind>{LayerKind::activation, "activation"},
    Named<LayerKind>{LayerKind::normalization, "normalization"},
    Named<LayerKind>{LayerKind::opaque, "opaque"},
};

constexpr std::array precisions{
    Named<Precision>{Precision::float64, "fp64"},
    Named<Precision>{Precision::float32, "fp32"},
    Named<Precision>{Precision::bfloat16, "bf16"},
    Named<Precision>{Precision::float16, "fp16"},
    Named<Precision>{Precision::float8, "fp8"},
    Named<Precision>{Precision::float8_with_attention, "fp8+attention"},
};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& row : table) {
    if (row.value == value) return row.name;
  }
  assert(false && "every enumerator has a row");
  return "";
}

template <class Table>
auto value_in(const Table& table, std::string_view what, std::string_view name) {
  std::vector<std::string> known;
  for (const auto& row : table) {
    if (row.name == name) return row.value;
    known.emplace_back(row.name);
  }
  const std::string suggestion = closest(name, known);
  fail("unknown ", what, " \"", name, "\"; known: ", join_words(known),
       suggestion.empty() ? "" : "; did you mean \"" + suggestion + "\"?");
}

std::string quoted(const Model& model, int layer) {
  return "\"" + model.layers[static_cast<std::size_t>(layer)].name + "\"";
}

/// No layer is larger; keeps every product with bytes and samples within 64 bits.
constexpr std::int64_t most_of_a_layer = 1'000'000'000'000'000;

void check_layers(const Model& model) {
  if (model.layers.empty()) fail("model ", model.name, " has no layers");
  std::set<std::string_view> names;
  for (const Layer& layer : model.layers) {
    if (layer.name.empty()) fail("model ", model.name, ": a layer has no name");
    if (!names.insert(layer.name).second) {
      fail("model ", model.name, ": two layers are named \"", layer.name, "\"");
    }
    const bool figures = layer.parameters >= 0 && layer.output_elements >= 0 &&
                         std::isfinite(layer.flops_forward) && layer.flops_forward >= 0;
    const bool plausible =
        layer.parameters <= most_of_a_layer && layer.output_elements <= most_of_a_layer;
    if (!figures) {
      fail("model ", model.name, ": layer \"", layer.name,
           "\": a figure is negative or not finite");
    }
    for (const Step& step : layer.steps) validate(step);
    if (!layer.steps.empty() && layer.parameters != parameters(layer.steps)) {
      fail("model ", model.name, ": layer \"", layer.name, "\" has ", layer.parameters,
           " parameters, its steps have ", parameters(layer.steps));
    }
    if (!plausible) {
      fail("model ", model.name, ": layer \"", layer.name, "\": a figure is above ",
           most_of_a_layer);
    }
  }
}

void check_edges(const Model& model) {
  const int layers = static_cast<int>(model.layers.size());
  std::set<std::pair<int, int>> seen;
  bool forward = true;
  for (const Edge& edge : model.edges) {
    if (edge.from < 0 || edge.from >= layers || edge.to < 0 || edge.to >= layers) {
      fail("model ", model.name, ": the edge ", edge.from, " -> ", edge.to, " leaves its ", layers,
           " layers");
    }
    if (!seen.insert({edge.from, edge.to}).second) {
      fail("model ", model.name, ": the edge ", quoted(model, edge.from), " -> ",
           quoted(model, edge.to), " appears twice");
    }
    forward = forward && edge.from < edge.to;
  }
  if (forward) return;
  // A cycle is the likelier mistake and the better sentence.
  refuse_cycle(model);
  for (const Edge& edge : model.edges) {
    if (edge.from < edge.to) continue;
    fail("model ", model.name, ": layer ", quoted(model, edge.to), " reads layer ",
         quoted(model, edge.from), ", which is listed after it");
  }
}

void check_ties(const Model& model) {
  const int layers = static_cast<int>(model.layers.size());
  for (const Tie& tie : model.ties) {
    const bool inside = tie.owner >= 0 && tie.owner < layers && tie.user >= 0 && tie.user < layers;
    if (!inside || tie.owner == tie.user) {
      fail("model ", model.name, ": a tie joins two different layers, found ", tie.owner, " and ",
           tie.user);
    }
    const std::int64_t owned = model.layers[static_cast<std::size_t>(tie.owner)].parameters;
    if (tie.parameters < 1 || tie.parameters > owned) {
      fail("model ", model.name, ": ", quoted(model, tie.user), " shares ", tie.parameters,
           " parameters of ", quoted(model, tie.owner), ", which has ", owned);
    }
  }
}

}  // namespace

std::string_view to_string(LayerKind kind) {
  return name_in(layer_kinds, kind);
}

LayerKind read_layer_kind(std::string_view name) {
  return value_in(layer_kinds, "layer kind", name);
}

std::string_view to_string(Precision precision) {
  return name_in(precisions, precision);
}

Precision read_precision(std::string_view name) {
  return value_in(precisions, "precision", name);
}

Bytes element_bytes(Precision precision) {
  switch (precision) {
    case Precision::float64: return 8;
    case Precision::float32: return 4;
    case Precision::bfloat16:
    case Precision::float16:
    case Precision::float8:
    case Precision::float8_with_attention: return 2;
  }
  return 0;
}

void validate(const Model& model) {
  check_layers(model);
  check_edges(model);
  refuse_parts(model);
  check_ties(model);
  if (model.sequence < 0) fail("model ", model.name, ": the sequence length is negative");
  if (model.transformer) validate(*model.transformer);
}

std::int64_t parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const Layer& layer : model.layers) {
    if (__builtin_add_overflow(sum, layer.parameters, &sum)) {
      fail("model ", model.name, " has more parameters than 64 bits count");
    }
  }
  return sum;
}

bool has_experts(const Model& model) {
  return std::ranges::any_of(
      model.layers, [](const Layer& layer) { return layer.kind == LayerKind::expert_transformer; });
}

bool has_steps(const Model& model) {
  for (const Layer& layer : model.layers) {
    if (!layer.steps.empty()) return true;
  }
  return false;
}

std::int64_t prediction_parameters(const Model& model) {
  std::int64_t sum = 0;
  for (const Layer& layer : model.layers) {
    if (layer.kind == LayerKind::prediction) sum += layer.parameters;
  }
  return sum;
}

std::vector<int> crossing(const Model& model, int cut) {
  assert(cut >= 1 && cut < static_cast<int>(model.layers.size()));
  std::set<int> producers;
  for (const Edge& edge : model.edges) {
    if (edge.from < cut && edge.to >= cut) producers.insert(edge.from);
  }
  return {producers.begin(), producers.end()};
}

}  // namespace stagecraft
