#include "executor/flight/record.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>

#include "executor/driver/host.hpp"
#include "executor/driver/ranks.hpp"
#include "executor/flight/layout.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

using flight::get;
using flight::Number;
using flight::Prefix;
using flight::set;
using flight::State;

std::string header_of(const Oversight& oversight, const Program& program, const RankMap& ranks,
                      int rank) {
  return nlohmann::ordered_json{{"rank", rank},
                                {"ranks", ranks.ranks()},
                                {"name", name_of_rank(program, ranks, rank, {})},
                                {"host", host_name()},
                                {"pid", getpid()},
                                {"plan", oversight.plan_hash},
                                {"work", program.order[index(ranks.device_of(rank))].size()},
                                {"channels", ranks.wiring().channels.size()},
                                {"groups", ranks.wiring().groups}}
             .dump() +
         "\n";
}

std::filesystem::path file_of(const Oversight& oversight, int rank) {
  const std::filesystem::path& folder = oversight.flight_records;
  return folder.empty() ? folder : folder / flight_file_name(rank);
}

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + 63) / 64 * 64;
}

/// A file for this record alone: who still looks at the one before keeps that.
int make_file(const std::filesystem::path& path, std::uint64_t bytes) {
  const auto refuse = [&](int error) {
    throw Error(ErrorKind::execution, concat("--flight-records: cannot write ", path.string(), ": ",
                                             std::strerror(error)));
  };
  std::error_code none;
  std::filesystem::create_directories(path.parent_path(), none);
  std::filesystem::remove(path, none);
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (file < 0) refuse(errno);
  // All of it, now: a disk that is full must not end the run later.
  if (const int error = posix_fallocate(file, 0, static_cast<off_t>(bytes)); error != 0) {
    close(file);
    std::filesystem::remove(path, none);
    refuse(error);
  }
  return file;
}

}  // namespace

std::string_view to_string(Doing doing) {
  switch (doing) {
    case Doing::starting: return "starting";
    case Doing::computing: return "computing";
    case Doing::sending: return "sending";
    case Doing::receiving: return "receiving";
    case Doing::meeting: return "meeting";
    case Doing::barrier: return "barrier";
    case Doing::reporting: return "reporting";
    case Doing::listening: return "listening";
    case Doing::between: return "between";
    case Doing::checkpointing: return "checkpointing";
    case Doing::finishing: return "finishing";
    case Doing::ended: return "ended";
  }
  return "";
}

std::string flight_file_name(int rank) {
  return concat("rank-", rank, ".flight");
}

