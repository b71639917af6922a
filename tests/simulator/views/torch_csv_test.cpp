#include "simulator/views/torch_csv.hpp"

#include <filesystem>

#include "profiles/json.hpp"
#include "simulator/checks/check.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

TorchSchedule read(const std::string& text, const TorchReading& reading = {}) {
  return read_torch_csv(text, "f.csv", reading);
}

std::string refusal(const std::string& text) {
  return message_of([&] { read(text); });
}

}  // namespace

TEST_CASE("torch CSV: a file says where stages are and in which order they work") {
  const TorchSchedule file = read("0F0,3F0,3B0,0B0\n1F0,2F0,2I0,1I0,,2W0,1W0\n");
  CHECK(file.form == TorchForm::compute_only);
  CHECK(file.order.empty());
  CHECK(file.schedule.name == "f");
  CHECK(file.schedule.stages == 4);
  CHECK(file.schedule.microbatches == 1);
  CHECK(file.schedule.device_of_stage == std::vector<int>{0, 1, 1, 0});
  CHECK(file.schedule.devices[1] == std::vector<Instruction>{{Op::forward, 1, 0},
                                                             {Op::forward, 2, 0},
                                                             {Op::backward_input, 2, 0},
                                                             {Op::backward_input, 1, 0},
                                                             {Op::backward_weight, 2, 0},
                                                             {Op::backward_weight, 1, 0}});
}

TEST_CASE("torch CSV: blanks, idle cells and carriage returns change nothing") {
  CHECK(read(", 0F0 ,,0F1,0B0 ,0B1,\r\n") == read("0F0,0F1,0B0,0B1\n"));
  CHECK(read("0F0,0F1,0B0,0B1") == read("0F0,0F1,0B0,0B1\n"));
}

TEST_CASE("torch CSV: the words of 2024 mean what today's do") {
  CHECK(read("0F0,0B0,0W0\n") == read("0F0,0I0,0W0\n"));
  CHECK(read("0F0,0F1,0BW0,0B1,0W1\n") == read("0F0,0F1,0B0,0I1,0W1\n"));
  CHECK(read("0F0,0BW0\n") == read("0F0,0B0\n"));
  // One rank has whole backwards, the other halves.
  CHECK(read("0F0,0SEND_F0,0RECV_B0,0BW0\n1RECV_F0,1F0,1B0,1SEND_B0,1W0\n") ==
        read("0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1I0,1SEND_B0,1W0\n"));
}

TEST_CASE("torch CSV: overlapped pairs are fused, and written as they were") {
  const std::string text = "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B1,0B2\n";
  const TorchSchedule file = read(text);
  CHECK(file.schedule.fused == std::vector<std::vector<int>>{{2}});
  CHECK(file.schedule.devices[0][3] == Instruction{Op::backward, 0, 0});
}

TEST_CASE("torch CSV: copies and sequence pieces come from outside") {
  // Two copies of one stage each: what would be a chain of two stages otherwise.
  const TorchSchedule file = read("0F0,0B0\n1F0,1B0\n", {.pipes = 2, .sequence_chunks = 1});
  CHECK(file.schedule.pipes == 2);
  CHECK(read("0F0,0F1,0B1,0B0\n", {.sequence_chunks = 2}).schedule.sequence_chunks == 2);
  CHECK(message_of([] { read("0F0,0B0\n", {.pipes = 2}); }) ==
        "f.csv: 1 stages are not 2 copies of a model");
}

