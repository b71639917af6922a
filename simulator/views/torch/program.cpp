// The program of a file that fixes the order of communication.
//
// Lowering makes all the work and finds an order of its own; here each device's work is put into
// the file's instead. What no file mentions stays with its neighbour: recomputation before its
// backward, updates at the end. Then work is numbered anew, so that waits look back and issue
// orders ascend, as after any lowering. If the file's orders form a circle there is no such
// numbering, and the old one stays: `check` shows the circle.

#include <algorithm>
#include <map>
#include <numeric>
#include <queue>

#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "simulator/views/torch_csv.hpp"

namespace stagecraft {

namespace {

/// One device's work in this order.
std::vector<int> rearranged(const Program& program, const std::vector<int>& lowered,
                            const std::vector<Instruction>& order) {
  std::map<Instruction, int> communication;
  std::vector<int> compute;
  for (const int work : lowered) {
    const Work& it = program.work[index(work)];
    if (it.channel) {
      communication[it.instruction] = work;
    } else {
      compute.push_back(work);
    }
  }
  std::vector<int> result;
  auto next = compute.begin();
  for (const Instruction& instruction : order) {
    if (const auto found = communication.find(instruction); found != communication.end()) {
      result.push_back(found->second);
      continue;
    }
    const auto same = [&](int work) {
      return program.work[index(work)].instruction == instruction;
    };
    const auto found = std::find_if(next, compute.end(), same);
    if (found == compute.end()) continue;
    result.insert(result.end(), next, found + 1);
    next = found + 1;
  }
  result.insert(result.end(), next, compute.end());
  return result;
}

/// A number for each work such that waits look back and issue orders ascend; empty if there is
/// none. Takes the smallest old number that is possible.
std::vector<int> numbering(const Program& program) {
  std::vector<std::vector<int>> after(program.work.size());
  std::vector<int> waiting(program.work.size(), 0);
  const auto add = [&](int first, int second) {
    after[index(first)].push_back(second);
    ++waiting[index(second)];
  };
  for (std::size_t work = 0; work < program.work.size(); ++work) {
    const IndexRange waits = program.work[work].waits;
    for (int i = waits.first; i < waits.end; ++i) {
      add(program.waits[index(i)], static_cast<int>(work));
    }
  }
  for (const auto& order : program.order) {
    for (std::size_t i = 1; i < order.size(); ++i) add(order[i - 1], order[i]);
  }
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (std::size_t work = 0; work < waiting.size(); ++work) {
    if (waiting[work] == 0) ready.push(static_cast<int>(work));
  }
  std::vector<int> number(program.work.size(), 0);
  int count = 0;
  while (!ready.empty()) {
    const int work = ready.top();
    ready.pop();
    number[index(work)] = count++;
    for (const int next : after[index(work)]) {
      if (--waiting[index(next)] == 0) ready.push(next);
    }
  }
  if (index(count) < program.work.size()) number.clear();
  return number;
}

void renumber(Program& program, const std::vector<int>& number) {
  std::vector<Work> work(program.work.size());
  for (std::size_t i = 0; i < number.size(); ++i) {
    Work& moved = work[index(number[i])] = program.work[i];
    if (moved.fused_with) moved.fused_with = number[index(*moved.fused_with)];
  }
  program.work = std::move(work);
  for (int& wait : program.waits) wait = number[index(wait)];
  for (CarriedWait& wait : program.carried)
    wait = {number[index(wait.work)], number[index(wait.on)]};
  for (auto& order : program.order) {
    for (int& item : order) item = number[index(item)];
  }
}

}  // namespace

Program lower(const TorchSchedule& file, const LowerOptions& options) {
  Program program = lower(file.schedule, options);
  if (file.form == TorchForm::compute_only) return program;
  if (!options.replicas.empty() || !options.memory.empty()) {
    fail("lower: a file that orders communication knows neither replicas nor memory");
  }
  if (options.norm != GradientNorm::none) {
    fail("lower: the file orders all communication, and no norm of the gradients among it; use a ",
         "file of compute only, or norm \"none\"");
  }
  for (std::size_t device = 0; device < program.order.size(); ++device) {
    program.order[device] = rearranged(program, program.order[device], file.order[device]);
  }
  const std::vector<int> number = numbering(program);
  if (!number.empty()) renumber(program, number);
  return program;
}

}  // namespace stagecraft