struct FlightRecord::Mapping {
  Mapping(const std::filesystem::path& path, const std::string& header, std::size_t channels,
          std::size_t groups) {
    const std::uint64_t state_at = aligned(sizeof(Prefix) + header.size());
    bytes = state_at + aligned(sizeof(State)) + (2 * channels + groups) * sizeof(Number);
    const int file = path.empty() ? -1 : make_file(path, bytes);
    const int flags = path.empty() ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    if (file >= 0) close(file);
    if (memory == MAP_FAILED) {
      throw Error(ErrorKind::execution,
                  concat("cannot map a flight record: ", std::strerror(errno)));
    }
    first = static_cast<char*>(memory);
    state = new (first + state_at) State{};
    sent = reinterpret_cast<Number*>(first + state_at + aligned(sizeof(State)));
    taken = sent + channels;
    met = taken + channels;
    std::memcpy(first + sizeof(Prefix), header.data(), header.size());
    // The magic comes last: who sees it, sees a whole header.
    Prefix prefix{.magic = {},
                  .bytes = bytes,
                  .header_bytes = header.size(),
                  .state_at = state_at,
                  .header_hash = XXH3_64bits(header.data(), header.size())};
    std::memcpy(first, &prefix, sizeof prefix);
    const auto beginning = std::bit_cast<std::array<std::uint64_t, 3>>(flight::magic);
    std::memcpy(first + sizeof beginning[0], &beginning[1], sizeof beginning - sizeof beginning[0]);
    std::atomic_ref(*reinterpret_cast<std::uint64_t*>(first))
        .store(beginning[0], std::memory_order_release);
  }
  ~Mapping() { munmap(first, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  char* first = nullptr;
  std::uint64_t bytes = 0;
  State* state = nullptr;
  Number* sent = nullptr;  ///< messages per channel
  Number* taken = nullptr;
  Number* met = nullptr;  ///< meetings entered per group
};

namespace {

/// A run before may have had more ranks.
void remove_later_ranks(const std::filesystem::path& folder, int ranks) {
  std::error_code none;
  for (int rank = ranks; std::filesystem::remove(folder / flight_file_name(rank), none);) ++rank;
}

}  // namespace

FlightRecord::FlightRecord(const Oversight& oversight, const Program& program, const RankMap& ranks,
                           int rank)
    : program_(program),
      mapping_(std::make_unique<Mapping>(
          file_of(oversight, rank), header_of(oversight, program, ranks, rank),
          ranks.wiring().channels.size(), ranks.wiring().groups.size())) {
  State& state = *mapping_->state;
  for (Number* number : {&state.work, &state.step, &state.peer, &state.place}) set(*number, -1);
  set(state.since, now().count());
  beat();
  if (rank == 0 && !oversight.flight_records.empty()) {
    remove_later_ranks(oversight.flight_records, ranks.ranks());
  }
}

FlightRecord::~FlightRecord() = default;

void FlightRecord::note(Doing doing, int place, std::optional<int> peer) {
  State& state = *mapping_->state;
  const std::int64_t sequence = get(state.sequence);
  set(state.sequence, sequence + 1);
  set(state.doing, static_cast<std::int64_t>(doing));
  set(state.place, place);
  set(state.peer, peer.value_or(-1));
  set(state.since, now().count());
  set(state.sequence, sequence + 2);
}

void FlightRecord::begin_step(int step) {
  set(mapping_->state->step, step);
  set(mapping_->state->work, -1);
  begin(Doing::between);
}

void FlightRecord::begin(int work) {
  const Instruction& instruction = program_.work[index(work)].instruction;
  State& state = *mapping_->state;
  const std::int64_t sequence = get(state.sequence), at = now().count();
  set(state.sequence, sequence + 1);
  set(state.doing, static_cast<std::int64_t>(Doing::computing));
  set(state.since, at);
  set(state.work_since, at);
  set(state.work, work);
  set(state.op, static_cast<std::int64_t>(instruction.op));
  set(state.stage, instruction.stage);
  set(state.microbatch, instruction.microbatch);
  const std::int64_t begun = get(state.begun);
  flight::Begun& entry = state.recent[static_cast<std::size_t>(begun) % flight::recent_kept];
  set(entry.step, get(state.step));
  set(entry.op, static_cast<std::int64_t>(instruction.op));
  set(entry.stage, instruction.stage);
  set(entry.microbatch, instruction.microbatch);
  set(entry.at, at);
  set(state.begun, begun + 1);
  set(state.phase, static_cast<std::int64_t>(Doing::computing));
  set(state.sequence, sequence + 2);
}

void FlightRecord::begin(Doing doing) {
  set(mapping_->state->work, -1);
  set(mapping_->state->phase, static_cast<std::int64_t>(doing));
  note(doing, -1, {});
}

void FlightRecord::wait(Doing doing, int place, std::optional<int> peer) {
  if (doing == Doing::meeting) {
    Number& met = mapping_->met[place];
    set(met, get(met) + 1);
  } else if (doing != Doing::sending && doing != Doing::receiving) {
    set(mapping_->state->control_calls, get(mapping_->state->control_calls) + 1);
  }
  note(doing, place, peer);
}

void FlightRecord::go_on() {
  note(static_cast<Doing>(get(mapping_->state->phase)), -1, {});
}

void FlightRecord::count_message(Doing doing, int channel) {
  Number& count = (doing == Doing::sending ? mapping_->sent : mapping_->taken)[channel];
  set(count, get(count) + 1);
}

void FlightRecord::fail(Cause cause, std::string_view sentence) {
  State& state = *mapping_->state;
  std::int64_t none = 0;
  if (!state.cause.compare_exchange_strong(none, static_cast<std::int64_t>(cause))) return;
  const std::size_t words = std::min(sentence.size(), flight::most_words);
  std::memcpy(state.sentence.data(), sentence.data(), words);
  set(state.failed_at, now().count());
  set(state.words, static_cast<std::int64_t>(words));
}

std::optional<int> FlightRecord::current_work() const {
  const auto work = static_cast<int>(get(mapping_->state->work));
  return work < 0 ? std::optional<int>() : work;
}

void FlightRecord::beat() {
  set(mapping_->state->heartbeat, now().count());
}

std::string_view FlightRecord::bytes() const {
  return {mapping_->first, mapping_->bytes};
}

}  // namespace stagecraft
