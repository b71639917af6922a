// Runs of the executor against training without programs: bit by bit.

#include "executor/driver/execute.hpp"

#include <atomic>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "executor/driver/machinery.hpp"
#include "profiles/error.hpp"
#include "simulator/simulate.hpp"
#include "simulator/values/measured_steps.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// References by what they depend on: not on the schedule, and not on where a model without
/// replicas is cut.
class References {
 public:
  const RunResult& of(const Setting& setting, const Prepared& prepared, const RunOptions& options) {
    const auto key = std::tuple(setting.microbatches, setting.rows, setting.replicas,
                                setting.devices * (setting.replicas.empty() ? 0 : 1));
    const auto [found, is_new] = results_.try_emplace(key);
    if (is_new) found->second = reference(prepared, options);
    return found->second;
  }

 private:
  std::map<std::tuple<int, int, std::vector<int>, int>, RunResult> results_;
};

bool allowed(const Setting& setting) {
  if (setting.schedule != "interleaved") return true;
  return setting.microbatches >= setting.devices && setting.microbatches % setting.devices == 0;
}

std::vector<Setting> matrix(const Setting& base) {
  std::vector<Setting> settings;
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved"}) {
    for (const int devices : {1, 2, 3, 4}) {
      for (const int microbatches : {1, 2, 4, 6, 8}) {
        for (const Recompute recompute : {Recompute::none, Recompute::full}) {
          for (const int replicas : {1, 2}) {
            Setting setting = base;
            setting.schedule = schedule;
            setting.devices = devices;
            setting.virtual_stages = schedule == "interleaved" ? 2 : 1;
            setting.microbatches = microbatches;
            setting.recompute = recompute;
            if (replicas > 1) setting.replicas.assign(static_cast<std::size_t>(devices), replicas);
            // Six microbatches only where they are the fewest that fit.
            if (microbatches == 6 && (schedule != "interleaved" || devices != 3)) continue;
            if (allowed(setting)) settings.push_back(setting);
          }
        }
      }
    }
  }
  return settings;
}

std::string difference(const Setting& setting, const RunOptions& options) {
  const Prepared prepared = prepare(setting);
  return first_difference(run(prepared, options), reference(prepared, options));
}

/// Everything `inner` does, until rank `rank` does its `calls`-th send, receive or reduction.
class FailingTransport final : public Transport {
 public:
  FailingTransport(std::unique_ptr<Transport> inner, int rank, int calls)
      : inner_(std::move(inner)), fails_(inner_->rank() == rank), calls_(calls) {}

  int rank() const override { return inner_->rank(); }
  int ranks() const override { return inner_->ranks(); }
  void send(int channel, Backend& backend, Tensor tensor, Moment available_at,
            MessageLabel label) override {
    count();
    inner_->send(channel, backend, std::move(tensor), available_at, label);
  }
  void wait_for_delivery(int channel, Backend& backend, long messages) override {
    inner_->wait_for_delivery(channel, backend, messages);
  }
  void post(int channel, Backend& backend, Tensor memory) override {
    inner_->post(channel, backend, std::move(memory));
  }
  Arrival receive(int channel, Backend& backend) override {
    count();
    return inner_->receive(channel, backend);
  }
  void all_reduce(int group, Backend& backend, Tensor& tensor) override {
    count();
    inner_->all_reduce(group, backend, tensor);
  }
  void reduce_scatter(int group, Backend& backend, Tensor& tensor) override {
    count();
    inner_->reduce_scatter(group, backend, tensor);
  }
  void all_gather(int group, Backend& backend, Tensor& tensor) override {
    count();
    inner_->all_gather(group, backend, tensor);
  }
  void barrier() override { inner_->barrier(); }
  std::vector<std::string> gather(std::string said) override {
    return inner_->gather(std::move(said));
  }
  std::string broadcast(std::string said) override { return inner_->broadcast(std::move(said)); }
  std::string abort(const std::string& reason) override { return inner_->abort(reason); }

 private:
  void count() {
    if (fails_ && --calls_ == 0) throw std::runtime_error("the cable is cut");
  }

  std::unique_ptr<Transport> inner_;
  bool fails_;
  int calls_;
};

