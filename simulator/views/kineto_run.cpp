// Ranges of train.py (tools/python/stagecraft/torch/train_template.py), of one process:
//
//   |step 7                                                                            |step 8 …
//   |forward stage 0 microbatch 3|   |backward stage 0 microbatch 2|   |update stage 0 microbatch
//   7|
//                                 |send_activation stage 0 microbatch 3 to rank 1
//                                                   send_gradient stage 1 microbatch 3 to rank 0,
//                                                   empty
//
// Microbatches are counted as in the plan, over all replicas. A message's range tells the moment of
// its send only: torch has no name for its arrival. An empty one has no gradient in it: no weight
// before the cut is trained.

#include "simulator/views/kineto_run.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/importers.hpp"
#include "profiles/importers/kineto.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr double nanoseconds_per_microsecond = 1e3;
constexpr double latest_moment = 1e15;  ///< microseconds: 31 years
constexpr int most_stages = 10'000'000;

constexpr std::array recorded_ops{Op::forward,         Op::backward,          Op::backward_input,
                                  Op::backward_weight, Op::reduce_gradient,   Op::reduce_tied,
                                  Op::reduce_scatter,  Op::gather_parameters, Op::recompute,
                                  Op::update,          Op::send_activation,   Op::send_gradient};

/// What a range's name says.
struct RecordedName {
  Instruction instruction;
  std::optional<int> peer;  ///< rank, of a message
  bool is_empty = false;
};

/// Takes the word off the text's front.
bool take_word(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

std::optional<int> take_count(std::string_view& text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || number < 0 || number > most_stages) return {};
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<RecordedName> read_recorded_name(std::string_view text) {
  for (const Op op : recorded_ops) {
    std::string_view rest = text;
    if (!take_word(rest, to_string(op)) || !take_word(rest, " stage ")) continue;
    const std::optional<int> stage = take_count(rest);
    if (!stage || !take_word(rest, " microbatch ")) return {};
    const std::optional<int> microbatch = take_count(rest);
    if (!microbatch) return {};
    RecordedName name{.instruction = {op, *stage, *microbatch}, .peer = {}};
    if (is_send(op)) {
      if (!take_word(rest, " to rank ") || !(name.peer = take_count(rest))) return {};
      name.is_empty = take_word(rest, ", empty");
    }
    return rest.empty() ? std::optional(name) : std::nullopt;
  }
  return {};
}

/// A range of a step; of a message only its start means something.
struct RecordedRange {
  RecordedName name;
  int iteration = 0;
  Duration start{0}, end{0};
};

struct RecordedProcess {
  std::string path;
  int rank = 0, processes = 1;
  std::string busy;  ///< why its times say little; empty: they do not
  int steps = 0;
  Duration start{0};                  ///< of the first step
  std::vector<RecordedRange> ranges;  ///< by start
};

[[noreturn]] void fail_in(const std::string& path, std::string message, std::string help) {
  throw Error(ErrorKind::input, std::move(message), SourcePlace{path, 0, 0}, {std::move(help)});
}

constexpr const char* record_again =
    "record all steps anew: torchrun train.py --steps 10 --kineto DIR";
constexpr const char* whole_folder =
    "give the folder that train.py --kineto DIR wrote; of several machines, all files in one "
    "folder";

// --- One process
// ---------------------------------------------------------------------------------------

std::vector<KinetoSpan> steps_of(const KinetoEvents& events, const std::string& path) {
  std::vector<KinetoSpan> steps;
  for (const KinetoSpan& range : events.ranges) {
    std::string_view text = range.name;
    if (take_word(text, "step ") && take_count(text) && text.empty()) steps.push_back(range);
  }
  std::ranges::stable_sort(steps, {}, &KinetoSpan::start);
  if (steps.empty()) {
    fail_in(path, "the trace has passes of stages, but no range \"step N\" around them",
            "write the program again with python -m stagecraft.torch export, and record a run");
  }
  return steps;
}

/// A forward that runs again does so within its backward, which is what comes after it here.
void begin_backwards_after_recomputes(std::vector<KinetoSpan>& passes) {
  for (std::size_t i = 1; i < passes.size(); ++i) {
    KinetoSpan &around = passes[i - 1], &again = passes[i];
    if (read_recorded_name(again.name)->instruction.op != Op::recompute) continue;
    if (around.end() < again.end()) continue;
    around.length = around.end() - again.end();
    around.start = again.end();
    std::swap(around, again);
  }
}

/// When the kernels ran that were launched within each range, which is at most one: passes of a
/// process take turns.
void set_times_of_kernels(const KinetoEvents& events, std::vector<KinetoSpan>& passes) {
  std::map<std::int64_t, double> launches;
  for (const KinetoSpan& launch : events.launches) launches[launch.number] = launch.start;
  std::vector<std::pair<double, double>> extents(passes.size(), {INFINITY, -INFINITY});
  for (const KinetoSpan& kernel : events.kernels) {
    const auto launch = launches.find(kernel.number);
    if (kernel.number < 0 || launch == launches.end()) continue;
    const auto after = std::ranges::upper_bound(passes, launch->second, {}, &KinetoSpan::start);
    if (after == passes.begin() || std::prev(after)->end() < launch->second) continue;
    auto& [first, last] = extents[static_cast<std::size_t>(after - passes.begin()) - 1];
    first = std::min(first, kernel.start);
    last = std::max(last, kernel.end());
  }
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const auto& [first, last] = extents[i];
    if (first > last) continue;
    passes[i].start = first;
    passes[i].length = last - first;
  }
}