TEST_CASE("torch CSV: what torch takes for granted or overlooks is refused with its place") {
  struct Mistake {
    std::string text;
    std::string sentence;
  };
  const std::vector<Mistake> mistakes{
      {"", "f.csv: empty; expected a row of actions for each rank"},
      {"rank0,0F0\n",
       "f.csv:1:1: rank 0, cell 1: \"rank0\": expected an action such as 0F3, 1SEND_B2 or "
       "(0F3;1B2)OVERLAP_F_B"},
      {"0F0,0B0xyz\n", "f.csv:1:5: rank 0, cell 2: \"0B0xyz\": expected nothing after \"0B0\""},
      {"0F0,0X0\n",
       "f.csv:1:5: rank 0, cell 2: \"0X0\": unknown kind \"X\"; known kinds: F, B, I, W, BW, "
       "SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD, RESHARD, REDUCE_GRAD, WAIT_SEND_F, WAIT_SEND_B "
       "and "
       "WAIT_REDUCE_GRAD"},
      {"0F0,0f1\n",
       "f.csv:1:5: rank 0, cell 2: \"0f1\": expected an action such as 0F3, 1SEND_B2 or "
       "(0F3;1B2)OVERLAP_F_B"},
      {"0F,0B0\n", "f.csv:1:1: rank 0, cell 1: \"0F\": F needs a microbatch, as in 0F0"},
      {"0UNSHARD3,0F0,0B0\n",
       "f.csv:1:1: rank 0, cell 1: \"0UNSHARD3\": UNSHARD takes no microbatch"},
      {"0F0, 0F12345678\n",
       "f.csv:1:6: rank 0, cell 2: \"0F12345678\": numbers have at most 6 digits"},
      {"0F0,(0F1;0B0\n",
       "f.csv:1:5: rank 0, cell 2: \"(0F1;0B0\": expected ')' after the second action"},
      {"0F0,(0F1)OVERLAP_F_B\n",
       "f.csv:1:5: rank 0, cell 2: \"(0F1)OVERLAP_F_B\": expected ';' and the action that "
       "overlaps"},
      {"0F0,(0F1;0B0)\n",
       "f.csv:1:5: rank 0, cell 2: \"(0F1;0B0)\": expected OVERLAP_F_B after the pair"},
      {"0F0,(0B0;0F1)OVERLAP_F_B\n",
       "f.csv:1:5: rank 0, cell 2: \"(0B0;0F1)OVERLAP_F_B\": a forward (F) overlaps a whole "
       "backward (B), in this order"},
      {"0F0,(0F1;0B0;0B1)OVERLAP_F_B\n",
       "f.csv:1:5: rank 0, cell 2: \"(0F1;0B0;0B1)OVERLAP_F_B\": two actions overlap, a forward "
       "and a backward, not more"},
      {"0F0,0B0\n\n1F0,1B0\n",
       "f.csv:2:1: rank 1: the row lists nothing to do; each rank has a row, and at least one "
       "stage"},
      {"0F0,1F0,0B0\n1B0\n",
       "f.csv:2:1: rank 1, cell 1: 1B0: stage 1 is on rank 0 already; a stage has one rank"},
      {"0F0,0B0\n2F0,2B0\n",
       "f.csv:2:1: rank 1, cell 1: 2F0: stages count from 0, and stage 1 is on no rank"},
      {"0F0,0B0,0F0\n", "f.csv:1:9: rank 0, cell 3: 0F0 stands in cell 1 already"},
      {"0F0,0B0,0I0,0W0\n",
       "f.csv:1:9: rank 0, cell 3: 0I0 is a word of today, but elsewhere the file speaks as in "
       "2024 (BW, or B and W of one microbatch)"},
      {"0F0,0F2,0B0,0B2\n",
       "f.csv:1:1: rank 0: 0F1 is missing: every stage does microbatches 0 to 2"},
      {"0F0,0F1,0B0\n", "f.csv:1:1: rank 0: 0B1 (or 0I1) is missing: 0F1 has no whole backward"},
      {"0F0,0I0\n", "f.csv:1:1: rank 0: 0W0 is missing: 0F0 has no whole backward"},
      {"0F0,0W0\n", "f.csv:1:1: rank 0: 0B0 (or 0I0) is missing: 0F0 has no whole backward"},
      {"0F0,0B0\n1F0,1F1,1B0,1B1\n",
       "f.csv:1:1: rank 0: 0F1 is missing: every stage does microbatches 0 to 1"},
      // torch's 1F1B as its visualiser has it (Schedule1F1B._get_pipeline_order): off by one on the
      // last rank.
      {"0F0,0F1,0F2,0B0,0B1,0B2\n1F1,1B0,1F2,1B1,1F3,1B2\n",
       "f.csv:2:5: rank 1, cell 2: 1B0 needs 1F0, but the forwards of stage 1 are 1F1 to 1F3"},
      {"0F0,0B0\n1B0\n", "f.csv:2:1: rank 1, cell 1: 1B0 needs 1F0, but stage 1 has no forwards"},
      {"0B0,0F0\n", "f.csv:1:1: rank 0, cell 1: 0B0 stands before 0F0 in cell 2, which it needs"},
      {"0F0,0W0,0I0\n",
       "f.csv:1:5: rank 0, cell 2: 0W0 stands before 0I0 in cell 3, which it needs"},
      {"0F0,0SEND_F0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
       "f.csv:1:1: rank 0: 0RECV_B0 is missing: stage 1 is on another rank"},
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0,1SEND_F0\n",
       "f.csv:2:27: rank 1, cell 5: 1SEND_F0 has no counterpart: stage 1 is the last"},
      {"0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n",
       "f.csv:1:5: rank 0, cell 2: 0SEND_F0 has no counterpart: stage 1 is on the same rank, which "
       "hands over by itself"},
      {"0F0,0SEND_F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
       "f.csv:1:14: rank 0, cell 3: 0SEND_F0 stands in cell 2 already"},
      {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
       "f.csv:1:1: rank 0, cell 1: 0SEND_F0 stands before 0F0 in cell 2, which it needs"},
      {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1RECV_F0,1B0,1SEND_B0\n",
       "f.csv:2:1: rank 1, cell 1: 1F0 stands before 1RECV_F0 in cell 2, which it needs"},
      {"0F0,,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n",
       "f.csv:1:5: rank 0, cell 2: an empty cell, but the file lists communication too (0SEND_F0); "
       "only compute may be idle"},
      {"0UNSHARD,0F0,0RESHARD,0B0\n",
       "f.csv:1:23: rank 0, cell 4: 0B0 needs an UNSHARD after 0RESHARD in cell 3"},
      {"0F0,0F1,0B0,0REDUCE_GRAD,0B1\n",
       "f.csv:1:26: rank 0, cell 5: 0B1 stands behind 0REDUCE_GRAD in cell 4, so its gradient is "
       "never reduced"},
      {"0F0,0B0,0REDUCE_GRAD,0REDUCE_GRAD\n",
       "f.csv:1:22: rank 0, cell 4: 0REDUCE_GRAD stands in cell 3 already"},
  };
  for (const auto& [text, sentence] : mistakes) {
    INFO(text);
    CHECK(refusal(text) == sentence);
  }
}

