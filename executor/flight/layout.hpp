// How a flight record lies in its file, and in memory: what the writer and the readers share.
//
//   │ Prefix │ header: JSON, one line │ State │ counters: sent and taken per channel, met per group
//   │
//
// Everything behind the header is atomic numbers, written by one thread while others, and other
// processes, read. A process that is killed leaves them as they were.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace stagecraft::flight {

inline constexpr std::array<char, 24> magic{"stagecraft-flight/1\n"};

struct Prefix {
  std::array<char, 24> magic;
  std::uint64_t bytes;         ///< of the whole file
  std::uint64_t header_bytes;  ///< of the JSON behind this
  std::uint64_t state_at;      ///< offset of State
  std::uint64_t header_hash;   ///< XXH3-64 of the JSON
};

using Number = std::atomic<std::int64_t>;
static_assert(Number::is_always_lock_free && sizeof(Number) == 8);

inline constexpr std::size_t recent_kept = 16;
inline constexpr std::size_t most_words = 1024;

/// An instruction that was begun: the one before it ended at that moment, or earlier.
struct Begun {
  Number step, op, stage, microbatch, at;
};

struct State {
  Number sequence;  ///< odd while the next fields change; they belong together
  Number doing, since, peer, place, work, op, stage, microbatch, step, work_since;
  Number phase;                           ///< what goes on when a wait is over
  Number heartbeat;                       ///< of the process's watchdog
  Number control_calls;                   ///< barriers, gathers and broadcasts entered
  Number begun;                           ///< instructions so far
  std::array<Begun, recent_kept> recent;  ///< instruction i is at i modulo the size
  Number cause;                           ///< of a failure …
  Number failed_at;
  Number words;  ///< … its sentence's length, written last
  std::array<char, most_words> sentence;
};

/// Who reads a number sees all that was written before it. So a reader that finds `sequence` even,
/// and the same afterwards, has seen nothing of a later change.
inline std::int64_t get(const Number& number) {
  return number.load(std::memory_order_acquire);
}
inline void set(Number& number, std::int64_t value) {
  number.store(value, std::memory_order_release);
}

}  // namespace stagecraft::flight
