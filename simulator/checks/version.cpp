// Version: all work on a microbatch reads the weights its policy promises. With a flush there is
// one version per program: all compute reads version 0, and each update makes version 1.

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

Verdict version(const Facts& facts) {
  Verdict verdict("version");
  const Program& program = facts.program;
  std::size_t updates = 0;
  for (int index = 0; index < static_cast<int>(program.work.size()); ++index) {
    const Work& work = program.work[static_cast<std::size_t>(index)];
    if (!is_compute(work.instruction.op)) continue;
    const bool update = work.instruction.op == Op::update;
    updates += update ? 1 : 0;
    const int promised = update ? 1 : 0;
    if (work.weight_version == promised) continue;
    verdict.found(concat(describe(program, index), update ? " makes" : " reads", " weight version ",
                         work.weight_version, "; the flush policy promises version ", promised),
                  facts, index);
  }
  verdict.proved(concat("weight versions: forward and backward read version 0, ",
                        count(updates, "update"), updates == 1 ? " makes" : " make", " version 1"));
  return verdict;
}

}  // namespace stagecraft::checks
