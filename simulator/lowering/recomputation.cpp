// Recomputation: stages that keep only their input rebuild the rest before the backward.
//
// The R added here is *coupled*: it waits for the gradient like the backward behind it, as if it
// were part of it. 1F1B then takes (m + p - 1)(2f + b). A schedule that places R itself has thought
// of a better moment (*decoupled*: R waits for its forward only), and is left alone. Of a fused
// pair the R stands before both halves.

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

bool recomputes(const LowerOptions& options, int stage) {
  return !options.recompute.empty() && options.recompute[index(stage)] == Recompute::full;
}

/// The R that goes before this backward, new in the draft; none if it needs none.
std::optional<int> add_recompute(Draft& draft, int item) {
  const Work work = draft.program.work[index(item)];
  const auto [op, stage, microbatch] = work.instruction;
  const bool goes_back = op == Op::backward || op == Op::backward_input;
  if (!goes_back || !recomputes(draft.options, stage) || passes_on(draft, stage)) return {};
  Passage& here = passage(draft, work.chunk, microbatch);
  if (here.recompute) return {};
  here.recompute = add_work(draft, {Op::recompute, stage, microbatch}, work.chunk);
  here.coupled = true;
  return here.recompute;
}

}  // namespace

void add_recomputation(Draft& draft) {
  for (std::vector<int>& order : draft.compute) {
    std::vector<int> extended;
    extended.reserve(order.size());
    for (const int item : order) {
      const std::optional<int> other_half = draft.program.work[index(item)].fused_with;
      for (const int backward : {other_half.value_or(item), item}) {
        if (const auto recompute = add_recompute(draft, backward)) extended.push_back(*recompute);
      }
      extended.push_back(item);
    }
    order = std::move(extended);
  }
}

}  // namespace stagecraft::lowering
