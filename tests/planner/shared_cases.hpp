// Small random transformers on GPUs, with degrees of context and expert parallelism to try.

#pragma once

#include <algorithm>

#include "profiles/devices.hpp"
#include "tests/planner/cases.hpp"

namespace stagecraft::tests {

/// One or two blocks of four heads; with experts, of which a token goes through one or two.
inline Model random_transformer(Random& random) {
  Transformer transformer = *builtin_model("mixtral-8x7b").transformer;
  transformer.hidden = std::int64_t{64} * random.between(1, 8);
  transformer.heads = 4;
  transformer.key_value_heads = 4;
  transformer.head_width = transformer.hidden / 4;
  transformer.feed_forward = transformer.hidden * random.between(1, 8);
  transformer.vocabulary = 1000;
  const std::int64_t sequence = std::int64_t{64} << random.between(0, 8);
  transformer.positions = sequence;
  transformer.experts.reset();
  if (random.chance(80)) {
    transformer.experts = Experts{
        .count = 4, .active = random.between(1, 2), .feed_forward = transformer.feed_forward};
  }
  return make_transformer("small", transformer, random.between(1, 2), sequence);
}

/// Some of the degrees that up to four devices allow, the plain ones first more often than not.
inline std::vector<Parallelism> random_degrees(Random& random, const Model& model) {
  std::vector<Parallelism> all;
  const bool sequence = random.chance(50);
  for (const int context : {1, 2}) {
    for (const int expert : {1, 2, 4}) {
      for (const int expert_tensor : {0, 1}) {
        if (!model.transformer->experts && (expert > 1 || expert_tensor > 0)) continue;
        all.push_back({.sequence = sequence,
                       .context = context,
                       .expert = expert,
                       .expert_tensor = expert_tensor});
      }
    }
  }
  std::vector<Parallelism> some;
  for (const Parallelism& degrees : all) {
    if (random.chance(some.empty() ? 70 : 40)) some.push_back(degrees);
  }
  if (some.empty()) some.push_back(all.front());
  return some;
}

/// Small enough for brute force: a microbatch or two, limits on memory, a reserve, all ways to
/// shard, sums in buckets.
inline Problem shared_problem(std::uint32_t seed) {
  Random random(seed);
  const Model model = random_transformer(random);
  const char* const clusters[] = {"2xh100", "4xh100", "2x2xh100@10GB/s,100GB/s"};
  const std::int64_t samples = std::int64_t{1} << random.between(1, 2);
  Problem problem =
      problem_of({.model = model, .entries = {}}, parse_cluster(clusters[random.between(0, 2)]),
                 samples * random.between(1, 2), {samples});
  problem.precision = Precision::bfloat16;
  problem.sequence = model.sequence;
  problem.tensor_parallel = random.chance(50) ? std::vector{1, 2} : std::vector{1};
  const char* const schedules[] = {"1f1b", "gpipe", "zb-h1"};
  problem.schedules = {{.name = schedules[random.between(0, 2)]}};
  const std::vector<Parallelism> degrees = random_degrees(random, model);
  problem.parallelism = degrees.front();
  problem.other_parallelism.assign(degrees.begin() + 1, degrees.end());
  for (DeviceKind& kind : problem.cluster.kinds) {
    kind.reserve = random.chance(50) ? 0 : Bytes{random.between(1, 64)} << 20;
    kind.memory = kind.reserve + (Bytes{1} << random.between(22, 34));
  }
  problem.straight = random.chance(15);
  problem.use_fewer_devices = random.chance(70);
  if (random.chance(40)) problem.recompute = {Recompute::none};
  problem.optimizer.sharding = static_cast<Sharding>(std::max(random.between(-1, 3), 0));
  if (random.chance(40)) problem.optimizer.gradient_bucket = Bytes{1} << random.between(8, 24);
  return problem;
}

}  // namespace stagecraft::tests
