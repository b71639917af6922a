#include "executor/training/finite_checks.hpp"

#include <cmath>
#include <limits>

#include "executor/driver/machinery.hpp"
#include "tests/catch.hpp"
#include "tests/executor/failing_run.hpp"
#include "tests/executor/flight/flight_records.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/wrapped_transport.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

/// Puts a NaN into what it receives.
class Corrupting final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  Arrival receive(int channel, Backend& backend) override {
    Arrival arrival = WrappedTransport::receive(channel, backend);
    if (rank() == 1 && ++received_ == 3) arrival.tensor.data<float>()[5] = not_a_number;
    return arrival;
  }

 private:
  int received_ = 0;
};

/// Puts an infinity into a sum of its second step.
class CorruptingSum final : public WrappedTransport {
 public:
  using WrappedTransport::WrappedTransport;
  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    WrappedTransport::all_reduce(group, backend, tensor);
    if (rank() == 1 && ++sums_ == 2) tensor.data<float>()[tensor.elements() - 1] = HUGE_VALF;
  }

 private:
  int sums_ = 0;
};

/// The start values of a run, but one of the weights whose names begin so.
struct Spoilt {
  std::string name;
  std::map<std::string, Tensor> weights;
};
Spoilt spoil(const Prepared& prepared, std::string_view beginning) {
  const RunResult start = run(prepared, {.steps = 0});
  Spoilt spoilt;
  for (std::size_t i = 0; i < start.parameters.size(); ++i) {
    const std::string& name = start.parameter_names[i];
    spoilt.weights[name] = start.parameters[i];
    if (!spoilt.name.empty() || !name.starts_with(beginning)) continue;
    spoilt.name = name;
    spoilt.weights[name].data<float>()[1] = not_a_number;
  }
  return spoilt;
}

}  // namespace

TEST_CASE("a backend sees NaN and infinity wherever they are, and nothing else") {
  const auto backend = make_cpu_backend();
  for (const Precision precision : {Precision::float32, Precision::float64}) {
    Tensor x = backend->allocate({3, 37}, precision);
    backend->zero(x);
    const auto at = [&](std::int64_t i, double value) {
      if (precision == Precision::float32) x.data<float>()[i] = static_cast<float>(value);
      if (precision == Precision::float64) x.data<double>()[i] = value;
    };
    at(3, -std::numeric_limits<float>::max());
    at(4, std::numeric_limits<float>::denorm_min());
    CHECK(backend->is_finite(x));
    for (const double bad : {std::nan(""), -std::nan(""), HUGE_VAL, -HUGE_VAL}) {
      for (const std::int64_t place : {0, 36, 64, 110}) {
        at(place, bad);
        CHECK_FALSE(backend->is_finite(x));
        at(place, 0);
      }
    }
  }
}

TEST_CASE("a message that is damaged on its way is named by who gets it") {
  const Machinery machinery = machinery_with([](std::unique_ptr<Transport> inner) {
    return std::make_unique<Corrupting>(std::move(inner));
  });
  // Of rank 1's messages the first two are inputs in 1F1B of two stages, as is the third.
  CHECK(message_of(prepare({.devices = 2}), {.steps = 2}, machinery) ==
        "rank 1 (stage 1, replica 0) failed during F1.2: in step 1 its input is not finite: the "
        "message of RF1.2 arrived with NaN or infinity that its sender did not see");
}

TEST_CASE("a weight that is not finite is named, by the first that uses it") {
  const Prepared prepared = prepare({.devices = 2});
  const auto [name, weights] = spoil(prepared, "block.4.");
  CHECK(message_of(prepared, {.steps = 2, .weights = weights}) ==
        "rank 1 (stage 1, replica 0) failed during F1.0: in step 1 the loss is not finite, for the "
        "weight " +
            name + " is not");
  CHECK(message_of(prepared, {.weights = weights, .oversight = {.check_finite = false}}) == "");
}

TEST_CASE("a run that diverges ends at the first instruction that overflows") {
  const Prepared prepared = prepare({.devices = 2, .optimizer = OptimizerKind::sgd});
  const Folder folder("diverges");
  const std::string message =
      message_of(prepared, {.steps = 20,
                            .sgd = {.learning_rate = 1e30},
                            .oversight = {.flight_records = folder.path()}});
  CHECK_THAT(message, ContainsSubstring("not finite") && ContainsSubstring("failed during "));
  bool noted = false;
  for (const FlightSnapshot& rank : read_flight_records(folder.path()).ranks) {
    noted |= rank.cause == Cause::not_finite && rank.failure == message;
  }
  CHECK(noted);
}

TEST_CASE("gradients are looked at before an update uses them") {
  const Machinery machinery = machinery_with([](std::unique_ptr<Transport> inner) {
    return std::make_unique<CorruptingSum>(std::move(inner));
  });
  const std::string message =
      message_of(prepare({.devices = 1, .replicas = {2}}), {.steps = 3}, machinery);
  CHECK_THAT(message, ContainsSubstring("rank 1 (stage 0, replica 1) failed during U0.3: in step 2 "
                                        "the gradient of ") &&
                          ContainsSubstring(" is not finite"));
}
