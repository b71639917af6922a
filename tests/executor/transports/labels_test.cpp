#include "executor/transports/labels.hpp"

#include <chrono>
#include <map>
#include <utility>

#include "tests/catch.hpp"
#include "tests/executor/failing_run.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/wrapped_transport.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// Sends rank `from`'s `call`-th message `times` times instead of once.
class Repeating final : public WrappedTransport {
 public:
  Repeating(std::unique_ptr<Transport> inner, int from, int call, int times)
      : WrappedTransport(std::move(inner)), left_(rank() == from ? call : -1), times_(times) {}

  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    ++sent_[channel];
    const bool is_it = left_ > 0 && --left_ == 0;
    if (is_it) repeated_ = {channel, sent_[channel]};
    for (int i = is_it ? times_ : 1; i > 0; --i) {
      // Each has memory of its own: the sender's is free when the first is delivered.
      Tensor copy = i == 1 ? tensor : backend.allocate_apart(tensor.shape, tensor.precision);
      if (i > 1) backend.copy(tensor, copy);
      WrappedTransport::send(channel, backend, copy, available_at, label);
    }
  }
  void wait_for_delivery(int channel, Backend& backend, long messages) override {
    if (channel == repeated_.first && messages >= repeated_.second) messages += times_ - 1;
    WrappedTransport::wait_for_delivery(channel, backend, messages);
  }

 private:
  int left_;
  int times_;
  std::map<int, long> sent_;              ///< by channel, each once
  std::pair<int, long> repeated_{-1, 0};  ///< channel, and which of its messages
};

Machinery repeating(int from, int call, int times) {
  return machinery_with([=](std::unique_ptr<Transport> inner) {
    return std::make_unique<Repeating>(std::move(inner), from, call, times);
  });
}

}  // namespace

TEST_CASE(
    "a message that is lost ends the run at the next one, before anything is computed of it") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4});
  // Rank 0 sends four messages a step.
  CHECK(message_of(prepared, {.steps = 3}, repeating(0, 6, 0)) ==
        "rank 1 (stage 1, replica 0) failed during F1.1: on the channel of activations from rank 0 "
        "to rank 1, message 6 (microbatch 1, to stage 1) was expected, but message 7 (microbatch "
        "2, to stage 1) came: what is between them was lost on its way");
}

TEST_CASE("a message that comes twice ends the run where the next one is expected") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4});
  CHECK(message_of(prepared, {.steps = 3}, repeating(0, 6, 2)) ==
        "rank 1 (stage 1, replica 0) failed during F1.2: on the channel of activations from rank 0 "
        "to rank 1, message 7 (microbatch 2, to stage 1) was expected, but message 6 (microbatch "
        "1, to stage 1) came: it came twice");
}

TEST_CASE("whichever message is lost or comes twice, no run ends with other bits", "[seconds]") {
  const Setting setting =
      GENERATE(Setting{.schedule = "1f1b", .devices = 3},
               Setting{.schedule = "interleaved-1f1b", .devices = 2, .virtual_stages = 2},
               Setting{.devices = 2, .replicas = {1, 2}}, Setting{.devices = 2, .degrees = {2, 2}},
               Setting{.schedule = "bpipe", .devices = 4});
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 2, .oversight = {.deadline = 300ms}};
  const RunResult whole = run(prepared, {.steps = 2});
  const int times = GENERATE(0, 2);
  for (int call = 1; call < 9; call += 3) {
    INFO(describe(setting) << ": message " << call << " of rank 1, " << times << " times");
    const Machinery machinery = repeating(1, call, times);
    try {
      const RunResult result = execute(prepared.plan, prepared.profile, prepared.compiled,
                                       prepared.dataset, options, machinery);
      CHECK(first_difference(result, whole) == "");
      CHECK(times == 2);  // of the last one nobody asks for
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::execution);
      CHECK_THAT(error.what(), ContainsSubstring("was lost on its way") ||
                                   ContainsSubstring("it came twice") ||
                                   ContainsSubstring("does not fit memory") ||
                                   ContainsSubstring("the run does not go on"));
    }
  }
}

TEST_CASE("whoever sleeps instead of computing knows its messages, too") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 4});
  CHECK_THAT(message_of(prepared, {.steps = 2, .backend = BackendKind::sleep}, repeating(1, 2, 0)),
             ContainsSubstring("was expected, but message 3 (microbatch "));
}
