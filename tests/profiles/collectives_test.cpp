#include "profiles/collectives.hpp"

#include <rapidcheck.h>

#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr Bytes megabyte = 1'000'000;

Duration by(CollectiveAlgorithm algorithm, Collective collective, const DeviceGroup& group,
            Bytes bytes) {
  const auto time = collective_time(collective, algorithm, group, bytes);
  REQUIRE(time);
  return *time;
}

std::vector<int> first_of(int count) {
  std::vector<int> devices;
  for (int i = 0; i < count; ++i) devices.push_back(i);
  return devices;
}

/// 4 boxes of 4 devices and 4 ports: 1 GB/s and 10us between, 10 GB/s and 1us inside.
const char* const four_boxes = "4x4xgeneric@1GB/s:10us:rails=4,10GB/s:1us";

/// Whole boxes of a random cluster with two or three levels, all ports as fast as drawn.
struct Drawn {
  Cluster cluster;
  std::vector<int> devices;
};

Link drawn_link() {
  const Bandwidth rate{*rc::gen::inRange<std::int64_t>(1'000'000, 1'000'000'000'000)};
  return {.latency = Duration(*rc::gen::inRange(0, 100'000)),
          .point_to_point = rate,
          .collective = rate};
}

Cluster drawn_cluster() {
  Cluster cluster = parse_cluster("generic");
  cluster.levels.clear();
  int devices = 1;
  for (int level = *rc::gen::inRange(1, 4); level > 0; --level) {
    cluster.levels.push_back({.count = *rc::gen::inRange(1, 5),
                              .link = drawn_link(),
                              .rails = *rc::gen::inRange(1, 9),
                              .oversubscription = *rc::gen::inRange(4, 32) / 4.0});
    devices *= cluster.levels.back().count;
  }
  cluster.levels.back().rails = 1;
  cluster.levels.back().oversubscription = 1;
  cluster.devices.assign(static_cast<std::size_t>(devices), 0);
  validate(cluster);
  return cluster;
}

std::vector<int> drawn_devices(const Cluster& cluster) {
  std::vector<int> devices;
  for (int i = 0; i < device_count(cluster); ++i) {
    if (*rc::gen::arbitrary<bool>()) devices.push_back(i);
  }
  if (devices.empty()) devices.push_back(0);
  return devices;
}

Collective drawn_collective() {
  return collectives[*rc::gen::inRange<std::size_t>(0, collectives.size())].collective;
}

}  // namespace

TEST_CASE("a ring of n takes 2(n-1) hops and 2(n-1)/n of the bytes, a scatter half of that") {
  // Patarasuk and Yuan 2009, section 3.
  const DeviceGroup group = device_group(parse_cluster("8xgeneric@1GB/s:5us"), first_of(8));
  const auto time = [&](Collective collective) {
    return by(CollectiveAlgorithm::ring, collective, group, 8 * megabyte);
  };
  CHECK(time(Collective::all_reduce) == 14 * 5us + 14ms);
  CHECK(time(Collective::reduce_scatter) == 7 * 5us + 7ms);
  CHECK(time(Collective::all_gather) == 7 * 5us + 7ms);
  CHECK(time(Collective::broadcast) == 7 * 5us + 8ms);
  CHECK(by(CollectiveAlgorithm::pairwise, Collective::all_to_all, group, 8 * megabyte) ==
        7 * 5us + 7ms);
  // In one box nothing else applies.
  CHECK_FALSE(collective_time(Collective::all_reduce, CollectiveAlgorithm::tree, group, 1));
  CHECK_FALSE(collective_time(Collective::all_reduce, CollectiveAlgorithm::hierarchical, group, 1));
}

TEST_CASE("rings of a box run side by side, one on each rail") {
  const Cluster cluster = parse_cluster(four_boxes);
  const DeviceGroup all = device_group(cluster, first_of(16));
  // 4 links of the ring between boxes and 12 inside, of which one is left out; 30/16 of the bytes
  // over 4 ports of 1 GB/s, which is less than the box's 10 GB/s.
  CHECK(by(CollectiveAlgorithm::ring, Collective::all_reduce, all, 16 * megabyte) ==
        2 * (4 * 10us + 11 * 1us) + 7500us);
  // One device of each box has one port.
  const DeviceGroup one_each = device_group(cluster, {0, 4, 8, 12});
  CHECK(by(CollectiveAlgorithm::ring, Collective::all_reduce, one_each, 16 * megabyte) ==
        6 * 10us + 24ms);
  // Boxes with a single port have one ring, however many devices.
  const DeviceGroup one_port =
      device_group(parse_cluster("4x4xgeneric@1GB/s:10us,10GB/s:1us"), first_of(16));
  CHECK(by(CollectiveAlgorithm::ring, Collective::all_reduce, one_port, 16 * megabyte) ==
        2 * (4 * 10us + 11 * 1us) + 30ms);
}

TEST_CASE("a double binary tree takes 2 log2 p hops and all bytes twice") {
  // Sanders, Speck and Traeff 2009: both trees carry half, up and down. Inside a box it is a chain.
  // 2 * 16 MB over 4 GB/s at 92 %, as NCCL has it.
  const DeviceGroup all = device_group(parse_cluster(four_boxes), first_of(16));
  CHECK(by(CollectiveAlgorithm::tree, Collective::all_reduce, all, 16 * megabyte) ==
        2 * (2 * 10us + 3 * 1us) + 8'695'653ns);
  CHECK(by(CollectiveAlgorithm::tree, Collective::broadcast, all, 16 * megabyte) ==
        2 * 10us + 3 * 1us + 4'347'827ns);
  CHECK_FALSE(collective_time(Collective::all_gather, CollectiveAlgorithm::tree, all, 1));
}

TEST_CASE("phases scatter inside, sum the rest outside, and gather inside") {
  // Cho et al. 2019: 2 * 3/4 N inside, 2 * 3/4 N/4 over each device's own port.
  const Cluster cluster = parse_cluster(four_boxes);
  const DeviceGroup all = device_group(cluster, first_of(16));
  CHECK(by(CollectiveAlgorithm::hierarchical, Collective::all_reduce, all, 16 * megabyte) ==
        2 * (3 * 10us + 3 * 1us) + 2400us + 6000us);
  CHECK(by(CollectiveAlgorithm::hierarchical, Collective::reduce_scatter, all, 16 * megabyte) ==
        3 * 10us + 3 * 1us + 1200us + 3000us);
  // Members of a box share its only port.
  const DeviceGroup shared =
      device_group(parse_cluster("4x4xgeneric@1GB/s:10us,10GB/s:1us"), first_of(16));
  CHECK(by(CollectiveAlgorithm::hierarchical, Collective::reduce_scatter, shared, 16 * megabyte) ==
        3 * 10us + 3 * 1us + 1200us + 12000us);
  // Parts of unlike size cannot go on in step.
  CHECK_FALSE(collective_time(Collective::all_reduce, CollectiveAlgorithm::hierarchical,
                              device_group(cluster, {0, 1, 4}), 1));
}

TEST_CASE("all-to-all sends to each of the others, or across rails in phases") {
  // 12 of 16 parts leave the box by the member's own port, 3 stay: levels work at once.
  const DeviceGroup all = device_group(parse_cluster(four_boxes), first_of(16));
  CHECK(by(CollectiveAlgorithm::pairwise, Collective::all_to_all, all, 16 * megabyte) ==
        12 * 10us + 3 * 1us + 12ms);
  // To the rail's device first, then one message for each box: 3/4 of all bytes at both levels.
  CHECK(by(CollectiveAlgorithm::hierarchical, Collective::all_to_all, all, 16 * megabyte) ==
        3 * 10us + 3 * 1us + 12ms + 1200us);
  CHECK(choose_collective(Collective::all_to_all, all, 1000).algorithm ==
        CollectiveAlgorithm::hierarchical);
  CHECK(choose_collective(Collective::all_to_all, all, 100 * megabyte).algorithm ==
        CollectiveAlgorithm::pairwise);
}

TEST_CASE("all-reduces over many boxes go by tree, the largest by ring") {
  const Cluster cluster = parse_cluster("64x8xh100");
  const DeviceGroup group = device_group(cluster, first_of(512));
  const auto chosen = [&](Bytes bytes) {
    return choose_collective(Collective::all_reduce, group, bytes).algorithm;
  };
  CHECK(chosen(64) == CollectiveAlgorithm::tree);
  CHECK(chosen(8 * 1024) == CollectiveAlgorithm::tree);
  CHECK(chosen(1 << 30) == CollectiveAlgorithm::tree);
  CHECK(chosen(Bytes{64} << 30) == CollectiveAlgorithm::ring);
  // A ring's latency does not matter any more, its bandwidth is the port's.
  const Duration time = collective_time(Collective::all_reduce, group, Bytes{64} << 30);
  CHECK(seconds(time) == Approx(2 * 511.0 / 512 * 64 * 1.073741824 / 360).epsilon(0.05));
}

TEST_CASE(
    "what a level cannot carry slows what all send at once, and rings that cross it once not") {
  const DeviceGroup free =
      device_group(parse_cluster("2x2x4xgeneric@1GB/s:rails=4,1GB/s:rails=4,10GB/s"), first_of(16));
  const DeviceGroup taken = device_group(
      parse_cluster("2x2x4xgeneric@1GB/s:rails=4:oversubscription=2,1GB/s:rails=4,10GB/s"),
      first_of(16));
  const auto time = [](const DeviceGroup& group, CollectiveAlgorithm algorithm,
                       Collective collective) {
    return by(algorithm, collective, group, 16 * megabyte);
  };
  CHECK(time(free, CollectiveAlgorithm::pairwise, Collective::all_to_all) == 8ms);
  CHECK(time(taken, CollectiveAlgorithm::pairwise, Collective::all_to_all) == 16ms);
  // Eight members of a part have four rings: twice as many ports as rings cross the level.
  CHECK(time(free, CollectiveAlgorithm::ring, Collective::all_reduce) ==
        time(taken, CollectiveAlgorithm::ring, Collective::all_reduce));
  CHECK(time(free, CollectiveAlgorithm::hierarchical, Collective::all_reduce) <
        time(taken, CollectiveAlgorithm::hierarchical, Collective::all_reduce));
}

TEST_CASE("NVLink domains of any size, boxes on PCIe and 10 GbE are told in a word") {
  const Cluster domain = parse_cluster("4xgb200-nvl72");
  CHECK(device_count(domain) == 288);
  CHECK(domain.levels[0].rails == 72);
  CHECK(domain.levels[1].link.point_to_point == parse_bandwidth("900GB/s"));
  CHECK(parse_cluster("2x36xgb200").levels[1].link == domain.levels[1].link);
  // An all-reduce over 72 stays inside; over 8 boxes of 9 H100 it would not.
  const DeviceGroup inside = device_group(domain, first_of(72));
  CHECK(inside.depth == 1);
  CHECK(inside.levels[0].is_box);
  const Cluster pcie = parse_cluster("4xv100-pcie-10gbe");
  CHECK(pcie.levels[0].rails == 1);
  CHECK(pcie.levels[0].link.collective == parse_bandwidth("10GbE"));
  CHECK(device_group(pcie, first_of(16)).levels[0].rings == parse_bandwidth("10GbE"));
}

TEST_CASE("groups know which levels part them, and how evenly") {
  const Cluster cluster = parse_cluster("2x2x4xgeneric@1GB/s:rails=4,2GB/s:rails=4,10GB/s");
  CHECK(device_group(cluster, {3}) == DeviceGroup{});
  CHECK(device_group(cluster, {3, 3, 3}) == DeviceGroup{});
  const DeviceGroup pair = device_group(cluster, {9, 8});
  CHECK(pair.depth == 1);
  CHECK(pair.levels[0].is_box);
  const DeviceGroup uneven = device_group(cluster, {0, 1, 4, 8});
  CHECK(uneven.depth == 3);
  CHECK_FALSE(uneven.even);
  CHECK(uneven.levels[0].crossings + uneven.levels[1].crossings + uneven.levels[2].crossings == 4);
  CHECK(uneven.levels[0].rings == parse_bandwidth("1GB/s"));
  // A link of its own slows the ring that crosses it.
  Cluster slow = parse_cluster("4xgeneric@10GB/s:1us");
  slow.overrides.push_back(
      {.from = 1, .to = 2, .link = {.latency = 9us, .point_to_point = {1}, .collective = {7}}});
  CHECK(device_group(slow, {0, 1, 2}).levels[0].rings == Bandwidth{7});
  CHECK(device_group(slow, {0, 1}).levels[0].rings == parse_bandwidth("10GB/s"));
}

TEST_CASE("boxes by number are the same group as boxes of a cluster") {
  const Cluster cluster = parse_cluster("4x8xa100");
  DeviceGroup group = device_group(cluster, first_of(32));
  const DeviceGroup boxes =
      boxes_group(4, 8, cluster.levels[1].link, cluster.levels[0].link, cluster.levels[0].rails);
  for (const CollectiveName& row : collectives) {
    CHECK(choose_collective(row.collective, group, 5 * megabyte) ==
          choose_collective(row.collective, boxes, 5 * megabyte));
  }
}

TEST_CASE("more bytes, latency or oversubscription and less bandwidth or ports never help") {
  CHECK(rc::check("of any collective", [] {
    const Cluster cluster = drawn_cluster();
    const std::vector<int> devices = drawn_devices(cluster);
    const Collective collective = drawn_collective();
    const Bytes bytes = *rc::gen::inRange<Bytes>(0, 1'000'000'000);
    const auto time = [&](const Cluster& changed, Bytes size) {
      return collective_time(collective, device_group(changed, devices), size);
    };
    const Duration before = time(cluster, bytes);
    RC_ASSERT(time(cluster, bytes + *rc::gen::inRange<Bytes>(0, 1'000'000)) >= before);
    const std::size_t which = *rc::gen::inRange<std::size_t>(0, cluster.levels.size());
    const auto worse = [&](auto change) {
      Cluster changed = cluster;
      change(changed.levels[which]);
      return time(changed, bytes);
    };
    RC_ASSERT(worse([](Level& level) { level.link.latency += 1us; }) >= before);
    RC_ASSERT(worse([](Level& level) {
                level.link.collective.bytes_per_second =
                    level.link.collective.bytes_per_second * 2 / 3;
              }) >= before);
    if (which + 1 == cluster.levels.size()) return;
    RC_ASSERT(worse([](Level& level) { level.oversubscription *= 1.5; }) >= before);
    RC_ASSERT(worse([](Level& level) { level.rails = std::max(1, level.rails - 1); }) >= before);
  }));
}

TEST_CASE("whole boxes more never make a collective quicker, nor do devices of one box") {
  CHECK(rc::check("of any collective", [] {
    const Cluster cluster = drawn_cluster();
    const Collective collective = drawn_collective();
    const Bytes bytes = *rc::gen::inRange<Bytes>(0, 1'000'000'000);
    const int box = cluster.levels.back().count;
    Duration before{0};
    for (int count = 1; count <= box; ++count) {
      const Duration time =
          collective_time(collective, device_group(cluster, first_of(count)), bytes);
      RC_ASSERT(time >= before);
      before = time;
    }
    // Of an all-to-all more boxes leave less for the links inside, beside those between.
    if (cluster.levels.size() != 2 || collective == Collective::all_to_all) return;
    for (int boxes = 1; boxes <= cluster.levels[0].count; ++boxes) {
      const Duration time =
          collective_time(collective, device_group(cluster, first_of(boxes * box)), bytes);
      RC_ASSERT(time >= before);
      before = time;
    }
  }));
}

TEST_CASE("no all-reduce over more devices takes less than the least of these") {
  CHECK(rc::check("of any groups", [] {
    const Cluster cluster = drawn_cluster();
    std::vector<int> devices = drawn_devices(cluster);
    const Bytes bytes = Bytes{1} << *rc::gen::inRange(0, 31);  // latency counts, too
    const Duration least = least_all_reduce_time(cluster, devices, bytes);
    for (const int other : drawn_devices(cluster)) devices.push_back(other);
    RC_ASSERT(collective_time(Collective::all_reduce, device_group(cluster, devices), bytes) >=
              least);
  }));
}

TEST_CASE("a link's words in an expression are refused where they make no sense") {
  const auto complaint = [](const char* text) {
    CHECK(exit_code_of([&] { parse_cluster(text); }) == 2);
    return message_of([&] { parse_cluster(text); });
  };
  CHECK_THAT(complaint("2x8xh100@400Gb/s:rail=8"), ContainsSubstring("did you mean \"rails\"?"));
  CHECK_THAT(complaint("2x8xh100@400Gb/s:rails=0"), ContainsSubstring("rails: expected a number"));
  CHECK_THAT(complaint("2x8xh100@400Gb/s:rails=2.5"), ContainsSubstring("found \"2.5\""));
  CHECK_THAT(complaint("2x8xh100@400Gb/s:oversubscription=0.5"), ContainsSubstring("from 1"));
  CHECK_THAT(complaint("2x8xh100@400Gb/s:collective=3"), ContainsSubstring("needs a unit"));
  const Cluster cluster =
      parse_cluster("2x8xh100@400Gb/s:5us:collective=45GB/s:rails=4:oversubscription=1.5");
  CHECK(cluster.levels[0].link.latency == 5us);
  CHECK(cluster.levels[0].link.collective == parse_bandwidth("45GB/s"));
  CHECK(cluster.levels[0].rails == 4);
  CHECK(cluster.levels[0].oversubscription == 1.5);
  CHECK(read_cluster(Json::parse(write_cluster(cluster), "c.json")) == cluster);
}
