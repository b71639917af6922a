// The layout of a flight record in its file and in memory, shared by the writer and the readers.
//
//   │ Prefix │ header: JSON, one line │ State │ counters: sent and taken per channel, met per group
//   │
//
// Everything after the header is atomic numbers, written by one thread while other threads and
// processes read. A killed process leaves them as they were.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace stagecraft::flight {

inline constexpr std::array<char, 24> magic{"stagecraft-flight/1\n"};

struct Prefix {
  std::array<char, 24> magic;
  std::uint64_t bytes;         ///< size of the whole file
  std::uint64_t header_bytes;  ///< size of the JSON after this prefix
  std::uint64_t state_at;      ///< offset of State
  std::uint64_t header_hash;   ///< XXH3-64 of the JSON
};

using Number = std::atomic<std::int64_t>;
static_assert(Number::is_always_lock_free && sizeof(Number) == 8);

inline constexpr std::size_t recent_kept = 16;
inline constexpr std::size_t most_words = 1024;

/// An instruction that was begun; the one before it ended at that time or earlier.
struct Begun {
  Number step, op, stage, microbatch, at;
};

struct State {
  Number sequence;  ///< odd while the following fields are being written, so that readers get a
                    ///< consistent set
  Number doing, since, peer, place, work, op, stage, microbatch, step, work_since;
  Number phase;                           ///< activity to resume after a wait
  Number heartbeat;                       ///< heartbeat of the process's watchdog
  Number control_calls;                   ///< number of barriers, gathers and broadcasts entered
  Number begun;                           ///< number of instructions begun
  std::array<Begun, recent_kept> recent;  ///< instruction i is at index i modulo the size
  Number cause;                           ///< cause of a failure …
  Number failed_at;
  Number words;  ///< … and the length of its sentence, written last
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
