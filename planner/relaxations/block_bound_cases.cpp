// What is left out by trial, and the proof of a case.

#include <algorithm>
#include <limits>

#include "planner/relaxations/block_bound.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr int rounds_of_trial = 24;

/// Of the effort that is left, one such part is kept for what follows. Trials with the whole may
/// take as much, or what came before them.
constexpr std::int64_t kept = 4;

/// Cases are quicker than many trials in one: those in a case may take such a part of what came
/// before the first.
constexpr std::int64_t parts_in_case = 8;

/// A look at neighbours may take such a part, where trials are to come.
constexpr double parts_of_look = 32;

/// Most walks that are long come to no end: one may take such a part of the effort that is left, or
/// of what came before.
constexpr std::int64_t parts_of_walk = 1000, parts_of_past = 30;

}  // namespace

/// Weights of paths that are above the limit for the layouts seen; false if none are, since their
/// mean is within it, or it takes too long to find them.
bool BlockBound::play_fully(Seen& seen, Weights& weights) {
  const double limit = worth() / limit_;
  for (int paths = 0; play_with_longest(seen, weights) <= limit; ++paths) {
    double step = 0;
    const RowRef row = path_of_mean(seen, step);
    if (step <= limit || paths == most_paths) return false;
    take_part(seen, row);
  }
  return true;
}

bool BlockBound::is_left(const Chosen& layout) const {
  for (std::size_t d = 0; d < domains_.size(); ++d) {
    if (!std::ranges::binary_search(domains_[d], layout[d])) return false;
  }
  return true;
}

/// Layouts that trials could not rule out: where they are left, others will not either.
void BlockBound::remember_mixture() {
  constexpr std::size_t most = 96;
  for (std::size_t i = 0; i < seen_.layouts().size(); ++i) {
    const Chosen& layout = seen_.layouts()[i];
    if (seen_.mixture()[i] > 0 && std::ranges::find(remembered_, layout) == remembered_.end())
      remembered_.push_back(layout);
  }
  while (remembered_.size() > most) remembered_.pop_front();
}

/// With the rows of these weights.
void BlockBound::begin_game(const Weights& start) {
  seen_ = {};
  for (const Weight& own : start) take_part(seen_, own.row);
}

/// Whether weights, which start from these, show that nothing is left of the domains.
bool BlockBound::is_out(const Weights& start) {
  begin_game(start);
  return is_played_out(start);
}

/// The same with the rows and layouts of `seen_`, and more.
bool BlockBound::is_played_out(const Weights& start) {
  double best = -1;
  Weights weights = start;
  for (int round = 0; round < rounds_of_trial; ++round) {
    if (!weigh(weights)) return true;
    if (value_ > best) {
      best = value_;
      best_weights_ = weights;
    }
    add(seen_, chosen_);
    if (!play_fully(seen_, weights)) return false;
    weights = Seen::half_way(best_weights_, weights);
  }
  return false;
}

/// A trial: with nothing but these choices on their device.
bool BlockBound::leave_out_set(const Choices& set, const Weights& start, const RowRef& row) {
  drop_idle_rows();
  const std::size_t device = index(choices_[index(set.front())].device);
  Domains before = domains_;
  domains_[device] = set;
  begin_game(start);
  take_part(seen_, row);
  for (const Chosen& layout : remembered_) {
    if (is_left(layout)) add(seen_, layout);
  }
  Weights weights = start;
  const bool is_known = !seen_.layouts().empty() && !play_fully(seen_, weights);
  const bool is_out = !is_known && is_played_out(weights);
  if (!is_known && !is_out) remember_mixture();
  domains_ = std::move(before);
  if (is_out) {
    std::erase_if(domains_[device], [&](int c) { return std::ranges::binary_search(set, c); });
  } else if (!is_known) {
    weigh(best_weights_);  // which may rule out others
  }
  return is_out;
}

int BlockBound::blocks_of(int choice, int turn) const {
  const Choice& own = choices_[index(choice)];
  return turn == all_turns ? own.blocks : own.what->blocks[index(turn)];
}

