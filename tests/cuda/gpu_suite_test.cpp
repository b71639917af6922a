// The suite for a machine with a GPU, carried out here on a stand-in for one: that its checks are
// possible, that right numbers pass, and that wrong ones do not.

#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"
#include "tests/gpu/checks.hpp"

using namespace stagecraft;

namespace {

using Names = std::vector<std::string>;

/// A device that counts a row twice when it adds up a bias's gradient.
class Inexact final : public tests::DistantBackend {
 public:
  void bias_gradient(const Tensor& gradient, Tensor& sum) override {
    DistantBackend::bias_gradient(gradient, sum);
    DistantBackend::bias_gradient(rows_of(gradient, 0, 1), sum);
  }
};

/// A device whose attention comes out a little different each time.
class Restless final : public tests::DistantBackend {
 public:
  void attention_input(const Tensor& dy, const Tensor& qkv, const Tensor& y, const Tensor& log_sum,
                       const AttentionShape& shape, Tensor& dqkv) override {
    DistantBackend::attention_input(dy, qkv, y, log_sum, shape, dqkv);
    scale(1 + 1e-6 * ++times_, dqkv);
  }

 private:
  int times_ = 0;
};

/// The names of what failed; the number of all that was checked is at least this.
class Failures {
 public:
  gpu::Report report() {
    return [this](const gpu::Outcome& outcome) {
      ++checks_;
      if (!outcome.passed) names_.push_back(outcome.name);
    };
  }
  const Names& of_at_least(int least) const {
    CHECK(checks_ >= least);
    return names_;
  }

 private:
  int checks_ = 0;
  Names names_;
};

template <class Device>
gpu::Maker maker() {
  return [](int, const CudaOptions&) { return std::make_unique<Device>(); };
}

constexpr AttentionShape small_attention{
    .samples = 2, .sequence = 16, .heads = 4, .key_value_heads = 4, .head_width = 8};

Names failed_kernels_of(Backend& backend, std::string_view only, int least) {
  Failures failures;
  gpu::check_kernels(backend, {.only = std::string(only)}, failures.report());
  return failures.of_at_least(least);
}

template <class Device>
Names failed_sizes_of() {
  Failures failures;
  gpu::check_sizes({.make = maker<Device>(),
                    .precisions = {Precision::float32},
                    .rows = 96,
                    .widths = {16},
                    .vocabulary = 80},
                   failures.report());
  return failures.of_at_least(18);
}

template <class Device>
Names failed_attention_of() {
  Failures failures;
  gpu::check_attention(
      {.make = maker<Device>(), .precision = Precision::float32, .shapes = {small_attention}},
      failures.report());
  return failures.of_at_least(2);
}

}  // namespace

TEST_CASE("the checks of kernels accept a right device and name what a wrong one gets wrong",
          "[seconds]") {
  tests::DistantBackend right;
  CHECK(failed_kernels_of(right, "", 40) == Names{});
  Inexact wrong;
  CHECK(failed_kernels_of(wrong, "bias and its", 2) ==
        Names{"bias and its gradient in fp32", "bias and its gradient in bf16"});
}

TEST_CASE("checks of real sizes accept a right device and name what a wrong one gets wrong") {
  CHECK(failed_sizes_of<tests::DistantBackend>() == Names{});
  CHECK(failed_sizes_of<Inexact>() ==
        Names{"gradients of the weight and bias of 96 x 16 x 48, added in fp32",
              "gradients of the weight and bias of 96 x 64 x 16, added in fp32"});
}

TEST_CASE("attention that is to be deterministic has the same bits each time") {
  CHECK(failed_attention_of<tests::DistantBackend>() == Names{});
  CHECK(failed_attention_of<Restless>() ==
        Names{"attention of 2 x 16 tokens, 4 heads of 8, in one order"});
}

TEST_CASE("smoke is found on no device that computes rightly", "[seconds]") {
  Failures failures;
  gpu::check_smoke({.make = maker<tests::DistantBackend>(),
                    .precision = Precision::float32,
                    .attention = small_attention,
                    .width = 16},
                   failures.report());
  // How parts of a GPU are timed says nothing here.
  for (const std::string& name : failures.of_at_least(8)) CHECK(name.find("quarter") != name.npos);
}

TEST_CASE("only the checks that are wanted are carried out") {
  tests::DistantBackend right;
  Names told;
  gpu::check_kernels(right,
                     {.wanted = [](const std::string& name) { return name == "gelu in bf16"; }},
                     [&](const gpu::Outcome& outcome) { told.push_back(outcome.name); });
  CHECK(told == Names{"gelu in bf16"});
}
