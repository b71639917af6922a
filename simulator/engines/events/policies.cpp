// The ways of communicating, as waits between works.
//
//   buffers          SF0.1 waits for the start of F1.0                (a ring of one buffer)
//   rendezvous       SF0.1 waits for the end of what device 1 computes before F1.1
//   in_order         turns:      … ─ RB0.0 ─ SF0.4 ─ RB0.1 ─ …        (one device)
//   blocking_pair    exchanges:  F0.4 ─ {SF0.4, RB0.1} ─ B0.1
//   commit_and_wait  batches:    F0.4 ─ {all that is issued between} ─ B0.1
//   lock_step        steps:      {all of step k, on all devices} ─ {all of step k + 1}
//
// "─" is a point: it is over when all before it has ended. Since the order of everything on a
// device is fixed, nothing more is needed.

#include <algorithm>

#include "simulator/engines/events/precedence.hpp"

namespace stagecraft::events {

namespace {

/// A node, some iterations ago.
struct Ago {
  int node = nobody;
  int iterations = 0;
};

class Policies {
 public:
  Policies(Precedence& precedence, const Environment& environment)
      : graph_(precedence),
        program_(precedence.program),
        rendezvous_(protocol_of(environment) == Protocol::rendezvous),
        consumer_(program_.work.size(), nobody) {
    for (const auto& order : program_.order) find_consumers(compute_of(order));
  }

  static Protocol protocol_of(const Environment& environment) {
    return environment.protocol.value_or(usual_protocol(environment.policy));
  }

  /// A message needs one of `buffers`, and gives it back when what needs the message starts.
  void count_buffers(int buffers) {
    for (const auto& sends : sends_by_channel()) {
      const int count = static_cast<int>(sends.size());
      for (int i = 0; i < count; ++i) {
        const int before = i - buffers;
        const int laps = before < 0 ? (count - 1 - before) / count : 0;
        const int emptied = graph_.receive_of[index(sends[index(before + laps * count)])];
        if (emptied == nobody) continue;
        const int consumer = consumer_[index(emptied)];
        graph_.add({.from = consumer == nobody ? emptied : consumer,
                    .to = sends[index(i)],
                    .moment = consumer == nobody ? Moment::end : Moment::start,
                    .why = Why::buffer,
                    .later = laps});
      }
    }
  }

  /// A receive is posted when what needs it is the next that its device computes.
  void post_before_consumers() {
    for (const auto& order : program_.order) {
      const std::vector<int> compute = compute_of(order);
      for (std::size_t j = 0; j < compute.size(); ++j) {
        for (const int receive : receives_for(compute[j])) {
          post(receive, {compute[j == 0 ? compute.size() - 1 : j - 1], j == 0 ? 1 : 0});
        }
      }
    }
  }

  void take_turns() {
    for (const auto& order : program_.order) {
      std::vector<int> queue;
      for (const int i : order) {
        if (graph_.work(i).channel) queue.push_back(i);
      }
      std::vector<int> over;
      for (std::size_t j = 0; j < queue.size(); ++j) over.push_back(graph_.add_point());
      for (std::size_t j = 0; j < queue.size(); ++j) {
        const Ago before{over[j == 0 ? queue.size() - 1 : j - 1], j == 0 ? 1 : 0};
        take_turn(queue[j], before, over[j]);
      }
    }
  }

  void exchange_in_pairs() {
    for (const auto& order : program_.order) {
      const std::vector<int> compute = compute_of(order);
      if (compute.empty()) continue;
      const std::vector<std::vector<int>> sends = sends_after(compute, order);
      std::vector<int> over;  // after each compute, its exchange
      for (std::size_t j = 0; j < compute.size(); ++j) over.push_back(graph_.add_point());
      for (std::size_t j = 0; j < compute.size(); ++j) {
        const bool last = j + 1 == compute.size();
        gather(sends[j], {compute[j], 0}, over[j]);
        graph_.add({.from = compute[j], .to = over[j], .why = Why::exchange});
        receive_next(compute[last ? 0 : j + 1], compute[j], sends[j], over[j], last ? 1 : 0);
      }
    }
  }

  void commit_batches() {
    for (const auto& order : program_.order) {
      const std::vector<int> compute = compute_of(order);
      if (compute.empty()) continue;
      std::vector<int> over;
      for (std::size_t j = 0; j < compute.size(); ++j) over.push_back(graph_.add_point());
      commit_head(order, compute.front(), over.back());
      std::size_t j = 0;
      for (const int i : order) {
        if (j < compute.size() && i == compute[j]) {
          graph_.add({.from = i, .to = over[j], .why = Why::exchange});
          if (j > 0) graph_.add({.from = over[j - 1], .to = i, .why = Why::exchange});
          ++j;
        } else if (j > 0 && graph_.work(i).channel) {
          gather({i}, {compute[j - 1], 0}, over[j - 1]);
        }
      }
    }
  }

 private:
  /// Leaders only.
  std::vector<int> compute_of(const std::vector<int>& order) const {
    std::vector<int> compute;
    for (const int i : order) {
      if (graph_.work(i).lane == Lane::compute && graph_.leader[index(i)] == i) {
        compute.push_back(i);
      }
    }
    return compute;
  }

  std::vector<int> parts_of(int compute) const {
    const std::vector<int>& members = graph_.members[index(compute)];
    return members.empty() ? std::vector{compute} : members;
  }

  void find_consumers(const std::vector<int>& compute) {
    for (const int leader : compute) {
      for (const int i : parts_of(leader)) {
        for (int w = graph_.work(i).waits.first; w < graph_.work(i).waits.end; ++w) {
          const int on = program_.waits[index(w)];
          if (graph_.work(on).lane != Lane::receive) continue;
          int& consumer = consumer_[index(on)];
          if (consumer == nobody) consumer = leader;
        }
      }
    }
  }

