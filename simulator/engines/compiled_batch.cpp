// Many runs of a compiled program side by side.

#include <algorithm>

#include "simulator/engines/compiled.hpp"

namespace stagecraft {

namespace {

using Time = std::int64_t;

}  // namespace

/// `payments` knows the prices of a node, a batch of each.
template <class Payments>
std::vector<Time> CompiledProgram::run_batch(Payments& payments) const {
  std::vector<Time> slots(slots_ * batch, 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const Node& node = nodes_[i];
    const Time* delay = payments.delay(node.delay, payers_[i].delay);
    const Time* cost = payments.cost(node.cost, payers_[i].cost);
    const Time* first = &slots[node.first * batch];
    const Time* second = &slots[node.second * batch];
    Time* target = &slots[node.target * batch];
#pragma GCC ivdep  // the same slot or another one: never a shifted overlap
    for (std::size_t k = 0; k < batch; ++k) {
      target[k] = std::max(first[k], second[k] + delay[k]) + cost[k];
    }
  }
  std::vector<Time> latest(batch, 0);
  for (const Instant& end : ends_) {
    const Time* delay = payments.delay(end.delay, end.work);
    for (std::size_t k = 0; k < batch; ++k) {
      latest[k] = std::max(latest[k], slots[end.value * batch + k] + delay[k]);
    }
  }
  return latest;
}

namespace {

/// One table of prices for each of a batch, whoever pays.
class Tables {
 public:
  Tables(std::size_t prices, std::size_t batch) : batch_(batch), prices_(prices * batch, 0) {}

  void set(std::size_t k, const std::vector<Time>& prices) {
    for (std::size_t i = 0; i < prices.size(); ++i) prices_[i * batch_ + k] = prices[i];
  }
  const Time* delay(std::uint32_t price, int) const { return &prices_[price * batch_]; }
  const Time* cost(std::uint32_t price, int) const { return &prices_[price * batch_]; }

 private:
  std::size_t batch_;
  std::vector<Time> prices_;
};

/// One table for all, times the factors of the work that pays.
class Samples {
 public:
  Samples(std::vector<Time> prices, const CompiledProgram::Factors& factors, int first,
          std::size_t batch)
      : prices_(std::move(prices)),
        factors_(factors),
        first_(first),
        factor_(batch),
        delay_(batch),
        cost_(batch) {}

  const Time* delay(std::uint32_t price, int payer) { return pay(price, payer, delay_); }
  const Time* cost(std::uint32_t price, int payer) { return pay(price, payer, cost_); }

 private:
  const Time* pay(std::uint32_t price, int payer, std::vector<Time>& paid) {
    std::fill(paid.begin(), paid.end(), 0);
    if (prices_[price] == 0) return paid.data();
    factors_(payer, first_, factor_);
    for (std::size_t k = 0; k < paid.size(); ++k) {
      // None is negative, and lround would have the loop pay one by one.
      // NOLINTNEXTLINE(bugprone-incorrect-roundings)
      paid[k] = static_cast<Time>(static_cast<double>(prices_[price]) * factor_[k] + 0.5);
    }
    return paid.data();
  }

  std::vector<Time> prices_;
  const CompiledProgram::Factors& factors_;
  int first_;
  std::vector<double> factor_;
  std::vector<Time> delay_, cost_;
};

}  // namespace

/// A few are faster one by one.
std::vector<Duration> CompiledProgram::steps(std::span<const Costs> tables) const {
  std::vector<Duration> steps;
  while (!repeats_ && tables.size() - steps.size() > batch / 2) {
    const auto some = tables.subspan(steps.size(), std::min(batch, tables.size() - steps.size()));
    Tables payments(prices_.size(), batch);
    for (std::size_t k = 0; k < some.size(); ++k) payments.set(k, prices(some[k]));
    const std::vector<Time> latest = run_batch(payments);
    for (std::size_t k = 0; k < some.size(); ++k) steps.emplace_back(latest[k]);
  }
  while (steps.size() < tables.size()) steps.push_back(step(tables[steps.size()]));
  return steps;
}

std::vector<Duration> CompiledProgram::samples(const Costs& costs, int count,
                                               const Factors& factors) const {
  if (repeats_) repeats_->refuse("jitter");
  const std::vector<Time> price = prices(costs, most_factor);
  std::vector<Duration> steps;
  for (int first = 0; first < count; first += static_cast<int>(batch)) {
    Samples payments(price, factors, first, batch);
    const std::vector<Time> latest = run_batch(payments);
    for (std::size_t k = 0; k < batch && first + static_cast<int>(k) < count; ++k) {
      steps.emplace_back(latest[k]);
    }
  }
  return steps;
}

}  // namespace stagecraft
