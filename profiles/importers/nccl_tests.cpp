// What nccl-tests and RCCL-tests print, for example all_reduce_perf, whatever launcher's labels
// stand before it (launcher_labels.hpp):
//
//   # Collective test starting: all_reduce_perf
//   #  Rank  0 Group  0 Pid  71 on  node1 device  0 [0x07] NVIDIA A100-SXM4-80GB
//   #       size    count   type redop root   time algbw busbw #wrong   time algbw busbw #wrong
//       1048576    262144  float   sum   -1  44.21 23.72 23.72      0  45.10 23.25 23.25      0
//
// Sizes are in bytes, times in microseconds, first out of place, then in place; columns are found
// by the heading, since options add some (-S: a time stamp). Older releases do not name the
// program: bandwidth on the bus over that of the algorithm tells it. With -J the same is written as
// JSON:
//
//   {"version": 2, "args": ["./all_reduce_perf", …], "config": {"devices": [{"rank": 0, "group": 0,
//    "hostname": "node1", "device_info": "NVIDIA A100-SXM4-80GB"}]}, "results": [{"size": 1048576,
//    "redop": "sum", "root": "-1", "out_of_place": {"time": 44.21, "alg_bw": …, "bus_bw": …,
//    "nwrong": 0}, "in_place": {…}}]}

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "profiles/device_names.hpp"
#include "profiles/devices.hpp"
#include "profiles/error.hpp"
#include "profiles/importers/figures.hpp"
#include "profiles/json.hpp"
#include "profiles/launcher_labels.hpp"
#include "profiles/link_fit.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view whole_output =
    "give the file all that nccl-tests print, from \"# nThread\" on";

template <class Number>
bool read_number(const std::string& word, Number& number) {
  const char* const end = word.data() + word.size();
  const auto read = std::from_chars(word.data(), end, number);
  return read.ec == std::errc{} && read.ptr == end;
}

std::string known_programs() {
  std::vector<std::string> names;
  for (const MeasuringProgram& row : measuring_programs) names.emplace_back(row.program);
  return join_words(names);
}

/// "./build/all_reduce_perf_mpi" is all_reduce_perf.
bool is_program(std::string_view word, std::string_view program) {
  const std::size_t slash = word.rfind('/');
  if (slash != std::string_view::npos) word.remove_prefix(slash + 1);
  return word == program || word.starts_with(std::string(program) + "_") ||
         word.starts_with(std::string(program) + ".");
}

/// The row of a program; nullptr for another one.
const MeasuringProgram* program_named(std::string_view word) {
  for (const MeasuringProgram& row : measuring_programs)
    if (is_program(word, row.program)) return &row;
  return nullptr;
}

/// A program whose times tell no link.
struct UselessProgram {
  std::string_view program, why, help;
};
constexpr std::array useless_programs{
    UselessProgram{"alltoallv_perf",
                   "sends each pair another amount, so that its times tell no bandwidth of a link",
                   "measure with alltoall_perf, whose pairs send equal amounts"},
};

/// nullptr where the word is none of them.
const UselessProgram* useless_program_named(std::string_view word) {
  for (const UselessProgram& row : useless_programs)
    if (is_program(word, row.program)) return &row;
  return nullptr;
}

/// A rank as a line or an element describes it.
struct RankPlace {
  int line = 0;
  int rank = 0, group = 0;
  std::string host, device;
};

/// Collects what a run says of itself, in whatever form, and judges it as a whole.
class RunReader {
 public:
  explicit RunReader(const std::string& file) : file_(file) {}

  [[noreturn]] void fail_at(int line, const std::string& message,
                            std::string_view help = whole_output) const {
    throw Error(ErrorKind::input, message, SourcePlace{file_, line, line > 0 ? 1 : 0},
                {std::string(help)});
  }

  void name(const MeasuringProgram& program, int line) {
    if (named_ && log_.operation != program.operation) {
      fail_at(line, concat("a second program, ", program.program, ": expected a file for each"));
    }
    log_.operation = program.operation;
    if (!program.remark.empty() && !named_)
      log_.notes.push_back(concat(program.program, " ", program.remark));
    named_ = true;
  }

