// Schedules as the CSV files of torch.distributed.pipelining, both ways.
//
//   0F0,0SEND_F0,0F1,…,(0F3;7B1)OVERLAP_F_B,…     a row per rank, a cell per action:
//   1RECV_F0,1F0,1SEND_F0,…                       STAGE KIND MICROBATCH, or two of them as one
//
// A file lists compute only, or communication too; then it also fixes the order in which each rank
// communicates. The format knows neither copies of a model nor pieces of sequences: whoever reads
// such a file says how many there are.

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

/// Releases of torch whose words for communication differ. Those of compute are the same.
enum class TorchVersion {
  torch_2_11,  ///< a send or reduction is waited for when torch sees fit
  torch_2_15,  ///< each has its own WAIT_SEND_F, WAIT_SEND_B or WAIT_REDUCE_GRAD, without which the
               ///< file is refused
};
/// "2.11", "2.15". Throws Error (usage) for another.
TorchVersion read_torch_version(std::string_view text);

struct TorchSchedule {
  Schedule schedule;
  TorchForm form = TorchForm::compute_only;
  /// compute_comms: what each device does, in the file's order: F B I W SF RF SB RB. Else empty.
  std::vector<std::vector<Instruction>> order;
  bool waits = false;  ///< compute_comms: as torch 2.15 wants it
  bool operator==(const TorchSchedule&) const = default;
};

/// What a file cannot say about itself; see Schedule.
struct TorchReading {
  int pipes = 1;
  int sequence_chunks = 1;
};

/// Whether this text looks like such a file: its first cell that is not empty is an action, or is
/// meant to be one.
bool looks_like_torch_csv(std::string_view text);

/// Reads either form, in today's words (I, W, B) or those of 2024 (B, W, BW). Rank = row = device;
/// stages are where the file has them. `file` is what errors call it, and the schedule's name
/// is its stem. Idle cells are skipped; UNSHARD, RESHARD, REDUCE_GRAD and waits are judged and left
/// out. If a file has a word for waiting, it has one for each send and each reduction.
///
/// Throws Error (input) with line, column, rank and cell for whatever torch would trip over, at
/// once or while running: other text, a stage on two ranks, work that is missing, doubled or before
/// what it needs on its own rank, messages nobody needs. Whether ranks get stuck waiting for each
/// other is for `check` to say.
TorchSchedule read_torch_csv(std::string_view text, const std::string& file,
                             const TorchReading& reading = {});

/// The program of a file: with compute_comms, each device issues its work in the file's order.
Program lower(const TorchSchedule& file, const LowerOptions& options = {});

/// One row per device, "\n" after each. compute_comms has the communication of the lowered program
/// (of a file that fixes it, the file's), and per stage UNSHARD before its first action,
/// REDUCE_GRAD and RESHARD after its last. Waits of 2.15 stand where torch's own lowering has them:
/// behind the backward that proves that the activation has arrived, else at the end.
///
/// Throws Error (usage) naming what the format has no words for (recomputation, eviction,
/// updates within an iteration, tokens that come back), and Error (check) if the schedule is not
/// safe.
std::string write_torch_csv(const Schedule& schedule, TorchForm form,
                            TorchVersion version = TorchVersion::torch_2_15);
std::string write_torch_csv(const TorchSchedule& file, TorchForm form,
                            TorchVersion version = TorchVersion::torch_2_15);

/// What a reader of the file has to be told besides; empty for most schedules.
std::string torch_caveat(const Schedule& schedule);

}  // namespace stagecraft