/// The step that the range lies in.
int step_at(const std::vector<KinetoSpan>& steps, const KinetoSpan& range,
            const std::string& path) {
  const auto after = std::ranges::upper_bound(steps, range.start, {}, &KinetoSpan::start);
  if (after == steps.begin() || std::prev(after)->end() < range.start)
    fail_in(path, concat("the range \"", range.name, "\" lies in no step"), record_again);
  return static_cast<int>(after - steps.begin()) - 1;
}

RecordedProcess read_process(const KinetoRunFile& file) {
  const KinetoEvents events = read_kineto_events(file.content, file.path);
  if (events.rank < 0 || events.rank >= events.processes) {
    fail_in(file.path,
            "the trace does not say which of how many processes it is of: expected "
            "\"distributedInfo\" with \"rank\" and \"world_size\"",
            "export it with torch.profiler after torch.distributed has begun, as train.py does");
  }
  RecordedProcess process;
  process.path = file.path;
  process.rank = events.rank;
  process.busy = events.busy;
  process.processes = events.processes;
  const std::vector<KinetoSpan> steps = steps_of(events, file.path);
  process.steps = static_cast<int>(steps.size());
  std::vector<KinetoSpan> passes, messages;
  for (const KinetoSpan& range : events.ranges) {
    if (const auto name = read_recorded_name(range.name))
      (name->peer ? messages : passes).push_back(range);
  }
  std::ranges::stable_sort(passes, {}, &KinetoSpan::start);
  begin_backwards_after_recomputes(passes);
  std::vector<int> iterations;
  for (const KinetoSpan& pass : passes) iterations.push_back(step_at(steps, pass, file.path));
  set_times_of_kernels(events, passes);
  const auto moment = [&](double time) {
    if (time > latest_moment)
      fail_in(file.path, "a range or a kernel ends too late to count", record_again);
    return Duration(events.epoch + std::llround(time * nanoseconds_per_microsecond));
  };
  process.start = moment(steps.front().start);
  const auto add = [&](const KinetoSpan& range, int iteration) {
    process.ranges.push_back({.name = *read_recorded_name(range.name),
                              .iteration = iteration,
                              .start = moment(range.start),
                              .end = moment(range.end())});
  };
  for (std::size_t i = 0; i < passes.size(); ++i) add(passes[i], iterations[i]);
  for (const KinetoSpan& message : messages) add(message, step_at(steps, message, file.path));
  std::ranges::stable_sort(process.ranges, {}, &RecordedRange::start);
  return process;
}

