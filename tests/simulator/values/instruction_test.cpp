#include "simulator/values/instruction.hpp"

#include <set>

#include "simulator/values/program.hpp"
#include "tests/catch.hpp"

using namespace stagecraft;

TEST_CASE("every operation has a letter of its own and a name that reads back") {
  std::set<std::string_view> letters;
  for (int i = 0; i <= static_cast<int>(Op::update); ++i) {
    const Op op = static_cast<Op>(i);
    letters.insert(letter(op));
    CHECK(read_op(to_string(op)) == op);
    const int kinds = is_compute(op) + is_send(op) + is_receive(op) + is_collective(op);
    CHECK(kinds == 1);
  }
  CHECK(letters.size() == 23);
  CHECK_THROWS_WITH(read_op("forwards"),
                    "unknown operation \"forwards\"; did you mean \"forward\"?");
}

TEST_CASE("instructions print as letter, stage and microbatch") {
  CHECK(to_string(Instruction{Op::forward, 1, 3}) == "F1.3");
  CHECK(to_string(Instruction{Op::receive_gradient, 0, 12}) == "RB0.12");
}

TEST_CASE("work is described with its place") {
  Program program;
  program.chunks = {{.stage = 0, .device = 0, .replica = 0, .replicas = 1, .rows = {}},
                    {.stage = 1, .device = 4, .replica = 1, .replicas = 2, .rows = {}}};
  program.work.resize(2);
  program.work[0].instruction = {Op::send_activation, 0, 3};
  program.work[1].instruction = {Op::receive_activation, 1, 3};
  program.work[1].chunk = 1;
  CHECK(describe(program, 0) == "SF0.3 on device 0 (stage 0)");
  CHECK(describe(program, 1) == "RF1.3 on device 4 (stage 1, replica 1)");
}
