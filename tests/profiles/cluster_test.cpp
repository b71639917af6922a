#include "profiles/cluster.hpp"

#include <rapidcheck.h>

#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/json.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

constexpr std::int64_t giga = 1'000'000'000;

Link link_of(std::int64_t gigabytes, Duration latency) {
  return {
      .latency = latency, .point_to_point = {gigabytes * giga}, .collective = {gigabytes * giga}};
}

Link random_link() {
  const auto rate = [] { return Bandwidth{*rc::gen::inRange<std::int64_t>(1, 1'000'000'000'000)}; };
  return {.latency = Duration(*rc::gen::inRange(0, 1'000'000)),
          .point_to_point = rate(),
          .collective = *rc::gen::arbitrary<bool>() ? rate() : Bandwidth::unlimited()};
}

/// Two kinds, one to three levels, some overrides.
Cluster random_cluster() {
  Cluster cluster;
  cluster.name = "random";
  cluster.kinds = {builtin_device_kind("a100"), builtin_device_kind("generic")};
  cluster.kinds[0].efficiency = *rc::gen::inRange(1, 1000) / 1000.0;
  if (*rc::gen::arbitrary<bool>()) {
    cluster.kinds[0].constants = usual_constants("a100");
    cluster.kinds[0].constants->product_rate = *rc::gen::inRange(100, 1000) / 1000.0;
  }
  cluster.kinds[0].flops_fp32 = *rc::gen::inRange(1, 1'000'000) * 1.1e7;
  std::size_t devices = 1;
  for (int level = *rc::gen::inRange(1, 4); level > 0; --level) {
    cluster.levels.push_back({*rc::gen::inRange(1, 4), random_link()});
    devices *= static_cast<std::size_t>(cluster.levels.back().count);
  }
  for (std::size_t i = 0; i < devices; ++i) cluster.devices.push_back(*rc::gen::inRange(0, 2));
  if (devices > 1) cluster.overrides.push_back({1, 0, random_link()});
  return cluster;
}

}  // namespace

TEST_CASE("every built-in kind and cluster is valid, and reachable by an expression") {
  for (const std::string& name : builtin_device_kinds()) {
    INFO(name);
    CHECK(builtin_device_kind(name).name == name);
    CHECK_FALSE(builtin_device_kind(name).source.empty());
    CHECK(builtin_device_kind_called(name) == name);
    CHECK_NOTHROW(validate(parse_cluster("4x" + name)));
  }
  for (const std::string& name : builtin_clusters()) {
    INFO(name);
    CHECK_NOTHROW(validate(parse_cluster(name)));
    CHECK(device_count(parse_cluster("4x" + name)) == 4 * device_count(parse_cluster(name)));
  }
}

TEST_CASE("devices are called in any case, and with the memory that the first ones had") {
  CHECK(parse_cluster("8xA100-40GB").kinds == parse_cluster("8xa100").kinds);
  CHECK(parse_cluster("2x8xH100-80GB").kinds == parse_cluster("2x8xh100").kinds);
  CHECK(builtin_device_kind("MI300X") == builtin_device_kind("mi300x"));
  CHECK(builtin_device_kind_called("H1000") == "H1000");
  // As drivers call them, too, wherever a kind is asked for.
  CHECK(builtin_device_kind("NVIDIA H100 PCIe") == builtin_device_kind("h100-pcie"));
  CHECK(parse_cluster("8xNVIDIA H100 80GB HBM3").kinds == parse_cluster("8xh100").kinds);
  for (const std::string name : {"NVIDIA H100 80GB HBM3", "H100", "h100"}) {
    INFO(name);
    CHECK(device_named(name).kind == builtin_device_kind("h100"));
    CHECK(device_named(name).links.box == builtin_links("h100").box);
  }
  CHECK_THAT(message_of([] { parse_cluster("8xA1000"); }), ContainsSubstring("\"A1000\""));
}

TEST_CASE("an expression lists counts and links, outermost first") {
  const Cluster cluster = parse_cluster("4x4xgeneric@1.25GB/s,10GB/s");
  CHECK(device_count(cluster) == 16);
  REQUIRE(cluster.levels.size() == 2);
  CHECK(cluster.levels[0].link.point_to_point == parse_bandwidth("1.25GB/s"));
  CHECK(cluster.levels[1].link.point_to_point == parse_bandwidth("10GB/s"));
  CHECK(cluster.levels[0].link.latency == 0ns);
  CHECK(kind_of(cluster, 15).generic);
  CHECK(kind_of(cluster, 15).memory_unlimited);
}