  void refuse_useless(const std::string& word, int line) const {
    if (const UselessProgram* useless = useless_program_named(word))
      fail_at(line, concat(useless->program, " ", useless->why), useless->help);
  }

  void refuse_program(const std::string& word, int line) const {
    refuse_useless(word, line);
    fail_at(line, concat("unknown program \"", word, "\" of nccl-tests"),
            "known: " + known_programs());
  }

  void add(RankPlace rank) { ranks_.push_back(std::move(rank)); }

  void add(const MeasuredCollective& row, double ratio, bool sums, bool rooted) {
    if (ratio > 0) ratio_ = ratio;
    sums_ = sums;
    rooted_ = rooted;
    log_.rows.push_back(row);
  }

  void refuse_wrong(double wrong, int line) const {
    if (wrong == 0) return;
    refuse_results(concat("the check of the results found ", wrong, " wrong values (#wrong)"),
                   line);
  }

  void refuse_out_of_bounds(double count, int line) const {
    if (count == 0) return;
    refuse_results(concat("the check of the results counts ", count, " out of bounds"), line);
  }

  CollectiveLog finish() {
    if (log_.rows.empty()) fail_at(0, "the log has no line of sizes and times");
    take_ranks();
    choose_operation();
    return std::move(log_);
  }

 private:
  [[noreturn]] void refuse_results(const std::string& message, int line) const {
    fail_at(line, message + ": times of sums that fail say nothing",
            "repair what corrupts the data, then measure again");
  }

  void take_ranks() {
    if (ranks_.empty()) {
      fail_at(0,
              "the log has no line \"#  Rank  0 … on HOST device …\": how many ranks took part "
              "is not known");
    }
    std::map<int, const RankPlace*> by_rank;
    for (const RankPlace& rank : ranks_) {
      const auto [known, is_new] = by_rank.emplace(rank.rank, &rank);
      if (!is_new) {
        fail_at(rank.line,
                concat("rank ", rank.rank, " is there twice, on ", known->second->host, " and ",
                       rank.host, ": these are runs of their own, one beside the other"),
                "start one run over all ranks (nccl-tests made with MPI=1), or give each run a "
                "file of its own");
      }
      if (rank.group != ranks_.front().group) {
        fail_at(rank.line,
                "the ranks are in several groups, which run beside each other "
                "(NCCL_TESTS_SPLIT): expected one",
                "measure without NCCL_TESTS_SPLIT and NCCL_TESTS_SPLIT_MASK");
      }
      if (rank.device != ranks_.front().device) {
        fail_at(
            rank.line,
            concat("rank ", rank.rank, " is on \"", rank.device, "\", rank ", ranks_.front().rank,
                   " on \"", ranks_.front().device, "\": expected devices of one kind"),
            "measure each kind by itself");
      }
    }
    int expected = 0;
    for (const auto& [number, rank] : by_rank) {
      if (number != expected) {
        fail_at(rank->line, concat("rank ", expected, " is missing before rank ", number,
                                   ": expected all ranks of the run"));
      }
      ++expected;
      log_.hosts.push_back(rank->host);
    }
    log_.device = ranks_.front().device;
  }

  /// Where no line names it: 2(n-1)/n is an all-reduce, (n-1)/n a scatter or a gather, 1 a
  /// broadcast, a reduce or messages.
  void choose_operation() {
    if (named_) return;
    const auto members = static_cast<double>(log_.hosts.size());
    const double gather = (members - 1) / members;
    const auto is = [&](double expected) { return std::abs(ratio_ / expected - 1) < 0.03; };
    const bool is_pair = is(1) && members == 2 && sums_ && !rooted_;
    if ((members > 2 && is(2 * gather) && sums_) || is_pair) {
      log_.operation = MeasuredOperation::all_reduce;
    } else if (members > 1 && is(gather)) {
      log_.operation = rooted_ ? MeasuredOperation::gather
                       : sums_ ? MeasuredOperation::reduce_scatter
                               : MeasuredOperation::all_gather;
    } else if (is(1)) {
      log_.operation = !rooted_ ? MeasuredOperation::send_receive
                       : sums_  ? MeasuredOperation::reduce
                                : MeasuredOperation::broadcast;
    } else {
      fail_at(log_.rows.front().line,
              concat("which collective this is cannot be told from busbw / algbw = ", ratio_));
    }
    log_.notes.push_back(
        concat("no line names the program; by its bandwidths it is ", to_string(log_.operation)));
  }

