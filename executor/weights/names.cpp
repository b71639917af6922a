#include "executor/weights/names.hpp"

#include <algorithm>
#include <set>

#include "executor/layers/layers.hpp"
#include "executor/weights/families.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// How many of a layer's columns each of its parts has.
std::vector<std::int64_t> part_widths(const Transformer& transformer, std::string_view ours,
                                      std::size_t parts, std::int64_t columns) {
  if (parts == 1) return {columns};
  if (ours.starts_with("feed_forward") || ours.starts_with("experts"))
    return {columns / 2, columns / 2};
  const std::int64_t key_value = transformer.key_value_heads * transformer.head_width;
  return {transformer.heads * transformer.head_width, key_value, key_value};
}

/// With a number in the place of a sign, if it is there.
std::string numbered(std::string_view name, char sign, std::string_view number) {
  const auto place = name.find(sign);
  if (place == std::string_view::npos) return std::string(name);
  return concat(name.substr(0, place), number, name.substr(place + 1));
}

/// The number of "experts.7.up.weight"; "" of other weights.
std::string_view expert_of(std::string_view ours) {
  constexpr std::string_view start = "experts.";
  if (!ours.starts_with(start)) return {};
  ours.remove_prefix(start.size());
  return ours.substr(0, ours.find('.'));
}

class Namer {
 public:
  explicit Namer(const Model& model) : model_(model) {
    const auto family = weight_family_of(model);
    if (!family) {
      naming_.family = model.transformer ? "Stagecraft" : "torchvision VGG";
      return;
    }
    naming_ = {.family = family->name,
               .prefix = family->prefix,
               .buffers = family->buffers,
               .weights = {}};
    rows_ = family->rows;
  }

  WeightNaming take() {
    std::set<std::string> named;
    for (std::size_t i = 0; i < model_.layers.size(); ++i) {
      const Layer& layer = model_.layers[i];
      for (const ParameterSpec& spec : make_layer(model_, static_cast<int>(i))->parameters()) {
        if (!named.insert(spec.name).second) continue;
        naming_.weights.push_back({.spec = spec, .parts = parts_of(layer, spec)});
      }
      count(layer);
    }
    return std::move(naming_);
  }

 private:
  std::vector<WeightPart> parts_of(const Layer& layer, const ParameterSpec& spec) const {
    const std::int64_t columns = spec.shape.back();
    const std::string ours = spec.name.substr(layer.name.size() + 1);
    if (layer.image) return {image_part(layer, ours, columns)};
    if (rows_ == nullptr) return {{.name = spec.name, .first = 0, .end = columns}};
    const LayerKind kind = is_block(layer) ? LayerKind::transformer : layer.kind;
    const std::string_view expert = expert_of(ours);
    const auto row = std::ranges::find_if(*rows_, [&](const NamedWeight& r) {
      return r.kind == kind && numbered(r.ours, '*', expert) == ours;
    });
    if (row == rows_->end()) fail(naming_.family, " has no name for ", spec.name);
    const auto widths = part_widths(*model_.transformer, ours, row->theirs.size(), columns);
    std::vector<WeightPart> parts;
    std::int64_t first = 0;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      const std::string name = numbered(row->theirs[i], '#', std::to_string(blocks_));
      parts.push_back({.name = numbered(name, '*', expert),
                       .first = first,
                       .end = first + widths[i],
                       .transposed = row->transposed,
                       .heads = row->interleaved ? model_.transformer->heads : 0});
      first += widths[i];
    }
    return parts;
  }

  /// In "features" each ReLU and pool has a number, in "classifier" each ReLU and dropout.
  WeightPart image_part(const Layer& layer, const std::string& ours, std::int64_t columns) const {
    const bool dense = layer.kind == LayerKind::dense;
    return {.name = dense ? concat("classifier.", 3 * dense_layers_, ".", ours)
                          : concat("features.", features_, ".", ours),
            .first = 0,
            .end = columns,
            .transposed = dense && ours == "weight"};
  }

  void count(const Layer& layer) {
    if (is_block(layer)) ++blocks_;
    if (layer.kind == LayerKind::dense) ++dense_layers_;
    if (layer.image) features_ += layer.image->relu ? 2 : 1;
  }

  const Model& model_;
  WeightNaming naming_;
  const std::vector<NamedWeight>* rows_ = nullptr;
  int blocks_ = 0;
  int features_ = 0;
  int dense_layers_ = 0;
};

}  // namespace

WeightNaming weight_naming(const Model& model) {
  return Namer(model).take();
}

}  // namespace stagecraft
