#include "simulator/schedules/schedules.hpp"

#include <filesystem>
#include <map>
#include <sstream>

#include "profiles/error.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/simulator/support.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

struct Oracle {
  std::string file;
  std::string schedule;
  ScheduleShape shape;
};

/// Published orders that our generators reproduce, all but one of p = 4.
std::vector<Oracle> oracles() {
  const auto shape = [](int m, int v, std::optional<int> group, std::vector<int> warm_up) {
    return ScheduleShape{.devices = 4,
                         .microbatches = m,
                         .virtual_stages = v,
                         .group = group,
                         .warm_up = std::move(warm_up)};
  };
  ScheduleShape eight = shape(20, 1, {}, {});
  eight.devices = 8;
  ScheduleShape pieces = shape(4, 1, {}, {});
  pieces.sequence_chunks = 2;
  return {{"gpipe_p4_m8", "gpipe", shape(8, 1, {}, {})},
          {"chimera_p4_m4", "chimera", shape(4, 1, {}, {})},
          {"chimera_p4_m8", "chimera", shape(8, 1, {}, {})},
          {"dualpipe_p4_m8", "dualpipe", shape(8, 1, {}, {})},
          {"dualpipe_p8_m20", "dualpipe", eight},
          {"dualpipev_p4_m8", "dualpipev", shape(8, 2, {}, {})},
          {"dualpipev_p4_m10", "dualpipev", shape(10, 2, {}, {})},
          {"seq1f1b_p4_m4_k2", "seq1f1b", pieces},
          {"1f1b_p4_m8", "1f1b", shape(8, 1, {}, {})},
          {"dapple_pb_p4_m8", "1f1b", shape(8, 1, {}, deep_warm_up(4))},
          {"dapple_pb_p4_m8", "dapple-pb", shape(8, 1, {}, {})},
          {"interleaved_p4_m8_v2", "interleaved", shape(8, 2, {}, {})},
          {"interleaved_p4_m8_v2_N8", "interleaved", shape(8, 2, 8, {})},
          {"interleaved_p4_m10_v2_N5", "interleaved", shape(10, 2, 5, {})},
          {"looped_bfs_p4_m8_v2", "looped-bfs", shape(8, 2, {}, {})},
          {"zb_h1_p4_m8", "zb-h1", shape(8, 1, {}, {})},
          {"zb_h2_p4_m8", "zb-h2", shape(8, 1, {}, {})},
          {"interleaved_zb_p4_m8_v2", "interleaved-zb", shape(8, 2, {}, {})},
          {"zb_v_p4_m8", "zbv", shape(8, 2, {}, {})}};
}

std::filesystem::path oracle_folder() {
  return std::filesystem::path(shared_folder()) / "oracles" / "schedules";
}

Op op_of(char letter) {
  for (const Op op : {Op::backward, Op::backward_input, Op::backward_weight}) {
    if (stagecraft::letter(op).front() == letter) return op;
  }
  return Op::forward;
}

/// What a file says: as Schedule has it.
struct Orders {
  std::vector<std::vector<Instruction>> devices;
  std::vector<std::vector<int>> fused;
};

/// "1F3,1B3": stage, letter, microbatch; "(0F3;7B1)OVERLAP_F_B" for a fused pair; one line per
/// device.
Orders read_orders(const std::string& text) {
  Orders orders;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    auto& order = orders.devices.emplace_back();
    auto& fused = orders.fused.emplace_back();
    for (std::string cell : split(trim(line), ',')) {
      if (cell.front() == '(') fused.push_back(static_cast<int>(order.size()));
      if (cell.front() == '(') cell = cell.substr(1, cell.find(')') - 1);
      for (const std::string& action : split(cell, ';')) {
        const std::size_t letter = action.find_first_of("FBIW");
        order.push_back({op_of(action[letter]), std::stoi(action.substr(0, letter)),
                         std::stoi(action.substr(letter + 1))});
      }
    }
  }
  return orders;
}