TEST_CASE("torch CSV: what is written is read back, for every schedule the format can express",
          "[seconds]") {
  for (const ScheduleKind& kind : schedule_kinds) {
    std::vector<ScheduleShape> shapes = legal_shapes(kind, 2);
    shapes.push_back(
        {.devices = 4, .microbatches = 8, .virtual_stages = fewest_virtual_stages(kind.placement)});
    for (const ScheduleShape& shape : shapes) {
      const Schedule schedule = kind.generate(shape);
      INFO(kind.name << " p=" << shape.devices << " m=" << shape.microbatches
                     << " v=" << shape.virtual_stages);
      const TorchReading reading{.pipes = schedule.pipes,
                                 .sequence_chunks = schedule.sequence_chunks};
      std::string plain, full;
      const std::string message = message_of([&] {
        plain = write_torch_csv(schedule, TorchForm::compute_only);
        full = write_torch_csv(schedule, TorchForm::compute_comms);
      });
      if (!message.empty()) {
        CHECK(message.find("torch's schedule files have no word for") != std::string::npos);
        continue;
      }
      TorchSchedule file = read(plain, reading);
      file.schedule.name = schedule.name;
      file.schedule.parts = schedule.parts;  // halves of microbatches look like whole ones
      CHECK(file.schedule == schedule);
      TorchSchedule with_order = read(full, reading);
      with_order.schedule.name = schedule.name;
      with_order.schedule.parts = schedule.parts;
      CHECK(with_order.schedule == schedule);
      // The file's order of communication is the one that lowering found, so the programs agree.
      // But no file says when copies sum their gradients.
      const Program program = lower(with_order);
      CHECK((schedule.pipes > 1 ? check(program).safe() : program == lower(schedule)));
    }
  }
}

