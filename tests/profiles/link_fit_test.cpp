#include "profiles/link_fit.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "profiles/device_names.hpp"
#include "profiles/json.hpp"
#include "profiles/text.hpp"
#include "tests/catch.hpp"
#include "tests/paths.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// What a perfect machine would print.
std::string printed(const std::string& program, Collective collective, const Cluster& cluster,
                    int hosts) {
  const int ranks = device_count(cluster);
  std::string text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 1073741824 step: 2(factor)\n";
  if (!program.empty()) text += "# Collective test starting: " + program + "\n";
  text += "#\n# Using devices\n";
  std::vector<int> devices(static_cast<std::size_t>(ranks));
  std::iota(devices.begin(), devices.end(), 0);
  for (const int rank : devices) {
    text += fmt::format(
        "#  Rank {:2} Group  0 Pid  {} on   node{} device {:2} [0x07] NVIDIA A100-SXM4-80GB\n",
        rank, 700 + rank, rank * hosts / ranks, rank % (ranks / hosts));
  }
  text +=
      "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     "
      "time   algbw   busbw #wrong\n#        (B)    (elements)                               (us)  "
      "(GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)       \n";
  const DeviceGroup group = device_group(cluster, devices);
  for (Bytes bytes = 1024; bytes <= (1 << 30); bytes *= 2) {
    const double us = seconds(collective_time(collective, group, bytes)) * 1e6;
    const double algorithm = static_cast<double>(bytes) / us / 1e3;
    double ratio = (ranks - 1.0) / ranks;
    if (collective == Collective::all_reduce) ratio *= 2;
    if (collective == Collective::broadcast) ratio = 1;
    const bool sums =
        collective == Collective::all_reduce || collective == Collective::reduce_scatter;
    text += fmt::format(
        "{:12} {:13} float {:>7} -1 {:8.3f} {:6.4f} {:6.4f} 0 {:8.3f} {:6.4f} {:6.4f} 0\n", bytes,
        bytes / 4, sums ? "sum" : "none", us, algorithm, algorithm * ratio, us, algorithm,
        algorithm * ratio);
  }
  return text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 100.1\n#\n";
}

std::string with(std::string text, const std::string& from, const std::string& to,
                 std::size_t start = 0) {
  const std::size_t found = text.find(from, start);
  REQUIRE(found != std::string::npos);
  return text.replace(found, from.size(), to);
}

}  // namespace

TEST_CASE("the link that made the times of nccl-tests is found again, inside a box and outside") {
  struct Case {
    const char* program;
    Collective collective;
    const char* cluster;
    int hosts;
  };
  for (const Case& each :
       {Case{"all_reduce_perf", Collective::all_reduce, "8xa100-80gb@200GB/s:3us", 1},
        Case{"", Collective::all_reduce, "4xa100-80gb@100GB/s:9us", 1},
        Case{"all_gather_perf", Collective::all_gather, "8xa100-80gb@210GB/s:2us", 1},
        Case{"reduce_scatter_perf", Collective::reduce_scatter, "2x8xa100-80gb@11GB/s:20us", 2},
        Case{"alltoall_perf", Collective::all_to_all, "2x4xa100-80gb@9GB/s:15us", 2},
        Case{"all_reduce_perf", Collective::all_reduce, "4x8xa100-80gb@13GB/s:12us", 4}}) {
    INFO(each.program << " " << each.cluster);
    const Cluster truth = parse_cluster(each.cluster);
    const std::string text = printed(each.program, each.collective, truth, each.hosts);
    REQUIRE(looks_like_collective_log(text));
    const CollectiveLog log = read_collective_log(text, "log.txt");
    CHECK(to_string(log.operation) == to_string(each.collective));
    CHECK(log.rows.size() == 21);
    const Cluster known = cluster_of_log(log, "", "log.txt");
    CHECK(device_count(known) == device_count(truth));
    const LinkFit fit = fit_link(log, known, "log.txt");
    REQUIRE(fit.levels.size() == truth.levels.size());
    const LevelFit& outermost = fit.levels.front();
    CHECK(outermost.level == 0);
    CHECK(outermost.bandwidth ==
          Approx(static_cast<double>(truth.levels[0].link.collective.bytes_per_second))
              .epsilon(0.01));
    // Hops inside boxes come with hops between them: both latencies are told only together.
    if (fit.levels.size() == 1)
      CHECK(outermost.latency == Approx(seconds(truth.levels[0].link.latency)).epsilon(0.02));
    CHECK(fit.mean_error < 0.005);
    CHECK(fit.held_out > 20);
    CHECK(fit.held_out_error < 0.01);
  }
}

