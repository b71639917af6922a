// How many training runs are costed in a second: operations of every layer, their times, the step
// and its memory.

#include <benchmark/benchmark.h>

#include "planner/calibration/measured_sets.hpp"

namespace stagecraft {
namespace {

Recipe recipe_of(int number) {
  Recipe recipe;
  recipe.transformer = *builtin_model("llama3-70b").transformer;
  recipe.blocks = 80;
  recipe.device = "h100";
  recipe.pipeline = 1 << (number % 4);
  recipe.microbatches = 64;
  recipe.data = 4;
  recipe.work = {.microbatch = 1 + number % 4,
                 .sequence = 4096,
                 .tensor_parallel = 1 << (number / 4 % 4),
                 .sequence_parallel = number / 16 % 2 == 1};
  return recipe;
}

void cost_recipes(benchmark::State& state) {
  const KernelConstants constants = usual_constants("h100");
  std::vector<Recipe> recipes;
  for (int number = 0; number < 32; ++number) recipes.push_back(recipe_of(number));
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(step_seconds(recipes[next % recipes.size()], constants).step);
    ++next;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(cost_recipes);

}  // namespace
}  // namespace stagecraft