TEST_CASE("torch CSV: communication, sharding and reduction of a small file") {
  const Schedule schedule = one_f_one_b({.devices = 2, .microbatches = 2});
  CHECK(write_torch_csv(schedule, TorchForm::compute_comms, TorchVersion::torch_2_11) ==
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD\n"
        "1RECV_F0,1UNSHARD,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1REDUCE_GRAD,1RESHARD,1SEND_B1\n");
  CHECK(write_torch_csv(schedule, TorchForm::compute_comms) ==
        "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0WAIT_SEND_F0,0RECV_B1,0B1,0WAIT_SEND_F1,"
        "0REDUCE_GRAD,0WAIT_REDUCE_GRAD,0RESHARD\n"
        "1RECV_F0,1UNSHARD,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1REDUCE_GRAD,1WAIT_REDUCE_GRAD,"
        "1RESHARD,1SEND_B1,1WAIT_SEND_B0,1WAIT_SEND_B1\n");
  CHECK_THROWS_AS(read_torch_version("2.7"), Error);
}

TEST_CASE("torch CSV: what is waited for, one wait each") {
  const std::string first = "0F0,0SEND_F0,0RECV_B0,0B0";
  const std::string second = "\n1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0\n";
  CHECK(read(first + ",0WAIT_SEND_F0" + second).waits);
  CHECK_FALSE(read(first + "\n1RECV_F0,1F0,1B0,1SEND_B0\n").waits);
  const auto refused = [&](const std::string& rest) { return refusal(first + rest + second); };
  CHECK(refused("") ==
        "f.csv:1:5: rank 0, cell 2: 0SEND_F0 has no 0WAIT_SEND_F0 behind it, which torch 2.15 "
        "wants");
  CHECK(refused(",0WAIT_SEND_F0,0WAIT_SEND_F0") ==
        "f.csv:1:41: rank 0, cell 6: 0WAIT_SEND_F0 has no 0SEND_F0 before it that is not waited "
        "for");
  CHECK(refused(",0WAIT_SEND_F0,0REDUCE_GRAD") ==
        "f.csv:1:41: rank 0, cell 6: 0REDUCE_GRAD has no 0WAIT_REDUCE_GRAD behind it, which torch "
        "2.15 wants");
  CHECK(refused(",0WAIT_SEND_F0,0WAIT_REDUCE_GRAD") ==
        "f.csv:1:41: rank 0, cell 6: 0WAIT_REDUCE_GRAD has no 0REDUCE_GRAD before it that is not "
        "waited for");
  CHECK(
      refusal("0F0,1F0,1B0,0B0,1REDUCE_GRAD,0REDUCE_GRAD,1WAIT_REDUCE_GRAD,0WAIT_REDUCE_GRAD\n") ==
      "f.csv:1:30: rank 0, cell 6: 0REDUCE_GRAD needs a 1WAIT_REDUCE_GRAD before it: one "
      "reduction goes on at a time");
  const std::filesystem::path folder = std::filesystem::path(shared_folder()) / "cases/schedules";
  if (!std::filesystem::exists(folder)) SKIP("no cases at " + folder.string());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    INFO(entry.path());
    const TorchSchedule file = read_torch_csv(read_file(entry.path()), entry.path().string());
    CHECK(file.waits == (entry.path().stem() != "torch-full-without-waits"));
    // One row has two ranks send to each other first, as torch may with buffers.
    const bool crosses = entry.path().stem() == "torch-full-with-waits";
    CHECK(check(lower(file)).safe() != crosses);
  }
}

TEST_CASE("torch CSV: recomputation has no word") {
  CHECK(message_of([] {
          write_torch_csv(decoupled_recompute({.devices = 2, .microbatches = 2}),
                          TorchForm::compute_only);
        }) ==
        "1f1b-decoupled-recompute: torch's schedule files have no word for a recomputation "
        "of its own");
}

