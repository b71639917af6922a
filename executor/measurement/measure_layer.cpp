// Times are taken in the state in which a run finds the caches: not the same weights and data again
// and again, but several layers and microbatches in turn,
//
//   F F F F   F F F F   B B B B   B B B B   U U U U        B = I, then W, from the last layer down
//   └─ m0 ─┘  └─ m1 ─┘  └─ m0 ─┘  └─ m1 ─┘
//
// and on all cores at once, since cores share memory bandwidth, caches and power. The cost is the
// median over all of a pass's times, of every copy, microbatch, sweep and rank. Tensor-parallel
// peers are neighbouring ranks, which meet in their sums: p0 p1  p0 p1  ….

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include "executor/backends/cpu/memory.hpp"
#include "executor/measurement/measured_layer.hpp"
#include "executor/measurement/measurement.hpp"
#include "executor/transports/peers.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

namespace {

constexpr std::size_t microbatches = 2;
constexpr std::size_t most_copies = 4;
/// With this many bytes of weights in turn, none of them waits in a cache.
constexpr Bytes enough_weights = 256 << 20;

/// Nanoseconds of each time a pass was run.
struct Times {
  std::vector<double> forward, backward_input, backward_weight, update;
  std::vector<double> attention;  ///< once more, of layers that have any
};

// Everything but the times: runs once, and reads the backend's counters.
LayerCost count_bytes(MeasuredLayer& layer) {
  const auto allocated = [&] { return layer.backend().allocated_bytes(); };
  const auto peak = [&] { return layer.backend().peak_bytes(); };
  LayerCost cost{.parameters = layer.parameter_bytes(),
                 .gradients = layer.gradient_bytes(),
                 .optimizer = layer.optimizer_bytes()};
  const Bytes idle = allocated();

  layer.reset_peak();
  layer.forward(0, 0);
  cost.output = layer.output_bytes();
  cost.workspace = peak() - allocated();
  layer.drop_output();
  // What keeps a share of its output, such as ReLU, keeps it when the next stage has it, too.
  cost.saved = allocated() - idle;
  if (layer.drop_attention(0, 0)) {
    cost.selective = {.saved = allocated() - idle};
    layer.attend_again(0, 0);
  }

  layer.reset_peak();
  layer.backward_input(0, 0);
  const Bytes input_gradient = layer.input_gradient_bytes();
  // The gradient of the output may be kept; whoever handed it over lets go of it.
  const Bytes others = idle - layer.output_gradient_bytes() + input_gradient;
  layer.drop_output_gradient();
  cost.saved_for_weight = allocated() - others;
  layer.backward_weight(0, 0);
  cost.workspace = std::max(cost.workspace, peak() - (idle + cost.saved + input_gradient));
  return cost;
}

template <class Work>
double nanoseconds(Work work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

// Apart from the others, which it would leave other caches.
void sweep_attention(MeasuredLayer& layer, Times& times) {
  const std::size_t copies = layer.size().copies;
  for (std::size_t c = 0; c < copies; ++c) {
    layer.forward(0, c);
    layer.drop_attention(0, c);
  }
  for (std::size_t c = copies; c-- > 0;) {
    times.attention.push_back(nanoseconds([&] { layer.attend_again(0, c); }));
  }
}

void sweep(MeasuredLayer& layer, bool attends, Times& times) {
  const std::size_t copies = layer.size().copies;
  for (std::size_t m = 0; m < layer.size().microbatches; ++m) {
    for (std::size_t c = 0; c < copies; ++c) {
      times.forward.push_back(nanoseconds([&] { layer.forward(m, c); }));
    }
  }
  for (std::size_t m = 0; m < layer.size().microbatches; ++m) {
    for (std::size_t c = copies; c-- > 0;) {
      times.backward_input.push_back(nanoseconds([&] { layer.backward_input(m, c); }));
      times.backward_weight.push_back(nanoseconds([&] { layer.backward_weight(m, c); }));
    }
  }
  for (std::size_t c = 0; c < copies; ++c) {
    times.update.push_back(nanoseconds([&] { layer.update(c); }));
  }
  if (attends) sweep_attention(layer, times);
}

// Sweeps of one rank, which start together with the other ranks'; the warm-up is not among them.
Times sweeps(MeasuredLayer& layer, bool attends, std::barrier<>& start,
             const MeasureOptions& options) {
  Times times;
  for (int i = 0; i < options.warm_up + options.repeats; ++i) {
    if (i == options.warm_up) times = {};
    start.arrive_and_wait();
    sweep(layer, attends, times);
  }
  return times;
}

/// Layers of one kind, as ranks have them.
struct Part {
  const Model& model;
  int index;
  MeasuredSize size;
  int peers = 1;
  bool peers_meet = false;

  /// The last one's part is the largest where peers' parts differ.
  std::unique_ptr<TensorPeers> alone() const {
    return peers == 1 ? nullptr : make_absent_peers(peers - 1, peers);
  }
};

std::vector<std::unique_ptr<Transport>> connect(int ranks, int peers) {
  Wiring wiring{.ranks = ranks, .channels = {}, .groups = {}};
  for (int first = 0; first < ranks; first += peers) {
    std::vector<int>& group = wiring.groups.emplace_back();
    for (int peer = 0; peer < peers; ++peer) group.push_back(first + peer);
  }
  return make_thread_transports(wiring);
}

// The times of all ranks, which are threads that work at the same time. Of several failures the
// first is told: others may come of it.
std::vector<Times> busy_sweeps(const Part& part, bool attends, int ranks,
                               const MeasureOptions& options) {
  std::vector<Times> times(static_cast<std::size_t>(ranks));
  std::exception_ptr failure;
  std::atomic<bool> has_failed = false;
  std::barrier start(ranks);
  const auto transports = connect(ranks, part.peers_meet ? part.peers : 1);
  const auto work = [&](int rank) {
    Transport& transport = *transports[static_cast<std::size_t>(rank)];
    try {
      MeasuredLayer layer(
          part.model, part.index, part.size, options.device.make_backend(rank),
          part.peers_meet ? make_peers(rank % part.peers, part.peers, rank / part.peers, transport)
                          : part.alone());
      times[static_cast<std::size_t>(rank)] = sweeps(layer, attends, start, options);
    } catch (...) {
      if (!has_failed.exchange(true)) failure = std::current_exception();
      transport.abort("another peer has failed");
    }
    start.arrive_and_drop();
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank) threads.emplace_back(work, rank);
  }
  if (failure) std::rethrow_exception(failure);
  return times;
}

std::vector<double> of_all_ranks(const std::vector<Times>& times,
                                 std::vector<double> Times::*pass) {
  std::vector<double> all;
  for (const Times& of_rank : times) {
    all.insert(all.end(), (of_rank.*pass).begin(), (of_rank.*pass).end());
  }
  return all;
}

// Of one microbatch's way through one layer and back.
std::vector<double> totals(const std::vector<Times>& times) {
  std::vector<double> all = of_all_ranks(times, &Times::forward);
  const std::vector<double> input = of_all_ranks(times, &Times::backward_input);
  const std::vector<double> weight = of_all_ranks(times, &Times::backward_weight);
  for (std::size_t i = 0; i < all.size(); ++i) all[i] += input[i] + weight[i];
  return all;
}

Duration nanoseconds_at(const std::vector<double>& times, double part) {
  return Duration(std::llround(quantile(times, part)));
}

/// The pass's median; its tenths go to `range`.
Duration median_of(const std::vector<double>& times, TimeRange& range) {
  range = {.p10 = nanoseconds_at(times, 0.1), .p90 = nanoseconds_at(times, 0.9)};
  return nanoseconds_at(times, 0.5);
}

void set_times(MeasuredCost& measured, const std::vector<Times>& times) {
  LayerCost& cost = measured.cost;
  MeasuredRanges& ranges = measured.ranges;
  const auto all = [&](std::vector<double> Times::*pass) { return of_all_ranks(times, pass); };
  cost.forward = median_of(all(&Times::forward), ranges.forward);
  cost.backward_input = median_of(all(&Times::backward_input), ranges.backward_input);
  cost.backward_weight = median_of(all(&Times::backward_weight), ranges.backward_weight);
  cost.update = median_of(all(&Times::update), ranges.update);
  if (cost.selective) {
    const Duration again = nanoseconds_at(all(&Times::attention), 0.5);
    cost.selective->again = std::min(again, cost.forward);
  }
  const std::vector<double> total = totals(times);
  cost.spread = (quantile(total, 0.9) - quantile(total, 0.1)) / quantile(total, 0.5);
  cost.provenance = Provenance::measured;
}

std::size_t copies_for(const LayerCost& cost) {
  const Bytes enough = enough_weights / std::max<Bytes>(cost.parameters, 1);
  return static_cast<std::size_t>(std::clamp<Bytes>(enough, 1, most_copies));
}

// As many ranks as half of the machine's memory holds.
int fitting_ranks(const LayerCost& cost, std::size_t copies, int ranks) {
  const Bytes resident = cost.parameters + cost.gradients + cost.optimizer;
  const Bytes passing = cost.saved + cost.saved_for_weight + 2 * cost.output;
  const Bytes one = static_cast<Bytes>(copies) * (resident + 2 * passing) + cost.workspace;
  return static_cast<int>(
      std::clamp<Bytes>(cpu::machine_memory() / 2 / std::max<Bytes>(one, 1), 1, ranks));
}

}  // namespace

