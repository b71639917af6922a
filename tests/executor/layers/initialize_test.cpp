#include <Random123/philox.h>
#include <xxhash.h>

#include <cmath>
#include <numbers>

#include "executor/driver/host.hpp"
#include "executor/layers/layers.hpp"
#include "executor/training/trained_chunk.hpp"
#include "executor/weights/weight_shard.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

constexpr std::uint64_t start_seed = (std::uint64_t{3} << 32) + 5;

/// In (0, 1), by the upper 53 of 64 bits.
double uniform(std::uint32_t upper, std::uint32_t lower) {
  const std::uint64_t bits = (std::uint64_t{upper} << 32 | lower) >> 11;
  return (static_cast<double>(bits) + 0.5) / 9007199254740992.0;
}

/// One element by itself.
double normal(const std::string& name, std::uint64_t element) {
  const std::uint64_t hash = XXH3_64bits(name.data(), name.size());
  const std::uint64_t pair = element / 2;
  const auto low = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits); };
  const auto high = [](std::uint64_t bits) { return static_cast<std::uint32_t>(bits >> 32); };
  const auto bits = r123::Philox4x32()({{low(pair), high(pair), low(hash), high(hash)}},
                                       {{low(start_seed), high(start_seed)}});
  const double radius = std::sqrt(-2 * std::log(uniform(bits[0], bits[1])));
  const double angle = 2 * std::numbers::pi * uniform(bits[2], bits[3]);
  return element % 2 == 0 ? radius * std::cos(angle) : radius * std::sin(angle);
}

Values one_by_one(const ParameterSpec& spec, Precision precision) {
  Values values;
  for (const ElementRun& run : runs_of(spec)) {
    for (std::int64_t element = run.first; element < run.first + run.count; ++element) {
      const double value =
          normal(spec.name, static_cast<std::uint64_t>(element)) * spec.initialization.deviation;
      values.push_back(precision == Precision::float64 ? value : static_cast<float>(value));
    }
  }
  return values;
}

Values drawn(const ParameterSpec& spec, Precision precision, int threads) {
  Parameter parameter{.spec = spec, .weight = host_tensor(spec.shape, precision), .gradient = {}};
  initialize(parameter, start_seed, threads);
  return values(parameter.weight);
}

ParameterSpec vector_of(std::int64_t elements) {
  return {.name = "w", .shape = {elements}, .initialization = {.deviation = 0.3}, .shard = {}};
}

/// These rows, or columns, of a whole.
ParameterSpec part_of(std::vector<std::int64_t> whole, bool columns,
                      std::vector<std::pair<std::int64_t, std::int64_t>> ranges) {
  std::int64_t held = 0;
  for (const auto& [first, end] : ranges) held += end - first;
  std::vector<std::int64_t> shape = whole;
  (columns ? shape.back() : shape.front()) = held;
  return {.name = "part",
          .shape = std::move(shape),
          .initialization = {.deviation = 0.02},
          .shard = WeightShard{std::move(whole), columns, std::move(ranges)}};
}

}  // namespace

TEST_CASE("start values are those drawn one by one, however many threads draw them") {
  const Precision precision = GENERATE(Precision::float32, Precision::float64);
  for (const std::int64_t elements : {1, 2, 3, 1001, 65'537, 200'003}) {
    const ParameterSpec spec = vector_of(elements);
    const Values expected = one_by_one(spec, precision);
    for (const int threads : {1, 2, 3, 7, 64}) {
      INFO(elements << " elements, " << threads << " threads");
      CHECK((drawn(spec, precision, threads) == expected));  // too long to be shown
    }
  }
}

TEST_CASE("a part is drawn as it is in the whole, with half a pair at its ends") {
  const auto spec = GENERATE(from_range(std::vector{
      part_of({9, 7}, true, {{1, 2}, {3, 6}}),                            // also single elements
      part_of({9, 7}, false, {{1, 2}, {3, 8}}),                           // rows of odd length
      part_of({701, 401}, true, {{1, 200}, {201, 202}, {303, 400}}),      // over several threads
      part_of({2001, 133}, false, {{1, 700}, {701, 702}, {1001, 2001}}),  // also
      part_of({300'001}, true, {{7, 200'000}}),
  }));
  INFO(to_text(spec.shard->whole));
  const Values expected = one_by_one(spec, Precision::float32);
  REQUIRE(expected.size() == static_cast<std::size_t>(elements_of(spec.shape)));
  for (const int threads : {1, 2, 5}) {
    CHECK((drawn(spec, Precision::float32, threads) == expected));
  }
}

TEST_CASE("a table that embedding and head share is drawn and kept once") {
  const Precision precision = GENERATE(Precision::float32, Precision::float64);
  const Prepared prepared = prepare({.precision = precision, .tied = true});
  const RunOptions options{.seed = start_seed};
  const Training training =
      make_training(prepared.plan, prepared.profile, prepared.dataset, options);
  const auto backend = make_cpu_backend();
  TrainedChunk chunk(training, prepared.compiled.program, 0, nullptr, *backend);
  int twice = 0;
  for (const Parameter* parameter : chunk.parameters()) {
    INFO(parameter->spec.name);
    const auto copies = chunk.find(parameter->spec.name);
    twice += copies.size() == 2;
    CHECK((values(parameter->weight) == drawn(parameter->spec, precision, 1)));
    if (copies.size() == 2) CHECK(copies[0]->weight.storage == copies[1]->weight.storage);
  }
  CHECK(twice == 2);
}

TEST_CASE("ranks of a machine draw with its processors, and with no more") {
  const int all = processors_per_rank(1);
  CHECK(all >= 1);
  for (const int ranks : {1, 2, 3, all, 2 * all, 1000}) {
    const int each = processors_per_rank(ranks);
    CHECK(each >= 1);
    CHECK((each == 1 || each * ranks <= all));
    CHECK((each + 1) * ranks > all);
  }
  const Prepared prepared = prepare({.devices = 2, .replicas = {2, 1}});
  const RunOptions options;
  CHECK(make_training(prepared.plan, prepared.profile, prepared.dataset, options).processors ==
        processors_per_rank(3));
}