  std::string file_;
  CollectiveLog log_;
  std::vector<RankPlace> ranks_;
  bool named_ = false, sums_ = false, rooted_ = false;
  double ratio_ = 0;
};

class TextReader {
 public:
  explicit TextReader(const std::string& file) : run_(file) {}

  CollectiveLog read(std::string_view content) {
    for (const PlainLine& line : lines_without_labels(content)) {
      line_ = line.number;
      const std::vector<std::string> words = words_of(line.text);
      if (words.empty()) continue;
      footer(line.text);
      if (words.front().starts_with('#')) {
        comment(words, line.text);
      } else if (is_row(words.front())) {
        row(words);
      } else {
        command(words);
      }
    }
    return run_.finish();
  }

 private:
  /// The first of a block of four columns.
  struct Columns {
    std::size_t time = 0;
    std::optional<std::size_t> algorithm, bus, wrong;
  };

  static bool is_row(const std::string& word) {
    return word.front() >= '0' && word.front() <= '9' &&
           word.find_first_of(":./-") == std::string::npos;
  }

  /// A line of the shell or the launcher, which may name the program.
  void command(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      run_.refuse_useless(word, line_);
      if (const MeasuringProgram* program = program_named(word)) run_.name(*program, line_);
    }
  }

  /// "# Out of bounds values : 12 FAILED", of all rows: they need not have a column #wrong.
  void footer(const std::string& text) {
    const std::size_t title = text.find("Out of bounds values");
    const std::size_t colon = title == std::string::npos ? title : text.find(':', title);
    if (colon == std::string::npos) return;
    const std::vector<std::string> words = words_of(text.substr(colon + 1));
    double count = 0;
    if (!words.empty() && read_number(words.front(), count))
      run_.refuse_out_of_bounds(count, line_);
  }

  /// "#  Rank  0 Group  0 Pid  71 on  node1 device  0 [0x07] NVIDIA A100-SXM4-80GB"
  void comment(const std::vector<std::string>& words, const std::string& text) {
    const std::size_t starting = text.find("test starting:");
    if (starting != std::string::npos) {
      const std::vector<std::string> name = words_of(text.substr(starting + 14));
      if (!name.empty() && program_named(name.front()) == nullptr)
        run_.refuse_program(name.front(), line_);
    }
    command(words);
    if (heading(words)) return;
    const auto rank = std::ranges::find(words, "Rank");
    if (rank == words.end() || words.end() - rank < 4 || rank - words.begin() > 1) return;
    const auto on = std::ranges::find(words, "on"), device = std::ranges::find(words, "device");
    RankPlace place{.line = line_};
    if (!read_number(*(rank + 1), place.rank) || on == words.end() || device == words.end() ||
        on + 1 != device - 1 || words.end() - device < 3) {
      run_.fail_at(line_, "expected \"#  Rank  0 … on HOST device 0 [0x07] NAME\"");
    }
    const auto group = std::ranges::find(words, "Group");
    if (group != words.end()) read_number(*(group + 1), place.group);
    place.host = *(on + 1);
    for (auto word = device + 3; word != words.end(); ++word)
      place.device += (place.device.empty() ? "" : " ") + *word;
    run_.add(std::move(place));
  }

  /// "#  size count type redop root time algbw busbw #wrong time algbw busbw #wrong"
  bool heading(const std::vector<std::string>& words) {
    const auto size = std::ranges::find(words, "size");
    const bool is_heading = size != words.end() &&
                            std::ranges::find(words, "algbw") != words.end() &&
                            std::ranges::find(words, "count") != words.end();
    if (!is_heading) return false;
    names_.assign(size, words.end());
    times_.clear();
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == "time" || names_[i] == "cputime") {
        times_.push_back({.time = i, .algorithm = {}, .bus = {}, .wrong = {}});
      } else if (!times_.empty()) {
        if (names_[i] == "algbw") times_.back().algorithm = i;
        if (names_[i] == "busbw") times_.back().bus = i;
        if (names_[i] == "#wrong" || names_[i] == "error") times_.back().wrong = i;
      }
    }
    if (times_.empty() || times_.size() > 2)
      run_.fail_at(line_, "expected one column of times or two: out of place and in place");
    columns_ = 0;
    for (const Columns& columns : times_) {
      columns_ = std::max({columns_, columns.time, columns.algorithm.value_or(0),
                           columns.bus.value_or(0), columns.wrong.value_or(0)});
    }
    ++columns_;
    return true;
  }

  void row(const std::vector<std::string>& words) {
    if (times_.empty()) {
      run_.fail_at(line_,
                   "a line of sizes and times before its heading \"# size count type … time algbw "
                   "busbw\"");
    }
    if (words.size() < columns_) {
      run_.fail_at(line_,
                   concat("expected a size, a count, a type and what else the heading names, ",
                          columns_, " words, found ", words.size()));
    }
    MeasuredCollective result{.line = line_};
    if (!read_number(words.front(), result.bytes) || result.bytes < 0)
      run_.fail_at(line_, concat("expected a size in bytes, found \"", words.front(), "\""));
    double ratio = 0;
    for (const Columns& columns : times_) {
      (&columns == times_.data() ? result.out_of_place : result.in_place) =
          time(words[columns.time]);
      double algorithm = 0, bus = 0, wrong = 0;
      if (ratio == 0 && columns.algorithm && columns.bus &&
          read_number(words[*columns.algorithm], algorithm) &&
          read_number(words[*columns.bus], bus) && algorithm > 0) {
        ratio = bus / algorithm;
      }
      if (columns.wrong && names_[*columns.wrong] == "#wrong" &&
          read_number(words[*columns.wrong], wrong))
        run_.refuse_wrong(wrong, line_);
    }
    run_.add(result, ratio, cell(words, "redop") == "sum", cell(words, "root") >= "0");
  }

  /// Of a column before the times; empty if the heading has none of this name.
  std::string cell(const std::vector<std::string>& words, std::string_view name) const {
    const auto found = std::ranges::find(names_, name);
    return found == names_.end() ? "" : words[static_cast<std::size_t>(found - names_.begin())];
  }

  double time(const std::string& word) const {
    double microseconds = 0;
    if (word == "N/A") return 0;
    if (!read_number(word, microseconds) || !std::isfinite(microseconds) || microseconds < 0 ||
        microseconds > 1e12) {
      run_.fail_at(line_, concat("expected a time in microseconds, found \"", word, "\""));
    }
    return microseconds / 1e6;
  }

  RunReader run_;
  int line_ = 0;
  std::vector<std::string> names_;  ///< of the columns
  std::vector<Columns> times_;
  std::size_t columns_ = 0;  ///< that each row has at least
};