TEST_CASE("where middle sizes are slower, the shortest and the longest times hold") {
  const Cluster truth = parse_cluster("8xa100-80gb@200GB/s:3us");
  const CollectiveLog exact =
      read_collective_log(printed("all_reduce_perf", Collective::all_reduce, truth, 1), "log.txt");
  CollectiveLog slowed = exact;
  for (MeasuredCollective& row : slowed.rows) {
    if (row.bytes < (64 << 10) || row.bytes > (64 << 20)) continue;
    row.out_of_place *= 1.8;
    row.in_place *= 1.8;
  }
  const LinkFit fit = fit_link(slowed, truth, "log.txt");
  const Link& link = fit.levels[0].after;
  CHECK(seconds(link.latency) == Approx(3e-6).epsilon(0.05));
  CHECK(static_cast<double>(link.collective.bytes_per_second) == Approx(200e9).epsilon(0.05));
  CHECK(fit.mean_error > 0.15);
}

TEST_CASE("noise widens the interval, which holds the true bandwidth") {
  const Cluster truth = parse_cluster("8xa100-80gb@200GB/s:3us");
  CollectiveLog log =
      read_collective_log(printed("all_reduce_perf", Collective::all_reduce, truth, 1), "log.txt");
  const double exact = fit_link(log, truth, "log.txt").levels[0].bandwidth_interval;
  int turn = 0;
  for (MeasuredCollective& row : log.rows) {
    row.out_of_place *= ++turn % 2 == 0 ? 1.1 : 0.92;
    row.in_place *= turn % 3 == 0 ? 1.05 : 0.95;
  }
  const LinkFit fit = fit_link(log, truth, "log.txt");
  CHECK(fit.levels[0].bandwidth_interval > 5 * exact);
  CHECK(std::abs(fit.levels[0].bandwidth - 200e9) < fit.levels[0].bandwidth_interval);
  CHECK(fit.mean_error > 0.03);
}

TEST_CASE("a log of nccl-tests that cannot be understood is refused with its line") {
  const Cluster truth = parse_cluster("2x2xa100-80gb");
  const std::string text = printed("all_reduce_perf", Collective::all_reduce, truth, 2);
  const auto complaint = [](const std::string& broken) {
    const auto read = [&] {
      const CollectiveLog log = read_collective_log(broken, "log.txt");
      fit_link(log, cluster_of_log(log, "", "log.txt"), "log.txt");
    };
    CHECK(exit_code_of(read) == 3);
    return message_of(read);
  };
  CHECK_THAT(complaint(with(text, " 256 float     sum -1", " 256")),
             ContainsSubstring("log.txt:") && ContainsSubstring("expected a size, a count"));
  CHECK_THAT(complaint(with(text, "2048           512 float", "2o48           512 float")),
             ContainsSubstring("log.txt:13") && ContainsSubstring("found \"2o48\""));
  CHECK_THAT(complaint(with(text, "on   node1", "on   node0")),
             ContainsSubstring("expected as many on each"));
  std::string others = text;
  for (int rank = 0; rank < 4; ++rank) others = with(others, "A100-SXM4-80GB", "B9");
  CHECK_THAT(complaint(others), ContainsSubstring("no built-in device kind is \"NVIDIA B9\""));
  CHECK_THAT(complaint(text.substr(0, text.find("        1024"))),
             ContainsSubstring("no line of sizes and times"));
  CHECK_THAT(complaint(text.substr(text.find("#       size"))),
             ContainsSubstring("how many ranks took part"));
  const std::size_t second = text.find("        2048");
  CHECK_THAT(complaint(text.substr(0, second)), ContainsSubstring("at least three times"));
  CHECK_THAT(complaint(text + "# all_gather_perf\n"), ContainsSubstring("a second program"));
  CHECK_THAT(
      complaint(text +
                "#  Rank  0 Group  0 Pid  9 on   node7 device  0 [0x07] NVIDIA A100-SXM4-80GB\n"),
      ContainsSubstring("rank 0 is there twice, on node0 and node7"));
  CHECK_THAT(complaint(with(text, "Rank  3 Group  0", "Rank  4 Group  0")),
             ContainsSubstring("rank 3 is missing"));
  CHECK_THAT(complaint(with(text, "Rank  1 Group  0", "Rank  1 Group  1")),
             ContainsSubstring("NCCL_TESTS_SPLIT"));
  CHECK_THAT(complaint(with(text, "all_reduce_perf", "bisection_perf")),
             ContainsSubstring("unknown program \"bisection_perf\""));
  // Also where only the command line names it.
  for (const std::string line : {"# Collective test starting: alltoallv_perf\n",
                                 "mpirun -np 4 ./build/alltoallv_perf -b 8\n"}) {
    CHECK_THAT(complaint(line + printed("", Collective::all_to_all, truth, 2)),
               ContainsSubstring("log.txt:1:1: alltoallv_perf sends each pair another amount"));
  }
  CHECK_THAT(complaint(with(text, "values : 0 OK", "values : 12 FAILED")),
             ContainsSubstring("counts 12 out of bounds"));
  CHECK_THAT(complaint(with(text, "A100-SXM4-80GB", "A100-SXM4-40GB")),
             ContainsSubstring("expected devices of one kind"));
  CHECK_THAT(complaint(with(text, " 0 ", " 7 ", text.find("        1024"))),
             ContainsSubstring("found 7 wrong values (#wrong)"));
  const std::size_t heading = text.find("#       size");
  CHECK_THAT(complaint(text.substr(0, heading) + text.substr(text.find("        1024"))),
             ContainsSubstring("before its heading"));
}

