// Layers measured on the CUDA backend, which the stand-in carries out.

#include "executor/measurement/measure.hpp"

#include "tests/cuda/stand_in/training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A rank on each GPU, or on each of the parts of one.
MeasureOptions options_for(const CudaOptions& options, int gpus, std::vector<int> degrees) {
  MeasureOptions measure{.microbatches = {2}, .tensor_parallel = std::move(degrees), .repeats = 1};
  measure.warm_up = 1;
  measure.precision = Precision::bfloat16;
  measure.device = {.kind = "h200",
                    .description = "a stand-in",
                    .devices = options.ranks,
                    .make_backend = [=](int rank) -> std::unique_ptr<Backend> {
                      return std::make_unique<cuda::CudaBackend>(
                          cuda::place_of(rank, options, gpus), options);
                    }};
  return measure;
}

Model model() {
  return tiny_model(Style::gpt2, true, 4);
}

}  // namespace

TEST_CASE("peers on two GPUs, or on two parts of one, are measured with their sums") {
  const bool parts = GENERATE(false, true);
  stand_in::set_up({.devices = parts ? 1 : 2});
  const CudaOptions options{.partitions = parts, .ranks = 2};
  const Profile profile = measure_profile(model(), options_for(options, parts ? 1 : 2, {1, 2, 4}));
  CHECK_NOTHROW(validate(profile));
  CHECK(profile.entries[1].has_peer_messages);
  CHECK_FALSE(profile.entries[2].has_peer_messages);
  CHECK((stand_in::counts().peer_copies > 0) == !parts);
  for (const ProfileEntry& entry : profile.entries) {
    for (const LayerCost& cost : entry.layers) {
      CHECK(cost.forward > Duration{0});
      CHECK(cost.backward_weight > Duration{0});
    }
  }
  require_no_complaints();
}

TEST_CASE("a measured layer's bytes are the CPU's, and it works with some more") {
  stand_in::set_up({});
  const Profile there = measure_profile(model(), options_for({}, 1, {1, 2}));
  MeasureOptions here = options_for({}, 1, {1, 2});
  here.device = {};
  here.precision = Precision::float32;
  here.busy_ranks = 1;
  const Profile near = measure_profile(model(), here);
  for (std::size_t e = 0; e < there.entries.size(); ++e) {
    const int peers = there.entries[e].setting.tensor_parallel;
    for (std::size_t i = 0; i < there.entries[e].layers.size(); ++i) {
      INFO(there.model.layers[i].name << " of " << peers);
      const LayerCost& on_gpu = there.entries[e].layers[i];
      const LayerCost& on_cpu = near.entries[e].layers[i];
      CHECK(2 * on_gpu.parameters == on_cpu.parameters);
      CHECK(on_gpu.gradients == on_cpu.gradients);
      CHECK(2 * on_gpu.output == on_cpu.output);
      CHECK(on_gpu.saved <= on_cpu.saved);
    }
    CHECK(there.entries[e].layers[1].workspace > 0);
  }
  require_no_complaints();
}

TEST_CASE("what a product needs while it runs counts as long as that, and no longer") {
  stand_in::set_up({});
  {
    cuda::CudaBackend backend({.device = 0});
    const auto used_by = [&](std::int64_t inner) {
      Tensor a = backend.allocate({2, inner}, Precision::float32);
      Tensor b = backend.allocate({inner, 3}, Precision::float32);
      Tensor c = backend.allocate({2, 3}, Precision::float32);
      backend.zero(a);
      backend.zero(b);
      backend.reset_peak();
      backend.matmul(a, false, b, false, c, false);
      backend.finish();
      return backend.peak_bytes() - backend.allocated_bytes();
    };
    // The stand-in splits sums that are longer than a column of the product has rows.
    CHECK(used_by(64) == 2 * 3 * 4);
    CHECK(used_by(3) == 0);
  }
  require_no_complaints();
}
