// The cells of torch's schedule files. Internal to their reader and writer.

#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace stagecraft::torch {

enum class Kind {
  forward,
  backward,
  backward_input,
  backward_weight,
  old_backward,  ///< BW of 2024, when B was the input gradient
  send_forward,
  receive_forward,
  send_backward,
  receive_backward,
  unshard,
  reshard,
  reduce_gradient,
  wait_send_forward,  ///< since torch 2.15, as the next two
  wait_send_backward,
  wait_reduce_gradient,
};

struct Word {
  Kind kind;
  std::string_view text;
  bool takes_microbatch = true;
};

/// In the order of the enumeration.
inline constexpr std::array words{
    Word{Kind::forward, "F"},
    Word{Kind::backward, "B"},
    Word{Kind::backward_input, "I"},
    Word{Kind::backward_weight, "W"},
    Word{Kind::old_backward, "BW"},
    Word{Kind::send_forward, "SEND_F"},
    Word{Kind::receive_forward, "RECV_F"},
    Word{Kind::send_backward, "SEND_B"},
    Word{Kind::receive_backward, "RECV_B"},
    Word{Kind::unshard, "UNSHARD", false},
    Word{Kind::reshard, "RESHARD", false},
    Word{Kind::reduce_gradient, "REDUCE_GRAD", false},
    Word{Kind::wait_send_forward, "WAIT_SEND_F"},
    Word{Kind::wait_send_backward, "WAIT_SEND_B"},
    Word{Kind::wait_reduce_gradient, "WAIT_REDUCE_GRAD", false},
};

constexpr const Word& word_of(Kind kind) {
  return words[static_cast<std::size_t>(kind)];
}

constexpr bool is_compute(Kind kind) {
  return kind <= Kind::old_backward;
}

constexpr bool is_wait(Kind kind) {
  return kind >= Kind::wait_send_forward;
}

inline constexpr std::string_view overlap = "OVERLAP_F_B";

/// "1F3", "2REDUCE_GRAD".
std::string action_text(Kind kind, int stage, int microbatch);

struct Action {
  Kind kind = Kind::forward;
  int stage = 0;
  int microbatch = 0;  ///< 0 where the kind takes none
  int rank = 0;
  int cell = 0;                ///< in its row, from 0
  int column = 1;              ///< where the cell begins
  bool overlaps_next = false;  ///< the first of two in a cell
};

inline std::string to_string(const Action& action) {
  return action_text(action.kind, action.stage, action.microbatch);
}

/// A file's rows.
struct Rows {
  std::string file;
  std::vector<std::vector<Action>> ranks;
  std::vector<Action> idle;  ///< where cells are empty: only their places mean something

  /// Throws Error (input) at the action's cell.
  [[noreturn]] void fail_at(const Action& action, const std::string& message) const;
  /// Throws Error (input) about a whole row.
  [[noreturn]] void fail_at_row(int rank, const std::string& message) const;
};

/// Words only: judges no meaning. Throws Error (input) for a cell that is none.
Rows parse_rows(std::string_view text, const std::string& file);

/// What the rows say together.
struct Shape {
  std::vector<int> rank_of_stage;
  int microbatches = 0;
  bool trains = false;
  bool communicates = false;
  bool waits = false;  ///< with the words of torch 2.15 for it
};
/// Throws Error (input) unless the rows, in the words of today, are complete, free of doubles, and
/// in an order that each rank could carry out if the others did not keep it waiting.
Shape judge(const Rows& rows, int pipes);

}  // namespace stagecraft::torch
