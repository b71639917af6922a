#include "planner/baselines/dnn_partitioning/max_load_annealing.hpp"

#include <Random123/philox.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

// Temperatures in units of a device that is loaded as hoped for; they fall by the same factor each
// `steps_between_looks`. Fitted, as the shares are, to inputs that dnn-partitioning publishes.
constexpr double hot = 1, cold = 0.002;
constexpr std::int64_t steps_between_looks = 1024;
/// Of 100 tries: exchanges of two nodes, moves of two neighbours, and of one node to where a
/// neighbour is; the rest moves one node anywhere.
constexpr int exchange_share = 50, pair_share = 20, visit_share = 10;

/// Numbers that follow from a seed, the same everywhere.
class Draws {
 public:
  explicit Draws(std::uint32_t seed) : key_{{seed, 0}} {}

  std::uint32_t next() {
    if (used_ == drawn_.size()) {
      drawn_ = r123::Philox4x32{}(counter_, key_);
      counter_.incr();
      used_ = 0;
    }
    return drawn_[used_++];
  }
  /// In [0, count).
  int below(std::size_t count) {
    return static_cast<int>((static_cast<std::uint64_t>(next()) * count) >> 32U);
  }
  /// In (0, 1).
  double unit() { return (next() + 0.5) / 4294967296.0; }

 private:
  r123::Philox4x32::key_type key_;
  r123::Philox4x32::ctr_type counter_{};
  r123::Philox4x32::ctr_type drawn_{};
  std::size_t used_ = 4;
};

/// A placement with its loads.
class Loads {
 public:
  Loads(const MaxLoadProblem& problem, const std::vector<int>& start)
      : problem_(problem),
        devices_(index(problem.accelerators + problem.processors)),
        device_of_(problem.nodes.size(), -1),
        load_(devices_, 0),
        size_(devices_, 0),
        not_accelerated_(devices_, 0),
        tensors_of_(problem.nodes.size()),
        placed_(problem.tensors.size() * devices_, 0) {
    for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
      for (const int node : problem.tensors[t].nodes) tensors_of_[index(node)].push_back(t);
    }
    for (std::size_t node = 0; node < start.size(); ++node) {
      put(static_cast<int>(node), start[node]);
    }
  }

  std::size_t devices() const { return devices_; }
  const std::vector<int>& placement() const { return device_of_; }
  int device_of(int node) const { return device_of_[index(node)]; }
  double load(int device) const { return load_[index(device)]; }
  double largest() const { return *std::max_element(load_.begin(), load_.end()); }
  const std::vector<std::size_t>& tensors_of(int node) const { return tensors_of_[index(node)]; }

  bool fits(int device) const {
    return is_processor(device) ||
           (not_accelerated_[index(device)] == 0 && size_[index(device)] <= problem_.memory);
  }

  void move(int node, int to) {
    take(node);
    put(node, to);
  }

  /// After moves there and back, which leave rounding behind.
  void set_load(int device, double load) { load_[index(device)] = load; }

 private:
  bool is_processor(int device) const { return device >= problem_.accelerators; }

  void put(int node, int device) {
    const MaxLoadNode& it = problem_.nodes[index(node)];
    device_of_[index(node)] = device;
    double change = is_processor(device) ? it.processor : it.accelerator;
    for (const std::size_t tensor : tensors_of_[index(node)]) {
      const int before = placed_[tensor * devices_ + index(device)]++;
      change += change_of(tensor, before, before + 1, device);
    }
    load_[index(device)] += change;
    size_[index(device)] += it.size;
    not_accelerated_[index(device)] += it.accelerated ? 0 : 1;
  }

  void take(int node) {
    const MaxLoadNode& it = problem_.nodes[index(node)];
    const int device = device_of_[index(node)];
    double change = is_processor(device) ? -it.processor : -it.accelerator;
    for (const std::size_t tensor : tensors_of_[index(node)]) {
      const int before = placed_[tensor * devices_ + index(device)]--;
      change += change_of(tensor, before, before - 1, device);
    }
    load_[index(device)] += change;
    size_[index(device)] -= it.size;
    not_accelerated_[index(device)] -= it.accelerated ? 0 : 1;
  }

  /// Of what a tensor costs a device, when that has other numbers of its nodes.
  double change_of(std::size_t tensor, int before, int after, int device) const {
    if (is_processor(device)) return 0;
    const MaxLoadTensor& it = problem_.tensors[tensor];
    const int all = static_cast<int>(it.nodes.size());
    const bool cost_before = before > 0 && before < all;
    const bool cost_after = after > 0 && after < all;
    return it.cost * ((cost_after ? 1 : 0) - (cost_before ? 1 : 0));
  }

  const MaxLoadProblem& problem_;
  std::size_t devices_;
  std::vector<int> device_of_;
  std::vector<double> load_, size_;
  std::vector<int> not_accelerated_;
  std::vector<std::vector<std::size_t>> tensors_of_;
  std::vector<int> placed_;  ///< of each tensor's nodes, on each device
};

