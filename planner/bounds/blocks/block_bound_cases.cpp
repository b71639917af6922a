// What is left out by trial, and the cases of the proof.

#include <algorithm>
#include <limits>
#include <set>

#include "planner/bounds/blocks/block_bound.hpp"

namespace stagecraft {

namespace {

constexpr int rounds_of_trial = 24;

/// Of the effort that is left, one such part is kept for what follows; trials may take as much, or
/// what came before them.
constexpr std::int64_t kept = 4;

/// A walk may take one such part of it, or as much as what came before.
constexpr std::int64_t parts = 16;

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
}

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

/// Of the device's choices those with the most blocks in the turn, as long as that goes on; whether
/// it did.
bool BlockBound::leave_out_most(int device, int turn, const Weights& start, const RowRef& row) {
  for (bool any = false;; any = true) {
    const Choices& domain = domains_[index(device)];
    int most = 0, least = std::numeric_limits<int>::max();
    for (const int c : domain) {
      most = std::max(most, blocks_of(c, turn));
      least = std::min(least, blocks_of(c, turn));
    }
    if (domain.empty() || most == least || stops()) return any;
    Choices set;
    std::ranges::copy_if(domain, std::back_inserter(set),
                         [&](int c) { return blocks_of(c, turn) == most; });
    if (!leave_out_set(set, start, row)) return any;
  }
}

bool BlockBound::leave_out_most(const Weights& start) {
  bool any = false;
  for (int device = 0; device < costs_.depth(); ++device) {
    const std::vector<int>& stages = packing_.stages_of(device);
    const RowRef& through = device_rows_[index(device)];
    for (int turn = 0; turn < static_cast<int>(stages.size()); ++turn) {
      const bool has_own = !stage_rows_.empty();
      const RowRef& row = has_own ? stage_rows_[index(stages[index(turn)])] : through;
      any = leave_out_most(device, turn, start, row) || any;
    }
    any = leave_out_most(device, all_turns, start, through) || any;
  }
  return any;
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

/// Single choices, until it fails too often in a row; whether any is out.
bool BlockBound::leave_out_each(const Weights& start) {
  constexpr int most_failures = 30;
  bool any = false;
  int failures = 0;
  for (const int c : by_sum()) {
    if (failures == most_failures || stops()) break;
    const int device = choices_[index(c)].device;
    const Choices& domain = domains_[index(device)];
    if (domain.size() < 2 || !std::ranges::binary_search(domain, c)) continue;
    const bool is_out = leave_out_set({c}, start, device_rows_[index(device)]);
    any = any || is_out;
    failures = is_out ? 0 : failures + 1;
  }
  return any;
}

/// Trials as long as they succeed. Whether nothing is left; else the weights are the best for what
/// is, and `seen_` its layouts.
bool BlockBound::thin_out(Weights& weights) {
  for (;;) {
    if (is_out(weights)) return true;
    weights = best_weights_;
    if (stops()) return false;
    if (leave_out_most(weights)) continue;
    if (stops()) return false;
    if (!weigh(weights)) return true;
    if (!leave_out_each(weights)) break;
  }
  return is_out(weights);
}

/// Devices some of whose choices have so many blocks, and some fewer.
std::vector<int> BlockBound::undecided(const Split& split) const {
  std::vector<int> devices;
  for (int device = 0; device < costs_.depth(); ++device) {
    const Choices& domain = domains_[index(device)];
    const auto has = [&](int c) { return blocks_of(c, split.turn) >= split.blocks; };
    if (std::ranges::any_of(domain, has) && !std::ranges::all_of(domain, has))
      devices.push_back(device);
  }
  return devices;
}

/// About which devices agree least in the latest layouts; nothing if all is decided.
std::optional<BlockBound::Split> BlockBound::best_split() const {
  std::optional<Split> best;
  double most = -1;
  const auto turns = static_cast<int>(packing_.stages_of(0).size());
  for (int turn = all_turns; turn < turns; ++turn) {
    std::set<int> counts;
    for (const Choices& domain : domains_) {
      for (const int c : domain) counts.insert(blocks_of(c, turn));
    }
    for (const int blocks : counts) {
      const std::vector<int> devices = undecided({turn, blocks});
      if (devices.empty()) continue;
      double have = 0;
      for (std::size_t i = 0; i < seen_.layouts().size(); ++i) {
        for (const int device : devices) {
          if (blocks_of(seen_.layouts()[i][index(device)], turn) >= blocks)
            have += seen_.mixture()[i];
        }
      }
      const double doubt = std::min(have, static_cast<double>(devices.size()) - have);
      if (doubt <= most) continue;
      most = doubt;
      best = Split{turn, blocks};
    }
  }
  return best;
}

bool BlockBound::is_case_out(Domains domains, const Weights& weights) {
  Domains before = std::exchange(domains_, std::move(domains));
  ++cases_;
  const bool is_out = is_part_out(weights);
  --cases_;
  domains_ = std::move(before);
  return is_out;
}

/// Of the undecided devices none has so many blocks, or this one is the first.
bool BlockBound::are_cases_out(const Split& split, const Weights& weights) {
  const std::vector<int> devices = undecided(split);
  for (std::size_t first = 0; first <= devices.size(); ++first) {
    Domains domains = domains_;
    for (std::size_t i = 0; i < devices.size() && i <= first; ++i) {
      std::erase_if(domains[index(devices[i])], [&](int c) {
        return (blocks_of(c, split.turn) >= split.blocks) != (i == first);
      });
    }
    if (!is_case_out(std::move(domains), weights)) return false;
  }
  return true;
}

/// Each of the device's choices by itself.
bool BlockBound::are_choices_out(int device, const Weights& weights) {
  const Choices choices = domains_[index(device)];
  return std::ranges::all_of(choices, [&](int c) {
    Domains domains = domains_;
    domains[index(device)] = {c};
    return is_case_out(std::move(domains), weights);
  });
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
  const auto little = static_cast<double>((last_ - begin) / (2 * parts));
  bool by_trials = turns_ == 1 || steps_to_look_at_pairs() > little;
  for (int turn = 0;; ++turn, by_trials = !by_trials) {
    const std::size_t before = choices_left();
    if (by_trials) {
      const std::int64_t effort = std::max((last_ - begin) / kept, spent_ - begin);
      if (is_out_by_trials(weights, effort)) return true;
    } else if (is_out_of_step((last_ - spent_) / kept * (kept - 1))) {
      return true;
    }
    if (stops()) return false;
    if (turn > 0 && before - choices_left() <= before / much) return false;
  }
}

/// Whether nothing of the domains is of interest; starts from these weights.
bool BlockBound::is_part_out(Weights weights) {
  const std::int64_t begin = spent_;
  if (thin_out_by_turns(weights)) return true;
  if (stops()) return false;
  // What takes much longer than what came before is quicker in cases.
  const std::int64_t effort = std::max((last_ - begin) / parts, spent_ - begin);
  const std::int64_t most = (last_ - spent_) / kept * (kept - 1);
  if (is_walked_out(std::min(effort, most))) return true;
  if (stops()) return false;
  if (const auto split = best_split()) return are_cases_out(*split, weights);
  for (int device = 0; device < costs_.depth(); ++device) {
    if (domains_[index(device)].size() > 1) return are_choices_out(device, weights);
  }
  Chosen layout;
  for (const Choices& domain : domains_) layout.push_back(domain.front());
  try_out(layout);
  return true;
}

}  // namespace stagecraft
