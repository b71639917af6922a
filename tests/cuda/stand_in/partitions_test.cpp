// Ranks that share a GPU with a part of its multiprocessors each.

#include "profiles/error.hpp"
#include "tests/cuda/stand_in/training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("four ranks divide a GPU of 132 multiprocessors into parts of 32") {
  stand_in::set_up({.multiprocessors = 132, .granularity = 8});
  {
    const CudaOptions options{.partitions = true, .ranks = 4};
    std::vector<std::unique_ptr<cuda::Memory>> memories;
    for (int rank = 0; rank < 4; ++rank) {
      const cuda::Place place = cuda::place_of(rank, options, 1);
      CHECK(place.part == rank);
      REQUIRE(place.parts == 4);
      memories.push_back(std::make_unique<cuda::Memory>(
          place.device, cuda::Partitions::of_device(place.device, place.parts), place.part));
      CHECK(memories.back()->multiprocessors() == 32);
      CHECK(stand_in::multiprocessors_of(memories.back()->raw_stream()) == 32);
    }
  }
  require_no_complaints();
}

TEST_CASE("a divided GPU trains with the bits of one rank on a part of it") {
  stand_in::set_up({.order = stand_in::Order::drawn, .seed = 5});
  const Precision precision = GENERATE(Precision::float32, Precision::bfloat16);
  const Prepared prepared =
      prepare({.schedule = "zb-h1", .devices = 4, .microbatches = 6, .precision = precision});
  const RunOptions options{.steps = 3, .cuda = {.partitions = true, .ranks = 4}};
  CHECK(first_difference(run_on_stand_in(prepared, options),
                         reference_on_stand_in(prepared, options)) == "");
  require_no_complaints();
}

TEST_CASE("a GPU that cannot be divided among so many is refused with what would do") {
  stand_in::set_up({.multiprocessors = 132, .granularity = 8});
  CHECK_THROWS_WITH(
      cuda::Partitions::of_device(0, 20),
      ContainsSubstring("GPU 0 has 132 multiprocessors in parts of 8 or more, so it cannot be "
                        "divided among 20 ranks; use at most 16 ranks per GPU"));
  CHECK_THROWS_WITH(cuda::place_of(0, {.partitions = true, .ranks = 5}, 2),
                    ContainsSubstring("5 ranks do not divide evenly among the GPUs (3 on one, 2 on "
                                      "another)"));
  CHECK_THROWS_WITH(cuda::place_of(1, {.gpus = {0, 2}}, 2),
                    ContainsSubstring("--gpus: there is no GPU 2 here; the last one is 1"));
}
