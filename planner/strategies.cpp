#include "planner/strategies.hpp"

#include <vector>

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

void require_obeyed(const Strategy& strategy, const Problem& problem) {
  std::vector<std::string> flags;
  for (const Wish& wish : wishes) {
    if ((strategy.obeys & wish.bit) == 0 && wish.is_asked(problem)) flags.emplace_back(wish.flag);
  }
  if (flags.empty()) return;
  fail_usage("--strategy ", strategy.name, ": that planner cannot be told ", join_words(flags),
             "; leave ", flags.size() == 1 ? "it" : "them", " out, or use --strategy exact");
}

StrategyChoice choose_strategy(std::string_view name) {
  const std::size_t colon = name.find(':');
  const bool has_argument = colon != std::string_view::npos;
  const Strategy& strategy = find_strategy(name.substr(0, colon));
  if (has_argument != strategy.takes_argument) {
    fail_usage("--strategy: ", strategy.name,
               has_argument ? " takes no argument after a colon"
                            : " needs an argument after a colon, as in " +
                                  std::string(strategy.name) + ":transformer");
  }
  return {&strategy, has_argument ? std::string(name.substr(colon + 1)) : ""};
}

}  // namespace stagecraft
