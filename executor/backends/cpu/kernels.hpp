// The arithmetic of the CPU backend on plain memory; float and double. What each means is said at
// Backend.

#pragma once

#include <cstdint>
#include <span>

#include "executor/backends/backend.hpp"
#include "executor/backends/cpu/vectorised.hpp"

namespace stagecraft::cpu {

// matmul.cpp

/// One factor of a product inside a larger matrix: neighbouring rows are `stride` elements apart.
template <class T>
struct Factor {
  const T* data = nullptr;
  std::int64_t stride = 0;
  bool transposed = false;
};
template <class T>
struct Product {
  T* data = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
/// c = alpha op(a) op(b) + beta c, over `inner` terms.
void multiply(double alpha, Factor<float> a, Factor<float> b, std::int64_t inner, double beta,
              Product<float> c);
void multiply(double alpha, Factor<double> a, Factor<double> b, std::int64_t inner, double beta,
              Product<double> c);

// elementwise.cpp

template <class T>
void add(const T* x, T* y, std::int64_t count);
template <class T>
void add_bias(const T* bias, Matrix<T> x);
template <class T>
void add_rows(Matrix<const T> rows, T* sum);
template <class T>
void gelu(const T* x, T* y, std::int64_t count);
/// dx may be dy.
template <class T>
void gelu_input(const T* dy, const T* x, T* dx, std::int64_t count);
template <class T>
void swiglu(Matrix<const T> x, T* y);
template <class T>
void swiglu_input(const T* dy, Matrix<const T> x, T* dx);

template <class T>
void relu(T* x, std::int64_t count);
template <class T>
void relu_input(const T* dy, const T* y, T* dx, std::int64_t count);

/// By the error function.
template <class T>
void exact_gelu(const T* x, T* y, std::int64_t count);
template <class T>
void exact_gelu_input(const T* dy, const T* x, T* dx, std::int64_t count);
template <class T>
void geglu(Matrix<const T> x, T* y);
template <class T>
void geglu_input(const T* dy, Matrix<const T> x, T* dx);
/// y = 1 + x.
template <class T>
void one_more(const T* x, T* y, std::int64_t count);

// experts.cpp

struct ExpertSizes {
  std::int64_t tokens = 0;
  std::int64_t hidden = 0;
  std::int64_t inner = 0;   ///< of one expert
  std::int64_t active = 0;  ///< experts that a token passes
};
/// As ExpertChoice: probabilities [tokens, experts], chosen [tokens, active].
template <class T>
struct ExpertRows {
  Matrix<const T> probabilities;
  Matrix<const T> chosen;
  bool shares_add_up = true;
  T probability(std::int64_t token, std::int64_t rank) const {
    return probabilities.row(token)[static_cast<std::int64_t>(chosen.row(token)[rank])];
  }
};
template <class T>
void choose_experts(Matrix<T> logits, std::int64_t active, T* chosen);
/// Elements of workspace: of forward and of the weights' gradients; of backward_input.
std::int64_t experts_workspace(const ExpertSizes& sizes);
std::int64_t experts_input_workspace(const ExpertSizes& sizes);
template <class T>
void experts(const T* x, const ExpertSizes& sizes, const ExpertRows<T>& choice,
             std::span<const T* const> up, std::span<const T* const> down, T* before, T* active,
             T* y, T* workspace);
template <class T>
void experts_input(const T* dy, const ExpertSizes& sizes, const ExpertRows<T>& choice,
                   std::span<const T* const> up, std::span<const T* const> down, const T* before,
                   const T* active, T* dbefore, T* dx, T* dlogits, T* workspace);
template <class T>
void experts_weight(const T* x, const T* dy, const ExpertSizes& sizes, const ExpertRows<T>& choice,
                    const T* active, const T* dbefore, std::span<T* const> dup,
                    std::span<T* const> ddown, T* workspace);

// convolution.cpp

/// Elements of workspace each of the three below needs.
std::int64_t convolution_workspace(const ConvolutionShape& shape);
template <class T>
void convolution(const T* x, const T* weight, const T* bias, const ConvolutionShape& shape, T* y,
                 T* workspace);
template <class T>
void convolution_input(const T* dy, const T* weight, const ConvolutionShape& shape, T* dx,
                       T* workspace);
template <class T>
void convolution_weight(const T* dy, const T* x, const ConvolutionShape& shape, T* dweight,
                        T* dbias, T* workspace);

// images.cpp

template <class T>
void images(std::span<const std::int32_t> pixels, T* y);
template <class T>
void max_pool(const T* x, const PoolShape& shape, T* y);
template <class T>
void max_pool_input(const T* dy, const T* x, const PoolShape& shape, T* dx);

// norms.cpp

template <class T>
void layer_norm(Matrix<const T> x, const T* weight, const T* bias, T epsilon, T* y, T* mean,
                T* scale);
template <class T>
void layer_norm_input(const T* dy, Matrix<const T> x, const T* weight, const T* mean,
                      const T* scale, T* dx);
template <class T>
void layer_norm_weight(const T* dy, Matrix<const T> x, const T* mean, const T* scale, T* dweight,
                       T* dbias);
template <class T>
void rms_norm(Matrix<const T> x, const T* weight, T epsilon, T* y, T* scale);
template <class T>
void rms_norm_input(const T* dy, Matrix<const T> x, const T* weight, const T* scale, T* dx);
template <class T>
void rms_norm_weight(const T* dy, Matrix<const T> x, const T* scale, T* dweight);

/// Norms side by side in a row of something wider: queries' or keys'. Neighbouring rows are so many
/// elements apart in each of three tensors.
struct NormsOfRows {
  std::int64_t rows = 0;
  std::int64_t norms = 0;
  std::int64_t width = 0;   ///< of one norm
  std::int64_t stride = 0;  ///< of the wider rows
  std::int64_t raw_stride = 0;
  std::int64_t scale_stride = 0;
};
/// In place, with what was there in `raw`; gradients likewise, with theirs in `dnormed`.
template <class T>
void norms_of_rows(T* x, const NormsOfRows& shape, const T* weight, T epsilon, T* raw, T* scale);
template <class T>
void norms_of_rows_input(T* dx, const NormsOfRows& shape, const T* raw, const T* scale,
                         const T* weight, T* dnormed);
template <class T>
void norms_of_rows_weight(const T* dnormed, const NormsOfRows& shape, const T* raw, const T* scale,
                          T* dweight);

// attention.cpp

template <class T>
void rotary(T* qkv, const AttentionShape& shape, std::span<const double> frequencies, bool inverse);
/// Elements of workspace the two below need.
std::int64_t attention_workspace(const AttentionShape& shape);
std::int64_t attention_input_workspace(const AttentionShape& shape);
template <class T>
void attention(const T* qkv, const AttentionShape& shape, T* y, T* log_sum, T* workspace);
template <class T>
void attention_input(const T* dy, const T* qkv, const T* y, const T* log_sum,
                     const AttentionShape& shape, T* dqkv, T* workspace);

// embedding.cpp

/// `positions` without rows: none.
template <class T>
void embedding(std::span<const std::int32_t> tokens, Matrix<const T> table, std::int64_t first,
               Matrix<const T> positions, std::int64_t sequence, T* y);
template <class T>
void embedding_weight(std::span<const std::int32_t> tokens, const T* dy, std::int64_t first,
                      std::int64_t sequence, Matrix<T> dtable, Matrix<T> dpositions);

// cross_entropy.cpp

template <class T>
double cross_entropy(Matrix<T> logits, std::span<const std::int32_t> targets, double scale);

template <class T>
void largest_logits(Matrix<const T> logits, T* tops);
template <class T>
void exponentials(Matrix<T> logits, const T* tops, std::span<const std::int32_t> targets,
                  std::int64_t first, Matrix<T> sums);
template <class T>
double cross_entropy_of_part(Matrix<T> logits, Matrix<const T> sums,
                             std::span<const std::int32_t> targets, std::int64_t first,
                             double scale);

// optimizers.cpp

template <class T>
struct Moments {
  T* first = nullptr;
  T* second = nullptr;
};
template <class T>
void adamw(const AdamW& options, int step, const T* gradient, Moments<T> moments, const T* weight,
           T* updated, std::int64_t count);
template <class T>
void sgd(const Sgd& options, const T* gradient, const T* weight, T* updated, std::int64_t count);
template <class T>
void scale(T factor, T* x, std::int64_t count);
template <class T>
double sum_of_squares(const T* x, std::int64_t count);

}  // namespace stagecraft::cpu
