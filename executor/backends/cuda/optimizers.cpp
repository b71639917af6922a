#include "executor/backends/cuda/optimizers.hpp"

#include <cmath>

namespace stagecraft::cuda {

AdamWStep adamw_step(const AdamW& options, int step) {
  AdamWStep element{};
  element.keep_first = static_cast<float>(options.beta1);
  element.take_first = static_cast<float>(1 - options.beta1);
  element.keep_second = static_cast<float>(options.beta2);
  element.take_second = static_cast<float>(1 - options.beta2);
  element.rate = static_cast<float>(options.learning_rate / (1 - std::pow(options.beta1, step)));
  element.correction = static_cast<float>(1 / std::sqrt(1 - std::pow(options.beta2, step)));
  element.epsilon = static_cast<float>(options.epsilon);
  element.decay = static_cast<float>(options.learning_rate * options.weight_decay);
  return element;
}

}  // namespace stagecraft::cuda