/// Of the device's choices those with the most blocks in the turn, as long as that goes on.
void BlockBound::leave_out_most(int device, int turn, const Weights& start, const RowRef& row) {
  for (;;) {
    const Choices& domain = domains_[index(device)];
    int most = 0, least = std::numeric_limits<int>::max();
    for (const int c : domain) {
      most = std::max(most, blocks_of(c, turn));
      least = std::min(least, blocks_of(c, turn));
    }
    if (domain.empty() || most == least || stops()) return;
    Choices set;
    std::ranges::copy_if(domain, std::back_inserter(set),
                         [&](int c) { return blocks_of(c, turn) == most; });
    if (!leave_out_set(set, start, row)) return;
  }
}

void BlockBound::leave_out_most(const Weights& start) {
  for (int device = 0; device < costs_.depth(); ++device) {
    const std::vector<int>& stages = packing_.stages_of(device);
    const RowRef& through = device_rows_[index(device)];
    for (int turn = 0; turn < static_cast<int>(stages.size()); ++turn) {
      const bool has_own = !stage_rows_.empty();
      const RowRef& row = has_own ? stage_rows_[index(stages[index(turn)])] : through;
      leave_out_most(device, turn, start, row);
    }
    leave_out_most(device, all_turns, start, through);
  }
}

/// All choices of devices that have several, those of the largest sums in front.
BlockBound::Choices BlockBound::by_sum() {
  std::vector<std::pair<double, int>> sums;
  for (int device = 0; device < costs_.depth(); ++device) {
    if (domains_[index(device)].size() < 2) continue;
    for (const int c : domains_[index(device)])
      sums.emplace_back(-sums_[index(c)] - cover_.others(device, choices_[index(c)].blocks), c);
  }
  std::ranges::sort(sums);
  Choices choices;
  for (const auto& [sum, choice] : sums) choices.push_back(choice);
  return choices;
}

/// Single choices, until it fails too often in a row.
void BlockBound::leave_out_each(const Weights& start) {
  constexpr int most_failures = 30, most_trials = 60;
  int failures = 0, trials = 0;
  for (const int c : by_sum()) {
    if (failures == most_failures || trials == most_trials || stops()) break;
    const int device = choices_[index(c)].device;
    const Choices& domain = domains_[index(device)];
    if (domain.size() < 2 || !std::ranges::binary_search(domain, c)) continue;
    ++trials;
    failures = leave_out_set({c}, start, device_rows_[index(device)]) ? 0 : failures + 1;
  }
}

/// Trials as long as they leave out much. Whether nothing is left; else the weights are the best
/// for what is, and `seen_` its layouts.
bool BlockBound::thin_out(Weights& weights) {
  constexpr std::size_t part_of_most = 32, part = 8;
  for (bool goes_on = true; goes_on;) {
    if (is_out(weights)) return true;
    weights = best_weights_;
    if (stops()) return false;
    const std::size_t before = choices_left();
    leave_out_most(weights);
    if (before - choices_left() > before / part_of_most) continue;
    if (stops()) return false;
    if (!weigh(weights)) return true;
    leave_out_each(weights);
    goes_on = before - choices_left() > before / part;
  }
  return is_out(weights);
}

std::size_t BlockBound::choices_left() const {
  std::size_t all = 0;
  for (const Choices& domain : domains_) all += domain.size();
  return all;
}

/// Trials with so much effort. Whether nothing is left; else as `thin_out`.
bool BlockBound::is_out_by_trials(Weights& weights, std::int64_t effort) {
  const std::int64_t last = std::exchange(last_, std::min(last_, spent_ + effort));
  const bool is_out = thin_out(weights);
  const bool was_cut_short = stops();
  last_ = last;
  return is_out || (was_cut_short && !stops() && this->is_out(weights));
}