/// The same order with each stage's backwards ascending, as ours are: some published ones descend.
std::vector<std::vector<Instruction>> ascending(std::vector<std::vector<Instruction>> devices) {
  std::map<int, int> next;
  for (auto& order : devices) {
    for (Instruction& instruction : order) {
      if (instruction.op == Op::backward) instruction.microbatch = next[instruction.stage]++;
    }
  }
  return devices;
}

/// "57/2" of a unit of 840 ns, which all fractions in the file divide.
Duration read_time(const std::string& text) {
  const std::size_t slash = text.find('/');
  const long numerator = std::stol(text.substr(0, slash));
  const long denominator = slash == std::string::npos ? 1 : std::stol(text.substr(slash + 1));
  return Duration{840 * numerator / denominator};
}

std::vector<Duration> read_times(const Json& json) {
  std::vector<Duration> times;
  for (const Json& element : json.elements()) times.push_back(read_time(element.string()));
  return times;
}

std::vector<int> read_counts(const Json& json) {
  std::vector<int> counts;
  for (const Json& element : json.elements()) counts.push_back(element.small_integer(0, 1000));
  return counts;
}

std::string message_of(const ScheduleShape& shape, Schedule (*generate)(const ScheduleShape&)) {
  try {
    generate(shape);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::usage);
    return error.message();
  }
  return "";
}

}  // namespace

TEST_CASE("orders equal the published ones, action by action") {
  if (!std::filesystem::exists(oracle_folder())) SKIP("no reference data at " + shared_folder());
  for (const Oracle& oracle : oracles()) {
    CAPTURE(oracle.file);
    const Schedule schedule = find_schedule(oracle.schedule).generate(oracle.shape);
    const Orders published = read_orders(read_file(oracle_folder() / (oracle.file + ".csv")));
    const bool same =
        schedule.devices == published.devices || schedule.devices == ascending(published.devices);
    CHECK(same);
    const bool fuses = std::any_of(published.fused.begin(), published.fused.end(),
                                   [](const auto& pairs) { return !pairs.empty(); });
    CHECK(schedule.fused == (fuses ? published.fused : std::vector<std::vector<int>>{}));
  }
}

TEST_CASE("times, peaks and messages equal the published ones") {
  if (!std::filesystem::exists(oracle_folder())) SKIP("no reference data at " + shared_folder());
  const Json file = Json::read(oracle_folder() / "oracles.json");
  struct Setting {
    std::string name;
    int forward, input, weight;
  };
  for (const Oracle& oracle : oracles()) {
    for (const Setting& setting : {Setting{"f1i1w1", 1, 1, 1}, Setting{"f10i12w8", 10, 12, 8}}) {
      CAPTURE(oracle.file, setting.name);
      const Json expected = file[oracle.file];
      const Json result = expected["results"][setting.name];
      const Schedule schedule = find_schedule(oracle.schedule).generate(oracle.shape);
      const Timeline timeline =
          run(schedule, split_costs(setting.forward * Duration{840}, setting.input * Duration{840},
                                    setting.weight * Duration{840},
                                    oracle.shape.virtual_stages * schedule.parts));
      CHECK(step_time(timeline) == read_time(result["T"].string()));
      CHECK(span_times(timeline) == read_times(result["span"]));
      CHECK(busy_times(timeline) == read_times(result["busy"]));
      CHECK(peak_in_flight(timeline) == read_counts(result["peak_until_input_grad"]));
      CHECK(peak_in_flight(timeline, false) == read_counts(result["peak_until_weight_grad"]));
      CHECK(messages_sent(timeline, Op::send_activation) == read_counts(expected["sends_fwd"]));
      CHECK(messages_sent(timeline, Op::send_gradient) == read_counts(expected["sends_bwd"]));
    }
  }
}

