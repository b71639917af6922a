// OpenBLAS, loaded when the first product needs it. A linked OpenBLAS starts its threads in every
// process, also in those that only plan or simulate.

#pragma once

#include <cblas.h>

namespace stagecraft::cpu {

/// The functions of OpenBLAS in use.
struct OpenBlas {
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&openblas_set_num_threads) set_num_threads = nullptr;
  decltype(&openblas_get_config) get_config = nullptr;
  decltype(&openblas_get_corename) get_corename = nullptr;
};

/// Loaded at the first call, once for the process. Throws Error (execution) where that fails.
const OpenBlas& openblas();

}  // namespace stagecraft::cpu
