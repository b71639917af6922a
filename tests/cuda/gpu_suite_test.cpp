// The suite for a machine with a GPU, carried out here on a stand-in for one: that its checks are
// possible, that right numbers pass, and that wrong ones do not.

#include "tests/catch.hpp"
#include "tests/executor/distant_backend.hpp"
#include "tests/gpu/checks.hpp"

using namespace stagecraft;

namespace {

/// A device that counts a row twice when it adds up a bias's gradient.
class Inexact final : public tests::DistantBackend {
 public:
  void bias_gradient(const Tensor& gradient, Tensor& sum) override {
    DistantBackend::bias_gradient(gradient, sum);
    DistantBackend::bias_gradient(rows_of(gradient, 0, 1), sum);
  }
};

std::vector<std::string> failures_on(Backend& backend, std::string_view only, int least) {
  std::vector<std::string> failures;
  int checks = 0;
  gpu::check_kernels(backend, {.only = std::string(only)}, [&](const gpu::Outcome& outcome) {
    ++checks;
    if (!outcome.passed) failures.push_back(outcome.name);
  });
  CHECK(checks >= least);
  return failures;
}

}  // namespace

TEST_CASE("the checks of kernels accept a right device and name what a wrong one gets wrong") {
  tests::DistantBackend right;
  CHECK(failures_on(right, "", 40) == std::vector<std::string>{});
  Inexact wrong;
  CHECK(failures_on(wrong, "bias and its", 2) ==
        std::vector<std::string>{"bias and its gradient in fp32", "bias and its gradient in bf16"});
}
