#include "executor/values/tensor.hpp"

#include "tests/catch.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("a tensor without memory has no elements, whatever its shape") {
  const Tensor tensor;
  CHECK(tensor.empty());
  CHECK(tensor.elements() == 0);
  CHECK(tensor.bytes() == 0);
}

TEST_CASE("a tensor's size is its elements times the element's size") {
  const auto backend = make_cpu_backend();
  CHECK(backend->allocate({2, 3, 5}, Precision::float32).bytes() == 2 * 3 * 5 * 4);
  CHECK(backend->allocate({2, 3, 5}, Precision::float64).bytes() == 2 * 3 * 5 * 8);
}

TEST_CASE("a reshaped tensor is the same memory") {
  const auto backend = make_cpu_backend();
  const Tensor tensor = noise(*backend, {4, 6}, Precision::float32, 1);
  const Tensor other = reshaped(tensor, {2, 2, 6});
  CHECK(other.storage == tensor.storage);
  CHECK(other.shape == std::vector<std::int64_t>{2, 2, 6});
  CHECK(values(other) == values(tensor));
}

TEST_CASE("rows of a tensor are a window into its memory, and keep it alive") {
  const auto backend = make_cpu_backend();
  Tensor tensor = noise(*backend, {5, 2, 3}, Precision::float64, 1);
  Values expected = values(tensor);
  expected = {expected.begin() + 1 * 6, expected.begin() + 3 * 6};
  Tensor rows = rows_of(tensor, 1, 3);
  CHECK(rows.shape == std::vector<std::int64_t>{2, 2, 3});
  CHECK(rows.bytes() == 2 * 6 * 8);
  tensor = {};
  CHECK(values(rows) == expected);
  CHECK(backend->allocated_bytes() == 5 * 6 * 8);
  rows = {};
  CHECK(backend->allocated_bytes() == 0);
}

TEST_CASE("no rows of a tensor are no bytes") {
  const auto backend = make_cpu_backend();
  const Tensor tensor = noise(*backend, {5, 2}, Precision::float32, 1);
  CHECK(rows_of(tensor, 5, 5).bytes() == 0);
}
