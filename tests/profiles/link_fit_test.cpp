#include "profiles/link_fit.hpp"

#include <fmt/format.h>

#include <numeric>

#include "tests/catch.hpp"
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

std::string with(std::string text, const std::string& from, const std::string& to) {
  const std::size_t found = text.find(from);
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
    CHECK(log.collective == each.collective);
    CHECK(log.rows.size() == 21);
    const Cluster known = cluster_of_log(log, "", "log.txt");
    CHECK(device_count(known) == device_count(truth));
    const LinkFit fit = fit_link(log, known, "log.txt");
    CHECK(fit.level == 0);
    CHECK(fit.bandwidth ==
          Approx(static_cast<double>(truth.levels[0].link.collective.bytes_per_second))
              .epsilon(0.01));
    CHECK(fit.latency == Approx(seconds(truth.levels[0].link.latency)).epsilon(0.02));
    CHECK(fit.mean_error < 0.005);
    CHECK(fit.held_out > 20);
    CHECK(fit.held_out_error < 0.01);
  }
}

TEST_CASE("noise widens the interval, which holds the true bandwidth") {
  const Cluster truth = parse_cluster("8xa100-80gb@200GB/s:3us");
  CollectiveLog log =
      read_collective_log(printed("all_reduce_perf", Collective::all_reduce, truth, 1), "log.txt");
  const double exact = fit_link(log, truth, "log.txt").bandwidth_interval;
  int turn = 0;
  for (MeasuredCollective& row : log.rows) {
    row.out_of_place *= ++turn % 2 == 0 ? 1.1 : 0.92;
    row.in_place *= turn % 3 == 0 ? 1.05 : 0.95;
  }
  const LinkFit fit = fit_link(log, truth, "log.txt");
  CHECK(fit.bandwidth_interval > 5 * exact);
  CHECK(std::abs(fit.bandwidth - 200e9) < fit.bandwidth_interval);
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
  CHECK_THAT(complaint(with(with(text, "A100-SXM4-80GB", "B9"), "A100-SXM4-80GB", "B9")),
             ContainsSubstring("no built-in device kind is \"NVIDIA B9\""));
  CHECK_THAT(complaint(text.substr(0, text.find("        1024"))),
             ContainsSubstring("no line of sizes and times"));
  CHECK_THAT(complaint(text.substr(text.find("#       size"))),
             ContainsSubstring("how many ranks took part"));
  const std::size_t second = text.find("        2048");
  CHECK_THAT(complaint(text.substr(0, second)), ContainsSubstring("at least three times"));
  CHECK_THAT(complaint(text + "# all_gather_perf\n"), ContainsSubstring("a second collective"));
}
