#include <algorithm>

#include "tests/catch.hpp"
#include "tests/executor/tiny_training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE("the reference gives the same bits wherever the model is cut") {
  const RunOptions options{.steps = 2};
  const RunResult whole = reference(prepare({.devices = 1}), options);
  for (const int devices : {2, 5, 8}) {
    CHECK(first_difference(reference(prepare({.devices = devices}), options), whole) == "");
  }
}

TEST_CASE("parameters come in ascending order of names, tied ones once") {
  const RunResult tied = reference(prepare({.tied = true}), {});
  const RunResult untied = reference(prepare({.tied = false}), {});
  CHECK(std::ranges::is_sorted(tied.parameter_names));
  CHECK(std::ranges::adjacent_find(tied.parameter_names) == tied.parameter_names.end());
  CHECK(untied.parameter_names.size() == tied.parameter_names.size() + 1);
  std::int64_t elements = 0;
  for (const Tensor& parameter : tied.parameters) elements += parameter.elements();
  CHECK(elements == parameters(tiny_model(Style::gpt2, true)));
}

TEST_CASE("equal runs have equal hashes, and another seed has another") {
  const Prepared prepared = prepare({});
  const RunResult one = reference(prepared, {.seed = 1});
  CHECK(one.parameters_hash == reference(prepared, {.seed = 1}).parameters_hash);
  CHECK(one.parameters_hash != reference(prepared, {.seed = 2}).parameters_hash);
  CHECK(one.parameters_hash.starts_with("xxh3:"));
}

TEST_CASE("the first difference is named with both values, in full") {
  const Prepared prepared = prepare({});
  const RunResult expected = reference(prepared, {.steps = 2});

  RunResult other = reference(prepared, {.steps = 2});
  CHECK(first_difference(other, expected) == "");
  other.losses[1] = 0.5;
  CHECK_THAT(first_difference(other, expected),
             ContainsSubstring("the loss of step 1 is 0x1p-1, expected 0x1."));
  other.losses.pop_back();
  CHECK(first_difference(other, expected) == "the run has 1 steps, expected 2");

  other = reference(prepared, {.steps = 2});
  const auto found = std::ranges::find(other.parameter_names, "block.2.attention.qkv.weight");
  REQUIRE(found != other.parameter_names.end());
  other.parameters[static_cast<std::size_t>(found - other.parameter_names.begin())]
      .data<float>()[3] = 2.0F;
  CHECK_THAT(first_difference(other, expected),
             ContainsSubstring("block.2.attention.qkv.weight[3] is 0x1p+1, expected "));
}
