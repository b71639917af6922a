#include "executor/values/late.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace stagecraft {

namespace {

class Sum final : public LateSource<double> {
 public:
  explicit Sum(std::vector<Late<double>> numbers) : numbers_(std::move(numbers)) {}
  double get() const override {
    double sum = 0;
    for (const Late<double>& number : numbers_) sum += number.get();
    return sum;
  }

 private:
  std::vector<Late<double>> numbers_;
};

}  // namespace

Late<double> sum_of(std::vector<Late<double>> numbers) {
  const bool all_there = std::ranges::all_of(numbers, &Late<double>::is_there);
  const auto sum = std::make_shared<Sum>(std::move(numbers));
  return all_there ? Late<double>(sum->get()) : Late<double>(sum);
}

Moment now() {
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch());
}

}  // namespace stagecraft
