#include "executor/flight/snapshot.hpp"

#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>

#include "executor/flight/layout.hpp"
#include "executor/values/ordinary_file.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

using flight::get;
using flight::Number;
using flight::Prefix;
using flight::State;

/// Numbers of a state, each within what a rank can have written there: of a file to which something
/// happened they may be anything.
class Numbers {
 public:
  explicit Numbers(std::string file) : file_(std::move(file)) {}

  std::int64_t within(const Number& number, std::string_view name, std::int64_t least,
                      std::int64_t most) const {
    const std::int64_t value = get(number);
    if (value < least || value > most) {
      fail(file_, ": the flight record is damaged: expected ", name, " from ", least, " to ", most,
           ", found ", value);
    }
    return value;
  }
  /// -1 says that there is none.
  int small(const Number& number, std::string_view name) const {
    return static_cast<int>(within(number, name, -1, INT32_MAX - 1));
  }
  std::optional<int> if_any(const Number& number, std::string_view name) const {
    const int value = small(number, name);
    return value < 0 ? std::optional<int>() : value;
  }
  std::int64_t count(const Number& number, std::string_view name) const {
    return within(number, name, 0, most_counted);
  }
  /// Differences of two are durations.
  Moment moment(const Number& number, std::string_view name) const {
    return Moment{count(number, name)};
  }
  Instruction instruction(const Number& op, const Number& stage, const Number& microbatch) const {
    return {static_cast<Op>(within(op, "an operation", 0, static_cast<std::int64_t>(Op::update))),
            small(stage, "a stage"), small(microbatch, "a microbatch")};
  }
  Doing doing(const Number& number) const {
    const auto last = static_cast<std::int64_t>(doings.size()) - 1;
    return static_cast<Doing>(within(number, "what is done", 0, last));
  }

 private:
  static constexpr std::int64_t most_counted = INT64_MAX / 2;
  std::string file_;
};

/// Bounds first: nothing behind them is trusted before.
Prefix checked_prefix(std::string_view bytes, const std::filesystem::path& file) {
  Prefix prefix{};
  const bool is_ours = bytes.size() >= sizeof prefix &&
                       std::memcmp(bytes.data(), flight::magic.data(), flight::magic.size()) == 0;
  if (!is_ours) {
    fail(file.string(), ": is no flight record; expected a file that `run` wrote as rank-N.flight");
  }
  std::memcpy(&prefix, bytes.data(), sizeof prefix);
  if (prefix.bytes != bytes.size()) {
    fail(file.string(), ": the flight record is cut short: ", bytes.size(), " of ", prefix.bytes,
         " bytes; what is left of it cannot be trusted");
  }
  const bool fits = prefix.header_bytes <= bytes.size() && prefix.state_at <= bytes.size() &&
                    prefix.state_at % 64 == 0 && bytes.size() - prefix.state_at >= sizeof(State) &&
                    sizeof prefix + prefix.header_bytes <= prefix.state_at;
  if (!fits ||
      XXH3_64bits(bytes.data() + sizeof prefix, prefix.header_bytes) != prefix.header_hash) {
    fail(file.string(), ": the flight record is damaged: its header is not what was written");
  }
  return prefix;
}

struct Sizes {
  std::size_t channels = 0;
  std::size_t groups = 0;
};

Sizes read_header(std::string_view header, const std::filesystem::path& file,
                  FlightSnapshot& snapshot) {
  const Json json = Json::parse(std::string(header), file.string());
  json.allow_only({"rank", "ranks", "name", "host", "pid", "plan", "work", "channels", "groups"});
  snapshot.ranks = json["ranks"].small_integer(1, 1 << 20);
  snapshot.rank = json["rank"].small_integer(0, snapshot.ranks - 1);
  snapshot.name = json["name"].string();
  snapshot.host = json["host"].string();
  snapshot.pid = json["pid"].small_integer(1, INT32_MAX);
  snapshot.plan_hash = json["plan"].string();
  for (const Json& group : json["groups"].elements()) {
    auto& members = snapshot.groups.emplace_back();
    for (const Json& member : group.elements()) {
      members.push_back(member.small_integer(0, snapshot.ranks - 1));
    }
  }
  return {.channels = static_cast<std::size_t>(json["channels"].integer(0, INT32_MAX)),
          .groups = snapshot.groups.size()};
}

