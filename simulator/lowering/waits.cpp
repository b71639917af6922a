#include <algorithm>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

void write_waits(Draft& draft) {
  std::sort(draft.waits.begin(), draft.waits.end(), [](const Wait& a, const Wait& b) {
    return a.work != b.work ? a.work < b.work : a.on < b.on;
  });
  std::vector<int>& table = draft.program.waits;
  for (std::size_t i = 0; i < draft.waits.size(); ++i) {
    const auto [work, on] = draft.waits[i];
    if (i > 0 && draft.waits[i - 1].work == work && draft.waits[i - 1].on == on) continue;
    IndexRange& range = draft.program.work[index(work)].waits;
    const int place = static_cast<int>(table.size());
    if (range.size() == 0) range = {place, place};
    table.push_back(on);
    range.end = place + 1;
  }
}

}  // namespace stagecraft::lowering