/// By trials and by the walk's means, one after the other, as long as much is left out. Whether
/// nothing is left; else as `thin_out`.
bool BlockBound::thin_out_by_turns(Weights& weights) {
  constexpr std::size_t much = 4;
  is_in_walk_ = false;
  const std::int64_t begin = spent_;
  // With one stage per device weights see all but that blocks are whole.
  const auto little = static_cast<double>(last_ - begin) / parts_of_look;
  bool by_trials = turns_ == 1 || steps_to_look_at_pairs() > little;
  for (int turn = 0;; ++turn, by_trials = !by_trials) {
    const std::size_t before = choices_left();
    if (by_trials) {
      const std::int64_t effort =
          cases_ == 1 ? std::max((last_ - begin) / kept, spent_ - begin) : trials_in_case_;
      if (is_out_by_trials(weights, effort)) return true;
    } else if (is_out_of_step((last_ - spent_) / kept * (kept - 1))) {
      return true;
    }
    if (stops()) return false;
    if (turn > 0 && before - choices_left() <= before / much) return false;
  }
}

/// Whether nothing of the domains is of interest but these cases, for which the weights are good to
/// start from.
bool BlockBound::divide(Weights& weights, std::vector<Domains>& cases) {
  const std::int64_t begin = spent_;
  if (thin_out_by_turns(weights)) return true;
  if (stops()) return false;
  const std::int64_t past = spent_ - begin;
  if (cases_ == 1) trials_in_case_ = past / parts_in_case;
  const std::int64_t effort = std::max((last_ - begin) / parts_of_walk, past / parts_of_past);
  if (is_walked_out(std::min(effort, last_ - spent_))) return true;
  if (stops()) return false;
  const auto split = best_split(weights, past);
  if (stops()) return false;
  if (split) {
    cases = cases_of(*split);
    return true;
  }
  const auto open =
      std::ranges::find_if(domains_, [](const Choices& domain) { return domain.size() > 1; });
  if (open != domains_.end()) {
    cases = cases_of_choices(static_cast<int>(open - domains_.begin()));
    return true;
  }
  Chosen layout;
  for (const Choices& domain : domains_) layout.push_back(domain.front());
  try_out(layout);
  return true;
}

bool BlockBound::is_case_out(Domains domains, Weights weights) {
  Domains before = std::exchange(domains_, std::move(domains));
  std::vector<Domains> cases;
  ++cases_;
  const bool is_out = divide(weights, cases) && std::ranges::all_of(cases, [&](Domains& own) {
                        return is_case_out(std::move(own), weights);
                      });
  --cases_;
  domains_ = std::move(before);
  return is_out;
}

bool BlockBound::prove(std::int64_t effort, const std::stop_token& stop) {
  if (rows_.empty()) begin();
  if (is_proved_) return true;
  stop_ = stop;
  last_ = spent_ + effort;
  is_proved_ = is_case_out(domains_, weights_);
  return is_proved_;
}

std::optional<std::vector<BlockBound::Case>> BlockBound::begin_proof(std::int64_t effort,
                                                                     const std::stop_token& stop) {
  if (rows_.empty()) begin();
  if (is_proved_) return std::vector<Case>{};
  stop_ = stop;
  last_ = spent_ + effort;
  Domains before = domains_;
  Weights weights = weights_;
  std::vector<Domains> domains;
  ++cases_;
  const bool is_divided = divide(weights, domains);
  --cases_;
  domains_ = std::move(before);
  if (!is_divided) return {};
  is_proved_ = domains.empty();
  std::vector<Case> cases;
  for (Domains& own : domains) cases.push_back({std::move(own), trials_in_case_});
  return cases;
}

bool BlockBound::prove_case(const Case& part, std::int64_t effort, const std::stop_token& stop) {
  constexpr int rounds = 30;
  if (rows_.empty()) begin();
  stop_ = stop;
  last_ = spent_ + effort;
  domains_ = part.domains;
  trials_in_case_ = part.trials;
  raise(rounds, last_);
  if (is_proved_) return true;
  prepare_walk();
  ++cases_;  // it is one of them, not the whole
  is_proved_ = is_case_out(domains_, weights_);
  --cases_;
  return is_proved_;
}

}  // namespace stagecraft
