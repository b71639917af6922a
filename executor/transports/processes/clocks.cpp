#include "executor/transports/processes/clocks.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "executor/transports/processes.hpp"
#include "profiles/error.hpp"

namespace stagecraft::processes {

namespace {

enum Tag : int { asks_tag, question_tag, answer_tag };
constexpr int rounds = 30;
constexpr std::chrono::seconds longest_answer{30};

void wait_for(Carrier& carrier, int peer, long number) {
  const auto deadline = std::chrono::steady_clock::now() + longest_answer;
  while (true) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw PeerLost(concat("the processes cannot compare their clocks: rank ", peer,
                            " has been silent for ", longest_answer.count(),
                            " s; was its process stopped?"));
    }
    if (const std::vector<int> lost = carrier.take_lost(); !lost.empty()) {
      throw PeerLost(concat("rank ", lost.front(), " has gone"));
    }
    for (const Completion& message : carrier.test()) {
      if (!message.failure.empty()) throw Error(ErrorKind::execution, message.failure);
      if (message.number == number) return;
    }
    std::this_thread::yield();
  }
}

template <class T>
void tell(Carrier& carrier, int space, int peer, int tag, const T& value) {
  wait_for(carrier, peer, carrier.send(space, peer, tag, &value, sizeof value));
}

template <class T>
T hear(Carrier& carrier, int space, int peer, int tag) {
  T value{};
  wait_for(carrier, peer, carrier.receive(space, peer, tag, &value, sizeof value));
  return value;
}

/// Rank 0 answers each question with its time.
void answer(Carrier& carrier, int space, int rank) {
  for (int round = 0; round < rounds; ++round) {
    hear<char>(carrier, space, rank, question_tag);
    tell(carrier, space, rank, answer_tag, now().count());
  }
}

ClockOffset ask(Carrier& carrier, int space) {
  ClockOffset best{.error = Duration::max()};
  for (int round = 0; round < rounds; ++round) {
    const Moment before = now();
    tell(carrier, space, 0, question_tag, char{});
    const Moment there{hear<Moment::rep>(carrier, space, 0, answer_tag)};
    const Moment after = now();
    const Duration half = (after - before) / 2 + Duration{1};
    if (half < best.error) best = {.ahead = before + half - there, .error = half};
  }
  return best;
}

}  // namespace

ClockOffset offset_of_clock(Carrier& carrier, int space) {
  if (carrier.rank() == 0) {
    for (int rank = 1; rank < carrier.processes(); ++rank) {
      if (hear<bool>(carrier, space, rank, asks_tag)) answer(carrier, space, rank);
    }
    return {};
  }
  const char* apart =
      std::getenv("STAGECRAFT_PROCESSES_APART");  // tests: as if on several machines
  const bool asks = !carrier.shares_machine_of_rank_0() || (apart != nullptr && *apart == '1');
  tell(carrier, space, 0, asks_tag, asks);
  return asks ? ask(carrier, space) : ClockOffset{};
}

}  // namespace stagecraft::processes
