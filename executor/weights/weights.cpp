#include "executor/weights/weights.hpp"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "executor/weights/names.hpp"
#include "executor/weights/tensor_files.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// A matrix of so many rows, or a vector as one row. What has more dimensions is never cut.
struct Extent {
  std::int64_t rows = 1;
  std::int64_t columns = 0;
};

Extent extent_of(const ParameterSpec& spec) {
  Extent extent{.rows = 1, .columns = spec.shape.back()};
  for (std::size_t i = 0; i + 1 < spec.shape.size(); ++i) extent.rows *= spec.shape[i];
  return extent;
}

/// The shape a part has in a file.
std::vector<std::int64_t> stored_shape(const ParameterSpec& spec, const WeightPart& part) {
  std::vector<std::int64_t> shape = spec.shape;
  shape.back() = part.end - part.first;
  if (part.transposed) std::ranges::reverse(shape);
  return shape;
}

/// Where a column of a part is stored.
std::int64_t stored_column(const WeightPart& part, std::int64_t column) {
  if (part.heads == 0) return column;
  const std::int64_t width = (part.end - part.first) / (3 * part.heads);
  const std::int64_t third = column / (part.heads * width);  // queries, keys or values
  const std::int64_t head = column / width % part.heads;
  return (head * 3 + third) * width + column % width;
}

/// Calls visit(place in the weight, place in the stored part) for every element of the part.
template <class Visit>
void for_each_element(Extent weight, const WeightPart& part, Visit visit) {
  const std::int64_t columns = part.end - part.first;
  for (std::int64_t row = 0; row < weight.rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column) {
      const std::int64_t stored = stored_column(part, column);
      visit(row * weight.columns + part.first + column,
            part.transposed ? stored * weight.rows + row : row * columns + stored);
    }
  }
}

template <class Number>
void put_part(const Tensor& stored, Extent extent, const WeightPart& part, Tensor& weight) {
  for_each_element(extent, part, [&](std::int64_t to, std::int64_t from) {
    weight.data<Number>()[to] = stored.data<Number>()[from];
  });
}

template <class Number>
void take_part(const Tensor& weight, Extent extent, const WeightPart& part, Tensor& stored) {
  for_each_element(extent, part, [&](std::int64_t from, std::int64_t to) {
    stored.data<Number>()[to] = weight.data<Number>()[from];
  });
}

class Loader {
 public:
  Loader(const std::filesystem::path& path, const Model& model, Precision precision)
      : files_(open_tensor_files(path)),
        model_(model),
        precision_(precision),
        naming_(weight_naming(model)),
        backend_(make_cpu_backend()) {}

  std::map<std::string, Tensor> load() {
    std::map<std::string, Tensor> weights;
    for (const WeightNames& names : naming_.weights) weights[names.spec.name] = load(names);
    if (model_.transformer && model_.transformer->tied_head) accept_tied_head();
    refuse_strangers();
    return weights;
  }

 private:
  /// With or without the family's prefix.
  FoundTensor look_for(std::string_view name) const {
    const FoundTensor found = find(files_, name);
    if (found.tensor != nullptr) return found;
    if (naming_.prefix.empty() || !name.starts_with(naming_.prefix)) return {};
    return find(files_, name.substr(naming_.prefix.size()));
  }

  Tensor read(const FoundTensor& found) const {
    return read_tensor(*found.file, *found.tensor, precision_);
  }

  FoundTensor stored(const ParameterSpec& spec, const WeightPart& part) {
    const FoundTensor found = look_for(part.name);
    if (found.tensor == nullptr) {
      fail(files_.path.string(), ": has no tensor \"", part.name, "\", which ", model_.name,
           " needs (names as in ", naming_.family, ")");
    }
    const auto expected = stored_shape(spec, part);
    if (found.tensor->shape != expected) {
      fail(found.file->path.string(), ": \"", found.tensor->name, "\" has the shape ",
           to_text(found.tensor->shape), ", but ", model_.name, " needs ", to_text(expected));
    }
    used_.insert(found.tensor->name);
    return found;
  }

  Tensor load(const WeightNames& names) {
    Tensor weight = backend_->allocate(names.spec.shape, precision_);
    for (const WeightPart& part : names.parts) {
      const Tensor numbers = read(stored(names.spec, part));
      precision_ == Precision::float64
          ? put_part<double>(numbers, extent_of(names.spec), part, weight)
          : put_part<float>(numbers, extent_of(names.spec), part, weight);
    }
    return weight;
  }

  /// A tied head may be stored beside the table, if it is the table.
  void accept_tied_head() {
    const FoundTensor head = find(files_, "lm_head.weight");
    if (head.tensor == nullptr) return;
    const FoundTensor table = look_for(naming_.weights.front().parts.front().name);
    const Tensor a = read_tensor(*head.file, *head.tensor, Precision::float64);
    const Tensor b = read_tensor(*table.file, *table.tensor, Precision::float64);
    if (a.shape != b.shape ||
        std::memcmp(a.storage.get(), b.storage.get(), static_cast<std::size_t>(a.bytes())) != 0) {
      fail(head.file->path.string(), ": \"lm_head.weight\" is not the token embedding, but in ",
           model_.name, " they are tied; set \"tie_word_embeddings\" to false in its config.json");
    }
    used_.insert(head.tensor->name);
  }

  void refuse_strangers() const {
    for (const TensorFile& file : files_.files) refuse_strangers(file);
  }

  void refuse_strangers(const TensorFile& file) const {
    for (const StoredTensor& tensor : file.tensors) {
      const bool buffer = std::ranges::any_of(
          naming_.buffers, [&](std::string_view end) { return tensor.name.ends_with(end); });
      if (buffer || used_.contains(tensor.name)) continue;
      fail(file.path.string(), ": the tensor \"", tensor.name, "\" has no place in ", model_.name,
           "; is the file another model's?");
    }
  }

  TensorFiles files_;
  const Model& model_;
  Precision precision_;
  WeightNaming naming_;
  std::unique_ptr<Backend> backend_;
  std::set<std::string> used_;
};

const Tensor& parameter(const RunResult& result, const std::string& name) {
  const auto found = std::ranges::find(result.parameter_names, name);
  if (found == result.parameter_names.end()) fail("the run has no weight ", name);
  return result.parameters[static_cast<std::size_t>(found - result.parameter_names.begin())];
}

}  // namespace

std::map<std::string, Tensor> load_weights(const std::filesystem::path& path, const Model& model,
                                           Precision precision) {
  return Loader(path, model, precision).load();
}

void save_weights(const std::filesystem::path& path, const Model& model, const RunResult& result,
                  Bytes most_of_part) {
  const auto backend = make_cpu_backend();
  std::vector<NamedTensor> tensors;
  for (const WeightNames& names : weight_naming(model).weights) {
    const Tensor& weight = parameter(result, names.spec.name);
    for (const WeightPart& part : names.parts) {
      Tensor stored = backend->allocate(stored_shape(names.spec, part), weight.precision);
      weight.precision == Precision::float64
          ? take_part<double>(weight, extent_of(names.spec), part, stored)
          : take_part<float>(weight, extent_of(names.spec), part, stored);
      tensors.push_back({part.name, std::move(stored)});
    }
  }
  if (names_folder(path)) return write_tensor_files(path, std::move(tensors), most_of_part);
  write_tensor_file(path, std::move(tensors));
}

}  // namespace stagecraft
