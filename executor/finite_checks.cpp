#include "executor/finite_checks.hpp"

#include <cmath>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

bool uses_gradients(Op op) {
  return op == Op::update || op == Op::reduce_gradient || op == Op::reduce_scatter ||
         op == Op::reduce_tied;
}

}  // namespace

void FiniteChecks::refuse(int step, const std::string& what) const {
  throw NotFinite(concat("in step ", steps_before_ + step + 1, " ", what));
}

bool FiniteChecks::is_bad(const Tensor& tensor) const {
  return !tensor.empty() && !backend_.is_finite(tensor);
}

void FiniteChecks::arrived(int step, const Work& work, const Tensor& tensor) const {
  if (!on_ || !is_bad(tensor)) return;
  refuse(step, concat("its input is not finite: the message of ", to_string(work.instruction),
                      " arrived with NaN or infinity that its sender did not see"));
}

void FiniteChecks::before(int step, const Work& work, TrainedChunk& chunk) const {
  if (!on_ || !uses_gradients(work.instruction.op) || !is_bad(chunk.gradients())) return;
  for (const Parameter* parameter : chunk.parameters()) {
    if (is_bad(parameter->gradient)) {
      refuse(step, concat("the gradient of ", parameter->spec.name, " is not finite"));
    }
  }
}

void FiniteChecks::after(int step, const Work& work, TrainedChunk& chunk) const {
  if (!on_) return;
  const MicrobatchPass& pass = chunk.pass(work.instruction.microbatch);
  const Op op = work.instruction.op;
  if (op == Op::forward && (is_bad(pass.output) || !std::isfinite(pass.loss))) {
    const bool is_loss = pass.output.empty();
    refuse(step, concat(is_loss ? "the loss is not finite" : "its result is not finite",
                        reason(work, chunk)));
  }
  if ((op == Op::backward || op == Op::backward_input) && is_bad(pass.input_gradient)) {
    refuse(step, concat("the gradient of its input is not finite", reason(work, chunk)));
  }
}

/// What it was computed from. The gradients that came in were looked at when they came.
std::string FiniteChecks::reason(const Work& work, TrainedChunk& chunk) const {
  for (const Parameter* parameter : chunk.parameters()) {
    if (is_bad(parameter->weight)) {
      return concat(", for the weight ", parameter->spec.name, " is not");
    }
  }
  const MicrobatchPass& pass = chunk.pass(work.instruction.microbatch);
  if (is_bad(pass.inputs.front())) return ", for its input is not";
  return ", though all weights and inputs are";
}

}  // namespace stagecraft
