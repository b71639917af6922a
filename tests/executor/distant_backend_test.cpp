#include "tests/executor/distant_backend.hpp"

#include "executor/driver/machinery.hpp"
#include "tests/catch.hpp"
#include "tests/executor/moving_settings.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

Machinery distant() {
  Machinery machinery;
  machinery.make_backend = [](int) { return std::make_unique<DistantBackend>(); };
  machinery.make_dry_backend = [] { return std::make_unique<DryBackend>(); };
  return machinery;
}

}  // namespace

TEST_CASE("bf16 is the nearest of its numbers, ties to even") {
  const auto rounded = [](float x) { return static_cast<float>(Bfloat16(x)); };
  CHECK(rounded(1.0f) == 1.0f);
  CHECK(rounded(1.0f + 1.0f / 256) == 1.0f);              // half way: to the even one
  CHECK(rounded(1.0f + 3.0f / 256) == 1.0f + 1.0f / 64);  // half way, the other one is even
  CHECK(rounded(1.0f + 1.01f / 256) == 1.0f + 1.0f / 128);
  CHECK(rounded(-3.0e38f) == Approx(-3.0e38).epsilon(1.0 / 256));
  CHECK(rounded(3.4e38f) == INFINITY);
  CHECK(rounded(-INFINITY) == -INFINITY);
  CHECK(std::isnan(rounded(NAN)));
}

TEST_CASE("a backend with memory of its own, and calls that are done later, gives the CPU's bits") {
  auto settings = settings_that_move_everything();
  settings.push_back({.schedule = "1f1b", .devices = 2, .style = Style::network});
  const Setting setting = GENERATE_COPY(from_range(settings));
  INFO(describe(setting));
  REQUIRE(is_legal(setting));
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 2};
  const RunResult far = execute(prepared.plan, prepared.profile, prepared.compiled,
                                prepared.dataset, options, distant());
  CHECK(first_difference(far, run(prepared, options)) == "");
}

TEST_CASE("bf16 trains with masters in fp32, every way bit for bit as on one device", "[seconds]") {
  Setting setting = GENERATE(from_range(settings_that_move_everything()));
  INFO(describe(setting));
  const RunOptions wide{.steps = 3};
  const std::vector<double> in_fp32 = run(prepare(setting), wide).losses;
  setting.precision = Precision::bfloat16;
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 3, .backend = BackendKind::cuda};
  const RunResult narrow = execute(prepared.plan, prepared.profile, prepared.compiled,
                                   prepared.dataset, options, distant());
  const RunResult alone =
      run_reference(prepared.plan, prepared.profile, prepared.dataset, options, distant());
  CHECK(first_difference(narrow, alone) == "");
  // 8 bits of a number are good for two decimal places of a loss of about 5.5.
  for (std::size_t step = 0; step < in_fp32.size(); ++step) {
    CHECK(narrow.losses[step] == Approx(in_fp32[step]).epsilon(2e-3));
  }
}

TEST_CASE("steps too small for bf16 weights add up in their masters") {
  Setting setting{.devices = 1, .precision = Precision::bfloat16};
  const Prepared prepared = prepare(setting);
  RunOptions options{.steps = 1, .backend = BackendKind::cuda};
  // A norm's weights start at 1, where bf16 has steps of 1/128 downwards and 1/256 is half of one.
  options.adamw.learning_rate = 1.0 / 2000;
  const auto moved = [&](int steps) {
    options.steps = steps;
    const RunResult result =
        run_reference(prepared.plan, prepared.profile, prepared.dataset, options, distant());
    const auto at = std::ranges::find(result.parameter_names, "block.0.norm1.weight") -
                    result.parameter_names.begin();
    const Tensor& weight = result.parameters[static_cast<std::size_t>(at)];
    int count = 0;
    for (int i = 0; i < weight.elements(); ++i) count += weight.data<float>()[i] != 1.0f;
    return count;
  };
  CHECK(moved(1) == 0);
  CHECK(moved(12) > 0);
}