TEST_CASE("torch CSV: published orders are equal byte for byte, both ways") {
  struct Published {
    std::string file;
    std::string schedule;
    ScheduleShape shape;
  };
  const auto shape = [](int m, int v, std::optional<int> group = {}) {
    return ScheduleShape{.devices = 4, .microbatches = m, .virtual_stages = v, .group = group};
  };
  const std::vector<Published> files{
      {"gpipe_p4_m8", "gpipe", shape(8, 1)},
      {"1f1b_p4_m8", "1f1b", shape(8, 1)},
      {"dapple_pb_p4_m8", "dapple-pb", shape(8, 1)},
      {"interleaved_p4_m8_v2", "interleaved", shape(8, 2)},
      {"interleaved_p4_m8_v2_N8", "interleaved", shape(8, 2, 8)},
      {"interleaved_p4_m10_v2_N5", "interleaved", shape(10, 2, 5)},
      {"zb_h1_p4_m8", "zb-h1", shape(8, 1)},
      {"zb_h2_p4_m8", "zb-h2", shape(8, 1)},
      {"interleaved_zb_p4_m8_v2", "interleaved-zb", shape(8, 2)},
      {"zb_v_p4_m8", "zb-v", shape(8, 2)},
      {"chimera_p4_m4", "chimera", shape(4, 1)},
      {"chimera_p4_m8", "chimera", shape(8, 1)},
      {"dualpipe_p4_m8", "dualpipe", shape(8, 1)},
      {"dualpipev_p4_m8", "dualpipev", shape(8, 2)},
      {"dualpipev_p4_m10", "dualpipev", shape(10, 2)},
      {"seq1f1b_p4_m4_k2", "seq1f1b", {.devices = 4, .microbatches = 4, .sequence_chunks = 2}}};
  const auto folder = std::filesystem::path(shared_folder()) / "oracles" / "schedules";
  if (!std::filesystem::exists(folder)) SKIP("no published orders at " + folder.string());
  for (const Published& published : files) {
    INFO(published.file);
    const std::string text = read_file(folder / (published.file + ".csv"));
    const Schedule schedule = find_schedule(published.schedule).generate(published.shape);
    CHECK(write_torch_csv(schedule, TorchForm::compute_only) == text);
    TorchSchedule file =
        read(text, {.pipes = schedule.pipes, .sequence_chunks = schedule.sequence_chunks});
    file.schedule.name = schedule.name;
    CHECK(file.schedule == schedule);
  }
}

TEST_CASE("torch CSV: every published order is read, and written as it was") {
  const auto folder = std::filesystem::path(shared_folder()) / "oracles" / "schedules";
  if (!std::filesystem::exists(folder)) SKIP("no published orders at " + folder.string());
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".csv") continue;
    INFO(name);
    const bool two = name.starts_with("chimera") || name.starts_with("dualpipe_");
    const TorchReading reading{.pipes = two ? 2 : 1,
                               .sequence_chunks = name.starts_with("seq1f1b") ? 2 : 1};
    const std::string text = read_file(entry.path());
    const TorchSchedule file = read_torch_csv(text, entry.path().string(), reading);
    CHECK(file.schedule.devices.size() >= 4);
    CHECK(write_torch_csv(file.schedule, TorchForm::compute_only) == text);
  }
}