TEST_CASE("an all-reduce that adds a bias is read as one, and said to be so") {
  const Cluster truth = parse_cluster("8xa100-80gb@200GB/s:3us");
  const CollectiveLog log = read_collective_log(
      printed("all_reduce_bias_perf", Collective::all_reduce, truth, 1), "log.txt");
  CHECK(log.operation == MeasuredOperation::all_reduce);
  REQUIRE(log.notes.size() == 1);
  CHECK_THAT(log.notes[0], ContainsSubstring("all_reduce_bias_perf adds a bias to its sums"));
  CHECK(fit_link(log, truth, "log.txt").levels[0].bandwidth == Approx(200e9).epsilon(0.01));
}

TEST_CASE("columns are found by the heading, behind labels of any launcher, or in JSON") {
  const Cluster truth = parse_cluster("8xa100-80gb@200GB/s:3us");
  const std::string text = printed("all_reduce_perf", Collective::all_reduce, truth, 1);
  const CollectiveLog expected = read_collective_log(text, "log.txt");
  const auto same = [&](const std::string& other) {
    REQUIRE(looks_like_collective_log(other));
    const CollectiveLog log = read_collective_log(other, "log.txt");
    CHECK(log.operation == expected.operation);
    CHECK(log.hosts == expected.hosts);
    CHECK(log.device == expected.device);
    REQUIRE(log.rows.size() == expected.rows.size());
    for (std::size_t i = 0; i < log.rows.size(); ++i) {
      CHECK(log.rows[i].bytes == expected.rows[i].bytes);
      CHECK(log.rows[i].out_of_place == Approx(expected.rows[i].out_of_place));
      CHECK(log.rows[i].in_place == Approx(expected.rows[i].in_place));
    }
  };
  const auto each_line = [&](const auto& change) {
    std::string changed;
    for (const std::string& line : split(text, '\n')) changed += change(line) + "\n";
    return changed;
  };
  for (const std::string label :
       {"0: ", " 0: ", "[1,0]<stdout>:", "[0] ", "[default0]:", "node0: ", "worker-1  | ",
        "2026-11-28 15:04:19 ", "\x1b[32m", "(pid=123) ", "(head, rank=0, pid=71) ",
        "[pod/nccl-0/main] ", "nccl-0 main: ", "nccl-0 main "})
    same(each_line([&](const std::string& line) { return label + line; }));
  same("node0 | CHANGED | rc=0 >>\n" + text);
  // -S 1 adds a time stamp behind each row.
  same(each_line([](const std::string& line) -> std::string {
    if (line.starts_with("#       size")) return line + "           timestamp";
    return line.starts_with(' ') ? line + " 2026-07-09 12:00:01" : line;
  }));
  std::string json =
      R"({"version": 2, "args": ["./build/all_reduce_perf", "-b", "1024"], "config": {"devices": [)";
  for (int rank = 0; rank < 8; ++rank) {
    json +=
        fmt::format(R"({}{{"rank": {}, "group": 0, "pid": 1, "hostname": "node0", "device": {},)"
                    R"( "device_hex": "0x07", "device_info": "NVIDIA A100-SXM4-80GB"}})",
                    rank > 0 ? ", " : "", rank, rank);
  }
  json += R"(]}, "results": [)";
  for (const MeasuredCollective& row : expected.rows) {
    json += fmt::format(
        R"({}{{"size": {}, "count": 1, "type": "float", "redop": "sum", "root": "    -1",)"
        R"( "out_of_place": {{"time": {:f}, "alg_bw": 1.0, "bus_bw": 1.75, "nwrong": 0}},)"
        R"( "in_place": {{"time": {:f}, "alg_bw": 1.0, "bus_bw": 1.75, "nwrong": null}}}})",
        &row == expected.rows.data() ? "" : ", ", row.bytes, row.out_of_place * 1e6,
        row.in_place * 1e6);
  }
  json += "]}";
  same(json);
  CHECK_THAT(
      message_of([&] { read_collective_log(with(json, "\"nwrong\": 0", "\"nwrong\": 3"), "j"); }),
      ContainsSubstring("found 3 wrong values"));
  const std::string failed = R"(], "out_of_bounds": {"count": 3, "okay": false}})";
  CHECK_THAT(
      message_of([&] { read_collective_log(json.substr(0, json.size() - 2) + failed, "j"); }),
      ContainsSubstring("counts 3 out of bounds"));
  CHECK_THAT(message_of([&] {
               read_collective_log(with(json, "all_reduce_perf", "bisection_perf"), "j");
             }),
             ContainsSubstring("unknown program \"./build/bisection_perf\""));
}

