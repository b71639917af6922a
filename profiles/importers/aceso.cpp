// Aceso's profile database: MODEL is one table of it, and the model's other tables beside it come
// along. Times are microseconds and sizes MiB on one device; each operator is a layer, repeated as
// the model repeats it. One entry per microbatch size and tensor-parallel degree.
//
// What the tables do not say, we assume: half of an operator's backward is for its weights where it
// has any. Aceso's profiler asks PyTorch for the gradients of an operator's inputs only; older
// versions found those of weights all the same, newer ones do not (Mist's databases: products go
// back as fast as forward). Where they are missing they take as long as the product alone does: the
// shorter of forward and backward, since messages are in one of the two.
//
// Gradients are as large as weights, and the optimizer's state is what Aceso counts. An output
// carries what passes by beside the operator, so part of what an operator keeps may already be
// there as an output; only the rest, over the operators so far, is `saved`.

#include <algorithm>

#include "profiles/importers.hpp"
#include "profiles/importers/aceso_database.hpp"
#include "profiles/importers/figures.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr double mebibyte = 1024.0 * 1024;

Precision precision_of(const AcesoDatabase& database) {
  return database.family == "resnet" ? Precision::float32 : Precision::float16;
}

/// An embedding has no gradient but its weights'.
bool is_embedding(std::string_view name) {
  return name.ends_with("-embedding");
}

/// Its backward reads its own output only.
bool is_softmax(std::string_view name) {
  return name.find("-softmax") != std::string_view::npos;
}

/// Whether the products' backward times are of one product each: that for the input's gradient. Two
/// take twice their forward, give or take what kernels and messages differ by.
bool lacks_weight_gradients(const AcesoDatabase& database) {
  double forward = 0, backward = 0;
  const auto least = std::ranges::min_element(database.tables, {}, &AcesoTable::tensor_parallel);
  for (std::size_t i = 0; i < database.names.size(); ++i) {
    const AcesoOperator& figures = least->operators[i];
    if (figures.weights <= 0 || is_embedding(database.names[i])) continue;
    forward += figures.forward;
    backward += figures.backward;
  }
  return backward < 1.4 * forward;
}

/// Backward time that is for the operator's weights, and whether it comes on top of what was
/// measured.
struct WeightGradient {
  Duration time{0};
  bool is_apart = false;
};

WeightGradient weight_gradient_of(const AcesoOperator& figures, std::string_view name, bool lacks) {
  const Duration forward = from_seconds(figures.forward * 1e-6);
  const Duration backward = from_seconds(figures.backward * 1e-6);
  if (figures.weights <= 0) return {};
  if (!lacks || is_embedding(name)) return {.time = backward / 2};
  // The same product, without the messages that either pass may have.
  return {.time = std::min(forward, backward), .is_apart = true};
}

LayerCost cost_of(const AcesoOperator& figures, const WeightGradient& weights,
                  double optimizer_ratio) {
  LayerCost cost;
  cost.forward = from_seconds(figures.forward * 1e-6);
  const Duration backward = from_seconds(figures.backward * 1e-6);
  cost.parameters = whole_bytes(figures.weights * mebibyte);
  cost.backward_weight = weights.time;
  cost.backward_input = weights.is_apart ? backward : backward - weights.time;
  cost.output = whole_bytes(figures.output * mebibyte);
  cost.gradients = cost.parameters;
  cost.optimizer = whole_bytes(optimizer_ratio * figures.weights * mebibyte);
  cost.workspace =
      whole_bytes(std::max(figures.forward_reserved, figures.backward_reserved) * mebibyte);
  cost.provenance = weights.is_apart ? Provenance::fitted : Provenance::measured;
  return cost;
}

ProfileEntry entry_of(const AcesoDatabase& database, const AcesoTable& table) {
  ProfileEntry entry;
  entry.setting = {.device = "generic",
                   .microbatch = table.microbatch,
                   .tensor_parallel = table.tensor_parallel,
                   .precision = precision_of(database)};
  const bool lacks = lacks_weight_gradients(database);
  for (std::size_t i = 0; i < database.chain.size(); ++i) {
    const int row = database.chain[i];
    const AcesoOperator& figures = table.operators[index(row)];
    LayerCost cost =
        cost_of(figures, weight_gradient_of(figures, database.names[index(row)], lacks),
                database.optimizer_ratio);
    const Bytes made = whole_bytes(figures.activations * mebibyte);
    const bool is_read_by_softmax =
        i + 1 < database.chain.size() && is_softmax(database.names[index(database.chain[i + 1])]);
    const Bytes own = std::min(made, cost.output);
    cost.saved = made - own;
    cost.output_freed = is_read_by_softmax ? cost.output : cost.output - own;
    entry.layers.push_back(cost);
  }
  return entry;
}

/// Operators of repeated layers are told apart by the layer they are of: "enc-attention-qkv.3".
std::vector<std::string> layer_names(const AcesoDatabase& database) {
  std::vector<int> uses(database.names.size(), 0);
  for (const int row : database.chain) ++uses[index(row)];
  std::vector<int> seen(database.names.size(), 0);
  std::vector<std::string> names;
  for (const int row : database.chain) {
    const std::string& name = database.names[index(row)];
    names.push_back(uses[index(row)] == 1 ? name : concat(name, ".", seen[index(row)]++));
  }
  return names;
}

/// Parameters are those of the whole layer, so of the smallest degree's table times its degree.
Model model_of(const AcesoDatabase& database, const ProfileEntry& entry) {
  const Bytes element = element_bytes(precision_of(database));
  Model model;
  model.name = database.family + "_" + database.size;
  const std::vector<std::string> names = layer_names(database);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const LayerCost& cost = entry.layers[i];
    model.layers.push_back({.name = names[i],
                            .kind = LayerKind::opaque,
                            .parameters = cost.parameters * entry.setting.tensor_parallel / element,
                            .output_elements = cost.output / entry.setting.microbatch / element});
    if (i > 0) model.edges.push_back({static_cast<int>(i) - 1, static_cast<int>(i)});
  }
  return model;
}

}  // namespace

bool looks_like_aceso(std::string_view content) {
  return content.starts_with("op_name,forward-compute");
}

Profile import_aceso(std::string_view content, const std::string& file) {
  const AcesoDatabase database = read_aceso_database(content, file);
  return at_file(file, [&] {
    Profile profile;
    for (const AcesoTable& table : database.tables)
      profile.entries.push_back(entry_of(database, table));
    profile.model = model_of(database, profile.entries.front());
    profile.source =
        "Aceso's profile database: microseconds and MiB per microbatch on one device, algorithm 0";
    if (lacks_weight_gradients(database)) {
      profile.warnings.emplace_back(
          "its products go back as fast as forward, so their weights' gradients are missing; each "
          "is taken to take as long as the product itself");
    }
    return profile;
  });
}

}  // namespace stagecraft
