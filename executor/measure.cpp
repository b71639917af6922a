#include "executor/measure.hpp"

#include <cblas.h>

#include <algorithm>

#include "executor/measurement/measurement.hpp"
#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

void validate(const Model& model, const MeasureOptions& options) {
  if (!model.transformer && !model.layers.front().image) {
    fail("cannot measure ", model.name, ": the numbers of its layers are not known");
  }
  if (options.repeats < 1 || options.warm_up < 0) fail("a measurement repeats at least once");
  if (options.microbatches.empty()) fail("a measurement needs a microbatch size");
  for (const std::int64_t samples : options.microbatches) {
    if (samples < 1) fail("a microbatch has at least one sample, found ", samples);
  }
}

// Layers that cost the same have everything in common but their names.
bool costs_the_same(Layer a, Layer b) {
  a.name = b.name = {};
  return a == b;
}

// The first layer that costs the same as this one.
std::size_t representative(const Model& model, std::size_t index) {
  const auto first = std::ranges::find_if(
      model.layers, [&](const Layer& layer) { return costs_the_same(layer, model.layers[index]); });
  return static_cast<std::size_t>(first - model.layers.begin());
}

std::string describe(const Model& model, std::size_t index, std::int64_t samples) {
  const auto equal = std::ranges::count_if(
      model.layers, [&](const Layer& layer) { return costs_the_same(layer, model.layers[index]); });
  const std::string others = equal > 1 ? concat(" and ", equal - 1, " like it") : "";
  return concat(model.layers[index].name, others, ", microbatch ", samples);
}

// Tells how far a measurement is, in parts of one.
class Progress {
 public:
  Progress(const MeasureOptions& options, std::size_t parts) : options_(options), parts_(parts) {}
  void next(const std::string& what) {
    if (options_.progress)
      options_.progress(static_cast<double>(done_) / static_cast<double>(parts_), what);
    ++done_;
  }

 private:
  const MeasureOptions& options_;
  std::size_t parts_;
  std::size_t done_ = 0;
};

std::size_t distinct_layers(const Model& model) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    if (representative(model, i) == i) ++count;
  }
  return count;
}

// "OpenBLAS 0.3.21 SkylakeX": what the bits and the times of products depend on.
std::string blas_version() {
  const auto words = split(openblas_get_config(), ' ');
  const std::string version = words.size() > 1 ? words[0] + " " + words[1] : "OpenBLAS";
  return version + " (" + openblas_get_corename() + ")";
}

std::string source(const MeasuredDevice& device, int asked, int fewest) {
  if (!device.is_cpu()) return "measured on " + device.description;
  const std::string threads = asked == 1 ? "1 busy thread" : concat(asked, " busy threads");
  const std::string fewer = fewest < asked ? concat(" (", fewest, " where memory was short)") : "";
  return concat("measured on this machine's CPU, ", threads, fewer, ", ", blas_version());
}

}  // namespace

Profile measure_profile(const Model& original, const MeasureOptions& options) {
  validate(original, options);
  Profile profile;
  profile.model = options.sequence > 0 ? with_sequence(original, options.sequence) : original;
  const Model& model = profile.model;
  Progress progress(options, options.microbatches.size() * distinct_layers(model) + 1);
  int fewest = busy_ranks(options);
  for (const std::int64_t samples : options.microbatches) {
    ProfileEntry entry{.setting = {.device = options.device.kind,
                                   .microbatch = samples,
                                   .sequence = model.sequence,
                                   .precision = options.precision}};
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      const std::size_t first = representative(model, i);
      if (first < i) {
        entry.layers.push_back(LayerCost(entry.layers[first]));
        continue;
      }
      progress.next(describe(model, i, samples));
      const MeasuredCost measured = measure_layer(model, static_cast<int>(i), samples, options);
      entry.layers.push_back(measured.cost);
      fewest = std::min(fewest, measured.ranks);
    }
    profile.entries.push_back(std::move(entry));
  }
  progress.next("hand-over between ranks");
  const Layer& largest = *std::ranges::max_element(model.layers, {}, &Layer::output_elements);
  profile.hand_over =
      measure_hand_over(std::ranges::max(options.microbatches) * largest.output_elements *
                            element_bytes(options.precision),
                        options.device);
  profile.source = source(options.device, busy_ranks(options), fewest);
  return profile;
}

}  // namespace stagecraft
