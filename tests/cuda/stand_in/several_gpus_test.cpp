// Ranks of one process on GPUs of their own.

#include "tests/cuda/stand_in/training.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

TEST_CASE(
    "ranks on several GPUs of one process end with the bits of one, with and without access") {
  const bool access = GENERATE(true, false);
  const Setting setting = GENERATE(
      Setting{.schedule = "1f1b", .devices = 2},
      Setting{.schedule = "gpipe", .devices = 2, .replicas = {2, 2}},
      Setting{.schedule = "1f1b", .devices = 2, .replicas = {2, 1}, .sharding = Sharding::zero1});
  const stand_in::Order order = GENERATE(stand_in::Order::last_moment, stand_in::Order::drawn);
  INFO(describe(setting) << (access ? ", with access" : ", without access"));
  stand_in::set_up({.devices = 2, .order = order, .seed = 7, .peer_access = access});
  const Prepared prepared = prepare(setting);
  const RunOptions options{.steps = 3};
  const RunResult run = run_on_stand_in(prepared, options, 2);
  CHECK(stand_in::counts().peer_copies > 0);
  CHECK(first_difference(run, reference_on_stand_in(prepared, options)) == "");
  require_no_complaints();
}

TEST_CASE("ranks have the GPUs that they are given, in turns") {
  stand_in::set_up({.devices = 3});
  const Prepared prepared = prepare({.schedule = "1f1b", .devices = 4});
  const RunOptions options{.steps = 2, .cuda = {.gpus = {2, 1}}};
  CHECK(cuda::place_of(0, options.cuda, 3).device == 2);
  CHECK(cuda::place_of(3, options.cuda, 3).device == 1);
  CHECK(first_difference(run_on_stand_in(prepared, options, 3),
                         reference_on_stand_in(prepared, options, 3)) == "");
  require_no_complaints();
}

TEST_CASE("attention's gradients that are added up in any order stay close to those in one") {
  stand_in::set_up({});
  const Prepared prepared = prepare({.devices = 2, .precision = Precision::bfloat16});
  RunOptions options{.steps = 3};
  const RunResult ordered = run_on_stand_in(prepared, options);
  options.cuda.deterministic = false;
  CHECK(distance(run_on_stand_in(prepared, options), ordered).losses < 1e-3);
  require_no_complaints();
}
