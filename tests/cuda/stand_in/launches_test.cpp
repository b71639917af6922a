// How much a step asks the GPU for.

#include "tests/cuda/stand_in/training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// Kernels, library calls and fills of memory of so many steps, call by call.
long launches_of(const Prepared& prepared, int steps) {
  stand_in::set_up({});
  RunOptions options{.steps = steps};
  options.cuda.graphs = GraphUse::off;
  run_on_stand_in(prepared, options);
  require_no_complaints();
  return stand_in::counts().launches;
}

}  // namespace

TEST_CASE("a step asks a GPU for 20 kernels and library calls a block, and a few more",
          "[seconds]") {
  const Prepared prepared =
      prepare({.microbatches = 1, .precision = Precision::bfloat16, .style = Style::gpt2});
  const int blocks = static_cast<int>(prepared.profile.model.layers.size()) - 2;
  // Forward: 2 norms, 4 products, attention. Back: 4 products, attention, 2 norms, 4 gradients of
  // weights, and of 2 biases, for norms have those of the others.
  const int of_a_block = 7 + 13;
  // Embedding, norm, logits, loss; 2 products and a norm back; two tables' gradients; sums of
  // chunks; a tied table's two gradients; a flag and whether they are finite; the optimizer's step.
  const int of_the_rest = 4 + 3 + 2 + 1 + 1 + 2 + 1;
  CHECK(launches_of(prepared, 3) - launches_of(prepared, 2) == blocks * of_a_block + of_the_rest);
}