/// `"time"` in microseconds, or `"cpu_time"`; null where it was not measured.
double read_time(const Json& result, std::string_view name) {
  if (!result.contains(name) || !result[name].is_object()) return 0;
  const Json body = result[name];
  const Json time = body.contains("time") ? body["time"] : body["cpu_time"];
  return read_figure(time, 1e12) / 1e6;
}

CollectiveLog read_json_log(std::string_view content, const std::string& file) {
  const Json json = Json::parse(std::string(content), file);
  RunReader run(file);
  if (json.contains("args") && !json["args"].elements().empty()) {
    const std::string program = json["args"][0].string();
    const MeasuringProgram* known = program_named(program);
    if (known == nullptr) run.refuse_program(program, 0);
    run.name(*known, 0);
  }
  const Json config = json["config"];
  for (const Json& device : config["devices"].elements()) {
    run.add({.line = 0,
             .rank = device["rank"].small_integer(0, most_devices),
             .group = device.contains("group") ? device["group"].small_integer(0, most_devices) : 0,
             .host = device["hostname"].string(),
             .device = device["device_info"].string()});
  }
  // Without MPI the file lists the first of a process's devices only.
  const bool alone = config["devices"].elements().size() == 1;
  if (alone && config.contains("ngpus") && config.contains("nthreads")) {
    const int ranks =
        config["ngpus"].small_integer(1, 1024) * config["nthreads"].small_integer(1, 1024);
    const Json first = config["devices"][0];
    for (int rank = 1; rank < ranks; ++rank) {
      run.add({.line = 0,
               .rank = rank,
               .group = 0,
               .host = first["hostname"].string(),
               .device = first["device_info"].string()});
    }
  }
  for (const Json& result : json["results"].elements()) {
    MeasuredCollective row{.line = 0, .bytes = result["size"].integer()};
    if (row.bytes < 0) result["size"].fail("expected a size in bytes, found a negative number");
    row.out_of_place = read_time(result, "out_of_place");
    row.in_place = read_time(result, "in_place");
    double ratio = 0;
    for (const std::string_view name : {"out_of_place", "in_place"}) {
      if (!result.contains(name) || !result[name].is_object()) continue;
      const Json body = result[name];
      if (body.contains("nwrong") && body["nwrong"].is_number())
        run.refuse_wrong(body["nwrong"].number(), 0);
      if (ratio == 0 && body.contains("alg_bw") && body.contains("bus_bw") &&
          body["alg_bw"].number() > 0)
        ratio = body["bus_bw"].number() / body["alg_bw"].number();
    }
    const std::string root = result.contains("root") ? trim(result["root"].string()) : "-1";
    const bool sums = result.contains("redop") && result["redop"].string() == "sum";
    run.add(row, ratio, sums, root >= "0");
  }
  if (json.contains("out_of_bounds") && json["out_of_bounds"].contains("count"))
    run.refuse_out_of_bounds(json["out_of_bounds"]["count"].number(), 0);
  return run.finish();
}