/// What belongs together, as it was at one moment; of a rank that was killed while it wrote, as it
/// left it.
void read_activity(const State& state, const Numbers& numbers, FlightSnapshot& snapshot) {
  constexpr int patience = 100;
  for (int attempt = 0; attempt < patience; ++attempt) {
    const std::int64_t sequence = get(state.sequence);
    snapshot.doing = numbers.doing(state.doing);
    snapshot.phase = numbers.doing(state.phase);
    snapshot.since = numbers.moment(state.since, "a moment");
    snapshot.peer = numbers.if_any(state.peer, "a rank");
    snapshot.place = numbers.small(state.place, "a channel or group");
    snapshot.step = numbers.if_any(state.step, "a step");
    snapshot.work = numbers.if_any(state.work, "an instruction's place");
    snapshot.instruction = {};
    if (snapshot.work) {
      snapshot.instruction = numbers.instruction(state.op, state.stage, state.microbatch);
    }
    snapshot.work_since = numbers.moment(state.work_since, "a moment");
    if (sequence % 2 == 0 && get(state.sequence) == sequence) return;
  }
}

void read_recent(const State& state, const Numbers& numbers, FlightSnapshot& snapshot) {
  const std::int64_t begun = numbers.count(state.begun, "a number of instructions");
  const auto kept = static_cast<std::int64_t>(flight::recent_kept);
  for (std::int64_t i = std::max<std::int64_t>(0, begun - kept); i < begun; ++i) {
    const flight::Begun& entry = state.recent[static_cast<std::size_t>(i % kept)];
    snapshot.recent.push_back({numbers.small(entry.step, "a step"),
                               numbers.instruction(entry.op, entry.stage, entry.microbatch),
                               numbers.moment(entry.at, "a moment")});
  }
}

void read_failure(const State& state, const Numbers& numbers, FlightSnapshot& snapshot) {
  const std::int64_t words = numbers.within(state.words, "a sentence's length", 0,
                                            static_cast<std::int64_t>(flight::most_words));
  if (words == 0) return;
  snapshot.cause = static_cast<Cause>(
      numbers.within(state.cause, "a cause", 0, static_cast<std::int64_t>(Cause::not_written)));
  snapshot.failed_at = numbers.moment(state.failed_at, "a moment");
  snapshot.failure.assign(state.sentence.data(), static_cast<std::size_t>(words));
}

std::vector<std::int64_t> read_counters(const Number*& next, std::size_t count,
                                        const Numbers& numbers) {
  std::vector<std::int64_t> counters;
  for (std::size_t i = 0; i < count; ++i) {
    counters.push_back(numbers.count(*next++, "a number of messages"));
  }
  return counters;
}

bool is_whole_number(std::string_view word) {
  int number = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
  return error == std::errc() && end == word.data() + word.size() && number >= 0;
}

bool is_flight_file(const std::filesystem::path& path) {
  const std::string stem = path.stem().string();
  return path.extension() == ".flight" && stem.starts_with("rank-") &&
         is_whole_number(std::string_view(stem).substr(5));
}

}  // namespace

FlightSnapshot glance_at(const FlightRecord& record) {
  Prefix prefix{};
  std::memcpy(&prefix, record.bytes().data(), sizeof prefix);
  FlightSnapshot snapshot;
  read_activity(*reinterpret_cast<const State*>(record.bytes().data() + prefix.state_at),
                Numbers("this process"), snapshot);
  return snapshot;
}

