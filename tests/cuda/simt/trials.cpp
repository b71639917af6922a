#include "tests/cuda/simt/trials.hpp"

namespace stagecraft::tests {

Results by_order(unsigned seed, const std::function<Results(cudaStream_t)>& work) {
  stand_in::set_up({.seed = seed});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Results left = work(stream);
  cudaStreamDestroy(stream);
  for (const stand_in::Launch& each : stand_in::launches()) {
    kernels_tried().emplace(each.kernel);
  }
  CHECK(stand_in::complaints() == std::vector<std::string>{});
  return left;
}

Results by_two_orders(const std::function<Results(cudaStream_t)>& work) {
  Results first = by_order(1, work);
  CHECK((by_order(977, work) == first));
  return first;
}

double largest_error(const Values& actual, const Values& expected) {
  if (actual.size() != expected.size()) return INFINITY;
  double squares = 0;
  for (const double each : expected) squares += each * each;
  const double size = std::sqrt(squares / static_cast<double>(expected.size()));
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]);
    if (difference == 0) continue;
    const double error = difference / (std::abs(expected[i]) + size);
    if (!(error <= largest)) largest = error;  // what is no number is worse than all
  }
  return largest;
}

}  // namespace stagecraft::tests
