// Tiny training on the CUDA backend, which the stand-in carries out.

#pragma once

#include "executor/backends/cuda/cuda_backend.hpp"
#include "executor/backends/dry.hpp"
#include "executor/driver/machinery.hpp"
#include "executor/driver/rank_map.hpp"
#include "tests/catch.hpp"
#include "tests/cuda/stand_in/streams.hpp"
#include "tests/executor/tiny_training.hpp"

namespace stagecraft::tests {

inline Machinery on_stand_in(const CudaOptions& options, int devices = 1) {
  Machinery machinery;
  machinery.make_backend = [=](int rank) {
    return std::make_unique<cuda::CudaBackend>(cuda::place_of(rank, options, devices), options);
  };
  machinery.make_dry_backend = [] { return std::make_unique<DryBackend>(); };
  return machinery;
}

inline RunResult run_on_stand_in(const Prepared& prepared, RunOptions options, int devices = 1) {
  options.backend = BackendKind::cuda;
  options.cuda.ranks = ranks_of(prepared.plan, prepared.compiled.program).ranks();
  return execute(prepared.plan, prepared.profile, prepared.compiled, prepared.dataset, options,
                 on_stand_in(options.cuda, devices));
}

inline RunResult reference_on_stand_in(const Prepared& prepared, RunOptions options,
                                       int devices = 1) {
  options.backend = BackendKind::cuda;
  options.cuda.ranks = ranks_of(prepared.plan, prepared.compiled.program).ranks();
  return run_reference(prepared.plan, prepared.profile, prepared.dataset, options,
                       on_stand_in(options.cuda, devices));
}

/// Every order in which streams may go on, some with two seeds.
inline std::vector<stand_in::Machine> machines() {
  using stand_in::Order;
  return {{.order = Order::last_moment},
          {.order = Order::others_first},
          {.order = Order::drawn, .seed = 1},
          {.order = Order::drawn, .seed = 2}};
}

inline void require_no_complaints() {
  CHECK(stand_in::complaints() == std::vector<std::string>{});
}

}  // namespace stagecraft::tests