Machinery failing_machinery(int rank, int calls) {
  Machinery machinery;
  machinery.make_transports = [=](const Wiring& wiring) {
    auto transports = make_thread_transports(wiring);
    for (auto& transport : transports) {
      transport = std::make_unique<FailingTransport>(std::move(transport), rank, calls);
    }
    return transports;
  };
  return machinery;
}

}  // namespace

TEST_CASE("every schedule, cut, recomputation and replication ends with the reference's bits",
          "[seconds]") {
  const RunOptions options{.steps = 3};
  References references;
  for (const Setting& setting : matrix({})) {
    INFO(describe(setting));
    const Prepared prepared = prepare(setting);
    CHECK(first_difference(run(prepared, options), references.of(setting, prepared, options)) ==
          "");
  }
}

TEST_CASE("so do stages with unequal numbers of replicas, split or taking turns", "[seconds]") {
  for (const std::vector<int>& replicas :
       {std::vector<int>{2, 1}, {1, 2}, {3, 2}, {1, 3, 2}, {2, 1, 2}}) {
    for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
      for (const std::string schedule : {"gpipe", "1f1b"}) {
        const Setting setting{.schedule = schedule,
                              .devices = static_cast<int>(replicas.size()),
                              .microbatches = 5,
                              .rows = 4,
                              .replicas = replicas,
                              .policy = policy,
                              .recompute = replicas[0] == 2 ? Recompute::full : Recompute::none};
        INFO(describe(setting));
        CHECK(difference(setting, {.steps = 3}) == "");
      }
    }
  }
}

TEST_CASE("so do Llama-style models, untied heads, SGD and double precision", "[seconds]") {
  for (const Style style : {Style::gpt2, Style::llama}) {
    for (const bool tied : {true, false}) {
      for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::sgd}) {
        for (const Precision precision : {Precision::float32, Precision::float64}) {
          for (const bool interleaved : {true, false}) {
            const Setting setting{
                .schedule = interleaved ? "interleaved" : "1f1b",
                .devices = interleaved ? 2 : 3,
                .virtual_stages = interleaved ? 2 : 1,
                .replicas = interleaved ? std::vector<int>{2, 2} : std::vector<int>{},
                .optimizer = optimizer,
                .precision = precision,
                .style = style,
                .tied = tied};
            INFO(describe(setting));
            CHECK(difference(setting, {.steps = 3}) == "");
          }
        }
      }
    }
  }
}

TEST_CASE("so do networks of images, with unequal numbers of replicas too") {
  for (const std::vector<int>& replicas : {std::vector<int>{}, {3, 1}, {1, 3}, {2, 2}}) {
    for (const ReplicaPolicy policy : {ReplicaPolicy::split, ReplicaPolicy::round_robin}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        for (const Precision precision : {Precision::float32, Precision::float64}) {
          if (precision == Precision::float64 && recompute == Recompute::full) continue;
          const Setting setting{.schedule = replicas.empty() ? "gpipe" : "1f1b",
                                .devices = replicas.empty() ? 4 : 2,
                                .microbatches = 3,
                                .rows = 4,
                                .replicas = replicas,
                                .policy = policy,
                                .recompute = recompute,
                                .precision = precision,
                                .style = Style::network};
          INFO(describe(setting));
          CHECK(difference(setting, {.steps = 3}) == "");
        }
      }
    }
  }
}

TEST_CASE("microbatches of one sample add up to the step of one that has them all") {
  const RunOptions options{.steps = 2};
  Setting setting{.optimizer = OptimizerKind::sgd, .precision = Precision::float64};
  setting.rows = 1;
  setting.microbatches = 4;
  const RunResult several = run(prepare(setting), options);
  setting.rows = 4;
  setting.microbatches = 1;
  const RunResult one = run(prepare(setting), options);
  for (std::size_t i = 0; i < 2; ++i)
    CHECK(several.losses[i] == Approx(one.losses[i]).epsilon(1e-13));
  REQUIRE(several.parameter_names == one.parameter_names);
  for (std::size_t i = 0; i < one.parameters.size(); ++i) {
    double largest = 0;
    for (std::int64_t j = 0; j < one.parameters[i].elements(); ++j) {
      largest = std::max(largest, std::abs(several.parameters[i].data<double>()[j] -
                                           one.parameters[i].data<double>()[j]));
    }
    CHECK(largest < 1e-15);
  }
}

