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

#include "executor/weight_shard.hpp"
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

template <class T>
void draw_normals(std::span<T> values, const ParameterSpec& spec, std::uint64_t seed) {
  const Normals normals(seed, spec.name);
  auto value = values.begin();
  for (const auto [first, count] : runs_of(spec)) {
    for (std::int64_t place = first; place < first + count; ++place) {
      // Elements of one pair are drawn together, wherever a run begins.
      const auto element = static_cast<std::uint64_t>(place);
      *value++ =
          static_cast<T>(normals.draw(element / 2)[element % 2] * spec.initialization.deviation);
    }
  }
}

template <class T>
void fill(std::span<T> values, const ParameterSpec& spec, std::uint64_t seed) {
  switch (spec.initialization.kind) {
    case Initialization::Kind::normal: return draw_normals(values, spec, seed);
    case Initialization::Kind::zeros: std::ranges::fill(values, T(0)); return;
    case Initialization::Kind::ones: std::ranges::fill(values, T(1)); return;
  }
}

}  // namespace

void initialize(Parameter& parameter, std::uint64_t seed) {
  Tensor& weight = parameter.weight;
  assert(!weight.empty());
  const auto count = static_cast<std::size_t>(weight.elements());
  switch (weight.precision) {
    case Precision::float32:
      return fill(std::span(weight.data<float>(), count), parameter.spec, seed);
    case Precision::float64:
      return fill(std::span(weight.data<double>(), count), parameter.spec, seed);
    case Precision::bfloat16:
    case Precision::float16:
    case Precision::float8: break;
  }
  fail("weights start in fp32 or fp64, not in ", to_string(weight.precision));
}

}  // namespace stagecraft
