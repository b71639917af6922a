// What operations of the CUDA backend are made of: for its own sources.

#pragma once

#include <cassert>

#include "executor/backends/cuda/check.hpp"
#include "executor/backends/cuda/cuda_backend.hpp"
#include "profiles/error.hpp"

namespace stagecraft::cuda {

/// Calls compute(T{}) with the type of the tensor's elements.
template <class Compute>
void with_type(Precision precision, Compute compute) {
  switch (precision) {
    case Precision::float32: return compute(float{});
    case Precision::bfloat16: return compute(Bfloat16{});
    case Precision::float64:
    case Precision::float16:
    case Precision::float8:
    case Precision::float8_with_attention: break;
  }
  fail("the CUDA backend computes in bf16 or fp32, not in ", to_string(precision));
}

/// Leading dimensions folded into rows.
inline std::int64_t column_count(const Tensor& tensor) {
  return tensor.shape.empty() ? 0 : tensor.shape.back();
}

inline std::int64_t row_count(const Tensor& tensor) {
  const std::int64_t columns = column_count(tensor);
  return columns == 0 ? 0 : tensor.elements() / columns;
}

template <class Number>
std::shared_ptr<Number> CudaBackend::room(std::int64_t count) {
  return std::static_pointer_cast<Number>(
      scratch_->allocate(count * static_cast<Bytes>(sizeof(Number))));
}

/// Before the list that uses it, and not part of it.
template <class Number>
std::shared_ptr<Number> CudaBackend::on_device(std::span<const Number> numbers) {
  const auto bytes = static_cast<Bytes>(numbers.size_bytes());
  auto copy = std::static_pointer_cast<Number>(inputs_->allocate(bytes));
  upload_now(numbers.data(), bytes, copy.get());
  if (commands_.collects()) held_inputs_.push_back(copy);
  return copy;
}

template <class Number>
std::shared_ptr<Number> CudaBackend::kept_on_device(std::span<const Number> numbers) {
  const auto bytes = static_cast<Bytes>(numbers.size_bytes());
  auto copy = std::static_pointer_cast<Number>(memory_->allocate(bytes));
  upload_now(numbers.data(), bytes, copy.get());
  return copy;
}

template <class Number>
std::vector<Number> CudaBackend::on_host(const Number* numbers, std::int64_t count) {
  std::vector<Number> copy(static_cast<std::size_t>(count));
  check(cudaMemcpyAsync(copy.data(), numbers, copy.size() * sizeof(Number), cudaMemcpyDeviceToHost,
                        commands_.stream()),
        "copy from the GPU");
  check(cudaStreamSynchronize(commands_.stream()), "finish the work on the GPU");
  return copy;
}

/// Numbers on their way to the process.
template <class Result, class Number, class Combine>
class Readback final : public LateSource<Result> {
 public:
  Readback(std::shared_ptr<Pinned::Block> block, std::int64_t count, Combine combine)
      : block_(std::move(block)), count_(count), combine_(combine) {}
  Pinned::Block& block() const { return *block_; }
  Result get() const override {
    block_->busy().wait();
    return combine_(std::span<const Number>(static_cast<const Number*>(block_->data()),
                                            static_cast<std::size_t>(count_)));
  }

 private:
  std::shared_ptr<Pinned::Block> block_;
  std::int64_t count_;
  Combine combine_;
};

template <class Result, class Number, class Combine>
Late<Result> CudaBackend::later(std::shared_ptr<Number> room, std::int64_t count, Combine combine) {
  const auto bytes = count * static_cast<Bytes>(sizeof(Number));
  const auto readback =
      std::make_shared<Readback<Result, Number, Combine>>(pinned_->take(bytes), count, combine);
  commands_.add_behind([this, readback, room = std::move(room), bytes](cudaStream_t stream) {
    check(cudaMemcpyAsync(readback->block().data(), room.get(), static_cast<std::size_t>(bytes),
                          cudaMemcpyDeviceToHost, stream),
          "copy from the GPU");
    readback->block().keep_until(events_->record(stream, false));
  });
  return Late<Result>(readback);
}

template <class Element>
void CudaBackend::each_element(std::int64_t count, const Element& element) {
  for_each_element(commands_, count, element);
}

template <class Term>
ColumnSums CudaBackend::chunk_sums(const Tensor& rows, const Term& term) {
  const std::int64_t columns = column_count(rows);
  const RowChunks chunks = chunks_of<typename Term::Element>(row_count(rows), columns);
  auto sums = room<float>(Term::sums * chunks.count() * columns);
  sum_chunks(commands_, chunks, columns, term, sums.get());
  return {std::move(sums), chunks.count(), columns};
}

}  // namespace stagecraft::cuda