TEST_CASE("every schedule is valid and sums gradients in ascending order", "[seconds]") {
  const ScheduleKind kind = GENERATE(from_range(schedule_kinds));
  CAPTURE(std::string(kind.name));
  int made = 0;
  for (int p = 1; p <= 6; ++p) {
    for (const int m : {p, 2 * p, 5 * p}) {
      for (const int v : {1, 2, 3}) {
        const auto schedule =
            generated(kind, {.devices = p, .microbatches = m, .virtual_stages = v});
        if (!schedule) continue;
        ++made;
        CAPTURE(p, m, v);
        CHECK(schedule->name == kind.name);
        CHECK_NOTHROW(validate(*schedule));
        // Per stage, the next gradient to add: by B, or by W.
        std::vector<int> next(index(schedule->stages), 0);
        for (const auto& order : schedule->devices) {
          for (const Instruction& instruction : order) {
            if (instruction.op != Op::backward && instruction.op != Op::backward_weight) continue;
            CHECK(instruction.microbatch == next[index(instruction.stage)]++);
          }
        }
      }
    }
  }
  CHECK(made > 0);
}

TEST_CASE("names and aliases find their schedule, other words a suggestion") {
  CHECK(find_schedule("1f1b").generate == one_f_one_b);
  CHECK(find_schedule("pipedream-flush").name == "1f1b");
  CHECK(find_schedule("vpp").name == "interleaved");
  CHECK_THROWS_WITH(find_schedule("1f1bb"), ContainsSubstring("did you mean \"1f1b\"?"));
}

TEST_CASE("1F1B takes any warm-up that does not grow along the pipeline") {
  ScheduleShape shape = plain_shape(3, 4);
  shape.warm_up = {9, 2, 1};
  const Schedule schedule = one_f_one_b(shape);
  CHECK(schedule.devices[0] == gpipe(plain_shape(3, 4)).devices[0]);
  CHECK(peak_in_flight(schedule) == std::vector{4, 2, 1});

  shape.warm_up = {2, 3, 1};
  CHECK_THAT(message_of(shape, one_f_one_b), ContainsSubstring("nearest legal value: 2"));
  shape.warm_up = {2, 1};
  CHECK_THAT(message_of(shape, one_f_one_b), ContainsSubstring("lists 2 devices; expected 3"));
  shape.warm_up = {1, 1, 0};
  CHECK_THAT(message_of(shape, one_f_one_b), ContainsSubstring("at least 1, not 0"));
}

TEST_CASE("what a schedule has no use for is refused, not ignored") {
  ScheduleShape shape = plain_shape(2, 4);
  shape.virtual_stages = 2;
  CHECK_THAT(message_of(shape, gpipe), ContainsSubstring("virtual stages must be 1"));
  CHECK_THAT(message_of(shape, one_f_one_b), ContainsSubstring("interleaved takes more"));
  shape.warm_up = {2, 1};
  CHECK_THAT(message_of(shape, interleaved), ContainsSubstring("warm-up"));
  shape = plain_shape(2, 4);
  shape.group = 2;
  CHECK_THAT(message_of(shape, gpipe), ContainsSubstring("group"));
  CHECK_THAT(message_of(shape, one_f_one_b), ContainsSubstring("group"));
  CHECK_THAT(message_of(plain_shape(0, 4), gpipe), ContainsSubstring("devices must be at least 1"));
  CHECK_THAT(message_of(plain_shape(2, 0), one_f_one_b), ContainsSubstring("microbatches must be"));
}

TEST_CASE("interleaved with one stage per device is 1F1B") {
  for (const Shape& shape : plain_shapes()) {
    CHECK(interleaved(plain_shape(shape.devices, shape.microbatches)).devices ==
          one_f_one_b(plain_shape(shape.devices, shape.microbatches)).devices);
  }
}

TEST_CASE("interleaved refuses groups that cannot work and names ones that do") {
  ScheduleShape shape = plain_shape(4, 6);
  shape.virtual_stages = 2;
  // 6 mod 4 = 2: the last group of two would not last a round trip through four devices.
  const std::string ragged = message_of(shape, interleaved);
  CHECK_THAT(ragged, ContainsSubstring("nearest legal microbatches for this group: 4 or 8"));
  CHECK_THAT(ragged, ContainsSubstring("nearest legal group for 6 microbatches: 6"));

  shape.microbatches = 10;
  CHECK_THAT(message_of(shape, interleaved),
             ContainsSubstring("nearest legal group for 10 microbatches: 5"));
  shape.group = 5;
  CHECK_NOTHROW(interleaved(shape));
  shape.group = 6;  // 10 mod 6 = 4 >= 4: a ragged last group, long enough
  CHECK_NOTHROW(interleaved(shape));
  shape.group = 3;
  CHECK_THAT(message_of(shape, interleaved), ContainsSubstring("devices <= group"));
  shape.microbatches = 3;
  shape.group.reset();
  CHECK_THAT(message_of(shape, interleaved),
             ContainsSubstring("nearest legal microbatches for this group: 4"));
}

