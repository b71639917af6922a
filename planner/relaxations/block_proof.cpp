#include "planner/relaxations/block_proof.hpp"

#include <algorithm>
#include <limits>
#include <utility>

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

/// Layouts that trials could not rule out: where they are left, others will not either.
void BlockProof::remember_mixture() {
  constexpr std::size_t most = 96;
  for (std::size_t i = 0; i < seen_.layouts().size(); ++i) {
    const BlockLayout& layout = seen_.layouts()[i];
    if (seen_.mixture()[i] > 0 && std::ranges::find(remembered_, layout) == remembered_.end())
      remembered_.push_back(layout);
  }
  while (remembered_.size() > most) remembered_.pop_front();
}

/// With the rows of these weights.
void BlockProof::begin_game(const Weights& start) {
  seen_ = {};
  for (const BlockGame::Weight& own : start) weights_.take_part(seen_, own.row);
}

/// Whether weights, which start from these, show that nothing is left of the domains.
bool BlockProof::is_out(const Weights& start) {
  begin_game(start);
  return is_played_out(start);
}

/// The same with the rows and layouts of `seen_`, and more.
bool BlockProof::is_played_out(const Weights& start) {
  double best = -1;
  Weights weights = start;
  for (int round = 0; round < rounds_of_trial; ++round) {
    if (!weights_.weigh(weights)) return true;
    if (weights_.least().value > best) {
      best = weights_.least().value;
      best_weights_ = weights;
    }
    weights_.add(seen_, weights_.least().layout);
    if (!weights_.play_fully(seen_, weights)) return false;
    weights = BlockGame::half_way(best_weights_, weights);
  }
  return false;
}

/// A trial: with nothing but these choices on their device.
bool BlockProof::leave_out_set(const BlockNumbers& set, const Weights& start, const PathRef& path) {
  weights_.drop_idle_paths();
  const std::size_t device = index(table_.device_of(set.front()));
  BlockDomains before = domains();
  domains()[device] = set;
  begin_game(start);
  weights_.take_part(seen_, path);
  for (const BlockLayout& layout : remembered_) {
    if (weights_.is_left(layout)) weights_.add(seen_, layout);
  }
  Weights weights = start;
  const bool is_known = !seen_.layouts().empty() && !weights_.play_fully(seen_, weights);
  const bool is_out = !is_known && is_played_out(weights);
  if (!is_known && !is_out) remember_mixture();
  domains() = std::move(before);
  if (is_out) {
    std::erase_if(domains()[device], [&](int c) { return std::ranges::binary_search(set, c); });
  } else if (!is_known) {
    weights_.weigh(best_weights_);  // which may rule out others
  }
  return is_out;
}

/// Of the device's choices those with the most blocks in the turn, as long as that goes on.
void BlockProof::leave_out_most(int device, int turn, const Weights& start, const PathRef& path) {
  for (;;) {
    const BlockNumbers& domain = domains()[index(device)];
    int most = 0, least = std::numeric_limits<int>::max();
    for (const int c : domain) {
      most = std::max(most, table_.blocks_of(c, turn));
      least = std::min(least, table_.blocks_of(c, turn));
    }
    if (domain.empty() || most == least || stops()) return;
    BlockNumbers set;
    std::ranges::copy_if(domain, std::back_inserter(set),
                         [&](int c) { return table_.blocks_of(c, turn) == most; });
    if (!leave_out_set(set, start, path)) return;
  }
}

void BlockProof::leave_out_most(const Weights& start) {
  for (int device = 0; device < depth(); ++device) {
    const std::vector<int>& stages = weights_.packing().stages_of(device);
    for (int turn = 0; turn < static_cast<int>(stages.size()); ++turn)
      leave_out_most(device, turn, start, weights_.through_stage(stages[index(turn)], device));
    leave_out_most(device, all_turns, start, weights_.through_device(device));
  }
}

/// All choices of devices that have several, those of the largest sums in front.
BlockNumbers BlockProof::by_sum() {
  std::vector<std::pair<double, int>> sums;
  for (int device = 0; device < depth(); ++device) {
    if (domains()[index(device)].size() < 2) continue;
    for (const int c : domains()[index(device)]) sums.emplace_back(-weights_.least_with(c), c);
  }
  std::ranges::sort(sums);
  BlockNumbers choices;
  for (const auto& [sum, choice] : sums) choices.push_back(choice);
  return choices;
}

