// Ranks on the CUDA backend that hand each other tensors by events, in every order that their
// streams may go on in; and what the process waits for.

#include <cstring>

#include "executor/training/finite_checks.hpp"
#include "profiles/error.hpp"
#include "tests/cuda/stand_in/training.hpp"
#include "tests/executor/moving_settings.hpp"
#include "tests/watched.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

long waits_of(int microbatches, int steps) {
  stand_in::set_up({});
  const Prepared prepared =
      prepare({.schedule = "1f1b", .devices = 2, .microbatches = microbatches});
  run_on_stand_in(prepared, {.steps = steps});
  require_no_complaints();
  return stand_in::counts().host_waits;
}

}  // namespace

TEST_CASE("tensors change hands on GPUs by events, with the bits of one device") {
  std::vector<Setting> settings = settings_that_move_everything();
  settings.push_back({.schedule = "1f1b", .devices = 2, .degrees = {2, 2}, .heads = 4});
  const std::size_t chosen = GENERATE_COPY(range(std::size_t{0}, settings.size()));
  const std::size_t order = GENERATE(range(std::size_t{0}, machines().size()));
  if (is_watched && (chosen + order) % 3 != 0) return;
  const Setting& setting = settings[chosen];
  const stand_in::Machine machine = machines()[order];
  INFO(describe(setting));
  stand_in::set_up(machine);
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 3};
  const RunResult run = run_on_stand_in(prepared, options);
  const RunResult reference = reference_on_stand_in(prepared, options);
  if (setting.degrees.empty()) {
    CHECK(first_difference(run, reference) == "");
  } else {
    CHECK(distance(run, reference).weights < rounding_tolerance(Precision::float32));
  }
  require_no_complaints();
}

TEST_CASE("inside a step the process waits for nothing on the GPU") {
  // What a run waits for at its beginning and end does not depend on either.
  const long of_a_step = waits_of(4, 4) - waits_of(4, 3);
  const int more = is_watched ? 8 : 16;
  const long of_a_long_step = waits_of(more, 4) - waits_of(more, 3);
  INFO(of_a_step << " waits per step of 4 microbatches, " << of_a_long_step << " of " << more);
  // Each of the two ranks at the end of the step.
  CHECK(of_a_step <= 2);
  CHECK(of_a_long_step <= 2);
}

TEST_CASE("what is not finite on a GPU is found at the end of the step, and the first is named") {
  const stand_in::Machine machine = GENERATE(from_range(machines()));
  stand_in::set_up(machine);
  const Prepared prepared = prepare({.schedule = "1f1b", .devices = 2, .microbatches = 4});
  RunOptions options{.steps = 2};
  options.adamw.learning_rate = 1e300;  // the second step's weights are infinite
  CHECK_THROWS_WITH(run_on_stand_in(prepared, options),
                    ContainsSubstring("rank 0 (stage 0, replica 0) failed during F0.0: in step 2 "
                                      "its result is not finite, and came up in layers "
                                      "embedding to block.2"));
}

TEST_CASE("memory that a receiver still reads is not used again before its signal is there") {
  stand_in::set_up({.order = stand_in::Order::others_first});
  {
    cuda::CudaBackend sender({.device = 0}), receiver({.device = 0});
    const std::vector<float> ones(64, 1.0f), twos(64, 2.0f);
    Tensor from = sender.allocate({64}, Precision::float32);
    Tensor to = receiver.allocate({64}, Precision::float32);
    sender.upload(std::as_bytes(std::span(ones)), from);
    receiver.finish();
    receiver.await(sender.signal());
    receiver.copy(from, to);
    sender.await(receiver.signal());
    sender.zero(from);
    sender.finish();
    std::vector<float> there(64);
    receiver.download(to, std::as_writable_bytes(std::span(there)));
    CHECK(there == ones);
  }
  require_no_complaints();
}
