// The CUDA backend itself, carried out by the stand-in: its operations beside the CPU backend's,
// and training with it.

#include "tests/cuda/stand_in/training.hpp"
#include "tests/gpu/checks.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("every operation of the CUDA backend gives the CPU's numbers, in fp32 and bf16",
          "[seconds]") {
  stand_in::set_up({});
  {
    cuda::CudaBackend backend({.device = 0});
    int checks = 0;
    gpu::check_kernels(backend, {}, [&](const gpu::Outcome& outcome) {
      ++checks;
      INFO(outcome.name << ": " << outcome.words);
      CHECK(outcome.passed);
    });
    CHECK(checks >= 40);
  }
  require_no_complaints();
}

TEST_CASE("a pipeline on the CUDA backend trains bit for bit as one stage does", "[seconds]") {
  const stand_in::Machine machine = GENERATE(from_range(machines()));
  const Precision precision = GENERATE(Precision::float32, Precision::bfloat16);
  const int devices = GENERATE(1, 2, 4);
  const Style style = GENERATE(Style::gpt2, Style::llama);
  const Setting setting{.devices = devices, .precision = precision, .style = style};
  INFO(describe(setting) << " in " << to_string(precision));
  stand_in::set_up(machine);
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 3};
  const RunResult pipeline = run_on_stand_in(prepared, options);
  CHECK(first_difference(pipeline, reference_on_stand_in(prepared, options)) == "");
  Setting wide = setting;
  wide.precision = Precision::float32;
  const RunResult on_cpu = run(prepare(wide), options);
  const double tolerated = precision == Precision::float32 ? 1e-5 : 2e-3;
  for (std::size_t step = 0; step < on_cpu.losses.size(); ++step) {
    CHECK(pipeline.losses[step] == Approx(on_cpu.losses[step]).epsilon(tolerated));
  }
  require_no_complaints();
}