void count_from_first_step(std::vector<RecordedProcess>& processes) {
  const Duration first = std::ranges::min(processes, {}, &RecordedProcess::start).start;
  for (RecordedProcess& process : processes) {
    for (RecordedRange& range : process.ranges) {
      range.start -= first;
      range.end -= first;
    }
  }
}

std::vector<RecordedProcess> read_processes(const std::vector<KinetoRunFile>& files) {
  std::map<int, RecordedProcess> by_rank;
  for (const KinetoRunFile& file : files) {
    RecordedProcess process = read_process(file);
    const int rank = process.rank;
    const int number = process.processes;
    const auto [place, is_new] = by_rank.try_emplace(rank, process);
    if (!is_new) {
      fail_in(file.path, concat("another trace of rank ", rank, " beside ", place->second.path),
              "give the traces of one run, one of each process");
    }
    const RecordedProcess& first = by_rank.begin()->second;
    if (number != first.processes) {
      fail_in(file.path,
              concat("a trace of ", number, " processes beside one of ", first.processes, ", ",
                     first.path),
              "give the traces of one run, one of each process");
    }
  }
  const RecordedProcess& first = by_rank.begin()->second;
  std::vector<RecordedProcess> processes;
  for (int rank = 0; rank < first.processes; ++rank) {
    const auto found = by_rank.find(rank);
    if (found == by_rank.end()) {
      fail_in(first.path,
              concat("the run has ", first.processes, " processes, and the trace of rank ", rank,
                     " is not here"),
              whole_folder);
    }
    if (rank > 0 && found->second.steps != processes.front().steps) {
      fail_in(found->second.path,
              concat("it has ", found->second.steps, " steps, and ", processes.front().path,
                     " has ", processes.front().steps, ": one is cut short, or of another run"),
              record_again);
    }
    processes.push_back(std::move(found->second));
  }
  count_from_first_step(processes);
  return processes;
}

// --- All processes
// -------------------------------------------------------------------------------------

/// Rank, iteration and pass: when it begins.
using PassStarts = std::map<std::tuple<int, int, Instruction>, Duration>;

PassStarts starts_of(const std::vector<RecordedProcess>& processes) {
  PassStarts starts;
  for (const RecordedProcess& process : processes) {
    for (const RecordedRange& range : process.ranges) {
      if (!range.name.peer) {
        starts.emplace(std::tuple(process.rank, range.iteration, range.name.instruction),
                       range.start);
      }
    }
  }
  return starts;
}

struct RecordedMessage {
  Instruction sent;
  int iteration = 0, from = 0, to = 0, to_stage = 0;
  bool is_empty = false;
  Duration posted{0}, needed{0};
  bool waited = false;  ///< whether the receiver had nothing else to do when it was sent
};

class RecordedMessages {
 public:
  explicit RecordedMessages(const std::vector<RecordedProcess>& processes)
      : processes_(processes), starts_(starts_of(processes)) {
    for (const RecordedProcess& process : processes_) {
      ends_.emplace_back();
      for (const RecordedRange& range : process.ranges) {
        if (!range.name.peer) ends_.back().push_back(range.end);
      }
      std::ranges::sort(ends_.back());
    }
    for (const RecordedProcess& process : processes_) {
      for (const RecordedRange& range : process.ranges) {
        if (range.name.peer) messages_.push_back(message_of(process, range));
      }
    }
  }

  /// Sends and receives, each with its end.
  std::vector<Span> spans() const {
    std::map<std::pair<Op, int>, std::vector<Duration>> usual;
    for (const RecordedMessage& it : messages_) {
      if (it.waited) usual[{it.sent.op, it.sent.stage}].push_back(it.needed - it.posted);
    }
    for (auto& [key, times] : usual) std::ranges::sort(times);
    std::vector<Span> spans;
    for (const RecordedMessage& it : messages_) {
      const auto known = usual.find({it.sent.op, it.sent.stage});
      const Duration median =
          known == usual.end() ? Duration{0} : known->second[known->second.size() / 2];
      Duration end = it.waited ? it.needed : std::min(it.needed, it.posted + median);
      end = it.is_empty ? it.posted : std::max(end, it.posted);
      const bool is_forward = it.sent.op == Op::send_activation;
      const Instruction received{is_forward ? Op::receive_activation : Op::receive_gradient,
                                 it.to_stage, it.sent.microbatch};
      spans.push_back({it.from, Lane::send, it.sent, it.to, it.iteration, it.posted, end});
      spans.push_back({it.to, Lane::receive, received, it.from, it.iteration, it.posted, end});
    }
    return spans;
  }

