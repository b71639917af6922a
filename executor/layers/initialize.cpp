// Start values of weights: element e of weight "name" is the same number whoever draws it, and in
// whatever order.
//
// Philox-4x32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011) turns the key
// `seed` and the counter (pair of elements, hash of the name) into 128 random bits; Box and Muller
// turn those into two normal values.

#include <Random123/philox.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <numbers>
#include <vector>

#include "executor/backends/parallel.hpp"
#include "executor/weights/weight_shard.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

using Philox = r123::Philox4x32;

std::uint32_t low(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits);
}

std::uint32_t high(std::uint64_t bits) {
  return static_cast<std::uint32_t>(bits >> 32);
}

// In (0, 1): the upper 53 bits, off the ends by half a step.
double uniform(std::uint32_t upper, std::uint32_t lower) {
  const std::uint64_t bits = (std::uint64_t{upper} << 32 | lower) >> 11;
  return (static_cast<double>(bits) + 0.5) * 0x1p-53;
}

class Normals {
 public:
  Normals(std::uint64_t seed, const std::string& name)
      : key_{{low(seed), high(seed)}}, hash_(XXH3_64bits(name.data(), name.size())) {}

  // Elements 2 * pair and 2 * pair + 1.
  std::array<double, 2> draw(std::uint64_t pair) const {
    const Philox::ctr_type bits =
        Philox()({{low(pair), high(pair), low(hash_), high(hash_)}}, key_);
    const double radius = std::sqrt(-2.0 * std::log(uniform(bits[0], bits[1])));
    const double angle = 2.0 * std::numbers::pi * uniform(bits[2], bits[3]);
    return {radius * std::cos(angle), radius * std::sin(angle)};
  }

 private:
  Philox::key_type key_;
  std::uint64_t hash_;
};

/// About a millisecond's work: much more than a thread takes to start.
constexpr std::int64_t drawn_at_once = 1 << 15;

/// So many elements, at least one, of the whole weight, from `first` on. Both of a pair come of one
/// draw, but for half a pair at either end.
template <class T>
void draw_run(std::span<T> values, const Normals& normals, double deviation, std::uint64_t first) {
  assert(!values.empty());
  const std::uint64_t end = first + values.size();
  T* value = values.data();
  if (first % 2 == 1) *value++ = static_cast<T>(normals.draw(first / 2)[1] * deviation);
  for (std::uint64_t pair = (first + 1) / 2; pair < end / 2; ++pair) {
    const auto [even, odd] = normals.draw(pair);
    *value++ = static_cast<T>(even * deviation);
    *value++ = static_cast<T>(odd * deviation);
  }
  if (end % 2 == 1) *value = static_cast<T>(normals.draw(end / 2)[0] * deviation);
}

template <class T>
void draw_normals(std::span<T> values, const ParameterSpec& spec, std::uint64_t seed, int threads) {
  const Normals normals(seed, spec.name);
  const std::vector<ElementRun> runs = runs_of(spec);
  const auto draw = [&](std::int64_t first, std::int64_t end) {
    std::int64_t begin = 0;  // of the run, among the values
    for (const ElementRun& run : runs) {
      const std::int64_t from = std::max(first, begin);
      const std::int64_t to = std::min(end, begin + run.count);
      const auto place = static_cast<std::uint64_t>(run.first + from - begin);
      begin += run.count;
      if (from >= to) continue;
      const auto count = static_cast<std::size_t>(to - from);
      draw_run(values.subspan(static_cast<std::size_t>(from), count), normals,
               spec.initialization.deviation, place);
    }
  };
  in_parallel(static_cast<std::int64_t>(values.size()), drawn_at_once, threads, draw);
}

template <class T>
void fill(std::span<T> values, const ParameterSpec& spec, std::uint64_t seed, int threads) {
  switch (spec.initialization.kind) {
    case Initialization::Kind::normal: return draw_normals(values, spec, seed, threads);
    case Initialization::Kind::zeros: std::ranges::fill(values, T(0)); return;
    case Initialization::Kind::ones: std::ranges::fill(values, T(1)); return;
  }
}

}  // namespace

void initialize(Parameter& parameter, std::uint64_t seed, int threads) {
  Tensor& weight = parameter.weight;
  assert(!weight.empty());
  const auto count = static_cast<std::size_t>(weight.elements());
  switch (weight.precision) {
    case Precision::float32:
      return fill(std::span(weight.data<float>(), count), parameter.spec, seed, threads);
    case Precision::float64:
      return fill(std::span(weight.data<double>(), count), parameter.spec, seed, threads);
    case Precision::bfloat16:
    case Precision::float16:
    case Precision::float8:
    case Precision::float8_with_attention: break;
  }
  fail("weights start in fp32 or fp64, not in ", to_string(weight.precision));
}

}  // namespace stagecraft
