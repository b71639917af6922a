#include "executor/training/finite_checks.hpp"

#include <cmath>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

bool uses_gradients(Op op) {
  return op == Op::update || op == Op::reduce_gradient || op == Op::reduce_scatter ||
         op == Op::reduce_tied;
}

}  // namespace

std::string FiniteChecks::sentence(int step, const std::string& what) const {
  return concat("in step ", steps_before_ + step + 1, " ", what);
}

void FiniteChecks::refuse(int step, const std::string& what) const {
  throw NotFinite(sentence(step, what));
}

bool FiniteChecks::is_bad(const Tensor& tensor) const {
  return !tensor.empty() && !backend_.is_finite(tensor).get();
}

bool FiniteChecks::ask(int step, int work, const char* what, const TrainedChunk* chunk,
                       const Tensor& tensor, Late<double> number) {
  const Late<bool> is_finite = tensor.empty() ? Late<bool>(true) : backend_.is_finite(tensor);
  if (is_finite.is_there() && number.is_there()) return !is_finite || !std::isfinite(number.get());
  questions_.push_back({is_finite, std::move(number), work, step, what, chunk});
  return false;
}

/// What came in was finite, or would have been found before.
std::string FiniteChecks::source_of(const Question& question) {
  return question.chunk == nullptr ? ""
                                   : concat(", and came up in ", question.chunk->layer_names());
}

std::optional<FiniteChecks::Found> FiniteChecks::first_found() {
  std::optional<Found> found;
  for (const Question& question : std::exchange(questions_, {})) {
    if (found || (question.is_finite.get() && std::isfinite(question.number.get()))) continue;
    found = {.work = question.work,
             .came_in_message = is_receive(at(question.work).instruction.op),
             .sentence = sentence(question.step, concat(question.what, source_of(question)))};
  }
  return found;
}

void FiniteChecks::arrived(int step, int work, const Tensor& tensor) {
  if (!on_ || !ask(step, work, "a message arrived with NaN or infinity", nullptr, tensor)) {
    return;
  }
  refuse(step, concat("its input is not finite: the message of ", to_string(at(work).instruction),
                      " arrived with NaN or infinity that its sender did not see"));
}

void FiniteChecks::before(int step, int work, TrainedChunk& chunk) {
  if (!on_ || !uses_gradients(at(work).instruction.op)) return;
  if (!ask(step, work, "a gradient that it uses is not finite", &chunk, chunk.gradients())) {
    return;
  }
  for (const Parameter* parameter : chunk.parameters()) {
    if (is_bad(parameter->gradient)) {
      refuse(step, concat("the gradient of ", parameter->spec.name, " is not finite"));
    }
  }
}

void FiniteChecks::after(int step, int work, TrainedChunk& chunk) {
  if (!on_) return;
  const Op op = at(work).instruction.op;
  const MicrobatchPass& pass = chunk.pass(at(work).instruction.microbatch);
  if (op == Op::forward) {
    const char* what = pass.output.empty() ? "the loss is not finite" : "its result is not finite";
    if (ask(step, work, what, &chunk, pass.output, pass.loss)) {
      refuse(step, concat(what, reason(at(work), chunk)));
    }
  }
  if (op == Op::backward || op == Op::backward_input) {
    const char* what = "the gradient of its input is not finite";
    if (ask(step, work, what, &chunk, pass.input_gradient)) {
      refuse(step, concat(what, reason(at(work), chunk)));
    }
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
