#include "planner/strategies.hpp"

#include "profiles/error.hpp"
#include "profiles/text.hpp"

namespace stagecraft {

const Strategy& find_strategy(std::string_view name) {
  std::vector<std::string> known;
  for (const Strategy& strategy : strategies) {
    if (strategy.name == name) return strategy;
    known.emplace_back(strategy.name);
  }
  fail_unknown("strategy", name, known);
}

}  // namespace stagecraft