TEST_CASE("a level without a link takes the device kind's own") {
  const Cluster cluster = parse_cluster("16x8xh100@400Gb/s:7us");
  CHECK(cluster.levels[0].link == link_of(50, 7us));
  CHECK(cluster.levels[1].link == parse_cluster("8xh100").levels[0].link);
  CHECK(parse_cluster("2x8xh100@,100GB/s").levels[0].link.point_to_point ==
        parse_bandwidth("400Gb/s"));
  // More devices than a box holds are joined by the network.
  CHECK(parse_cluster("16xh100").levels[0].link.point_to_point == parse_bandwidth("400Gb/s"));
  CHECK(parse_cluster("4xgeneric").levels[0].link == Link{});
  CHECK(parse_cluster("h100").levels ==
        std::vector<Level>{{1, parse_cluster("8xh100").levels[0].link}});
}

TEST_CASE("boxes of a number that is no power of two have narrower ones") {
  const auto narrower = [](std::string_view text) {
    return with_narrower_boxes(text).value_or("none");
  };
  CHECK(narrower("4x72xgb200") == "4x64xgb200");
  CHECK(narrower("gb200-nvl72") == "64xgb200");
  CHECK(narrower("8xgb300-nvl72@400Gb/s") == "8x64xgb300@400Gb/s");
  CHECK(narrower("2x6xh100") == "2x4xh100");
  for (const std::string_view none :
       {"4x64xgb200", "8xh100", "hgx-h100", "3xh100", "h100", "4xdgx-a100", "my.cluster.json"})
    CHECK(narrower(none) == "none");
  // Nine devices are no box.
  CHECK(narrower("9xa100") == "none");
}

TEST_CASE("more devices than a box has are machines of one device each, and said to be") {
  CHECK(why_single_devices("144xgb300") ==
        "144xgb300 is 144 machines of one device each, joined by their network; 2x72xgb300 is 2 "
        "racks of 72");
  CHECK(why_single_devices("64xA100") ==
        "64xA100 is 64 machines of one device each, joined by their network; 8x8xa100 is 8 "
        "machines of 8");
  CHECK(why_single_devices("2x16xh100") ==
        "2x16xh100 is 32 machines of one device each, joined by their network; 2x2x8xh100 is 4 "
        "machines of 8");
  CHECK_THAT(why_single_devices("20xh100"),
             ContainsSubstring("machines of 8 are written as 2x8xh100"));
  for (const std::string_view usual : {"8xh100", "72xgb300", "4x8xh100", "h100", "2xgb300-nvl72",
                                       "16xh100@100GB/s", "9xgeneric", "16xmine.json", "c.json"})
    CHECK(why_single_devices(usual).empty());
}

TEST_CASE("a bad expression is refused with what is wrong and where") {
  const auto complaint = [](const char* text) {
    CHECK(exit_code_of([&] { parse_cluster(text); }) == 2);
    return message_of([&] { parse_cluster(text); });
  };
  CHECK_THAT(complaint("8xh10"), ContainsSubstring("character 3: unknown device \"h10\"") &&
                                     ContainsSubstring("did you mean \"h100\"?"));
  CHECK_THAT(complaint("0xh100"), ContainsSubstring("a count of at least 1, found 0"));
  CHECK_THAT(complaint("-4xh100"), ContainsSubstring("found -4"));
  CHECK_THAT(complaint("1000001xh100"), ContainsSubstring("more than 1000000 devices"));
  CHECK_THAT(complaint("1000x1001xh100"), ContainsSubstring("character 6: more than 1000000"));
  CHECK_THAT(complaint("99999999999999999999xh100"), ContainsSubstring("more than 1000000"));
  CHECK_THAT(complaint("500000xdgx-a100"), ContainsSubstring("more than 1000000"));
  CHECK_THAT(complaint("4xh100@5GB/s,4GB/s"), ContainsSubstring("2 links, but only 1 level"));
  CHECK_THAT(complaint("4xh100@25"), ContainsSubstring("character 8: bandwidth needs a unit"));
  CHECK_THAT(complaint("4xh100@25GbE:5"), ContainsSubstring("duration needs a unit"));
  CHECK_THAT(complaint("4xh100@"), ContainsSubstring("expected a link"));
  CHECK_THAT(complaint("4x"), ContainsSubstring("expected a device kind"));
  CHECK_THAT(complaint(""), ContainsSubstring("expected a name or an expression"));
}

