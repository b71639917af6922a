// Schedules as the CSV files of torch.distributed.pipelining, both ways.
//
//   0F0,0SEND_F0,0F1,…,(0F3;7B1)OVERLAP_F_B,…     a row per rank, a cell per action:
//   1RECV_F0,1F0,1SEND_F0,…                       STAGE KIND MICROBATCH, or two of them as one
//
// A file lists compute only, or communication as well; then it also fixes the order in which each
// rank communicates. The format has neither model copies nor pieces of sequences, so the reader
// must be told their numbers.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "simulator/lowering/lower.hpp"
#include "simulator/values/program.hpp"
#include "simulator/values/schedule.hpp"

namespace stagecraft {

enum class TorchForm {
  compute_only,   ///< F B I W and overlapped pairs; idle cells
  compute_comms,  ///< with SEND, RECV, and UNSHARD, RESHARD, REDUCE_GRAD
};

/// Releases of torch whose names of communication actions differ. Those of compute are the same.
enum class TorchVersion {
  torch_2_11,  ///< torch decides when to wait for a send or reduction
  torch_2_15,  ///< each send or reduction needs its own WAIT_SEND_F, WAIT_SEND_B or
               ///< WAIT_REDUCE_GRAD, or the file is refused
};
/// Reads "2.11" or "2.15". Throws Error (usage) for any other.
TorchVersion read_torch_version(std::string_view text);

struct TorchSchedule {
  Schedule schedule;
  TorchForm form = TorchForm::compute_only;
  /// compute_comms: the instructions of each device in the file's order: F B I W SF RF SB RB. Else
  /// empty.
  std::vector<std::vector<Instruction>> order;
  bool waits = false;  ///< compute_comms: the file has waits, as torch 2.15 requires
  bool operator==(const TorchSchedule&) const = default;
};

/// Properties of the schedule that a file does not contain; see Schedule.
struct TorchReading {
  int pipes = 1;
  int sequence_chunks = 1;
};

/// Whether this text looks like such a file: its first non-empty cell resembles an action.
bool looks_like_torch_csv(std::string_view text);

/// Reads either form, with today's names (I, W, B) or those of 2024 (B, W, BW). Rank = row =
/// device; the file determines where stages are. `file` is used in errors, and its stem becomes the
/// schedule's name. Idle cells are skipped; UNSHARD, RESHARD, REDUCE_GRAD and waits are checked and
/// left out. If a file has any wait, it must have one for each send and each reduction.
///
/// Throws Error (input), with line, column, rank and cell, for everything that torch would fail on,
/// at once or while running: other text, a stage on two ranks, actions that are missing, duplicated
/// or before their inputs on the same rank, unneeded messages. Deadlocks between ranks are left to
/// `check`.
TorchSchedule read_torch_csv(std::string_view text, const std::string& file,
                             const TorchReading& reading = {});

/// The program of a file: with compute_comms, each device issues its work in the file's order.
Program lower(const TorchSchedule& file, const LowerOptions& options = {});

/// One row per device, with "\n" after each. compute_comms has the communication of the lowered
/// program (or that of a file which fixes it), and per stage UNSHARD before its first action,
/// REDUCE_GRAD and RESHARD after its last. The waits of 2.15 are where torch's own lowering places
/// them: after the backward that implies that the activation has arrived, else at the end.
///
/// Throws Error (usage) for features that the format lacks (recomputation, eviction, updates within
/// an iteration, fed-back tokens), and Error (check) if the schedule is not safe.
std::string write_torch_csv(const Schedule& schedule, TorchForm form,
                            TorchVersion version = TorchVersion::torch_2_15);
std::string write_torch_csv(const TorchSchedule& file, TorchForm form,
                            TorchVersion version = TorchVersion::torch_2_15);

/// A note on what the file's reader must set in addition; empty for most schedules.
std::string torch_caveat(const Schedule& schedule);

}  // namespace stagecraft
