#include "planner/baselines/dnn_partitioning/max_load_packing.hpp"

#include <algorithm>
#include <numeric>

#include "planner/baselines/dnn_partitioning/max_load_work.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// Work that is added and taken away again differs by less.
constexpr double packing_rounding = 1e-9;
constexpr std::int64_t placings_between_looks = 1024;

class Packing {
 public:
  Packing(const MaxLoadProblem& problem, double limit, std::int64_t most_steps,
          const std::stop_token& stop)
      : problem_(problem),
        limit_(limit),
        most_steps_(most_steps),
        stop_(stop),
        work_(problem),
        share_(work_.capacity(0, 1)),
        devices_(index(problem.accelerators + problem.processors)),
        load_(devices_, 0),
        size_(devices_, 0),
        nodes_on_(devices_, 0),
        device_of_(problem.nodes.size(), -1),
        tensors_of_(problem.nodes.size()),
        placed_(problem.tensors.size() * devices_, 0),
        homes_(problem.tensors.size(), 0) {
    for (std::size_t t = 0; t < problem.tensors.size(); ++t) {
      for (const int node : problem.tensors[t].nodes) tensors_of_[index(node)].push_back(t);
    }
    for (const MaxLoadNode& node : problem.nodes) work_left_ += work_.of(node);
    tolerance_ = packing_rounding * work_left_;
    order_nodes();
  }

  MaxLoadPacking run() {
    const bool found = place(0);
    MaxLoadPacking packing{.found = {}, .complete = !gave_up_, .steps = steps_};
    if (found) packing.found = device_of_;
    return packing;
  }

 private:
  /// The part of a device that a node fills.
  double weight(const MaxLoadNode& node) const {
    const double size = problem_.memory > 0 ? node.size / problem_.memory : 0;
    return std::max(work_.of(node) / limit_, node.accelerated ? size : 0);
  }

  /// Those first that have fewest places to go.
  void order_nodes() {
    order_.resize(problem_.nodes.size());
    std::iota(order_.begin(), order_.end(), 0);
    std::stable_sort(order_.begin(), order_.end(), [&](int a, int b) {
      const MaxLoadNode &one = problem_.nodes[index(a)], &other = problem_.nodes[index(b)];
      if (one.accelerated != other.accelerated) return !one.accelerated;
      return weight(one) > weight(other);
    });
  }

  bool is_processor(std::size_t device) const { return device >= index(problem_.accelerators); }

  bool is_over() {
    ++steps_;
    if (steps_ > most_steps_ || (steps_ % placings_between_looks == 0 && stop_.stop_requested()))
      gave_up_ = true;
    return gave_up_;
  }

  /// Whether all nodes from this one of the order on found a place.
  bool place(std::size_t next) {
    if (next == order_.size()) return true;
    const int node = order_[next];
    bool was_empty[2] = {false, false};  // devices of a kind are alike while they are empty
    for (std::size_t device = 0; device < devices_; ++device) {
      if (nodes_on_[device] == 0) {
        bool& seen = was_empty[is_processor(device) ? 1 : 0];
        if (seen) continue;
        seen = true;
      }
      if (!fits(node, device)) continue;
      if (is_over()) return false;
      put(node, device);
      if (is_possible() && place(next + 1)) return true;
      take(node, device);
      if (gave_up_) return false;
    }
    return false;
  }

  bool fits(int node, std::size_t device) const {
    if (is_processor(device)) return true;
    const MaxLoadNode& it = problem_.nodes[index(node)];
    return it.accelerated && size_[device] + it.size <= problem_.memory;
  }

  double time(int node, std::size_t device) const {
    const MaxLoadNode& it = problem_.nodes[index(node)];
    return is_processor(device) ? it.processor : it.accelerator;
  }

  void charge(std::size_t device, double cost) {
    if (!is_processor(device)) load_[device] += cost;
  }

  /// A tensor costs each device that has some of it from when a second one has.
  void put(int node, std::size_t device) {
    device_of_[index(node)] = static_cast<int>(device);
    saved_.insert(saved_.end(), load_.begin(), load_.end());
    ++nodes_on_[device];
    load_[device] += time(node, device);
    size_[device] += problem_.nodes[index(node)].size;
    work_left_ -= work_.of(problem_.nodes[index(node)]);
    for (const std::size_t tensor : tensors_of_[index(node)]) {
      int* const placed = &placed_[tensor * devices_];
      if (placed[device]++ > 0) continue;
      const double cost = problem_.tensors[tensor].cost;
      if (homes_[tensor] > 0) charge(device, cost);
      if (homes_[tensor] == 1) charge(home_beside(tensor, device), cost);
      ++homes_[tensor];
    }
  }

  std::size_t home_beside(std::size_t tensor, std::size_t device) const {
    for (std::size_t other = 0; other < devices_; ++other) {
      if (other != device && placed_[tensor * devices_ + other] > 0) return other;
    }
    return device;
  }

  void take(int node, std::size_t device) {
    device_of_[index(node)] = -1;
    const auto saved = saved_.end() - static_cast<std::ptrdiff_t>(devices_);
    std::copy(saved, saved_.end(), load_.begin());
    saved_.erase(saved, saved_.end());
    --nodes_on_[device];
    size_[device] -= problem_.nodes[index(node)].size;
    work_left_ += work_.of(problem_.nodes[index(node)]);
    for (const std::size_t tensor : tensors_of_[index(node)]) {
      if (--placed_[tensor * devices_ + device] == 0) --homes_[tensor];
    }
  }

  /// Is every device below the limit, and is there room for the rest?
  bool is_possible() const {
    double room = 0;
    for (std::size_t device = 0; device < devices_; ++device) {
      const double left = limit_ - load_[device];
      if (left <= 0) return false;
      room += is_processor(device) ? left * share_ : left;
    }
    return work_left_ <= room + tolerance_;
  }

  const MaxLoadProblem& problem_;
  double limit_;
  std::int64_t most_steps_;
  std::stop_token stop_;
  MaxLoadWork work_;
  double share_;  ///< of an accelerator's work that a CPU does in the same time
  std::size_t devices_;
  std::vector<double> load_, size_;
  std::vector<int> nodes_on_;
  std::vector<int> device_of_;
  std::vector<std::vector<std::size_t>> tensors_of_;
  std::vector<int> placed_;    ///< of each tensor, on each device
  std::vector<int> homes_;     ///< of each tensor: devices that have some of it
  std::vector<double> saved_;  ///< loads before each node was placed, one after another
  std::vector<int> order_;
  double work_left_ = 0, tolerance_ = 0;
  std::int64_t steps_ = 0;
  bool gave_up_ = false;
};

}  // namespace

MaxLoadPacking pack_below(const MaxLoadProblem& problem, double limit, std::int64_t most_steps,
                          const std::stop_token& stop) {
  return Packing(problem, limit, most_steps, stop).run();
}

}  // namespace stagecraft
