// Matrix products by cuBLASLt. The algorithm for a product is looked up once and kept: it depends
// on shapes, strides, types and alignment alone, so the same product has the same bits whoever
// asks.

#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <compare>
#include <cstdint>
#include <map>
#include <memory>

#include "executor/backends/cuda/commands.hpp"
#include "executor/backends/cuda/scratch.hpp"
#include "profiles/model.hpp"

namespace stagecraft::cuda {

/// Rows x columns in memory, row major; neighbouring rows are `stride` elements apart, and the
/// matrices of a batch `batch_stride`.
struct Operand {
  const void* data = nullptr;
  Precision precision = Precision::float32;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;
  std::int64_t batch_stride = 0;
  bool transposed = false;
};

/// A matrix without gaps.
Operand dense(const void* data, Precision precision, std::int64_t rows, std::int64_t columns,
              bool transposed = false);

/// What is done to a product where it is written: an epilogue, in cuBLASLt's words.
struct Fused {
  enum class Kind : std::uint8_t {
    none,
    gelu,        ///< gelu of it, which goes to `before`; GELU_AUX
    gelu_input,  ///< times gelu's slope at `before`; DGELU
  };
  Kind kind = Kind::none;
  const void* bias = nullptr;      ///< added to each row, before `gelu`; null: none
  const void* before = nullptr;    ///< as large as the product, without gaps
  const void* residual = nullptr;  ///< added to the product, likewise; null: none
};

class Matmul {
 public:
  /// The most that an algorithm may ask of `scratch` while it runs.
  static constexpr Bytes most_workspace = Bytes{32} << 20;

  /// For a stream that has so many multiprocessors; 0: all there are.
  Matmul(std::shared_ptr<Scratch> scratch, int multiprocessors);
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;
  ~Matmul();

  /// c (+)= op(a) op(b) for every matrix of the batch, computed in fp32, all on one stream.
  /// Throws Error (execution) if cuBLASLt knows no
  /// algorithm.
  void run(Commands& commands, const Operand& a, const Operand& b, const Operand& c,
           bool accumulate, std::int64_t batch = 1);

  /// The same of one matrix, in parts where its extents would make it slow: tensors whose rows are
  /// aligned, but end in between (50257 logits), are up to ten times as fast without their last
  /// numbers, which then are a product of their own.
  void run_in_parts(Commands& commands, const Operand& a, const Operand& b, const Operand& c,
                    bool accumulate);

  /// The same of one matrix with something done to it. False, and nothing is done, if cuBLASLt has
  /// no algorithm for that: it is asked once per shape.
  bool try_run(Commands& commands, const Operand& a, const Operand& b, const Operand& c,
               bool accumulate, const Fused& fused);

 private:
  /// What an algorithm depends on.
  struct Shape {
    std::int64_t rows, columns, inner, batch;
    std::int64_t stride_a, stride_b, stride_c;
    std::int64_t batch_a, batch_b, batch_c;
    bool transpose_a, transpose_b, accumulate, aligned;
    Precision a, b, c;
    Fused::Kind fused = Fused::Kind::none;
    bool has_bias = false, has_residual = false;
    auto operator<=>(const Shape&) const = default;
  };
  struct Product;

  static Shape shape_of(const Operand& a, const Operand& b, const Operand& c, bool accumulate,
                        std::int64_t batch);
  /// With the fused part's addresses in its description.
  Product& product(const Shape& shape, const Fused& fused);
  void multiply(Commands& commands, Product& product, const Operand& a, const Operand& b,
                const Operand& c, const Fused& fused, const void* added);

  std::shared_ptr<Scratch> scratch_;
  int multiprocessors_;
  cublasLtHandle_t handle_ = nullptr;
  std::map<Shape, std::unique_ptr<Product>> products_;
};

}  // namespace stagecraft::cuda