TEST_CASE("interleaved accepts exactly the groups that work, and all of them run") {
  const ChunkCosts costs = chunk_costs(10ms, 20ms);
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 14; ++m) {
      for (int group = 1; group <= 14; ++group) {
        ScheduleShape shape = plain_shape(p, m);
        shape.virtual_stages = 2;
        shape.group = group;
        const bool legal = p <= group && group <= m && (m % group == 0 || m % group >= p);
        CAPTURE(p, m, group);
        if (legal) {
          CHECK_NOTHROW(run(interleaved(shape), costs));
        } else {
          CHECK_FALSE(message_of(shape, interleaved).empty());
        }
      }
    }
  }
}

TEST_CASE("a schedule with work missing, doubled, misplaced or out of order is invalid") {
  const Schedule good = one_f_one_b(plain_shape(2, 2));
  CHECK_NOTHROW(validate(good));

  Schedule missing = good;
  missing.devices[1].pop_back();
  CHECK_THROWS_WITH(validate(missing),
                    ContainsSubstring("stage 1 has no backward of microbatch 1"));

  Schedule doubled = good;
  doubled.devices[0].push_back({Op::forward, 0, 0});
  CHECK_THROWS_WITH(validate(doubled), ContainsSubstring("F0.0 repeats"));

  Schedule misplaced = good;
  misplaced.devices[0].push_back({Op::forward, 1, 0});
  CHECK_THROWS_WITH(validate(misplaced), ContainsSubstring("but stage 1 is on device 1"));

  Schedule early = good;
  std::swap(early.devices[1][0], early.devices[1][1]);
  CHECK_THROWS_WITH(validate(early), ContainsSubstring("B1.0 comes before its forward"));

  Schedule foreign = good;
  foreign.devices[0].push_back({Op::update, 0, 0});
  CHECK_THROWS_WITH(validate(foreign), ContainsSubstring("only F, B, I, W, R, EV and LD"));

  Schedule half = good;
  half.devices[1] = {
      {Op::forward, 1, 0}, {Op::backward_input, 1, 0}, {Op::forward, 1, 1}, {Op::backward, 1, 1}};
  CHECK_THROWS_WITH(validate(half), ContainsSubstring("stage 1 has no weight gradient"));
  half.devices[1].push_back({Op::backward_weight, 1, 0});
  CHECK_NOTHROW(validate(half));

  Schedule late = good;
  late.devices[1].push_back({Op::recompute, 1, 0});
  CHECK_THROWS_WITH(validate(late), ContainsSubstring("R1.0 comes after its backward"));
}

TEST_CASE("counted from the order alone, weight gradients that wait keep activations longer") {
  const Schedule schedule{.name = "split",
                          .stages = 1,
                          .microbatches = 2,
                          .device_of_stage = {0},
                          .devices = {{{Op::forward, 0, 0},
                                       {Op::backward_input, 0, 0},
                                       {Op::forward, 0, 1},
                                       {Op::backward_input, 0, 1},
                                       {Op::backward_weight, 0, 0},
                                       {Op::backward_weight, 0, 1}}}};
  CHECK(peak_in_flight(schedule, true) == std::vector{1});
  CHECK(peak_in_flight(schedule, false) == std::vector{2});
}

TEST_CASE("where nobody says how many, a schedule that interleaves has two stages per device") {
  CHECK(usual_virtual_stages(find_schedule("1f1b")) == 1);
  CHECK(usual_virtual_stages(find_schedule("interleaved")) == 2);
  CHECK(usual_virtual_stages(find_schedule("looped-bfs")) == 2);
  CHECK(usual_virtual_stages(find_schedule("zb-v")) == 2);
  CHECK(find_schedule("zero-bubble").name == "zb-h1");
}
