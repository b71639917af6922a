#include "simulator/values/instruction.hpp"

#include <array>

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

namespace {

struct OpName {
  Op op;
  std::string_view letter;
  std::string_view name;
};

/// In the order of the enumeration.
constexpr std::array op_names{
    OpName{Op::forward, "F", "forward"},
    OpName{Op::backward, "B", "backward"},
    OpName{Op::backward_input, "I", "backward_input"},
    OpName{Op::backward_weight, "W", "backward_weight"},
    OpName{Op::recompute, "R", "recompute"},
    OpName{Op::send_activation, "SF", "send_activation"},
    OpName{Op::receive_activation, "RF", "receive_activation"},
    OpName{Op::send_gradient, "SB", "send_gradient"},
    OpName{Op::receive_gradient, "RB", "receive_gradient"},
    OpName{Op::evict, "EV", "evict"},
    OpName{Op::take_in, "TI", "take_in"},
    OpName{Op::give_back, "GB", "give_back"},
    OpName{Op::load, "LD", "load"},
    OpName{Op::send_norm, "SN", "send_norm"},
    OpName{Op::receive_norm, "RN", "receive_norm"},
    OpName{Op::send_validation, "SV", "send_validation"},
    OpName{Op::receive_validation, "RV", "receive_validation"},
    OpName{Op::reduce_gradient, "G", "reduce_gradient"},
    OpName{Op::reduce_scatter, "GS", "reduce_scatter"},
    OpName{Op::reduce_tied, "T", "reduce_tied"},
    OpName{Op::reduce_norm, "N", "reduce_norm"},
    OpName{Op::gather_parameters, "P", "gather_parameters"},
    OpName{Op::update, "U", "update"},
};

constexpr bool listed_in_order() {
  for (std::size_t i = 0; i < op_names.size(); ++i) {
    if (static_cast<std::size_t>(op_names[i].op) != i) return false;
  }
  return true;
}
static_assert(listed_in_order());

const OpName& names_of(Op op) {
  return op_names[static_cast<std::size_t>(op)];
}

}  // namespace

std::string_view letter(Op op) {
  return names_of(op).letter;
}

std::string_view to_string(Op op) {
  return names_of(op).name;
}

Op read_op(std::string_view name) {
  std::vector<std::string> known;
  for (const OpName& row : op_names) {
    if (row.name == name) return row.op;
    known.emplace_back(row.name);
  }
  const std::string suggestion = closest(name, known);
  fail("unknown operation \"", name, "\"",
       suggestion.empty() ? "" : "; did you mean \"" + suggestion + "\"?");
}

std::string to_string(const Instruction& instruction) {
  std::string text(letter(instruction.op));
  text += std::to_string(instruction.stage);
  text += '.';
  text += std::to_string(instruction.microbatch);
  return text;
}

}  // namespace stagecraft
