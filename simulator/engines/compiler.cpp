// How a program is compiled: event by event in causal order, in which neighbours belong to
// different devices and do not wait for each other, so that the processor works on several at once.

#include "profiles/index.hpp"
#include "simulator/engines/compiled.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

#include "simulator/engines/causal_order.hpp"

namespace stagecraft {

class Compiler {
 public:
  Compiler(const Program& program, CompiledProgram& out)
      : program_(program),
        out_(out),
        last_compute_(index(program.devices)),
        last_collective_(index(program.devices)),
        last_send_(program.channels.size()) {}

  void compile() {
    out_.prices_.push_back({});
    out_.works_.resize(program_.work.size());
    const CausalOrder order = causal_order(program_);
    for (std::size_t e = 0; e < order.size(); ++e) visit(order.event(e));
    find_ends();
    count_uses();
    assign_slots();
  }

 private:
  using Node = CompiledProgram::Node;
  using Instant = CompiledProgram::Instant;
  using Kind = Price::Kind;
  using Operands = std::vector<Instant>;

  const Work& work(int i) const { return program_.work[index(i)]; }
  std::size_t device_of(int i) const { return index(program_.chunks[index(work(i).chunk)].device); }
  Instant& end_of(int i) { return out_.works_[index(i)].end; }

  void visit(std::span<const int> met) {
    switch (work(met.front()).lane) {
      case Lane::compute: return compute(met);
      case Lane::send: return send(met.front());
      case Lane::receive: return receive(met.front());
      case Lane::collective: return collective(met);
    }
  }

  void compute(std::span<const int> met) {
    Instant& last = last_compute_[device_of(met.front())];
    Operands operands{last};
    for (const int i : met) add_waits(operands, i);
    const std::uint32_t cost = price(price_of_compute(met));
    last = {.value = emit(operands, cost, forward_of(met))};
    for (const int i : met) out_.works_[index(i)] = {.end = last, .cost = cost};
  }

  /// Of a single work itself.
  int forward_of(std::span<const int> met) const {
    return work(met.front()).instruction.op == Op::forward ? met.front() : met.back();
  }

  Price price_of_compute(std::span<const int> met) const {
    const int forward = forward_of(met);
    if (met.size() == 1) {
      return {
          .kind = Kind::compute, .op = work(forward).instruction.op, .index = work(forward).chunk};
    }
    const Work& backward = work(forward == met.front() ? met.back() : met.front());
    return {.kind = Kind::fused,
            .op = backward.instruction.op,
            .index = work(forward).chunk,
            .partner = backward.chunk};
  }

  void send(int i) {
    const int channel = *work(i).channel;
    Instant& last = last_send_[index(channel)];
    Operands operands{last};
    add_waits(operands, i);
    const std::uint32_t occupancy = price({.kind = Kind::occupancy, .index = channel});
    const std::uint32_t latency = price({.kind = Kind::latency, .index = channel});
    last = {.value = emit(operands, occupancy, i)};
    out_.works_[index(i)] = {
        .end = {last.value, latency, i}, .cost = occupancy, .latency = latency};
  }

  /// Arrives as it was sent; if it waits for something else, too, as if it had been sent then.
  void receive(int i) {
    const int sent = own_send(program_, i);
    CompiledProgram::Span span = out_.works_[index(sent)];
    Operands others;
    add_waits(others, i, sent);
    if (!others.empty()) {
      const bool plain = others.size() == 1 && others.front().delay == 0;
      const std::uint32_t ready = plain ? others.front().value : emit(others, 0, sent);
      span.end = {.value = emit_node(span.end.value, {ready, span.cost, sent}, span.latency, sent)};
    }
    out_.works_[index(i)] = span;
  }

  void collective(std::span<const int> members) {
    Operands operands;
    for (const int i : members) {
      operands.push_back(last_collective_[device_of(i)]);
      add_waits(operands, i);
    }
    const std::uint32_t cost = price({.kind = Kind::group, .index = *work(members.front()).group});
    const Instant end{.value = emit(operands, cost, members.front())};
    for (const int i : members) {
      last_collective_[device_of(i)] = end;
      out_.works_[index(i)] = {.end = end, .cost = cost};
    }
  }

  /// A device's earlier compute is behind the last one, which is an operand anyway.
  void add_waits(Operands& operands, int i, int except = -1) {
    const IndexRange waits = work(i).waits;
    for (int w = waits.first; w < waits.end; ++w) {
      const int on = program_.waits[index(w)];
      const bool implied = work(i).lane == Lane::compute && work(on).lane == Lane::compute &&
                           device_of(i) == device_of(on);
      if (on != except && !implied) operands.push_back(end_of(on));
    }
  }

