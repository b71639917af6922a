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

/// One device's row with communication.
std::string full_row(const Program& program, const std::vector<int>& order) {
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
      if (last[index(it.stage)] != &cell) continue;
      if (program.trains) row.add(Kind::reduce_gradient, it);
      row.add(Kind::reshard, it);
      last[index(it.stage)] = nullptr;
    }
  }
  return row.line();
}

}  // namespace

std::string write_torch_csv(const Schedule& schedule, TorchForm form) {
  return write_torch_csv(TorchSchedule{.schedule = schedule, .order = {}}, form);
}

std::string write_torch_csv(const TorchSchedule& file, TorchForm form) {
  const Schedule& schedule = file.schedule;
  require_expressible(schedule);
  const Program program = lower(file);
  require_safe(program);
  std::string text;
  for (std::size_t device = 0; device < schedule.devices.size(); ++device) {
    text += form == TorchForm::compute_only ? compute_row(schedule, device)
                                            : full_row(program, program.order[device]);
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
