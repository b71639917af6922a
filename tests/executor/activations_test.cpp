// GELU and SwiGLU are computed in blocks of elements, which nobody must be able to tell.

#include <array>
#include <cstdint>

#include "executor/backends/backend.hpp"
#include "tests/catch.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

// Whole blocks, and parts of one.
constexpr std::array<std::int64_t, 5> counts{1, 63, 64, 65, 200};

}  // namespace

TEST_CASE("GELU and its gradient are the same bits for one element as for many") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const std::int64_t count = GENERATE(from_range(counts));
  const auto backend = make_cpu_backend();
  const Tensor x = noise(*backend, {count, 1}, precision, 1, 0, 4),
               dy = noise(*backend, {count, 1}, precision, 2);
  Tensor y = backend->allocate({count, 1}, precision),
         dx = backend->allocate({count, 1}, precision);
  backend->gelu(x, y);
  backend->gelu_input(dy, x, dx);
  for (std::int64_t i = 0; i < count; ++i) {
    Tensor one = backend->allocate({1, 1}, precision);
    backend->gelu(rows_of(x, i, i + 1), one);
    CHECK(values(one)[0] == value(y, static_cast<std::size_t>(i)));
    backend->gelu_input(rows_of(dy, i, i + 1), rows_of(x, i, i + 1), one);
    CHECK(values(one)[0] == value(dx, static_cast<std::size_t>(i)));
  }
}

TEST_CASE("GELU's gradient may replace the gradient it comes from") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const auto backend = make_cpu_backend();
  const Tensor x = noise(*backend, {200}, precision, 1, 0, 4);
  Tensor dy = noise(*backend, {200}, precision, 2), dx = backend->allocate({200}, precision);
  backend->gelu_input(dy, x, dx);
  backend->gelu_input(dy, x, dy);
  CHECK(values(dy) == values(dx));
}

TEST_CASE("SwiGLU and its gradient are the same bits for one element as for many") {
  const Precision precision = GENERATE(from_range(both_precisions));
  const std::int64_t width = GENERATE(from_range(counts));
  const auto backend = make_cpu_backend();
  const auto element = [](std::int64_t i) { return static_cast<std::size_t>(i); };
  const Tensor x = noise(*backend, {1, 2 * width}, precision, 1, 0, 4),
               dy = noise(*backend, {1, width}, precision, 2);
  Tensor y = backend->allocate({1, width}, precision),
         dx = backend->allocate({1, 2 * width}, precision);
  backend->swiglu(x, y);
  backend->swiglu_input(dy, x, dx);
  for (std::int64_t i = 0; i < width; ++i) {
    const double gate = value(x, element(i)), up = value(x, element(width + i));
    const Tensor pair = tensor_of(*backend, {1, 2}, precision, {gate, up}),
                 gradient = tensor_of(*backend, {1, 1}, precision, {value(dy, element(i))});
    Tensor one = backend->allocate({1, 1}, precision), two = backend->allocate({1, 2}, precision);
    backend->swiglu(pair, one);
    backend->swiglu_input(gradient, pair, two);
    CHECK(values(one)[0] == value(y, element(i)));
    CHECK(values(two) == Values{value(dx, element(i)), value(dx, element(width + i))});
  }
}
