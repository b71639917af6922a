#include <algorithm>

#include "planner/baselines/pipedream/pipedream.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// What a figure grows by from state `from` (-1: nothing yet) to state `to`. Of states that do not
/// contain one another this is no sum over layers, and may be negative; theirs subtracts them, too.
double grown(const PipedreamStates& states, double PipedreamState::*figure, int from, int to) {
  const double before = from < 0 ? 0 : states.states[index(from)].*figure;
  return states.states[index(to)].*figure - before;
}

int rounded_up(int count, int parts) {
  return (count + parts - 1) / parts;
}

}  // namespace

double PipedreamLevelCosts::with_weights(double compute, double parameters, int machines,
                                         int links) const {
  const double others = machines - 1;
  const double traffic = others * parameters / (level_.bandwidth * machines) / links;
  switch (rules_.cost) {
    case PipedreamCost::released: return (compute + 4 * traffic) / machines;
    case PipedreamCost::paper: return std::max(compute, 2 * traffic) / machines;
  }
  return compute;
}

double PipedreamLevelCosts::first_stage(int from, int to, int machines) const {
  return with_weights(compute(from, to), grown(states_, &PipedreamState::parameters, from, to),
                      machines, unit_);
}

double PipedreamLevelCosts::later_stage(int from, int to, int machines) const {
  const double time = with_weights(
      compute(from, to), grown(states_, &PipedreamState::parameters, from, to), machines, 1);
  if (!rules_.charges_activations) return time;
  const double bandwidth = level_.bandwidth * machines;
  const double received = states_.states[index(from)].output;
  const double sent = to + 1 < states_.size() ? states_.states[index(to)].output : 0;
  return std::max(time, 2 * std::max(received, sent) / bandwidth);
}

bool PipedreamLevelCosts::fits(int from, int to, int copies) const {
  if (!rules_.memory) return true;
  const double bytes = grown(states_, &PipedreamState::activations, from, to) +
                       grown(states_, &PipedreamState::parameters, from, to);
  return copies * bytes <= *rules_.memory;
}

bool PipedreamLevelCosts::first_stage_fits(int from, int to, int machines) const {
  return fits(from, to, rounded_up(level_.machines - machines, machines));
}

bool PipedreamLevelCosts::later_stage_fits(int from, int to, int machines, int used) const {
  return fits(from, to, rounded_up(level_.machines - used, machines));
}

}  // namespace stagecraft