double quantile(std::vector<double> values, double part) {
  const auto at = std::lround(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

int busy_ranks(const MeasureOptions& options) {
  if (options.busy_ranks > 0) return options.busy_ranks;
  if (!options.device.is_cpu()) return 1;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

bool peers_meet(const MeasureOptions& options, int tensor_parallel) {
  if (tensor_parallel == 1) return false;
  return tensor_parallel <=
         (options.device.is_cpu() ? busy_ranks(options) : options.device.devices);
}

MeasuredCost measure_layer(const Model& model, int index, const MeasuredShare& work,
                           const MeasureOptions& options) {
  Part part{.model = model,
            .index = index,
            .size = {.samples = work.samples,
                     .precision = options.precision,
                     .loss_rows = options.loss_rows},
            .peers = work.tensor_parallel,
            .peers_meet = peers_meet(options, work.tensor_parallel)};
  MeasuredCost result;
  {
    MeasuredLayer once(model, index, part.size, options.device.make_backend(0), part.alone());
    result.cost = count_bytes(once);
  }
  part.size.copies = copies_for(result.cost);
  part.size.microbatches = microbatches;
  result.ranks = fitting_ranks(result.cost, part.size.copies, busy_ranks(options));
  // Whole groups of peers, one at least.
  if (part.peers_meet) {
    result.ranks = std::max(result.ranks / part.peers, 1) * part.peers;
  }
  set_times(result, busy_sweeps(part, result.cost.selective.has_value(), result.ranks, options));
  return result;
}

}  // namespace stagecraft
