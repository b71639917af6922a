// The CUDA backend itself, carried out by the stand-in: its operations beside the CPU backend's,
// and training with it.

#include "tests/cuda/stand_in/training.hpp"
#include "tests/gpu/checks.hpp"
#include "tests/watched.hpp"

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

namespace {

void check_training(const stand_in::Machine& machine, const Setting& setting) {
  INFO(describe(setting) << " in " << to_string(setting.precision));
  stand_in::set_up(machine);
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 3};
  const RunResult pipeline = run_on_stand_in(prepared, options);
  CHECK(first_difference(pipeline, reference_on_stand_in(prepared, options)) == "");
  Setting wide = setting;
  wide.precision = Precision::float32;
  const RunResult on_cpu = run(prepare(wide), options);
  const double tolerated = setting.precision == Precision::float32 ? 1e-5 : 2e-3;
  for (std::size_t step = 0; step < on_cpu.losses.size(); ++step) {
    CHECK(pipeline.losses[step] == Approx(on_cpu.losses[step]).epsilon(tolerated));
  }
  require_no_complaints();
}

std::vector<Setting> trained_settings() {
  std::vector<Setting> settings;
  for (const Precision precision : {Precision::float32, Precision::bfloat16}) {
    for (const int devices : {1, 2, 4}) {
      for (const Style style : {Style::gpt2, Style::llama})
        settings.push_back({.devices = devices, .precision = precision, .style = style});
    }
  }
  return settings;
}

}  // namespace

TEST_CASE("a pipeline on the CUDA backend trains bit for bit as one stage does", "[seconds]") {
  const std::vector<stand_in::Machine> all = machines();
  const std::vector<Setting> settings = trained_settings();
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (is_watched && (i + i / 2) % 2 != 0) continue;  // one style of each number of devices
    check_training(all[i % all.size()], settings[i]);
  }
}

TEST_CASE("so it does in every order in which streams may go on", "[minutes]") {
  const stand_in::Machine machine = GENERATE(from_range(machines()));
  const Setting setting = GENERATE(from_range(trained_settings()));
  check_training(machine, setting);
}