TEST_CASE("training lowers the loss, from about the logarithm of the vocabulary") {
  const RunResult result = run(prepare({.devices = 2, .microbatches = 8}),
                               {.steps = 40, .adamw = {.learning_rate = 1e-2}});
  CHECK(result.losses.front() == Approx(std::log(256)).epsilon(0.02));
  CHECK(result.losses.back() < result.losses.front() - 0.5);
}

TEST_CASE("a network of images learns its classes") {
  const RunResult result = run(prepare({.devices = 2, .rows = 8, .style = Style::network}),
                               {.steps = 60, .adamw = {.learning_rate = 1e-2}});
  CHECK(result.losses.front() == Approx(std::log(5)).epsilon(0.1));
  CHECK(result.losses.back() < 0.5 * result.losses.front());
}

TEST_CASE("a run can be told after any step to end") {
  std::stop_source source;
  std::vector<int> steps;
  const RunOptions options{.steps = 10,
                           .on_step =
                               [&](const StepReport& report) {
                                 steps.push_back(report.step);
                                 CHECK(report.loss > 0);
                                 CHECK(report.time > Duration{0});
                                 if (report.step == 2) source.request_stop();
                               },
                           .stop = source.get_token()};
  const RunResult result = run(prepare({.devices = 2}), options);
  CHECK(steps == std::vector<int>{0, 1, 2});
  CHECK(result.losses.size() == 3);
  CHECK(result.step_times.size() == 3);
}

TEST_CASE("a signal between the ranks' reports and the end of a step is told, too") {
  std::stop_source source;
  std::atomic<int> signal = 0;
  const RunOptions options{.steps = 5,
                           .on_step =
                               [&](const StepReport& report) {
                                 if (report.step != 2) return;
                                 signal = 15;
                                 source.request_stop();
                               },
                           .stop = source.get_token(),
                           .stop_signal = &signal};
  const RunResult result = run(prepare({.devices = 2}), options);
  REQUIRE(result.stopped);
  CHECK(result.stopped->rank == 0);
  CHECK(result.stopped->signal == 15);
  CHECK(result.step_times.size() == 3);
}

TEST_CASE("what was measured speaks about the same instructions as what was predicted") {
  const Prepared prepared = prepare({.schedule = "interleaved",
                                     .devices = 2,
                                     .virtual_stages = 2,
                                     .replicas = {2, 2},
                                     .recompute = Recompute::full});
  const RunResult result = run(prepared, {.steps = 3});
  const auto instructions = [](const Timeline& timeline) {
    std::multiset<std::tuple<int, Lane, Instruction, std::optional<int>>> all;
    for (const Span& span : timeline.spans) {
      all.insert({span.device, span.lane, span.instruction, span.peer});
    }
    return all;
  };
  CHECK(instructions(result.timeline) ==
        instructions(simulate(prepared.compiled.program, prepared.compiled.costs)));
  std::map<int, Duration> compute_end;
  for (const Span& span : result.timeline.spans) {
    CHECK(span.start >= Duration{0});
    CHECK(span.end >= span.start);
    if (span.lane != Lane::compute) continue;
    CHECK(span.start >= compute_end[span.device]);
    compute_end[span.device] = span.end;
  }
  CHECK(step_time(result.timeline) <=
        *std::max_element(result.step_times.begin(), result.step_times.end()));
}

TEST_CASE("the last steps are handed in as iterations, each of them whole") {
  const Prepared prepared = prepare({.devices = 2, .replicas = {2, 1}});
  const Program& program = prepared.compiled.program;
  const RunResult result = run(prepared, {.steps = 5, .traced_steps = 3});
  const std::vector<MeasuredStep> steps = measured_steps(program, result.traced);
  REQUIRE(steps.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    INFO(i);
    // A rank's step ends behind its last instruction, and begins before its first.
    CHECK(steps[i].time <= result.step_times[2 + i]);
    CHECK(steps[i].time > Duration{0});
  }
  CHECK(measured_steps(program, result.timeline).size() == 1);
  // More than there were are all; none are none.
  CHECK(measured_steps(program, run(prepared, {.steps = 2, .traced_steps = 9}).traced).size() == 2);
  CHECK(run(prepared, {.steps = 2}).traced.spans.empty());
}