TEST_CASE("two devices talk over the level at which their positions first differ") {
  Cluster cluster = parse_cluster("2x2x2xgeneric@1GB/s,2GB/s,4GB/s");
  const auto rate = [&](int from, int to) {
    return link_between(cluster, from, to).point_to_point.bytes_per_second / giga;
  };
  CHECK(rate(0, 1) == 4);
  CHECK(rate(0, 2) == 2);
  CHECK(rate(1, 3) == 2);
  CHECK(rate(3, 4) == 1);
  CHECK(rate(0, 7) == 1);
  cluster.overrides.push_back({.from = 0, .to = 7, .link = link_of(9, 0ns)});
  CHECK(rate(0, 7) == 9);
  CHECK(rate(7, 0) == 1);
}

TEST_CASE("a ring runs at its slowest link") {
  const Cluster cluster = parse_cluster("2x2x2xgeneric@1GB/s:3us,2GB/s:2us,4GB/s:1us");
  CHECK(group_link(cluster, {0, 1}) == link_of(4, 1us));
  CHECK(group_link(cluster, {2, 0}) == link_of(2, 2us));
  CHECK(group_link(cluster, {0, 1, 2, 3}) == link_of(2, 2us));
  CHECK(group_link(cluster, {0, 1, 6, 7}) == link_of(1, 3us));
  CHECK(group_link(cluster, {5}) == Link{});
}

TEST_CASE("messages and collectives take latency and bytes") {
  const Link link = link_of(1, 5us);
  CHECK(message_time(link, 1'000'000) == 1005us);
  CHECK(message_time(link, 0) == 5us);
  // A ring of 4: 6 steps of latency, 6/4 of the bytes.
  CHECK(all_reduce_time(link, 4, 1'000'000) == 6 * 5us + 1500us);
  CHECK(reduce_scatter_time(link, 4, 1'000'000) == 3 * 5us + 750us);
  CHECK(all_reduce_time(link, 1, 1'000'000) == 0ns);
  CHECK(all_reduce_time(Link{}, 8, 1'000'000) == 0ns);
}

TEST_CASE("a cluster that makes no sense is refused with the reason") {
  const auto complaint = [](auto change) {
    Cluster cluster = parse_cluster("2x2xa100");
    change(cluster);
    return message_of([&] { validate(cluster); });
  };
  CHECK(complaint([](Cluster&) {}).empty());
  CHECK_THAT(complaint([](Cluster& c) { c.levels[0].count = 3; }),
             ContainsSubstring("make 6 devices, but it lists 4"));
  CHECK_THAT(complaint([](Cluster& c) { c.levels[0].count = 0; }), ContainsSubstring("at least 1"));
  CHECK_THAT(complaint([](Cluster& c) { c.devices[2] = 1; }),
             ContainsSubstring("device 2 is of kind 1"));
  CHECK_THAT(complaint([](Cluster& c) { c.devices.clear(); }), ContainsSubstring("no devices"));
  CHECK_THAT(complaint([](Cluster& c) { c.kinds[0].memory = -1; }), ContainsSubstring("memory"));
  CHECK_THAT(complaint([](Cluster& c) { c.kinds[0].flops_bf16 = -1; }), ContainsSubstring("rate"));
  CHECK_THAT(complaint([](Cluster& c) { c.kinds[0].efficiency = 1.5; }),
             ContainsSubstring("efficiency"));
  CHECK_THAT(complaint([](Cluster& c) { c.levels[1].link.latency = -1ns; }),
             ContainsSubstring("level 1: the latency is negative"));
  CHECK_THAT(complaint([](Cluster& c) { c.levels[1].link.collective = {0}; }),
             ContainsSubstring("at least one byte per second"));
  CHECK_THAT(complaint([](Cluster& c) {
               c.overrides = {{0, 4, {}}};
             }),
             ContainsSubstring("link 0 -> 4: the cluster has the devices 0 to 3"));
  CHECK_THAT(complaint([](Cluster& c) {
               c.overrides = {{1, 1, {}}};
             }),
             ContainsSubstring("two different devices"));
}