 private:
  RecordedMessage message_of(const RecordedProcess& process, const RecordedRange& range) const {
    const Instruction& sent = range.name.instruction;
    const bool is_forward = sent.op == Op::send_activation;
    RecordedMessage message{.sent = sent,
                            .iteration = range.iteration,
                            .from = process.rank,
                            .to = *range.name.peer,
                            .to_stage = sent.stage + (is_forward ? 1 : -1),
                            .is_empty = range.name.is_empty,
                            .posted = range.start};
    if (message.to >= static_cast<int>(processes_.size())) {
      fail_in(process.path,
              concat("it sends to rank ", message.to, " of ", processes_.size(), " processes"),
              record_again);
    }
    const std::optional<Duration> needed = start_of_receiver(message);
    if (!needed) {
      fail_in(processes_[index(message.to)].path,
              concat("step ", message.iteration, " has no ", is_forward ? "forward" : "backward",
                     " of stage ", message.to_stage, ", microbatch ", sent.microbatch,
                     ", which rank ", message.from, " sends to: the trace is cut short"),
              record_again);
    }
    message.needed = *needed;
    const std::vector<Duration>& ends = ends_[index(message.to)];
    const auto after = std::ranges::upper_bound(ends, message.needed);
    message.waited = after == ends.begin() || *std::prev(after) <= message.posted;
    return message;
  }

  std::optional<Duration> start_of_receiver(const RecordedMessage& it) const {
    constexpr std::array forwards{Op::forward};
    constexpr std::array backwards{Op::recompute, Op::backward, Op::backward_input,
                                   Op::backward_weight};
    const auto first_of = [&](const auto& ops) -> std::optional<Duration> {
      for (const Op op : ops) {
        const auto found =
            starts_.find({it.to, it.iteration, {op, it.to_stage, it.sent.microbatch}});
        if (found != starts_.end()) return found->second;
      }
      return {};
    };
    return it.sent.op == Op::send_activation ? first_of(forwards) : first_of(backwards);
  }

  const std::vector<RecordedProcess>& processes_;
  PassStarts starts_;
  std::vector<std::vector<Duration>> ends_;  ///< of each rank's passes, ascending
  std::vector<RecordedMessage> messages_;
};

}  // namespace

bool is_kineto_run(std::string_view content) {
  return looks_like_kineto(content) && content.find("\"forward stage ") != std::string_view::npos;
}

Trace read_kineto_run(const std::vector<KinetoRunFile>& files) {
  const std::vector<RecordedProcess> processes = read_processes(files);
  Trace trace;
  trace.about["kind"] = "measured";
  trace.about["recorder"] = "PyTorch profiler";
  Timeline& timeline = trace.timeline;
  timeline.devices = static_cast<int>(processes.size());
  timeline.spans = RecordedMessages(processes).spans();
  for (const RecordedProcess& process : processes) {
    if (!process.busy.empty()) trace.about.emplace("busy", process.busy);
    for (const RecordedRange& range : process.ranges) {
      const Instruction& it = range.name.instruction;
      timeline.stages = std::max(timeline.stages, it.stage + 1);
      timeline.microbatches = std::max(timeline.microbatches, it.microbatch + 1);
      if (range.name.peer) continue;
      timeline.spans.push_back(
          {process.rank, lane_of(it.op), it, {}, range.iteration, range.start, range.end});
    }
  }
  std::ranges::stable_sort(timeline.spans, {}, [](const Span& span) {
    return std::tuple(span.device, span.start, span.lane);
  });
  return trace;
}

}  // namespace stagecraft