TEST_CASE("a rank that fails stops all others, and is the one that is named", "[seconds]") {
  const Prepared prepared = prepare({.devices = 3, .microbatches = 2, .replicas = {2, 1, 2}});
  // Rank 2 holds stage 1: it receives two slices of each microbatch and sends two on.
  const auto message = [&](int rank, int calls) -> std::string {
    try {
      execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, {.steps = 2},
              failing_machinery(rank, calls));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::execution);
      return error.what();
    }
    return "";
  };
  CHECK(message(2, 1) == "rank 2 (stage 1, replica 0) failed during F1.0: the cable is cut");
  for (int rank = 0; rank < 5; ++rank) {
    for (int calls = 2; calls < 12; ++calls) {
      const std::string text = message(rank, calls);
      CHECK_THAT(text, ContainsSubstring("rank " + std::to_string(rank) + " (stage "));
      CHECK_THAT(text, ContainsSubstring(": the cable is cut"));
    }
  }
}

TEST_CASE("a caller that throws after a step ends the run with its own words") {
  const RunOptions options{.steps = 3, .on_step = [](const StepReport&) {
                             throw std::runtime_error("the disk is full");
                           }};
  CHECK_THROWS_WITH(run(prepare({.devices = 2}), options),
                    ContainsSubstring("rank 0 (stage 0, replica 0) failed") &&
                        ContainsSubstring("the disk is full"));
}

TEST_CASE("what the executor cannot train is refused before anything starts") {
  Prepared prepared = prepare({});
  prepared.plan.precision = Precision::bfloat16;
  CHECK_THROWS_WITH(run(prepared, {}), ContainsSubstring("fp32 and fp64, not in bf16"));
  prepared = prepare({});
  prepared.dataset.tokens.resize(8);
  CHECK_THROWS_WITH(run(prepared, {}), ContainsSubstring("holds 8 tokens"));
  prepared = prepare({});
  prepared.dataset = synthetic_images({2, 4}, 5, 10, 1);
  CHECK_THROWS_WITH(run(prepared, {}), ContainsSubstring("holds images, but tiny is trained on"));
  prepared = prepare({.style = Style::network});
  prepared.dataset = synthetic_dataset(256, 100, 1);
  CHECK_THROWS_WITH(run(prepared, {}), ContainsSubstring("holds text, but net is trained on"));
  prepared.dataset = synthetic_images({3, 4}, 5, 10, 1);
  CHECK_THROWS_WITH(run(prepared, {}),
                    ContainsSubstring("its images have 48 pixels, those of net have 32"));
  prepared = prepare({.schedule = "inference", .devices = 2});
  prepared.compiled.program.feedback = 1;
  CHECK_THROWS_WITH(run(prepared, {}), ContainsSubstring("keeps keys and values"));
  prepared.compiled.program.feedback = 0;
  prepared.compiled.program.sequence_chunks = 2;
  CHECK_THROWS_WITH(run(prepared, {.backend = BackendKind::cuda}),
                    ContainsSubstring("cuts sequences into pieces") &&
                        ContainsSubstring("on GPUs use one sequence chunk"));
}

TEST_CASE("a plan that does not fit is refused with what its fullest device would hold") {
  Prepared prepared = prepare({.devices = 2});
  const std::vector<Bytes> arena = traced(prepared).compiled.program.arena;
  int backends = 0;
  Machinery machinery;
  machinery.make_backend = [&](int) {
    ++backends;
    return make_cpu_backend();
  };
  const auto run_within = [&](Bytes first, Bytes second) {
    prepared.compiled.memory_limits = {first, second};
    return execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, {},
                   machinery);
  };
  CHECK_THROWS_WITH(
      run_within(arena[0], arena[1] / 2),
      ContainsSubstring("run: the plan does not fit: device 1 needs ") &&
          ContainsSubstring(", short by ") && ContainsSubstring(" of parameters") &&
          ContainsSubstring("; planned with --recompute full it would not fit either: at most "));
  CHECK_THROWS_WITH(run_within(arena[0] - 1, arena[1]),
                    ContainsSubstring("; planned with --recompute full it would fit: at most "));
  CHECK(backends == 0);
  CHECK_NOTHROW(run_within(arena[0], arena[1]));
}
