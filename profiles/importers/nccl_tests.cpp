// What nccl-tests print, for example all_reduce_perf:
//
//   # Collective test starting: all_reduce_perf
//   #  Rank  0 Group  0 Pid  71 on  node1 device  0 [0x07] NVIDIA A100-SXM4-80GB
//   #       size    count   type redop root   time algbw busbw #wrong   time algbw busbw #wrong
//       1048576    262144  float   sum   -1  44.21 23.72 23.72      0  45.10 23.25 23.25      0
//
// Sizes are in bytes, times in microseconds, first out of place, then in place. Older releases do
// not name the collective: bandwidth on the bus over that of the algorithm tells it.

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/link_fit.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct Program {
  std::string_view name;
  Collective collective;
};
constexpr std::array programs{Program{"all_reduce_perf", Collective::all_reduce},
                              Program{"reduce_scatter_perf", Collective::reduce_scatter},
                              Program{"all_gather_perf", Collective::all_gather},
                              Program{"alltoall_perf", Collective::all_to_all},
                              Program{"broadcast_perf", Collective::broadcast}};

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string& word : split(line, ' ')) {
    const std::string trimmed = trim(word);
    if (!trimmed.empty()) words.push_back(trimmed);
  }
  return words;
}

template <class Number>
bool read_number(const std::string& word, Number& number) {
  const char* const end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, number);
  return read.ec == std::errc{} && read.ptr == end;
}

class LogReader {
 public:
  explicit LogReader(const std::string& file) : file_(file) {}

  CollectiveLog read(std::string_view content) {
    for (const std::string& line : split(content, '\n')) {
      ++line_;
      const std::vector<std::string> words = words_of(line);
      if (words.empty()) continue;
      if (words.front() == "#") {
        comment(words, line);
      } else if (words.front().front() >= '0' && words.front().front() <= '9') {
        row(words);
      }
    }
    if (log_.rows.empty()) fail_at(0, "the log has no line of sizes and times");
    if (log_.hosts.empty()) {
      fail_at(0,
              "the log has no line \"#  Rank  0 … on HOST device …\": how many ranks took part "
              "is not known");
    }
    choose_collective_of();
    return std::move(log_);
  }

 private:
  [[noreturn]] void fail_at(int line, const std::string& message) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, line, line > 0 ? 1 : 0},
                {"give the file all that nccl-tests print, from \"# nThread\" on"});
  }

  /// "#  Rank  0 Group  0 Pid  71 on  node1 device  0 [0x07] NVIDIA A100-SXM4-80GB"
  void comment(const std::vector<std::string>& words, const std::string& line) {
    for (const Program& program : programs) {
      if (line.find(program.name) == std::string::npos) continue;
      if (named_ && log_.collective != program.collective) {
        fail_at(line_, concat("a second collective, ", program.name, ": expected a file for each"));
      }
      log_.collective = program.collective;
      named_ = true;
    }
    if (words.size() < 4 || words[1] != "Rank") return;
    const auto on = std::ranges::find(words, "on"), device = std::ranges::find(words, "device");
    if (on == words.end() || device == words.end() || on + 1 != device - 1 ||
        words.end() - device < 3) {
      fail_at(line_, "expected \"#  Rank  0 … on HOST device 0 [0x07] NAME\"");
    }
    log_.hosts.push_back(*(on + 1));
    std::string name;
    for (auto word = device + 3; word != words.end(); ++word)
      name += (name.empty() ? "" : " ") + *word;
    if (log_.device.empty()) log_.device = name;
  }

  /// size count type [redop] [root], then twice time, algbw, busbw, #wrong.
  void row(const std::vector<std::string>& words) {
    constexpr std::size_t tail = 8;
    if (words.size() < tail + 3) {
      fail_at(line_, concat("expected a size, a count, a type and twice time, algbw, busbw and "
                            "#wrong, found ",
                            words.size(), " words"));
    }
    MeasuredCollective result{.line = line_};
    if (!read_number(words.front(), result.bytes) || result.bytes < 0)
      fail_at(line_, concat("expected a size in bytes, found \"", words.front(), "\""));
    const std::size_t first = words.size() - tail;
    result.out_of_place = time(words[first]);
    result.in_place = time(words[first + 4]);
    double algorithm = 0, bus = 0;
    if (read_number(words[first + 1], algorithm) && read_number(words[first + 2], bus) &&
        algorithm > 0) {
      ratio_ = bus / algorithm;
    }
    sums_ = std::ranges::find(words, "sum") != words.end();
    log_.rows.push_back(result);
  }

  double time(const std::string& word) const {
    double microseconds = 0;
    if (word == "N/A") return 0;
    if (!read_number(word, microseconds) || !std::isfinite(microseconds) || microseconds < 0 ||
        microseconds > 1e12) {
      fail_at(line_, concat("expected a time in microseconds, found \"", word, "\""));
    }
    return microseconds / 1e6;
  }

  /// Where no line names it: 2(n-1)/n is an all-reduce, (n-1)/n a scatter or a gather, 1 a
  /// broadcast.
  void choose_collective_of() {
    if (named_) return;
    const auto members = static_cast<double>(log_.hosts.size());
    const double gather = (members - 1) / members;
    const auto is = [&](double expected) { return std::abs(ratio_ / expected - 1) < 0.03; };
    if (members > 1 && is(2 * gather) && sums_) {
      log_.collective = Collective::all_reduce;
    } else if (members > 1 && is(gather)) {
      log_.collective = sums_ ? Collective::reduce_scatter : Collective::all_gather;
    } else if (is(1)) {
      log_.collective = Collective::broadcast;
    } else {
      fail_at(log_.rows.front().line,
              concat("which collective this is cannot be told from busbw / algbw = ", ratio_));
    }
    log_.notes.push_back(concat("no line names the collective; by its bandwidths it is ",
                                to_string(log_.collective)));
  }

  std::string file_;
  int line_ = 0;
  CollectiveLog log_;
  bool named_ = false, sums_ = false;
  double ratio_ = 0;
};

}  // namespace

bool looks_like_collective_log(std::string_view content) {
  return content.find("algbw") != std::string_view::npos &&
         content.find("busbw") != std::string_view::npos &&
         content.find('#') == content.find_first_of("#{");
}

CollectiveLog read_collective_log(std::string_view content, const std::string& file) {
  return LogReader(file).read(content);
}

Cluster cluster_of_log(const CollectiveLog& log, const std::string& device,
                       const std::string& file) {
  const std::string kind = device.empty() ? device_kind_named(log.device) : device;
  if (kind.empty()) {
    throw Error(ErrorKind::input, concat("no built-in device kind is \"", log.device, "\""),
                SourcePlace{file, 0, 0}, {"--device a100 says which kind it is"});
  }
  std::map<std::string, int> ranks;
  for (const std::string& host : log.hosts) ++ranks[host];
  const int in_box = ranks.begin()->second;
  for (const auto& [host, count] : ranks) {
    if (count == in_box) continue;
    throw Error(ErrorKind::input,
                concat("host ", host, " has ", count, " ranks, ", ranks.begin()->first, " has ",
                       in_box, ": expected as many on each"),
                SourcePlace{file, 0, 0}, {"give the cluster it ran on with --cluster"});
  }
  const std::string boxes = ranks.size() > 1 ? concat(ranks.size(), "x") : "";
  return parse_cluster(concat(boxes, in_box, "x", kind));
}

}  // namespace stagecraft
