#include "executor/backends/cpu/chosen_kernels.hpp"
#include "executor/backends/cpu/kernels.hpp"
#include "executor/backends/cpu/openblas.hpp"

namespace stagecraft::cpu {

namespace {

CBLAS_TRANSPOSE operation(bool transposed) {
  return transposed ? CblasTrans : CblasNoTrans;
}

blasint size(std::int64_t value) {
  return static_cast<blasint>(value);
}

}  // namespace

void multiply(double alpha, Factor<float> a, Factor<float> b, std::int64_t inner, double beta,
              Product<float> c) {
  openblas().sgemm(CblasRowMajor, operation(a.transposed), operation(b.transposed), size(c.rows),
                   size(c.columns), size(inner), static_cast<float>(alpha), a.data, size(a.stride),
                   b.data, size(b.stride), static_cast<float>(beta), c.data, size(c.stride));
}

void multiply(double alpha, Factor<double> a, Factor<double> b, std::int64_t inner, double beta,
              Product<double> c) {
  openblas().dgemm(CblasRowMajor, operation(a.transposed), operation(b.transposed), size(c.rows),
                   size(c.columns), size(inner), alpha, a.data, size(a.stride), b.data,
                   size(b.stride), beta, c.data, size(c.stride));
}

}  // namespace stagecraft::cpu

namespace stagecraft {

std::string chosen_matmul_kernels() {
  return cpu::openblas().get_corename();
}

}  // namespace stagecraft
