// From a schedule to cells.

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/checks/check.hpp"
#include "simulator/views/torch/actions.hpp"
#include "simulator/views/torch_csv.hpp"

namespace stagecraft {

namespace {

using torch::action_text;
using torch::Kind;

/// Nothing for what torch has no word for.
std::optional<Kind> kind_of(Op op) {
  switch (op) {
    case Op::forward: return Kind::forward;
    case Op::backward: return Kind::backward;
    case Op::backward_input: return Kind::backward_input;
    case Op::backward_weight: return Kind::backward_weight;
    case Op::send_activation: return Kind::send_forward;
    case Op::receive_activation: return Kind::receive_forward;
    case Op::send_gradient: return Kind::send_backward;
    case Op::receive_gradient: return Kind::receive_backward;
    default: return {};
  }
}

void require_expressible(const Schedule& schedule) {
  const auto refuse = [&](const std::string& what) {
    fail_usage(schedule.name, ": torch's schedule files have no word for ", what);
  };
  if (schedule.weights != WeightPolicy::flush) {
    refuse("weights that are updated within an iteration");
  }
  if (schedule.feedback > 0) refuse("outputs that come back as the next inputs");
  for (const auto& order : schedule.devices) {
    for (const Instruction& instruction : order) {
      if (kind_of(instruction.op)) continue;
      refuse(instruction.op == Op::recompute ? "a recomputation of its own"
                                             : "activations that are moved to another device");
    }
  }
}

/// One device's row.
class Row {
 public:
  void add(Kind kind, const Instruction& it) { add(action_text(kind, it.stage, it.microbatch)); }
  void add_pair(const Instruction& first, const Instruction& second) {
    add(concat('(', action_text(Kind::forward, first.stage, first.microbatch), ';',
               action_text(Kind::backward, second.stage, second.microbatch), ')', torch::overlap));
  }
  std::string line() const { return text_ + "\n"; }

 private:
  void add(const std::string& cell) {
    if (!text_.empty()) text_ += ',';
    text_ += cell;
  }
  std::string text_;
};

std::string compute_row(const Schedule& schedule, std::size_t device) {
  const std::vector<Instruction>& order = schedule.devices[device];
  std::vector<int> fused;
  if (!schedule.fused.empty()) fused = schedule.fused[device];
  Row row;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (std::binary_search(fused.begin(), fused.end(), static_cast<int>(i))) {
      row.add_pair(order[i], order[i + 1]);
      ++i;
    } else {
      row.add(*kind_of(order[i].op), order[i]);
    }
  }
  return row.line();
}

/// What a cell holds: one instruction, or the two halves of a pair, the forward first.
using Cell = std::vector<Instruction>;

/// One device's cells in issue order. A pair stands where its later half does.
std::vector<Cell> cells_of(const Program& program, const std::vector<int>& order) {
  std::vector<Cell> cells;
  for (const int item : order) {
    const Work& work = program.work[index(item)];
    if (!kind_of(work.instruction.op)) continue;
    if (!work.fused_with) {
      cells.push_back({work.instruction});
    } else if (*work.fused_with < item) {
      cells.push_back({program.work[index(*work.fused_with)].instruction, work.instruction});
      std::sort(cells.back().begin(), cells.back().end());
    }
  }
  return cells;
}

/// The sends of a device that nothing has waited for, in their order.
class Sent {
 public:
  void add(const Instruction& it) {
    if (is_send(it.op)) sent_.push_back(it);
  }
  /// This backward needs the activation at the other end, so that it has arrived.
  bool take_forward_of(const Instruction& backward) {
    const auto found =
        std::find(sent_.begin(), sent_.end(),
                  Instruction{Op::send_activation, backward.stage, backward.microbatch});
    if (found == sent_.end()) return false;
    sent_.erase(found);
    return true;
  }
  const std::vector<Instruction>& rest() const { return sent_; }

 private:
  std::vector<Instruction> sent_;
};

/// One device's row with communication.
std::string full_row(const Program& program, const std::vector<int>& order, TorchVersion version) {
  const bool waits = version == TorchVersion::torch_2_15;
  const std::vector<Cell> cells = cells_of(program, order);
  std::vector<const Cell*> first(index(program.stages), nullptr);
  std::vector<const Cell*> last = first;
  for (const Cell& cell : cells) {
    for (const Instruction& it : cell) {
      if (!is_compute(it.op)) continue;
      if (first[index(it.stage)] == nullptr) first[index(it.stage)] = &cell;
      last[index(it.stage)] = &cell;
    }
  }
  Row row;
  Sent sent;
  for (const Cell& cell : cells) {
    for (const Instruction& it : cell) {
      if (first[index(it.stage)] != &cell) continue;
      row.add(Kind::unshard, it);
      first[index(it.stage)] = nullptr;
    }
    if (cell.size() == 2) {
      row.add_pair(cell[0], cell[1]);
    } else {
      row.add(*kind_of(cell[0].op), cell[0]);
    }
    for (const Instruction& it : cell) {
      sent.add(it);
      const bool is_backward = it.op == Op::backward || it.op == Op::backward_input;
      if (waits && is_backward && sent.take_forward_of(it)) row.add(Kind::wait_send_forward, it);
    }
    for (const Instruction& it : cell) {
      if (last[index(it.stage)] != &cell) continue;
      if (program.trains) row.add(Kind::reduce_gradient, it);
      if (program.trains && waits) row.add(Kind::wait_reduce_gradient, it);
      row.add(Kind::reshard, it);
      last[index(it.stage)] = nullptr;
    }
  }
  for (const Instruction& it : sent.rest()) {
    if (!waits) break;
    const bool is_forward = it.op == Op::send_activation;
    row.add(is_forward ? Kind::wait_send_forward : Kind::wait_send_backward, it);
  }
  return row.line();
}

}  // namespace

TorchVersion read_torch_version(std::string_view text) {
  if (text == "2.11") return TorchVersion::torch_2_11;
  if (text == "2.15") return TorchVersion::torch_2_15;
  fail_usage("the words of torch ", text, " are not known here; those of 2.11 and 2.15 are");
}

std::string write_torch_csv(const Schedule& schedule, TorchForm form, TorchVersion version) {
  return write_torch_csv(TorchSchedule{.schedule = schedule, .order = {}}, form, version);
}

std::string write_torch_csv(const TorchSchedule& file, TorchForm form, TorchVersion version) {
  const Schedule& schedule = file.schedule;
  require_expressible(schedule);
  const Program program = lower(file);
  require_safe(program);
  std::string text;
  for (std::size_t device = 0; device < schedule.devices.size(); ++device) {
    text += form == TorchForm::compute_only ? compute_row(schedule, device)
                                            : full_row(program, program.order[device], version);
  }
  return text;
}

std::string torch_caveat(const Schedule& schedule) {
  if (schedule.pipes > 1) {
    return concat("torch would take the ", schedule.pipes, " copies of the model for one of ",
                  schedule.stages, " stages; read this file with --pipes ", schedule.pipes);
  }
  if (schedule.sequence_chunks > 1) {
    return concat("torch would take the ", schedule.sequence_chunks,
                  " pieces of each sequence for microbatches; read this file with ",
                  "--sequence-chunks ", schedule.sequence_chunks);
  }
  if (!schedule.trains) return "torch's runtime wants backwards; this schedule has none";
  return "";
}

}  // namespace stagecraft
