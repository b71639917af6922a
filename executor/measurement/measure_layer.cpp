// Times are taken in the state in which a run finds the caches: not the same weights and data again
// and again, but several layers and microbatches in turn,
//
//   F F F F   F F F F   B B B B   B B B B   U U U U        B = I, then W, from the last layer down
//   └─ m0 ─┘  └─ m1 ─┘  └─ m0 ─┘  └─ m1 ─┘
//
// and on all cores at once, since cores share memory bandwidth, caches and power. A sweep gives one
// mean per pass; the cost is the median over sweeps and ranks.

#include <unistd.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <chrono>
#include <cmath>
#include <exception>
#include <thread>

#include "executor/measurement/measured_layer.hpp"
#include "executor/measurement/measurement.hpp"

namespace stagecraft {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t microbatches = 2;
constexpr std::size_t most_copies = 4;
/// With this many bytes of weights in turn, none of them waits in a cache.
constexpr Bytes enough_weights = 256 << 20;

enum Pass : std::size_t { forward, backward_input, backward_weight, update };
/// Nanoseconds per layer and microbatch; of the update, per layer.
using Sweep = std::array<double, 4>;

// Everything but the times: runs once, and reads the backend's counters.
LayerCost count_bytes(MeasuredLayer& layer) {
  const auto allocated = [&] { return layer.backend().allocated_bytes(); };
  const auto peak = [&] { return layer.backend().peak_bytes(); };
  const Bytes parameters = layer.parameter_bytes();
  LayerCost cost{.parameters = parameters, .gradients = parameters, .optimizer = 2 * parameters};
  const Bytes idle = allocated();

  layer.reset_peak();
  layer.forward(0, 0);
  cost.output = layer.output_bytes();
  cost.saved = allocated() - idle - cost.output;
  cost.workspace = peak() - allocated();
  layer.drop_output();

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
  const auto start = Clock::now();
  work();
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

Sweep sweep(MeasuredLayer& layer) {
  const auto [samples, precision, copies, count] = layer.size();
  Sweep times{};
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t c = 0; c < copies; ++c) {
      times[forward] += nanoseconds([&] { layer.forward(m, c); });
    }
  }
  for (std::size_t m = 0; m < count; ++m) {
    for (std::size_t c = copies; c-- > 0;) {
      times[backward_input] += nanoseconds([&] { layer.backward_input(m, c); });
      times[backward_weight] += nanoseconds([&] { layer.backward_weight(m, c); });
    }
  }
  for (std::size_t c = 0; c < copies; ++c) {
    times[update] += nanoseconds([&] { layer.update(c); });
  }
  for (double& time : times) time /= static_cast<double>(copies * count);
  times[update] *= static_cast<double>(count);
  return times;
}

// Sweeps on every rank at the same time; those after the warm-up.
std::vector<Sweep> busy_sweeps(const Model& model, int index, const MeasuredSize& size, int ranks,
                               const MeasureOptions& options) {
  std::vector<std::vector<Sweep>> sweeps(static_cast<std::size_t>(ranks));
  std::vector<std::exception_ptr> failures(sweeps.size());
  std::barrier start(ranks);
  const auto work = [&](std::size_t rank) {
    try {
      MeasuredLayer layer(model, index, size);
      for (int i = 0; i < options.warm_up + options.repeats; ++i) {
        start.arrive_and_wait();
        const Sweep times = sweep(layer);
        if (i >= options.warm_up) sweeps[rank].push_back(times);
      }
    } catch (...) {
      failures[rank] = std::current_exception();
    }
    start.arrive_and_drop();
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t rank = 0; rank < sweeps.size(); ++rank) threads.emplace_back(work, rank);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  std::vector<Sweep> all;
  for (const auto& of_rank : sweeps) all.insert(all.end(), of_rank.begin(), of_rank.end());
  return all;
}

void set_times(LayerCost& cost, const std::vector<Sweep>& sweeps) {
  const auto median = [&](Pass pass) {
    std::vector<double> values;
    for (const Sweep& sweep : sweeps) values.push_back(sweep[pass]);
    return Duration(std::llround(quantile(std::move(values), 0.5)));
  };
  cost.forward = median(forward);
  cost.backward_input = median(backward_input);
  cost.backward_weight = median(backward_weight);
  cost.update = median(update);
  std::vector<double> totals;
  for (const Sweep& sweep : sweeps) {
    totals.push_back(sweep[forward] + sweep[backward_input] + sweep[backward_weight]);
  }
  cost.spread = (quantile(totals, 0.9) - quantile(totals, 0.1)) / quantile(totals, 0.5);
  cost.provenance = Provenance::measured;
}

std::size_t copies_for(const LayerCost& cost) {
  const Bytes enough = enough_weights / std::max<Bytes>(cost.parameters, 1);
  return static_cast<std::size_t>(std::clamp<Bytes>(enough, 1, most_copies));
}

// As many ranks as half of the machine's memory holds.
int fitting_ranks(const LayerCost& cost, std::size_t copies, int ranks) {
  const Bytes machine = Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  const Bytes resident = cost.parameters + cost.gradients + cost.optimizer;
  const Bytes passing = cost.saved + cost.saved_for_weight + 2 * cost.output;
  const Bytes one = static_cast<Bytes>(copies) * (resident + 2 * passing) + cost.workspace;
  return static_cast<int>(std::clamp<Bytes>(machine / 2 / std::max<Bytes>(one, 1), 1, ranks));
}

}  // namespace

double quantile(std::vector<double> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1) + 0.5);
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

int busy_ranks(const MeasureOptions& options) {
  if (options.busy_ranks > 0) return options.busy_ranks;
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

MeasuredCost measure_layer(const Model& model, int index, std::int64_t samples,
                           const MeasureOptions& options) {
  MeasuredSize size{.samples = samples, .precision = options.precision};
  MeasuredCost result;
  {
    MeasuredLayer once(model, index, size);
    result.cost = count_bytes(once);
  }
  size.copies = copies_for(result.cost);
  size.microbatches = microbatches;
  result.ranks = fitting_ranks(result.cost, size.copies, busy_ranks(options));
  set_times(result.cost, busy_sweeps(model, index, size, result.ranks, options));
  return result;
}

}  // namespace stagecraft
