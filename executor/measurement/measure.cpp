#include "executor/measurement/measure.hpp"

#include <algorithm>

#include "executor/backends/cpu/openblas.hpp"
#include "executor/layers/layers.hpp"
#include "executor/measurement/measurement.hpp"
#include "executor/transports/peers.hpp"
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
  if (options.tensor_parallel.empty()) fail("a measurement needs a tensor-parallel degree");
}

/// Throws before anything is measured where a layer cannot be trained, or not in so many parts.
void check_parts(const Model& model, int peers) {
  if (peers < 1) fail("a tensor-parallel degree is at least 1, found ", peers);
  const auto absent = peers == 1 ? nullptr : make_absent_peers(0, peers);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    make_layer(model, static_cast<int>(i), absent.get());
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

std::string describe(const Model& model, std::size_t index, const MeasuredShare& work) {
  const auto equal = std::ranges::count_if(
      model.layers, [&](const Layer& layer) { return costs_the_same(layer, model.layers[index]); });
  const std::string others = equal > 1 ? concat(" and ", equal - 1, " like it") : "";
  const int peers = work.tensor_parallel;
  const std::string part = peers == 1 ? "" : concat(", one of ", peers, " parts");
  return concat(model.layers[index].name, others, ", microbatch ", work.samples, part);
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
  const auto words = split(cpu::openblas().get_config(), ' ');
  const std::string version = words.size() > 1 ? words[0] + " " + words[1] : "OpenBLAS";
  return version + " (" + cpu::openblas().get_corename() + ")";
}

/// "tensor-parallel 4: one peer by itself": what entries' times leave out.
std::string peers_apart(const MeasureOptions& options) {
  std::string degrees;
  for (const int peers : options.tensor_parallel) {
    if (peers == 1 || peers_meet(options, peers)) continue;
    degrees += concat(degrees.empty() ? "" : ", ", peers);
  }
  if (degrees.empty()) return {};
  return concat("; of tensor-parallel ", degrees, " one peer by itself, without their messages");
}

std::string source(const MeasureOptions& options, int fewest) {
  const int asked = busy_ranks(options);
  if (!options.device.is_cpu()) {
    return concat("measured on ", options.device.description, peers_apart(options));
  }
  const std::string threads = asked == 1 ? "1 busy thread" : concat(asked, " busy threads");
  const std::string fewer = fewest < asked ? concat(" (", fewest, " where memory was short)") : "";
  return concat("measured on this machine's CPU, ", threads, fewer, ", ", blas_version(),
                peers_apart(options));
}

/// Every layer's cost for one setting; what they have in common was measured once. `fewest`: ranks
/// that were busy, lowered where memory was short.
ProfileEntry measure_entry(const Model& model, const MeasuredShare& work,
                           const MeasureOptions& options, Progress& progress, int& fewest) {
  ProfileEntry entry{
      .setting = {.device = options.device.kind,
                  .microbatch = work.samples,
                  .sequence = model.sequence,
                  .tensor_parallel = work.tensor_parallel,
                  .precision = options.precision},
      .layers = {},
      .has_peer_messages = work.tensor_parallel == 1 || peers_meet(options, work.tensor_parallel)};
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const std::size_t first = representative(model, i);
    if (first < i) {
      entry.layers.push_back(LayerCost(entry.layers[first]));
      entry.ranges.push_back(MeasuredRanges(entry.ranges[first]));
      continue;
    }
    progress.next(describe(model, i, work));
    const MeasuredCost measured = measure_layer(model, static_cast<int>(i), work, options);
    entry.layers.push_back(measured.cost);
    entry.ranges.push_back(measured.ranges);
    if (work.tensor_parallel == 1) fewest = std::min(fewest, measured.ranks);
  }
  return entry;
}

}  // namespace

Profile measure_profile(const Model& original, const MeasureOptions& options) {
  validate(original, options);
  Profile profile;
  profile.model = options.sequence > 0 ? with_sequence(original, options.sequence) : original;
  const Model& model = profile.model;
  for (const int peers : options.tensor_parallel) check_parts(model, peers);
  const std::size_t settings = options.microbatches.size() * options.tensor_parallel.size();
  Progress progress(options, settings * distinct_layers(model) + 1);
  int fewest = busy_ranks(options);
  for (const int peers : options.tensor_parallel) {
    for (const std::int64_t samples : options.microbatches) {
      profile.entries.push_back(measure_entry(model, {samples, peers}, options, progress, fewest));
    }
  }
  progress.next("hand-over between ranks");
  const Layer& largest = *std::ranges::max_element(model.layers, {}, &Layer::output_elements);
  profile.hand_over =
      measure_hand_over(std::ranges::max(options.microbatches) * largest.output_elements *
                            element_bytes(options.precision),
                        options.device);
  profile.source = source(options, fewest);
  return profile;
}

}  // namespace stagecraft