// https://github.com/pytorch/pytorch/issues/172668: sends that were moved forward on their own.
TEST_CASE("torch CSV: two ranks that wait for each other's sends are rejected with the circle") {
  const std::string begin =
      "0F0,0SEND_F0,0F1,0SEND_F1,2RECV_F0,2F0,2SEND_F0,2RECV_F1,2F1,2SEND_F1,0F2,";
  const std::string end =
      ",2B0,2SEND_B0,2RECV_F2,2F2,2SEND_F2,2RECV_B1,2B1,2SEND_B1,0RECV_B0,0B0,0RECV_B1,0B1,"
      "2RECV_B2,2B2,2SEND_B2,0RECV_B2,0B2\n"
      "1RECV_F0,1F0,1RECV_F1,1SEND_F0,1F1,3RECV_F0,1SEND_F1,3F0,3RECV_F1,3B0,3SEND_B0,1RECV_F2,1F2,"
      "1RECV_B0,1B0,1SEND_F2,3F1,3B1,3RECV_F2,3F2,3SEND_B1,1RECV_B1,1B1,1SEND_B0,1SEND_B1,3B2,"
      "3SEND_B2,1RECV_B2,1B2,1SEND_B2\n";
  const CheckReport report = check(lower(read(begin + "0SEND_F2,2RECV_B0" + end)));
  REQUIRE(report.findings.size() == 1);
  CHECK(report.findings[0].rule == "deadlock");
  const std::vector<std::string>& cycle = report.findings[0].cycle;
  REQUIRE(cycle.size() == 2);
  CHECK(cycle[0].starts_with("device 0 waits at SF0.2 for device 1 to reach RF1.2"));
  CHECK(cycle[1].starts_with("device 1 waits at SB3.0 for device 0 to reach RB2.0"));
  CHECK(check(lower(read(begin + "2RECV_B0,0SEND_F2" + end))).safe());
}

TEST_CASE("torch CSV: a file's program issues communication in the file's order") {
  const std::string text =
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0RECV_B1,0B1,0B0\n"
      "1RECV_F0,1RECV_F1,1F1,1F0,1B0,1B1,1SEND_B0,1SEND_B1\n";
  const Program program = lower(read(text));
  CHECK(order_text(program, 0) == "F0.0 F0.1 SF0.0 SF0.1 RB0.0 RB0.1 B0.1 B0.0 U0.1");
  CHECK(order_text(program, 1) == "RF1.0 RF1.1 F1.1 F1.0 B1.0 B1.1 SB1.0 SB1.1 U1.1");
  CHECK(check(program).safe());
  CHECK(read(write_torch_csv(read(text), TorchForm::compute_comms, TorchVersion::torch_2_11)) ==
        read(text));
  CHECK(read(write_torch_csv(read(text), TorchForm::compute_comms)).order == read(text).order);
  for (const auto& order : program.order) CHECK(std::is_sorted(order.begin(), order.end()));
  // Gradients sent the other way round never meet.
  const std::string crossed =
      "0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B1,0RECV_B0,0B1,0B0\n"
      "1RECV_F0,1RECV_F1,1F1,1F0,1B0,1B1,1SEND_B0,1SEND_B1\n";
  CHECK_FALSE(check(lower(read(crossed))).safe());
}

TEST_CASE(
    "torch CSV: an order across ranks that no one can follow is read, and rejected by check") {
  const TorchSchedule file = read("0F0,0B0,0F1,0B1\n1F1,1F0,1B0,1B1\n");
  CHECK_FALSE(check(lower(file)).safe());
  CHECK_THROWS_AS(write_torch_csv(file.schedule, TorchForm::compute_only), Error);
}

TEST_CASE("torch CSV: whatever happens to a file, it is read or refused in a sentence") {
  Random random(7);
  const std::string letters = "0123456789FBIWSENDRCV_OLP,;()\n \r-x";
  const std::vector<std::string> files{
      write_torch_csv(interleaved({.devices = 2, .microbatches = 4, .virtual_stages = 2}),
                      TorchForm::compute_comms),
      "0F0,0F1,(0F2;0B0)OVERLAP_F_B,0I1,0B2,0W1\n"};
  int read_well = 0;
  for (int i = 0; i < 4000; ++i) {
    std::string text = files[index(i % 2)];
    for (int changes = random.between(1, 3); changes > 0; --changes) {
      const std::size_t place = index(random.below(static_cast<int>(text.size())));
      const std::size_t other = index(random.below(static_cast<int>(text.size())));
      switch (random.below(3)) {
        case 0: text[place] = letters[index(random.below(static_cast<int>(letters.size())))]; break;
        case 1: text.erase(place, index(random.between(1, 9))); break;
        default: text.insert(place, text.substr(other, index(random.between(1, 9)))); break;
      }
      if (text.empty()) text = "0";
    }
    try {
      const Program program = lower(read(text));
      check(program);
      ++read_well;
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK_FALSE(error.message().empty());
    }
  }
  CHECK(read_well > 10);
}
