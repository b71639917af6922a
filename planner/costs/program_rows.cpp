#include "planner/costs/program_rows.hpp"

#include <algorithm>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

std::vector<std::vector<int>> row_names(const Plan& plan, const Compiled& compiled) {
  const std::vector<int> leads = lead_devices(plan);
  std::vector<std::vector<int>> rows(compiled.devices.size());
  for (const Stage& stage : plan.stages) {
    for (const std::vector<int>& peers : stage.devices) {
      const auto lead = static_cast<std::size_t>(
          std::lower_bound(leads.begin(), leads.end(), peers.front()) - leads.begin());
      const std::size_t row = compiled.stand_ins.empty() ? lead : index(compiled.stand_ins[lead]);
      rows[row].insert(rows[row].end(), peers.begin(), peers.end());
    }
  }
  for (std::vector<int>& row : rows) {
    std::ranges::sort(row);
    row.erase(std::unique(row.begin(), row.end()), row.end());
  }
  return rows;
}

}  // namespace stagecraft