  /// The value of the latest operand, plus what this work costs.
  std::uint32_t emit(Operands operands, std::uint32_t cost, int payer) {
    simplify(operands);
    std::uint32_t latest = 0;
    auto next = operands.begin();
    if (next != operands.end() && next->delay == 0) latest = (next++)->value;
    for (; operands.end() - next > 1; ++next) latest = emit_node(latest, *next, 0, payer);
    return emit_node(latest, next != operands.end() ? *next : Instant{}, cost, payer);
  }

  /// Of a value with and without its latency the later one; those without delay first.
  static void simplify(Operands& operands) {
    std::sort(operands.begin(), operands.end(), std::greater<>());
    const auto same_value = [](const Instant& a, const Instant& b) { return a.value == b.value; };
    operands.erase(std::unique(operands.begin(), operands.end(), same_value), operands.end());
    if (operands.size() > 1 && operands.back().value == 0) operands.pop_back();
    std::stable_partition(operands.begin(), operands.end(),
                          [](const Instant& operand) { return operand.delay == 0; });
  }

  /// Values are numbered by node, from 1 on, until they get their slots.
  std::uint32_t emit_node(std::uint32_t first, Instant second, std::uint32_t cost, int payer) {
    const auto value = static_cast<std::uint32_t>(out_.nodes_.size() + 1);
    out_.nodes_.push_back({value, first, second.value, second.delay, cost});
    out_.payers_.push_back({.delay = second.work, .cost = payer});
    return value;
  }

  std::uint32_t price(const Price& price) {
    const auto next = static_cast<std::uint32_t>(out_.prices_.size());
    const auto [place, is_new] = numbers_.try_emplace(price, next);
    if (is_new) out_.prices_.push_back(price);
    return place->second;
  }

  /// The ends that no node goes on from.
  void find_ends() {
    std::vector<std::array<bool, 2>> consumed(out_.nodes_.size() + 1, {false, false});
    for (const Node& node : out_.nodes_) {
      consumed[node.first][0] = true;
      consumed[node.second][node.delay != 0 ? 1 : 0] = true;
    }
    for (const CompiledProgram::Span& span : out_.works_) {
      if (!consumed[span.end.value][span.end.delay != 0 ? 1 : 0]) out_.ends_.push_back(span.end);
    }
    std::sort(out_.ends_.begin(), out_.ends_.end());
    out_.ends_.erase(std::unique(out_.ends_.begin(), out_.ends_.end()), out_.ends_.end());
  }

  void count_uses() {
    out_.uses_.resize(out_.prices_.size());
    for (const Node& node : out_.nodes_) {
      ++out_.uses_[node.cost];
      ++out_.uses_[node.delay];
    }
    for (const Instant& end : out_.ends_) ++out_.uses_[end.delay];
  }

  /// A slot is free again once the last node that reads it has; the one freed last is still in the
  /// cache, so it is taken first.
  void assign_slots() {
    const std::vector<std::size_t> last_reader = last_readers();
    std::vector<std::uint32_t> slot(last_reader.size(), 0);
    std::vector<std::uint32_t> free;
    std::uint32_t slots = 1;
    for (std::size_t i = 0; i < out_.nodes_.size(); ++i) {
      Node& node = out_.nodes_[i];
      const auto release = [&](std::uint32_t value) {
        if (value != 0 && last_reader[value] == i) free.push_back(slot[value]);
      };
      release(node.first);
      if (node.second != node.first) release(node.second);
      if (free.empty()) free.push_back(slots++);
      slot[node.target] = free.back();
      free.pop_back();
      if (last_reader[node.target] == i) free.push_back(slot[node.target]);
      node = {slot[node.target], slot[node.first], slot[node.second], node.delay, node.cost};
    }
    for (Instant& end : out_.ends_) end.value = slot[end.value];
    out_.slots_ = slots;
  }

  /// Of each value; ends are read when all is done.
  std::vector<std::size_t> last_readers() const {
    std::vector<std::size_t> last(out_.nodes_.size() + 1, 0);
    for (std::size_t i = 0; i < out_.nodes_.size(); ++i) {
      last[out_.nodes_[i].target] = i;
      last[out_.nodes_[i].first] = last[out_.nodes_[i].second] = i;
    }
    for (const Instant& end : out_.ends_) last[end.value] = out_.nodes_.size();
    return last;
  }

  const Program& program_;
  CompiledProgram& out_;
  std::vector<Instant> last_compute_;     // by device
  std::vector<Instant> last_collective_;  // by device
  std::vector<Instant> last_send_;        // by channel
  std::map<Price, std::uint32_t> numbers_;
};

CompiledProgram::CompiledProgram(const Program& program)
    : chunks_(program.chunks.size()),
      channels_(program.channels.size()),
      groups_(program.groups.size()) {
  if (program.left_out) repeats_.emplace(program);
  Compiler(program, *this).compile();
}

}  // namespace stagecraft
