// From cells to a schedule.

#include <filesystem>
#include <map>
#include <optional>

#include "profiles/error.hpp"
#include "simulator/views/torch/actions.hpp"
#include "simulator/views/torch_csv.hpp"

namespace stagecraft {

namespace {

using torch::Action;
using torch::Kind;
using torch::Rows;

std::optional<Op> op_of(Kind kind) {
  switch (kind) {
    case Kind::forward: return Op::forward;
    case Kind::backward:
    case Kind::old_backward: return Op::backward;
    case Kind::backward_input: return Op::backward_input;
    case Kind::backward_weight: return Op::backward_weight;
    case Kind::send_forward: return Op::send_activation;
    case Kind::receive_forward: return Op::receive_activation;
    case Kind::send_backward: return Op::send_gradient;
    case Kind::receive_backward: return Op::receive_gradient;
    case Kind::unshard:
    case Kind::reshard:
    case Kind::reduce_gradient:
    case Kind::wait_send_forward:
    case Kind::wait_send_backward:
    case Kind::wait_reduce_gradient: return {};
  }
  return {};
}

// --- Dialects -----------------------------------------------------------------------------------

template <class Use>
void each_action(Rows& rows, const Use& use) {
  for (auto& actions : rows.ranks) {
    for (Action& action : actions) use(action);
  }
}

/// In the words of 2024 a BW stands somewhere, or some stage and microbatch has both B and W.
bool uses_old_words(Rows& rows) {
  std::map<std::pair<int, int>, unsigned> seen;
  bool old = false;
  each_action(rows, [&](const Action& action) {
    old = old || action.kind == Kind::old_backward;
    if (action.kind != Kind::backward && action.kind != Kind::backward_weight) return;
    unsigned& kinds = seen[{action.stage, action.microbatch}];
    kinds |= action.kind == Kind::backward ? 1U : 2U;
    old = old || kinds == 3U;
  });
  return old;
}

void translate(Rows& rows) {
  if (!uses_old_words(rows)) return;
  each_action(rows, [&](Action& action) {
    if (action.kind == Kind::backward_input || action.overlaps_next) {
      rows.fail_at(action, concat(to_string(action), " is a word of today, but elsewhere the file ",
                                  "speaks as in 2024 (BW, or B and W of one microbatch)"));
    }
    if (action.kind == Kind::backward) action.kind = Kind::backward_input;
    if (action.kind == Kind::old_backward) action.kind = Kind::backward;
  });
}

// --- The result ---------------------------------------------------------------------------------

std::vector<int> fused_places(const std::vector<Action>& actions) {
  std::vector<int> places;
  int place = 0;
  for (const Action& action : actions) {
    if (action.overlaps_next) places.push_back(place);
    if (torch::is_compute(action.kind)) ++place;
  }
  return places;
}

std::vector<Instruction> instructions(const std::vector<Action>& actions, bool compute_only) {
  std::vector<Instruction> list;
  for (const Action& action : actions) {
    const std::optional<Op> op = op_of(action.kind);
    if (!op || (compute_only && !torch::is_compute(action.kind))) continue;
    list.push_back({*op, action.stage, action.microbatch});
  }
  return list;
}

}  // namespace

bool looks_like_torch_csv(std::string_view text) {
  const std::size_t start = text.find_first_not_of(", \r\n");
  if (start == std::string_view::npos) return false;
  const char first = text[start];
  return first == '(' || (first >= '0' && first <= '9');
}

TorchSchedule read_torch_csv(std::string_view text, const std::string& file,
                             const TorchReading& reading) {
  Rows rows = torch::parse_rows(text, file);
  if (rows.ranks.empty()) fail(file, ": empty; expected a row of actions for each rank");
  translate(rows);
  const torch::Shape shape = torch::judge(rows, reading.pipes);
  TorchSchedule result;
  Schedule& schedule = result.schedule;
  schedule.name = std::filesystem::path(file).stem().string();
  schedule.stages = static_cast<int>(shape.rank_of_stage.size());
  schedule.microbatches = shape.microbatches;
  schedule.device_of_stage = shape.rank_of_stage;
  schedule.pipes = reading.pipes;
  schedule.sequence_chunks = reading.sequence_chunks;
  schedule.parts = reading.sequence_chunks;
  schedule.trains = shape.trains;
  if (shape.communicates) result.form = TorchForm::compute_comms;
  result.waits = shape.waits;
  bool fused = false;
  for (const auto& actions : rows.ranks) {
    schedule.devices.push_back(instructions(actions, true));
    schedule.fused.push_back(fused_places(actions));
    fused = fused || !schedule.fused.back().empty();
    if (shape.communicates) result.order.push_back(instructions(actions, false));
  }
  if (!fused) schedule.fused.clear();
  return result;
}

}  // namespace stagecraft