class Annealing {
 public:
  Annealing(const MaxLoadProblem& problem, const std::vector<int>& start,
            const AnnealingSettings& settings)
      : problem_(problem),
        settings_(settings),
        loads_(problem, start),
        draws_(settings.seed),
        best_(start),
        least_(loads_.largest()) {}

  std::vector<int> run(const std::stop_token& stop) {
    if (problem_.nodes.empty() || loads_.devices() < 2) return best_;
    for (std::int64_t step = 0; step < settings_.steps; ++step) {
      if (step % steps_between_looks == 0) {
        if (stop.stop_requested()) break;
        const double done = static_cast<double>(step) / static_cast<double>(settings_.steps);
        temperature_ = hot * std::pow(cold / hot, done);
      }
      try_something();
    }
    return best_;
  }

 private:
  void try_something() {
    const int kind = draws_.below(100);
    const int node = draws_.below(problem_.nodes.size());
    if (kind < exchange_share) {
      const int other = draws_.below(problem_.nodes.size());
      return try_exchange(node, other);
    }
    if (kind < exchange_share + pair_share) return try_pair(node, neighbour_of(node));
    if (kind < exchange_share + pair_share + visit_share)
      return try_move(node, loads_.device_of(neighbour_of(node)));
    try_move(node, draws_.below(loads_.devices()));
  }

  /// Some node that shares a tensor, or the node itself.
  int neighbour_of(int node) {
    const std::vector<std::size_t>& tensors = loads_.tensors_of(node);
    if (tensors.empty()) return node;
    const std::size_t tensor = tensors[index(draws_.below(tensors.size()))];
    const std::vector<int>& nodes = problem_.tensors[tensor].nodes;
    return nodes[index(draws_.below(nodes.size()))];
  }

  void try_exchange(int node, int other) {
    const int from = loads_.device_of(node), to = loads_.device_of(other);
    if (from == to) return;
    const double load_from = loads_.load(from), load_to = loads_.load(to);
    loads_.move(node, to);
    loads_.move(other, from);
    if (is_taken(from, load_from, to, load_to)) return;
    loads_.move(other, to);
    loads_.move(node, from);
    restore(from, load_from, to, load_to);
  }

  /// Two on one device move together; else the node moves to the other one's.
  void try_pair(int node, int other) {
    const int from = loads_.device_of(node);
    if (other == node || loads_.device_of(other) != from)
      return try_move(node, loads_.device_of(other));
    const int to = draws_.below(2) == 0 ? loads_.device_of(neighbour_of(other))
                                        : draws_.below(loads_.devices());
    if (from == to) return;
    const double load_from = loads_.load(from), load_to = loads_.load(to);
    loads_.move(node, to);
    loads_.move(other, to);
    if (is_taken(from, load_from, to, load_to)) return;
    loads_.move(other, from);
    loads_.move(node, from);
    restore(from, load_from, to, load_to);
  }

  void try_move(int node, int to) {
    const int from = loads_.device_of(node);
    if (from == to) return;
    const double load_from = loads_.load(from), load_to = loads_.load(to);
    loads_.move(node, to);
    if (is_taken(from, load_from, to, load_to)) return;
    loads_.move(node, from);
    restore(from, load_from, to, load_to);
  }

  /// Keeps what was moved between two devices, if it fits and chance agrees.
  bool is_taken(int one, double load_one, int other, double load_other) {
    if (!loads_.fits(one) || !loads_.fits(other)) return false;
    const double rise = weight(loads_.load(one)) + weight(loads_.load(other)) - weight(load_one) -
                        weight(load_other);
    if (!(rise <= 0) && !(draws_.unit() < std::exp(-rise / temperature_))) return false;
    const double largest = loads_.largest();
    if (largest < least_) {
      least_ = largest;
      best_ = loads_.placement();
    }
    return true;
  }

  void restore(int one, double load_one, int other, double load_other) {
    loads_.set_load(one, load_one);
    loads_.set_load(other, load_other);
  }

  double weight(double load) const {
    double power = load / settings_.scale;
    for (int i = 0; i < settings_.doublings; ++i) power *= power;
    return power;
  }

  const MaxLoadProblem& problem_;
  AnnealingSettings settings_;
  Loads loads_;
  Draws draws_;
  std::vector<int> best_;
  double least_;
  double temperature_ = hot;
};

}  // namespace

std::vector<int> annealed(const MaxLoadProblem& problem, const std::vector<int>& start,
                          const AnnealingSettings& settings, const std::stop_token& stop) {
  return Annealing(problem, start, settings).run(stop);
}

}  // namespace stagecraft