/// Single choices, until it fails too often in a row.
void BlockProof::leave_out_each(const Weights& start) {
  constexpr int most_failures = 30, most_trials = 60;
  int failures = 0, trials = 0;
  for (const int c : by_sum()) {
    if (failures == most_failures || trials == most_trials || stops()) break;
    const int device = table_.device_of(c);
    const BlockNumbers& domain = domains()[index(device)];
    if (domain.size() < 2 || !std::ranges::binary_search(domain, c)) continue;
    ++trials;
    failures = leave_out_set({c}, start, weights_.through_device(device)) ? 0 : failures + 1;
  }
}

/// Trials as long as they leave out much. Whether nothing is left; else the weights are the best
/// for what is, and `seen_` its layouts.
bool BlockProof::thin_out(Weights& weights) {
  constexpr std::size_t part_of_most = 32, part = 8;
  for (bool goes_on = true; goes_on;) {
    if (is_out(weights)) return true;
    weights = best_weights_;
    if (stops()) return false;
    const std::size_t before = choices_left();
    leave_out_most(weights);
    if (before - choices_left() > before / part_of_most) continue;
    if (stops()) return false;
    if (!weights_.weigh(weights)) return true;
    leave_out_each(weights);
    goes_on = before - choices_left() > before / part;
  }
  return is_out(weights);
}

std::size_t BlockProof::choices_left() const {
  std::size_t all = 0;
  for (const BlockNumbers& domain : domains()) all += domain.size();
  return all;
}

/// Trials with so much effort. Whether nothing is left; else as `thin_out`.
bool BlockProof::is_out_by_trials(Weights& weights, std::int64_t effort) {
  const std::int64_t last = std::exchange(last_, std::min(last_, weights_.spent() + effort));
  const bool is_out = thin_out(weights);
  const bool was_cut_short = stops();
  last_ = last;
  return is_out || (was_cut_short && !stops() && this->is_out(weights));
}

// --- Choices in step with their neighbours, weighed and walked through ---

void BlockProof::begin_pairs() {
  pairs_.begin(domains(), [this](const std::vector<StageTimes>& stages) {
    return weights_.learn(pairs_, stages);
  });
}

/// By the clock, then by weights, as long as that goes on. False if nothing of interest is left.
bool BlockProof::fall_in_step(std::int64_t last) {
  constexpr int most_rounds = 4, rounds_of_weights = 60;
  constexpr std::size_t part = 16;
  for (int round = 0; round < most_rounds; ++round) {
    const std::size_t before = choices_left();
    const std::int64_t spent = pairs_.spent();
    const bool is_left = pairs_.thin_out(weights_.worth(), last - weights_.spent(), stop_);
    weights_.spend(pairs_.spent() - spent);
    if (!is_left) return false;
    domains() = pairs_.left();
    if (weights_.spent() >= last || stop_.stop_requested()) break;
    weights_.weigh_in_step(&pairs_);
    weights_.raise(rounds_of_weights, last, stop_);
    weights_.weigh_in_step(nullptr);
    if (std::exchange(weights_.is_proved, false)) return false;
    if (before - choices_left() < before / part) break;
  }
  return true;
}

/// Thinned out by the walk's means, with so much effort at most: whether nothing of interest is
/// left.
bool BlockProof::is_out_of_step(std::int64_t effort) {
  // Trials may leave few enough choices.
  if (!pairs_.has_begun() && cases_ == 1) begin_pairs();
  if (!pairs_.has_begun() || effort <= 0) return false;
  pairs_.enter_case(domains());
  if (!pairs_.can_look(effort)) return false;
  BlockWeights::Best best = weights_.best();
  const bool is_left = fall_in_step(weights_.spent() + effort);
  if (cases_ > 1) weights_.return_to(std::move(best));  // what there is now is the case's
  return !is_left;
}

/// Whether a walk gets through all that is left, with so much effort.
bool BlockProof::is_walked_out(std::int64_t effort) {
  if (!pairs_.is_of_case() || effort <= 0) return false;
  pairs_.narrow(domains());
  const std::int64_t before = pairs_.spent();
  const bool is_done = pairs_.walk(
      weights_.worth(), effort, [&](const BlockLayout& layout) { weights_.try_out(layout); },
      stop_);
  weights_.spend(pairs_.spent() - before);
  return is_done;
}