FlightSnapshot read_flight_record(std::string_view bytes, const std::filesystem::path& file) {
  const Prefix prefix = checked_prefix(bytes, file);
  FlightSnapshot snapshot;
  const Sizes sizes = read_header(bytes.substr(sizeof prefix, prefix.header_bytes), file, snapshot);
  const std::uint64_t counters_at = prefix.state_at + (sizeof(State) + 63) / 64 * 64;
  if (counters_at + (2 * sizes.channels + sizes.groups) * sizeof(Number) != bytes.size()) {
    fail(file.string(), ": the flight record is damaged: its size does not fit its header");
  }
  // As another thread, or process, goes on writing it.
  const auto& state = *reinterpret_cast<const State*>(bytes.data() + prefix.state_at);
  const auto* next = reinterpret_cast<const Number*>(bytes.data() + counters_at);
  const Numbers numbers(file.string());
  read_activity(state, numbers, snapshot);
  read_recent(state, numbers, snapshot);
  read_failure(state, numbers, snapshot);
  snapshot.heartbeat = numbers.moment(state.heartbeat, "a moment");
  snapshot.control_calls = numbers.count(state.control_calls, "a number of calls");
  snapshot.sent = read_counters(next, sizes.channels, numbers);
  snapshot.taken = read_counters(next, sizes.channels, numbers);
  snapshot.met = read_counters(next, sizes.groups, numbers);
  return snapshot;
}

FlightSnapshot read_flight_record(const std::filesystem::path& file) {
  const std::string bytes = read_ordinary_file(file);
  // A string's bytes may lie anywhere; numbers must not.
  std::vector<Number> aligned((bytes.size() + sizeof(Number) - 1) / sizeof(Number));
  void* place = aligned.data();
  if (!bytes.empty()) std::memcpy(place, bytes.data(), bytes.size());
  return read_flight_record({reinterpret_cast<const char*>(aligned.data()), bytes.size()}, file);
}

FlightRecords read_flight_records(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    if (is_flight_file(entry->path())) files.push_back(entry->path());
  }
  if (error) fail(folder.string(), ": cannot be read as a folder: ", error.message());
  FlightRecords records;
  for (const auto& file : files) {
    try {
      records.ranks.push_back(read_flight_record(file));
    } catch (const Error& problem) {
      records.problems.emplace_back(problem.what());
    }
  }
  if (files.empty()) {
    fail(folder.string(),
         ": has no flight records; expected files rank-0.flight, rank-1.flight, … "
         "that `stagecraft run --flight-records ",
         folder.string(), "` wrote");
  }
  std::ranges::sort(records.problems);
  if (records.ranks.empty()) throw Error(ErrorKind::input, records.problems.front());
  std::ranges::sort(records.ranks, {}, &FlightSnapshot::rank);
  const FlightSnapshot& first = records.ranks.front();
  std::vector<bool> is_here(static_cast<std::size_t>(first.ranks));
  for (const FlightSnapshot& rank : records.ranks) {
    if (rank.rank < first.ranks) is_here[static_cast<std::size_t>(rank.rank)] = true;
    if (rank.ranks == first.ranks && rank.plan_hash == first.plan_hash) continue;
    records.problems.push_back(concat((folder / flight_file_name(rank.rank)).string(),
                                      ": is of another run than ", flight_file_name(first.rank)));
  }
  // Damaged ones are there, as was said.
  std::vector<std::string> missing;
  std::set<std::string> present;
  for (const auto& file : files) present.insert(file.filename().string());
  for (std::size_t rank = 0; rank < is_here.size(); ++rank) {
    const std::string name = is_here[rank] ? "" : flight_file_name(static_cast<int>(rank));
    if (!is_here[rank] && !present.contains(name)) missing.push_back(name);
  }
  constexpr std::size_t most_told = 8;
  if (missing.size() > most_told) {
    records.problems.push_back(concat((folder / missing.front()).string(), " and ",
                                      missing.size() - 1, " others are missing; the run has ",
                                      first.ranks, " ranks"));
  } else {
    for (const std::string& name : missing) {
      records.problems.push_back(
          concat((folder / name).string(), ": is missing; the run has ", first.ranks, " ranks"));
    }
  }
  std::ranges::sort(records.problems);
  return records;
}

}  // namespace stagecraft