bool is_json(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{';
}

}  // namespace

bool looks_like_collective_log(std::string_view content) {
  if (is_json(content)) {
    return content.find("\"alg_bw\"") != std::string_view::npos &&
           content.find("\"bus_bw\"") != std::string_view::npos;
  }
  return content.find("algbw") != std::string_view::npos &&
         content.find("busbw") != std::string_view::npos &&
         content.find('#') != std::string_view::npos;
}

CollectiveLog read_collective_log(std::string_view content, const std::string& file) {
  return is_json(content) ? read_json_log(content, file) : TextReader(file).read(content);
}

Cluster cluster_of_log(const CollectiveLog& log, const std::string& device,
                       const std::string& file) {
  const std::string kind = device.empty() ? device_kind_named(log.device) : device;
  if (kind.empty()) {
    throw Error(ErrorKind::input,
                log.device.empty() ? std::string("the log does not name its devices")
                                   : concat("no built-in device kind is \"", log.device, "\""),
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
  const KnownDevice known = device_named(kind);
  const int boxes = static_cast<int>(ranks.size());
  Cluster cluster{.name = concat(boxes > 1 ? concat(boxes, "x") : "", in_box, "x", known.kind.name),
                  .kinds = {known.kind},
                  .devices = std::vector<int>(log.hosts.size(), 0),
                  .levels = {},
                  .overrides = {}};
  if (boxes > 1) {
    cluster.levels.push_back(
        {.count = boxes, .link = known.links.between, .rails = known.links.rails});
  }
  cluster.levels.push_back({.count = in_box, .link = known.links.inside});
  if (in_box > known.links.box) cluster.levels.back().link = known.links.between;
  return cluster;
}

}  // namespace stagecraft
