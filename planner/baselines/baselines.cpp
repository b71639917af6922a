#include "planner/baselines/baselines.hpp"

#include <algorithm>
#include <cmath>

namespace stagecraft {

// Factors were fitted to published profiles, on 8 and 16 devices; most answers take less.

namespace {

/// To simulate one plan under every setting.
double one_plan(const ProblemSize& size) {
  constexpr double per_instruction = 600;
  return per_instruction * size.instructions;
}

/// As many as the number of devices has divisors, or more.
double stage_counts(const ProblemSize& size) {
  return 2 * std::sqrt(size.devices);
}

}  // namespace

double work_of_pipedream(const ProblemSize& size) {
  const double pairs = size.states * size.states;
  return 25 * pairs + pairs * size.states * size.nested / 24 + one_plan(size);
}

double work_of_pipedream_2bw(const ProblemSize& size) {
  return one_plan(size);
}

/// Its states know how many devices of each server are taken; two servers are what 10 stands for.
double work_of_dapple(const ProblemSize& size) {
  const double each = size.devices / size.servers + 1;
  const double more = std::pow(each, std::max(size.servers - 2, 0.0));
  return 10 * more * size.states * size.states * size.devices * size.devices + one_plan(size);
}

double work_of_one_cut(const ProblemSize& size) {
  return stage_counts(size) * one_plan(size);
}

/// Prefixes of the layers, in every number of parts up to each number of stages; those together are
/// about three times the most there are. Few places have to be looked at where layers are alike.
double work_of_balanced_cut(const ProblemSize& size) {
  const double prefixes = 3 * std::min(size.devices, size.layers) * size.layers;
  return 45 * prefixes + work_of_one_cut(size);
}

/// Some sixty settings of its flags per number of stages.
double work_of_megatron(const ProblemSize& size) {
  return 60 * work_of_one_cut(size);
}

double work_of_alpa(const ProblemSize& size) {
  return 250 * size.layers * size.layers * size.devices + one_plan(size);
}

double work_of_dnn_partitioning(const ProblemSize& size) {
  return 25 * size.downsets * size.downsets + one_plan(size);
}

/// With many downsets it keeps to one order of the layers.
double work_of_piper(const ProblemSize& size) {
  const double cuts = size.downsets > most_sized_downsets ? size.layers : size.downsets;
  return 12 * size.layers * cuts * cuts + one_plan(size);
}

double work_of_aceso(const ProblemSize& size) {
  return 800 * size.layers * size.devices * size.devices + one_plan(size);
}

}  // namespace stagecraft