TEST_CASE("clusters survive their file") {
  for (const std::string& name : builtin_clusters()) {
    const Cluster cluster = parse_cluster("2x" + name);
    CHECK(read_cluster(Json::parse(write_cluster(cluster), "c.json")) == cluster);
  }
  CHECK(rc::check("any cluster", [] {
    const Cluster cluster = random_cluster();
    validate(cluster);
    RC_ASSERT(read_cluster(Json::parse(write_cluster(cluster), "c.json")) == cluster);
  }));
}

TEST_CASE("a cluster file may name built-in kinds and leave out the obvious") {
  const TemporaryFolder folder;
  const std::string path = folder.file("c.json", R"({
  "format": "stagecraft-cluster/1", "name": "mine", "kinds": ["v100"],
  "levels": [{"count": 3, "link": {"point_to_point": "25GbE"}}]
})");
  const Cluster cluster = load_cluster(path);
  CHECK(device_count(cluster) == 3);
  const std::string of_product = folder.file("product.json", R"({
  "format": "stagecraft-cluster/1", "name": "theirs", "kinds": ["V100", "NVIDIA H100 80GB HBM3"],
  "levels": [{"count": 2, "link": {"point_to_point": "25GbE"}}],
  "devices": [{"kind": "NVIDIA H100 80GB HBM3", "count": 1}, {"kind": "V100", "count": 1}]
})");
  CHECK(kind_of(load_cluster(of_product), 0) == builtin_device_kind("h100"));
  CHECK(kind_of(load_cluster(of_product), 1) == builtin_device_kind("v100"));
  CHECK(kind_of(cluster, 2) == builtin_device_kind("v100"));
  CHECK(cluster.levels[0].link.collective == parse_bandwidth("25GbE"));
}

TEST_CASE("a cluster file with a mistake is refused at its place") {
  const TemporaryFolder folder;
  const auto complaint = [&](const std::string& kinds, const std::string& levels) {
    const std::string path = folder.file(
        "c.json", "{\"format\": \"stagecraft-cluster/1\", \"name\": \"c\",\n \"kinds\": " + kinds +
                      ",\n \"levels\": " + levels + "}");
    return message_of([&] { load_cluster(path); });
  };
  CHECK_THAT(complaint("[\"v10\"]", "[]"), ContainsSubstring("c.json:2:12: kinds[0]") &&
                                               ContainsSubstring("did you mean \"v100\"?"));
  CHECK_THAT(complaint("[\"v100\"]", "[{\"count\": 2, \"link\": {\"point_to_point\": 25}}]"),
             ContainsSubstring("c.json:3:") &&
                 ContainsSubstring("levels[0].link.point_to_point: bandwidth needs a unit"));
  CHECK_THAT(complaint("[\"v100\"]", "[{\"count\": 0, \"link\": {\"point_to_point\": \"1GB/s\"}}]"),
             ContainsSubstring("expected an integer from 1 to 1000000, found 0"));
  CHECK_THAT(complaint("[{\"name\": \"x\", \"memory\": \"-1GiB\"}]", "[]"),
             ContainsSubstring("kinds[0].memory: memory size cannot be negative"));
  CHECK_THAT(complaint("[{\"name\": \"x\", \"memory\": \"1GiB\"}]",
                       "[{\"count\": 1, \"link\": {\"point_to_point\": \"1GB/s\"}}]"),
             ContainsSubstring("c.json: cluster c: device kind \"x\": the memory bandwidth"));
  CHECK_THAT(complaint(R"([{"name": "x", "memory": "1GiB", "flops": {"fp32": 1e308}}])", "[]"),
             ContainsSubstring("kinds[0].flops.fp32: expected a rate of at most 1e+24 per second"));
  CHECK_THAT(complaint(R"([{"name": "x", "memory": "1GiB", "price_per_hour": 1e308}])", "[]"),
             ContainsSubstring("price_per_hour: expected a price above zero, and at most 1e+12"));
  CHECK_THAT(message_of([] { load_cluster("missing.json"); }),
             ContainsSubstring("missing.json: cannot read"));
}