TEST_CASE("programs of messages tell point-to-point bandwidth") {
  // Each way with its own closed form: seconds = hops x latency + share x bytes over the bandwidth.
  struct Case {
    const char* program;
    double hops, share;
    const char* name;
  };
  const std::string base =
      printed("all_reduce_perf", Collective::all_reduce, parse_cluster("8xa100-80gb"), 1);
  const std::size_t rows = base.find("        1024");
  for (const Case& each :
       {Case{"sendrecv_perf", 1, 1, "point to point"}, Case{"gather_perf", 1, 7.0 / 8, "gather"},
        Case{"scatter_perf", 1, 7.0 / 8, "scatter"},
        Case{"hypercube_perf", 3, 7.0 / 8, "hypercube"}}) {
    INFO(each.program);
    std::string text = with(base.substr(0, rows), "all_reduce_perf", each.program);
    for (Bytes bytes = 1024; bytes <= (1 << 30); bytes *= 4) {
      const double us = each.hops * 6 + each.share * static_cast<double>(bytes) / 24e3;
      text += fmt::format("{:12} 1 float sum -1 {:.4f} 1 1 0 {:.4f} 1 1 0\n", bytes, us, us);
    }
    const CollectiveLog log = read_collective_log(text, "log.txt");
    CHECK(to_string(log.operation) == each.name);
    const LinkFit fit = fit_link(log, cluster_of_log(log, "", "log.txt"), "log.txt");
    CHECK(fit.of_messages);
    REQUIRE(fit.levels.size() == 1);
    CHECK(fit.levels[0].after.point_to_point.bytes_per_second == Approx(24e9).epsilon(0.001));
    CHECK(fit.levels[0].latency == Approx(6e-6).epsilon(0.001));
    CHECK(fit.levels[0].after.collective == fit.levels[0].before.collective);
  }
}

TEST_CASE("a fit that explains nothing is refused") {
  const Cluster truth = parse_cluster("8xa100-80gb");
  CollectiveLog log =
      read_collective_log(printed("all_reduce_perf", Collective::all_reduce, truth, 1), "log.txt");
  const CollectiveLog honest = log;
  for (std::size_t i = 0; i < log.rows.size(); ++i) {
    const double factor = i % 2 == 0 ? 20 : 0.05;
    log.rows[i].out_of_place *= factor;
    log.rows[i].in_place *= factor;
  }
  CHECK_THAT(message_of([&] { fit_link(log, truth, "log.txt"); }),
             ContainsSubstring("no latency and bandwidth explain these times"));
  log = honest;
  for (MeasuredCollective& row : log.rows) row.out_of_place = row.in_place = row.out_of_place / 100;
  CHECK_THAT(message_of([&] { fit_link(log, truth, "log.txt"); }),
             ContainsSubstring("faster than the memory of a100-80gb"));
}

