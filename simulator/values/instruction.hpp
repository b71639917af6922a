// The words of every schedule and program: what is done, for which stage, for which microbatch.

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace stagecraft {

enum class Op : std::uint8_t {
  // Compute, in the order a schedule gives it. (It may also say when to evict and to load.)
  forward,          ///< F
  backward,         ///< B: input and weight gradients together
  backward_input,   ///< I: gradient of the stage's input only
  backward_weight,  ///< W: gradients of the stage's weights, after I
  recompute,        ///< R: the forward again, to rebuild activations that were not kept
  // Operations that lowering adds.
  send_activation,     ///< SF: from the stage to the next
  receive_activation,  ///< RF: the stage's input arrives
  send_gradient,       ///< SB: from the stage to the one before
  receive_gradient,    ///< RB: the gradient of the stage's output arrives
  evict,               ///< EV: what a forward saved moves to the memory of a partner device, …
  take_in,             ///< TI: … which takes it in, …
  give_back,           ///< GB: … and sends it back …
  load,                ///< LD: … before the stage's backward needs it
  send_norm,           ///< SN: squares of the gradients so far, to the next device, …
  receive_norm,        ///< RN: … which adds its own
  send_validation,     ///< SV: the whole norm of the step before, to the device before, …
  receive_validation,  ///< RV: … which validates that step's update
  reduce_gradient,     ///< G: gradients summed over the stage's replicas
  reduce_scatter,      ///< GS: reduce-scatter of gradients: each replica keeps its shard
  reduce_tied,         ///< T: gradients of tied weights summed over the stages that hold them
  reduce_norm,         ///< N: squares of the gradients summed over devices
  gather_parameters,   ///< P: updated shards collected (sharded optimizer)
  update,              ///< U: the optimizer's step
};

/// "F", "SB", …
std::string_view letter(Op op);
/// "forward", "send_gradient", …: the name in files and tables.
std::string_view to_string(Op op);
/// Throws Error (input) for an unknown name.
Op read_op(std::string_view name);

constexpr bool is_compute(Op op) {
  return op <= Op::recompute || op == Op::update;
}
constexpr bool is_backward(Op op) {
  return op == Op::backward || op == Op::backward_input || op == Op::backward_weight;
}
constexpr bool is_send(Op op) {
  return op == Op::send_activation || op == Op::send_gradient || op == Op::evict ||
         op == Op::give_back || op == Op::send_norm || op == Op::send_validation;
}
constexpr bool is_receive(Op op) {
  return op == Op::receive_activation || op == Op::receive_gradient || op == Op::take_in ||
         op == Op::load || op == Op::receive_norm || op == Op::receive_validation;
}
/// Speaks about the norm of all gradients, for no microbatch.
constexpr bool is_about_norm(Op op) {
  return op == Op::send_norm || op == Op::receive_norm || op == Op::send_validation ||
         op == Op::receive_validation || op == Op::reduce_norm;
}
constexpr bool is_collective(Op op) {
  return op == Op::reduce_gradient || op == Op::reduce_scatter || op == Op::reduce_tied ||
         op == Op::reduce_norm || op == Op::gather_parameters;
}

/// One thing a device does. For reductions, gathers, updates and all about the norm `microbatch` is
/// the last one they contain. In sends and receives `stage` is the one whose device does it:
/// `RF1.3` on stage 1 pairs with `SF0.3` on stage 0.
struct Instruction {
  Op op = Op::forward;
  int stage = 0;
  int microbatch = 0;
  auto operator<=>(const Instruction&) const = default;
};

/// "F1.3".
std::string to_string(const Instruction& instruction);

}  // namespace stagecraft