  /// Receives that no compute before it has needed.
  std::vector<int> receives_for(int compute) const {
    std::vector<int> receives;
    for (const int i : parts_of(compute)) {
      for (int w = graph_.work(i).waits.first; w < graph_.work(i).waits.end; ++w) {
        const int on = program_.waits[index(w)];
        if (graph_.work(on).lane == Lane::receive && consumer_[index(on)] == compute) {
          receives.push_back(on);
        }
      }
    }
    return receives;
  }

  /// Per compute, the sends of its results.
  std::vector<std::vector<int>> sends_after(const std::vector<int>& compute,
                                            const std::vector<int>& order) const {
    std::vector<std::vector<int>> sends(compute.size());
    std::vector<int> place(program_.work.size(), nobody);
    for (std::size_t j = 0; j < compute.size(); ++j) {
      for (const int i : parts_of(compute[j])) place[index(i)] = static_cast<int>(j);
    }
    for (const int i : order) {
      if (graph_.work(i).lane != Lane::send) continue;
      int latest = nobody;
      for (int w = graph_.work(i).waits.first; w < graph_.work(i).waits.end; ++w) {
        latest = std::max(latest, place[index(program_.waits[index(w)])]);
      }
      if (latest != nobody) sends[index(latest)].push_back(i);
    }
    return sends;
  }

  std::vector<std::vector<int>> sends_by_channel() const {
    std::vector<std::vector<int>> sends(program_.channels.size());
    for (const auto& order : program_.order) {
      for (const int i : order) {
        if (graph_.work(i).lane == Lane::send) sends[index(*graph_.work(i).channel)].push_back(i);
      }
    }
    return sends;
  }

  /// The device at the other end of a message.
  int peer_of(int message) const {
    const Work& work = graph_.work(message);
    const Channel& channel = program_.channels[index(*work.channel)];
    const int chunk = work.lane == Lane::send ? channel.to : channel.from;
    return program_.chunks[index(chunk)].device;
  }

  /// Under rendezvous, the receive's message waits until it is posted.
  void post(int receive, Ago after, Why why = Why::posted) {
    const int send = graph_.send_of[index(receive)];
    if (!rendezvous_ || send == nobody) return;
    graph_.add({.from = after.node, .to = send, .why = why, .later = after.iterations});
  }

  /// These messages start after one node, and have ended before a point is over.
  void gather(const std::vector<int>& messages, Ago after, int over) {
    for (const int i : messages) {
      if (graph_.work(i).lane == Lane::receive) {
        post(i, after);
      } else {
        graph_.add({.from = after.node, .to = i, .why = Why::exchange, .later = after.iterations});
      }
      graph_.add({.from = i, .to = over, .why = Why::exchange});
    }
  }

  void take_turn(int message, Ago before, int over) {
    graph_.add({.from = before.node, .to = over, .why = Why::queue, .later = before.iterations});
    graph_.add({.from = message, .to = over, .why = Why::queue});
    if (graph_.work(message).lane == Lane::send) {
      graph_.add(
          {.from = before.node, .to = message, .why = Why::queue, .later = before.iterations});
      return;
    }
    post(message, before, Why::queue);
    const int consumer = consumer_[index(message)];
    if (consumer != nobody) graph_.add({.from = over, .to = consumer, .why = Why::queue});
  }

  /// Receives from the peers of the sends before belong to their exchange, the others come after
  /// it.
  void receive_next(int next, int before, const std::vector<int>& sends, int exchange, int later) {
    const int over = graph_.add_point();
    const auto is_paired = [&](int receive) {
      const auto same_peer = [&](int send) { return peer_of(send) == peer_of(receive); };
      return later == 0 && std::any_of(sends.begin(), sends.end(), same_peer);
    };
    for (const int receive : receives_for(next)) {
      const bool paired = is_paired(receive);
      gather({receive}, paired ? Ago{before, 0} : Ago{exchange, later}, paired ? exchange : over);
    }
    graph_.add({.from = exchange, .to = over, .why = Why::exchange, .later = later});
    graph_.add({.from = over, .to = next, .why = Why::exchange});
  }

  /// What is issued before the first compute follows the last batch of the iteration before.
  void commit_head(const std::vector<int>& order, int first, int last_batch) {
    const int over = graph_.add_point();
    for (const int i : order) {
      if (i == first) break;
      if (graph_.work(i).channel) gather({i}, {last_batch, 1}, over);
    }
    graph_.add({.from = last_batch, .to = over, .why = Why::exchange, .later = 1});
    graph_.add({.from = over, .to = first, .why = Why::exchange});
  }

  Precedence& graph_;
  const Program& program_;
  bool rendezvous_;
  std::vector<int> consumer_;  // per receive, the first compute that needs it
};

}  // namespace

void add_policy(Precedence& precedence, const Environment& environment) {
  if (precedence.program.work.empty()) return;
  const Protocol protocol = Policies::protocol_of(environment);
  if (environment.policy == LinkPolicy::async && protocol == Protocol::eager) return;
  Policies policies(precedence, environment);
  if (protocol == Protocol::credit) policies.count_buffers(environment.buffers);
  switch (environment.policy) {
    case LinkPolicy::async:
    case LinkPolicy::prefetch: policies.post_before_consumers(); break;
    case LinkPolicy::in_order: policies.take_turns(); break;
    case LinkPolicy::blocking_pair: policies.exchange_in_pairs(); break;
    case LinkPolicy::commit_and_wait: policies.commit_batches(); break;
    case LinkPolicy::lock_step:
      policies.post_before_consumers();
      step_together(precedence);
      break;
  }
}

}  // namespace stagecraft::events
