// Aceso's profile database: MODEL is one table of it, and the model's other tables beside it come
// along. Times are microseconds and sizes MiB on one device; each operator is a layer, repeated as
// the model repeats it. One entry per microbatch size and tensor-parallel degree.
//
// What the tables do not say, we assume: half of an operator's backward is for its weights where it
// has any; gradients are as large as weights, and the optimizer's state is what Aceso counts. An
// output carries what passes by beside the operator, so part of what an operator keeps may already
// be there as an output; only the rest, over the operators so far, is `saved`.

#include <algorithm>

#include "profiles/importers.hpp"
#include "profiles/importers/aceso_database.hpp"
#include "profiles/importers/figures.hpp"

namespace stagecraft {

namespace {

constexpr double mebibyte = 1024.0 * 1024;

std::size_t at(int i) {
  return static_cast<std::size_t>(i);
}

Precision precision_of(const AcesoDatabase& database) {
  return database.family == "resnet" ? Precision::float32 : Precision::float16;
}

LayerCost cost_of(const AcesoOperator& figures, double optimizer_ratio) {
  LayerCost cost;
  cost.forward = from_seconds(figures.forward * 1e-6);
  const Duration backward = from_seconds(figures.backward * 1e-6);
  cost.parameters = whole_bytes(figures.weights * mebibyte);
  cost.backward_weight = cost.parameters > 0 ? backward / 2 : Duration{0};
  cost.backward_input = backward - cost.backward_weight;
  cost.output = whole_bytes(figures.output * mebibyte);
  cost.gradients = cost.parameters;
  cost.optimizer = whole_bytes(optimizer_ratio * figures.weights * mebibyte);
  cost.workspace =
      whole_bytes(std::max(figures.forward_reserved, figures.backward_reserved) * mebibyte);
  cost.provenance = Provenance::measured;
  return cost;
}

ProfileEntry entry_of(const AcesoDatabase& database, const AcesoTable& table) {
  ProfileEntry entry;
  entry.setting = {.device = "generic",
                   .microbatch = table.microbatch,
                   .tensor_parallel = table.tensor_parallel,
                   .precision = precision_of(database)};
  Bytes kept = 0;     // as Aceso counts it
  Bytes counted = 0;  // as outputs and `saved`
  for (const int row : database.chain) {
    const AcesoOperator& figures = table.operators[at(row)];
    LayerCost cost = cost_of(figures, database.optimizer_ratio);
    kept += whole_bytes(figures.activations * mebibyte);
    cost.saved = std::max<Bytes>(0, kept - counted - cost.output);
    counted += cost.output + cost.saved;
    entry.layers.push_back(cost);
  }
  return entry;
}

/// Operators of repeated layers are told apart by the layer they are of: "enc-attention-qkv.3".
std::vector<std::string> layer_names(const AcesoDatabase& database) {
  std::vector<int> uses(database.names.size(), 0);
  for (const int row : database.chain) ++uses[at(row)];
  std::vector<int> seen(database.names.size(), 0);
  std::vector<std::string> names;
  for (const int row : database.chain) {
    const std::string& name = database.names[at(row)];
    names.push_back(uses[at(row)] == 1 ? name : concat(name, ".", seen[at(row)]++));
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
    return profile;
  });
}

}  // namespace stagecraft
