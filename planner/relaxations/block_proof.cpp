#include "planner/relaxations/block_proof.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "profiles/index.hpp"

namespace stagecraft {

namespace {

constexpr int rounds_of_trial = 24;

/// 1/kept of the effort is reserved for the later steps of the proof. Probing at the root may use
/// as much, or what was used before it.
constexpr std::int64_t kept = 4;

/// Branching is quicker than much probing: probing in one node may use 1/parts_in_case of the
/// effort used before the first branching.
constexpr std::int64_t parts_in_case = 8;

/// Testing pairs of neighbours may use 1/parts_of_look of the effort before probing.
constexpr double parts_of_look = 32;

/// Most long walks do not finish, so one may use 1/parts_of_walk of the effort left, or
/// 1/parts_of_past of the effort used before.
constexpr std::int64_t parts_of_walk = 1000, parts_of_past = 30;

}  // namespace

/// Keeps the layouts that a trial could not rule out. A trial whose domains still contain such a
/// mean layout will fail, too.
void BlockProof::remember_mixture() {
  constexpr std::size_t most = 96;
  for (std::size_t i = 0; i < seen_.layouts().size(); ++i) {
    const BlockLayout& layout = seen_.layouts()[i];
    if (seen_.mixture()[i] > 0 && std::ranges::find(remembered_, layout) == remembered_.end())
      remembered_.push_back(layout);
  }
  while (remembered_.size() > most) remembered_.pop_front();
}

/// Begins a game with the rows of these weights.
void BlockProof::begin_game(const Weights& start) {
  seen_ = {};
  for (const BlockGame::Weight& own : start) weights_.take_part(seen_, own.row);
}

/// Whether weights, starting from these, prove that the domains have no layout within the limit.
bool BlockProof::is_out(const Weights& start) {
  begin_game(start);
  return is_played_out(start);
}

/// Like `is_out`, continuing with the rows and layouts of `seen_`.
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

/// Probing: restricts the device to these choices, and removes the choices if that rules out all
/// layouts.
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
    weights_.weigh(best_weights_);  // reduced-cost fixing, which may remove other choices
  }
  return is_out;
}

/// Probes the device's choices with the most blocks at this turn, and repeats while they are
/// removed.
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

/// All choices of devices that have several, largest sum first.
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

/// Probes single choices, until too many in a row cannot be removed.
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

/// Probes as long as that removes many choices. Returns whether nothing is left; else `weights` are
/// the best for the remaining choices, and `seen_` has their layouts.
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

/// `thin_out` with at most this effort.
bool BlockProof::is_out_by_trials(Weights& weights, std::int64_t effort) {
  const std::int64_t last = std::exchange(last_, std::min(last_, weights_.spent() + effort));
  const bool is_out = thin_out(weights);
  const bool was_cut_short = stops();
  last_ = last;
  return is_out || (was_cut_short && !stops() && this->is_out(weights));
}

// --- Choices that are compatible with their neighbours ---

void BlockProof::begin_pairs() {
  pairs_.begin(domains(), [this](const std::vector<StageTimes>& stages) {
    return weights_.learn(pairs_, stages);
  });
}

/// Removes choices by the clock, then by weights, while that removes enough. Returns false if
/// nothing of interest is left.
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

/// Removes choices by the walk's tests, with at most this effort. Returns whether nothing of
/// interest is left.
bool BlockProof::is_out_of_step(std::int64_t effort) {
  // Probing may have left few enough choices for the walk.
  if (!pairs_.has_begun() && cases_ == 1) begin_pairs();
  if (!pairs_.has_begun() || effort <= 0) return false;
  pairs_.enter_case(domains());
  if (!pairs_.can_look(effort)) return false;
  BlockWeights::Best best = weights_.best();
  const bool is_left = fall_in_step(weights_.spent() + effort);
  if (cases_ > 1) weights_.return_to(std::move(best));  // the new bound holds for this node only
  return !is_left;
}

/// Whether the walk enumerates all layouts that are left within this effort.
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

/// Alternates probing and the walk's tests while they remove many choices. Returns whether nothing
/// is left; else as `thin_out`.
bool BlockProof::thin_out_by_turns(Weights& weights) {
  constexpr std::size_t much = 4;
  pairs_.leave_case();
  const std::int64_t begin = weights_.spent();
  // With one stage per device, the relaxation is exact but for whole blocks, so probing comes
  // first.
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

/// Treats a node. Returns true if the layouts of interest in its domains are all in `cases`, its
/// child nodes; `weights` is then a good start for these.
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
  ++cases_;  // the domains are those of a node, not of the root
  weights_.is_proved = is_case_out(weights_.domains, weights_.best().weights);
  --cases_;
  return weights_.is_proved;
}

}  // namespace stagecraft