/// By trials and by the walk's means, one after the other, as long as much is left out. Whether
/// nothing is left; else as `thin_out`.
bool BlockProof::thin_out_by_turns(Weights& weights) {
  constexpr std::size_t much = 4;
  pairs_.leave_case();
  const std::int64_t begin = weights_.spent();
  // With one stage per device weights see all but that blocks are whole.
  const auto little = static_cast<double>(last_ - begin) / parts_of_look;
  bool by_trials = table_.turns() == 1 || pairs_.steps_to_look_at(domains()) > little;
  for (int turn = 0;; ++turn, by_trials = !by_trials) {
    const std::size_t before = choices_left();
    if (by_trials) {
      const std::int64_t effort =
          cases_ == 1 ? std::max((last_ - begin) / kept, weights_.spent() - begin) : trials_in_case;
      if (is_out_by_trials(weights, effort)) return true;
    } else if (is_out_of_step((last_ - weights_.spent()) / kept * (kept - 1))) {
      return true;
    }
    if (stops()) return false;
    if (turn > 0 && before - choices_left() <= before / much) return false;
  }
}

/// Whether nothing of the domains is of interest but these cases, for which the weights are good to
/// start from.
bool BlockProof::divide(Weights& weights, std::vector<BlockDomains>& cases) {
  const std::int64_t begin = weights_.spent();
  if (thin_out_by_turns(weights)) return true;
  if (stops()) return false;
  const std::int64_t past = weights_.spent() - begin;
  if (cases_ == 1) trials_in_case = past / parts_in_case;
  const std::int64_t effort = std::max((last_ - begin) / parts_of_walk, past / parts_of_past);
  if (is_walked_out(std::min(effort, last_ - weights_.spent()))) return true;
  if (stops()) return false;
  const auto split = best_split(weights, past);
  if (stops()) return false;
  if (split) {
    cases = cases_of(*split);
    return true;
  }
  const auto open =
      std::ranges::find_if(domains(), [](const BlockNumbers& domain) { return domain.size() > 1; });
  if (open != domains().end()) {
    cases = cases_of_choices(static_cast<std::size_t>(open - domains().begin()));
    return true;
  }
  BlockLayout layout;
  for (const BlockNumbers& domain : domains()) layout.push_back(domain.front());
  weights_.try_out(layout);
  return true;
}

bool BlockProof::is_case_out(BlockDomains domains, Weights weights) {
  BlockDomains before = std::exchange(weights_.domains, std::move(domains));
  std::vector<BlockDomains> cases;
  ++cases_;
  const bool is_out = divide(weights, cases) && std::ranges::all_of(cases, [&](BlockDomains& own) {
                        return is_case_out(std::move(own), weights);
                      });
  --cases_;
  weights_.domains = std::move(before);
  return is_out;
}

void BlockProof::begin_effort(std::int64_t effort, const std::stop_token& stop) {
  weights_.begin();
  stop_ = stop;
  last_ = weights_.spent() + effort;
}

bool BlockProof::prove(std::int64_t effort, const std::stop_token& stop) {
  begin_effort(effort, stop);
  if (!weights_.is_proved)
    weights_.is_proved = is_case_out(weights_.domains, weights_.best().weights);
  return weights_.is_proved;
}

std::optional<std::vector<BlockDomains>> BlockProof::begin(std::int64_t effort,
                                                           const std::stop_token& stop) {
  begin_effort(effort, stop);
  std::vector<BlockDomains> cases;
  if (weights_.is_proved) return cases;
  BlockDomains before = weights_.domains;
  Weights weights = weights_.best().weights;
  ++cases_;
  const bool is_divided = divide(weights, cases);
  --cases_;
  weights_.domains = std::move(before);
  if (!is_divided) return {};
  weights_.is_proved = cases.empty();
  return cases;
}

bool BlockProof::prove_case(const BlockDomains& domains, std::int64_t effort,
                            const std::stop_token& stop) {
  constexpr int rounds = 30;
  begin_effort(effort, stop);
  weights_.domains = domains;
  weights_.raise(rounds, last_, stop_);
  if (weights_.is_proved) return true;
  begin_pairs();
  ++cases_;  // it is one of them, not the whole
  weights_.is_proved = is_case_out(weights_.domains, weights_.best().weights);
  --cases_;
  return weights_.is_proved;
}

}  // namespace stagecraft
