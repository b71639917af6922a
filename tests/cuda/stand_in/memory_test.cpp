// Memory of a GPU, with and without pools.

#include "executor/backends/cuda/memory.hpp"

#include "tests/catch.hpp"
#include "tests/cuda/stand_in/streams.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("memory is taken and given back where a GPU has no pools, too") {
  const bool pools = GENERATE(true, false);
  stand_in::set_up({.memory_pools = pools});
  const auto memory = std::make_shared<cuda::Memory>(0);
  std::shared_ptr<void> block = memory->allocate(1000);
  CHECK(memory->allocated().now() == 1000);
  stand_in::enqueue(memory->raw_stream(), "use",
                    [data = block.get()] { stand_in::require_usable(data, 1000); });
  memory->keep_what_is_given_back();
  block = nullptr;  // after the stream has used it, in both cases
  memory->let_go();
  CHECK(memory->allocated().now() == 0);
  cudaStreamSynchronize(memory->raw_stream());
  CHECK(stand_in::complaints() == std::vector<std::string>{});
}

TEST_CASE("memory is given back on its own GPU, whichever is the thread's") {
  const bool pools = GENERATE(true, false);
  stand_in::set_up({.devices = 2, .memory_pools = pools});
  std::shared_ptr<void> block = std::make_shared<cuda::Memory>(1)->allocate(1000);
  cudaSetDevice(0);
  block = nullptr;
  int current = -1;
  cudaGetDevice(&current);
  CHECK(current == 0);
  CHECK(stand_in::complaints() == std::vector<std::string>{});
}
