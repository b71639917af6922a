#include "executor/weights/gathered_weights.hpp"

#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"
#include "tests/executor/values.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

const Prepared& two_ranks() {
  static const Prepared prepared = prepare({.devices = 2});
  return prepared;
}

/// Of [3, 2] the rows [first, end), with these numbers.
HandedWeight rows(std::int64_t first, std::int64_t end, const Values& numbers) {
  const auto backend = make_cpu_backend();
  return {.chunk = 1,
          .spec = {.name = "w",
                   .shape = {end - first, 2},
                   .initialization = {},
                   .shard = WeightShard{{3, 2}, false, {{first, end}}}},
          .weight = tensor_of(*backend, {end - first, 2}, Precision::float32, numbers)};
}

HandedWeight whole(const std::string& name, const Values& numbers) {
  const auto backend = make_cpu_backend();
  const auto count = static_cast<std::int64_t>(numbers.size());
  return {.chunk = 0,
          .spec = {.name = name, .shape = {count}, .initialization = {}, .shard = {}},
          .weight = tensor_of(*backend, {count}, Precision::float64, numbers)};
}

using OfRanks = std::vector<std::vector<HandedWeight>>;

std::map<std::string, Tensor> put_together(const OfRanks& of_ranks) {
  const Program& program = two_ranks().compiled.program;
  return stagecraft::put_together(program, one_rank_per_device(program), of_ranks);
}

/// The second rank's as another process tells them.
OfRanks told(OfRanks of_ranks) {
  of_ranks.back() = unpack_weights(packed_weights(of_ranks.back()));
  return of_ranks;
}

/// All weights as one text: a name that ends with a zero, its bytes, the next.
std::string content(const RunResult& run) {
  std::string content;
  for (std::size_t i = 0; i < run.parameters.size(); ++i) {
    content += run.parameter_names[i] + '\0';
    content.append(run.parameters[i].data<char>(),
                   static_cast<std::size_t>(run.parameters[i].bytes()));
  }
  return content;
}

}  // namespace

TEST_CASE("weights are put together of the ranks' parts, near or told") {
  const OfRanks of_ranks{{whole("a", {1, 2, 3}), rows(0, 1, {10, 20})},
                         {rows(1, 3, {30, 40, 50, 60}), whole("b", {4}), whole("a", {1, 2, 3})}};
  for (const OfRanks& handed : {of_ranks, told(of_ranks)}) {
    const auto gathered = put_together(handed);
    REQUIRE(gathered.size() == 3);
    CHECK(values(gathered.at("a")) == Values{1, 2, 3});
    CHECK(values(gathered.at("b")) == Values{4});
    CHECK(values(gathered.at("w")) == Values{10, 20, 30, 40, 50, 60});
    CHECK(gathered.at("w").shape == std::vector<std::int64_t>{3, 2});
  }
}

TEST_CASE("copies of a weight that differ are named with their rank") {
  const OfRanks wholes{{whole("a", {1, 2})}, {whole("b", {1}), whole("a", {1, 3})}};
  const OfRanks parts{{rows(0, 2, {1, 2, 3, 4})}, {rows(0, 2, {1, 2, 3, 5})}};
  for (const bool are_told : {false, true}) {
    CHECK_THAT(message_of([&] { put_together(are_told ? told(wholes) : wholes); }),
               ContainsSubstring("the copies of a differ after the last step on rank 1"));
    CHECK_THAT(message_of([&] { put_together(are_told ? told(parts) : parts); }),
               ContainsSubstring("the copies of w differ after the last step on rank 1"));
  }
}

TEST_CASE("the hash of a run is that of names and bytes one behind another") {
  const Setting setting = GENERATE(Setting{.devices = 1}, Setting{.devices = 2, .tied = false},
                                   Setting{.devices = 2, .replicas = {2, 1}},
                                   Setting{.devices = 1, .precision = Precision::float64});
  const RunResult result = run(prepare(setting), {.steps = 2});
  CHECK(result.parameters_hash == content_hash(content(result)));
}

TEST_CASE("a run that nobody asks for its weights has none, and the same losses") {
  const Prepared prepared = prepare({.devices = 2, .replicas = {2, 1}});
  const RunResult with = run(prepared, {.steps = 3});
  const RunResult without = run(prepared, {.steps = 3, .gathers_weights = false});
  CHECK(!with.parameters.empty());
  CHECK(without.parameters.empty());
  CHECK(without.parameter_names.empty());
  CHECK(without.parameters_hash.empty());
  CHECK(without.losses == with.losses);
  CHECK(without.peak_memory == with.peak_memory);
  CHECK(without.timeline.spans.size() == with.timeline.spans.size());
}