TEST_CASE("devices are found by their whole name") {
  for (const auto& [product, kind] :
       std::vector<std::pair<std::string, std::string>>{{"Tesla V100-SXM2-32GB", "v100-32gb"},
                                                        {"Tesla V100-SXM2-16GB", "v100"},
                                                        {"NVIDIA A100-SXM4-40GB", "a100"},
                                                        {"NVIDIA A100-SXM4-80GB", "a100-80gb"},
                                                        {"A100-SXM4-80GB", "a100-80gb"},
                                                        {"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"},
                                                        {"NVIDIA H100 80GB HBM3", "h100"},
                                                        {"NVIDIA H100 PCIe", "h100-pcie"},
                                                        {"NVIDIA H100 NVL", "h100-nvl"},
                                                        {"NVIDIA GH200 480GB", "gh200"},
                                                        {"NVIDIA L40S", "l40s"},
                                                        {"NVIDIA A10G", "a10g"},
                                                        {"NVIDIA GeForce RTX 4090", "rtx4090"},
                                                        {"AMD Instinct MI300X", "mi300x"},
                                                        {"NVIDIA GeForce RTX 4090 Laptop GPU", ""},
                                                        {"NVIDIA RTX 4000 Ada Generation", ""},
                                                        {"NVIDIA H100 80GB HBM3 MIG 1g.10gb", ""},
                                                        {"NVIDIA L40", ""},
                                                        {"NVIDIA H200 NVL", ""}}) {
    INFO(product);
    CHECK(device_kind_named(product) == kind);
    CHECK(device_kind_in("CUDA capacity: " + product + " with 79.10GiB memory") ==
          (product.starts_with("A100") ? "" : kind));
  }
  CHECK(device_kind_in("capacity: NVIDIA H100 with 95.04GiB memory") == "h100-96gb");
  CHECK(device_kind_in("NVIDIA DGX H100") == "h100");
  CHECK(device_kind_in("NVIDIA H100-SXM5-80GB") == "h100");
}

TEST_CASE("a log without the names of devices is of the kind that is given") {
  const Cluster truth = parse_cluster("8xa100-80gb@200GB/s:3us");
  std::string text = printed("all_reduce_perf", Collective::all_reduce, truth, 1);
  for (int rank = 0; rank < 8; ++rank) text = with(text, " NVIDIA A100-SXM4-80GB", "");
  const CollectiveLog log = read_collective_log(text, "log.txt");
  CHECK(log.hosts.size() == 8);
  CHECK(cluster_of_log(log, "mi300x", "log.txt").kinds.front().name == "mi300x");
  CHECK_THAT(message_of([&] { cluster_of_log(log, "", "log.txt"); }),
             ContainsSubstring("does not name its devices"));
}

TEST_CASE("logs that people have are read as they are") {
  const std::string folder = shared_folder() + "/cases/logs/";
  if (!std::filesystem::exists(folder)) SKIP("no shared cases");
  const auto read = [&](const std::string& name) {
    return read_collective_log(read_file(folder + name), name);
  };
  const auto fit = [&](const CollectiveLog& log) {
    return fit_link(log, cluster_of_log(log, "", "f"), "f");
  };
  CHECK_THAT(
      message_of([&] { read("n4_two_single_runs.txt"); }),
      ContainsSubstring("n4_two_single_runs.txt:6:") && ContainsSubstring("rank 0 is there twice"));
  const CollectiveLog pairs = read("n7_sendrecv_named.txt");
  CHECK(pairs.operation == MeasuredOperation::send_receive);
  CHECK(fit(pairs).levels[0].bandwidth == Approx(24e9).epsilon(0.02));
  const CollectiveLog gathered = read("n1_srun_label.txt");
  CHECK(gathered.operation == MeasuredOperation::all_gather);
  CHECK(gathered.hosts.size() == 16);
  CHECK(cluster_of_log(gathered, "", "f").levels.size() == 2);
  CHECK(cluster_of_log(read("n20_v100_32gb.txt"), "", "f").kinds[0].name == "v100-32gb");
  for (const std::string name : {"nccl-tests-plain.txt", "nccl-tests-ts.txt"}) {
    const LinkFit both = fit(read(name));
    CHECK(both.levels[0].bandwidth == Approx(398e9).epsilon(0.01));
    CHECK(both.levels[0].latency == Approx(1.44e-6).epsilon(0.01));
  }
  // Two boxes of eight: the latencies of both levels are fitted.
  const CollectiveLog boxes = read("n23_two_boxes_of_eight.txt");
  Cluster cluster = cluster_of_log(boxes, "", "f");
  for (const LevelFit& level : fit(boxes).levels)
    cluster.levels[static_cast<std::size_t>(level.level)].link = level.after;
  std::vector<int> all(16);
  std::iota(all.begin(), all.end(), 0);
  const DeviceGroup group = device_group(cluster, all);
  CHECK(seconds(collective_time(Collective::all_reduce, group, 8)) == Approx(24e-6).epsilon(0.1));
  CHECK(seconds(collective_time(Collective::all_reduce, group, parse_bytes("2GiB"))) ==
        Approx(38.4e-3).epsilon(0.1));
}
