#include "planner/calibration/ledger.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <set>

#include "planner/calibration/sensitivity.hpp"
#include "profiles/error.hpp"
#include "profiles/least_squares.hpp"

namespace stagecraft {

namespace {

/// Shuffled by our own steps: std::shuffle differs between libraries.
template <class Item>
void shuffle(std::vector<Item>& items, std::mt19937_64& random) {
  for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[random() % i]);
}

std::size_t quota(const MeasuredSet& set) {
  return std::max<std::size_t>(1, set.rows.size() / 4);
}

/// Indices of the rows by what `key` says of them.
template <class Key>
std::map<std::string, std::vector<int>> groups_of(const MeasuredSet& set, Key key) {
  std::map<std::string, std::vector<int>> groups;
  for (int i = 0; i < static_cast<int>(set.rows.size()); ++i)
    groups[key(set.rows[static_cast<std::size_t>(i)])].push_back(i);
  return groups;
}

/// The first of each group, then the second of each, and so on.
std::vector<std::vector<int>> taking_turns(
    const std::map<std::string, std::vector<std::vector<int>>>& groups) {
  std::vector<std::vector<int>> result;
  for (std::size_t turn = 0, before = 1; result.size() != before; ++turn) {
    before = result.size();
    for (const auto& [name, members] : groups) {
      if (turn < members.size()) result.push_back(members[turn]);
    }
  }
  return result;
}

/// The shapes' rows, each shuffled, in an order in which families take turns.
std::vector<std::vector<int>> shuffled_shapes(const MeasuredSet& set, std::mt19937_64& random) {
  std::map<std::string, std::vector<std::vector<int>>> families;
  for (auto [shape, rows] : groups_of(set, [](const MeasuredRow& row) { return row.shape; })) {
    shuffle(rows, random);
    families[set.rows[static_cast<std::size_t>(rows.front())].family].push_back(rows);
  }
  for (auto& [family, shapes] : families) shuffle(shapes, random);
  return taking_turns(families);
}

/// One row of each shape, then a second one, until the quota is full.
std::vector<int> drawn_from_shapes(const MeasuredSet& set, std::mt19937_64& random) {
  const std::vector<std::vector<int>> shapes = shuffled_shapes(set, random);
  std::vector<int> chosen;
  for (std::size_t round = 0; chosen.size() < quota(set); ++round) {
    for (const auto& rows : shapes) {
      if (round < rows.size() && chosen.size() < quota(set)) chosen.push_back(rows[round]);
    }
  }
  return chosen;
}

/// Whole families, of each kind in turn, as many as the quota takes.
std::vector<int> drawn_families(const MeasuredSet& set, std::mt19937_64& random) {
  std::map<std::string, std::vector<std::vector<int>>> kinds;
  int families = 0;
  for (auto& [family, rows] : groups_of(set, [](const MeasuredRow& row) { return row.family; })) {
    kinds[set.rows[static_cast<std::size_t>(rows.front())].kind].push_back(rows);
    ++families;
  }
  if (families < 2) return {};
  for (auto& [kind, of_kind] : kinds) shuffle(of_kind, random);
  std::vector<int> chosen;
  for (const auto& rows : taking_turns(kinds)) {
    if (chosen.size() + rows.size() <= quota(set))
      chosen.insert(chosen.end(), rows.begin(), rows.end());
  }
  return chosen;
}

double correction(const Calibration& calibration, const MeasuredRow& row) {
  const auto found = calibration.corrections.find(row.shape);
  return found == calibration.corrections.end() ? 1.0 : found->second;
}

double predicted(const MeasuredRow& row, const Calibration& calibration) {
  return row.predict(calibration.constants, correction(calibration, row));
}

/// Huber: quadratic to 10 %, linear beyond, so that a row that went wrong does not bend the rest.
double robust(double error) {
  const double size = std::abs(error);
  if (size <= squares_until) return error;
  return std::copysign(std::sqrt(2 * squares_until * size - squares_until * squares_until), error);
}

/// `host` scales where the host's work starts.
std::vector<Unknown> unknowns_of(const MeasuredSet& set, const KernelConstants& start,
                                 double host) {
  std::vector<Unknown> unknowns;
  for (const std::string_view name : set.unknowns) {
    const KernelConstant& constant = constant_named(name);
    const double scale = name == "host_seconds" ? host : 1.0;
    // Shipped constants have no remainder of a step; a fit looks for one from a few milliseconds
    // on.
    const double least_start = name == "step_seconds" ? 5e-3 : 0.0;
    unknowns.push_back({.start = std::max(least_start, scale * start.*constant.member),
                        .least = constant.least,
                        .most = constant.most,
                        .prior = constant.prior});
  }
  return unknowns;
}

void fit_values(const MeasuredSet& set, const std::vector<int>& rows, Calibration& calibration) {
  const auto assigned = [&](const std::vector<double>& values) {
    Calibration candidate = calibration;
    for (std::size_t i = 0; i < values.size(); ++i)
      candidate.constants.*constant_named(set.unknowns[i]).member = values[i];
    return candidate;
  };
  const auto residuals_at = [&](const std::vector<double>& values) {
    const Calibration candidate = assigned(values);
    std::vector<double> residuals;
    for (const int i : rows) {
      const MeasuredRow& row = set.rows[static_cast<std::size_t>(i)];
      residuals.push_back(robust(std::log(predicted(row, candidate) / row.seconds)));
    }
    return residuals;
  };
  const auto unknowns = unknowns_of(set, calibration.constants, 1);
  Fit fit = fit_least_squares(unknowns, residuals_at);
  // Where the device hides the host's work nothing depends on it, so a slower host is tried, too.
  if (std::ranges::count(set.unknowns, "host_seconds") > 0) {
    const Fit other = fit_least_squares(unknowns_of(set, calibration.constants, 8), residuals_at);
    if (other.cost < fit.cost) fit = other;
  }
  calibration = assigned(fit.values);
  calibration.fitted.clear();
  for (std::size_t i = 0; i < unknowns.size(); ++i) {
    calibration.fitted.push_back({.name = std::string(set.unknowns[i]),
                                  .value = fit.values[i],
                                  .interval = 1.96 * fit.errors[i],
                                  .start = set.start.*constant_named(set.unknowns[i]).member});
  }
}

/// The factor of each shape that makes its rows right, held near 1 as if one more row, with a tenth
/// of the weight, said so.
void fit_corrections(const MeasuredSet& set, const std::vector<int>& rows,
                     Calibration& calibration) {
  std::map<std::string, std::vector<const MeasuredRow*>> shapes;
  for (const int i : rows) {
    const MeasuredRow& row = set.rows[static_cast<std::size_t>(i)];
    shapes[row.shape].push_back(&row);
  }
  for (const auto& [shape, of_shape] : shapes) {
    const auto fit = fit_least_squares(
        {{.start = 1, .least = 0.4, .most = 2.5, .prior = 0.1}},
        [&, members = of_shape](const std::vector<double>& value) {
          std::vector<double> residuals;
          for (const MeasuredRow* row : members) {
            residuals.push_back(
                robust(std::log(row->predict(calibration.constants, value[0]) / row->seconds)));
          }
          return residuals;
        });
    calibration.corrections[shape] = fit.values[0];
  }
}

double rank_of(const std::vector<double>& values, double value) {
  double below = 0, equal = 0;
  for (const double other : values) {
    below += other < value ? 1 : 0;
    equal += other == value ? 1 : 0;
  }
  return below + (equal - 1) / 2;
}

void add_ranks(SetResult& result) {
  std::map<std::string, std::pair<std::vector<double>, std::vector<double>>> families;
  for (const LedgerRow& row : result.rows) {
    families[row.family].first.push_back(row.predicted);
    families[row.family].second.push_back(row.measured);
  }
  double sum = 0, worst = 1;
  int count = 0;
  for (const auto& [family, values] : families) {
    if (values.first.size() < 3) continue;
    const double correlation = spearman(values.first, values.second);
    sum += correlation;
    worst = std::min(worst, correlation);
    ++count;
  }
  result.rank_correlation = count > 0 ? sum / count : 0;
  result.worst_rank_correlation = count > 0 ? worst : 0;
}

void add_regret(SetResult& result, const MeasuredSet& set) {
  for (const auto& [problem, rows] :
       groups_of(set, [](const MeasuredRow& row) { return row.problem; })) {
    if (rows.size() < 2) continue;
    const auto row = [&](int i) -> const LedgerRow& {
      return result.rows[static_cast<std::size_t>(i)];
    };
    const int picked = *std::ranges::min_element(rows, {}, [&](int i) { return row(i).predicted; });
    const int best = *std::ranges::min_element(rows, {}, [&](int i) { return row(i).measured; });
    result.regret += row(picked).measured / row(best).measured - 1;
    ++result.problems;
  }
  if (result.problems > 0) result.regret /= result.problems;
}

void add_summaries(SetResult& result, const MeasuredSet& set) {
  std::vector<std::pair<std::string, double>> times, memories;
  for (const LedgerRow& row : result.rows) {
    if (!row.fitted) times.emplace_back(row.label, row.error());
    if (row.memory && row.predicted_memory) {
      memories.emplace_back(
          row.label,
          static_cast<double>(*row.predicted_memory) / static_cast<double>(*row.memory) - 1);
    }
  }
  result.time = summarise(times);
  result.memory = summarise(memories);
  add_ranks(result);
  add_regret(result, set);
}

SetResult with_rows(const MeasuredSet& set, Claim claim, const Calibration& calibration,
                    const std::vector<int>& fitted) {
  SetResult result{.name = set.name,
                   .source = set.source,
                   .device = set.device,
                   .unit = set.unit,
                   .claim = claim};
  result.calibration = calibration;
  result.assumptions = set.assumptions;
  result.left_out = set.left_out;
  for (const MeasuredRow& row : set.rows) {
    result.rows.push_back({.label = row.label,
                           .family = row.family,
                           .measured = row.seconds,
                           .predicted = predicted(row, calibration),
                           .memory = row.memory,
                           .predicted_memory = row.predicted_memory,
                           .predicted_by = row.predicted_by});
  }
  for (const int i : fitted) result.rows[static_cast<std::size_t>(i)].fitted = true;
  result.fitted_on = static_cast<int>(fitted.size());
  add_summaries(result, set);
  return result;
}

}  // namespace

std::string_view to_string(Claim claim) {
  switch (claim) {
    case Claim::in_family: return "in family";
    case Claim::out_of_family: return "out of family";
    case Claim::one_row: return "calibrated on one row";
    case Claim::nothing_fitted: return "nothing fitted";
  }
  return "";
}

double spearman(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() < 2) return 0;
  std::vector<double> first, second;
  for (const double value : a) first.push_back(rank_of(a, value));
  for (const double value : b) second.push_back(rank_of(b, value));
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double both = 0, of_first = 0, of_second = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (first[i] - mean) * (second[i] - mean);
    of_first += (first[i] - mean) * (first[i] - mean);
    of_second += (second[i] - mean) * (second[i] - mean);
  }
  return of_first > 0 && of_second > 0 ? both / std::sqrt(of_first * of_second) : 0;
}

ErrorSummary summarise(const std::vector<std::pair<std::string, double>>& errors) {
  ErrorSummary summary{.rows = static_cast<int>(errors.size())};
  if (errors.empty()) return summary;
  std::vector<double> sizes;
  for (const auto& [label, error] : errors) {
    summary.bias += error / static_cast<double>(errors.size());
    sizes.push_back(std::abs(error));
    if (sizes.back() >= summary.max) {
      summary.max = sizes.back();
      summary.worst_row = label;
    }
  }
  summary.mape =
      std::accumulate(sizes.begin(), sizes.end(), 0.0) / static_cast<double>(sizes.size());
  std::sort(sizes.begin(), sizes.end());
  summary.median = sizes[sizes.size() / 2];
  summary.p90 = sizes[sizes.size() * 9 / 10];
  return summary;
}

bool has_enough_for_corrections(const MeasuredSet& set, const std::vector<int>& rows) {
  std::set<std::string> shapes;
  for (const int i : rows) shapes.insert(set.rows[static_cast<std::size_t>(i)].shape);
  return !shapes.contains("") && rows.size() >= 3 * shapes.size();
}

Calibration fit_constants(const MeasuredSet& set, const std::vector<int>& rows,
                          bool with_corrections) {
  Calibration calibration{.constants = set.start};
  fit_values(set, rows, calibration);
  if (!with_corrections) return calibration;
  for (int round = 0; round < 3; ++round) {
    fit_corrections(set, rows, calibration);
    fit_values(set, rows, calibration);
  }
  fit_corrections(set, rows, calibration);
  return calibration;
}

std::vector<int> rows_to_fit(const MeasuredSet& set, Claim claim, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  switch (claim) {
    case Claim::one_row:
      for (int i = 0; set.fit_on && i < static_cast<int>(set.rows.size()); ++i) {
        if (set.rows[static_cast<std::size_t>(i)].label == *set.fit_on) return {i};
      }
      return {};
    case Claim::in_family: {
      std::vector<int> rows = drawn_from_shapes(set, random);
      // Too few for a factor each: then rows that tell most about the constants.
      if (!has_enough_for_corrections(set, rows)) return informative_rows(set, quota(set), seed);
      return rows;
    }
    case Claim::out_of_family: return drawn_families(set, random);
    case Claim::nothing_fitted: return {};
  }
  return {};
}

SetResult replay(const MeasuredSet& set, Claim claim, std::uint64_t seed) {
  const std::vector<int> rows = rows_to_fit(set, claim, seed);
  if (rows.empty()) fail(set.name, ": no row to fit on ", to_string(claim));
  const bool corrections = claim == Claim::in_family && has_enough_for_corrections(set, rows);
  SetResult result = with_rows(set, claim, fit_constants(set, rows, corrections), rows);
  result.interval = interval_of_others(set, rows, result.calibration, claim);
  if (result.interval) result.covered = part_within(result, *result.interval);
  return result;
}

SetResult replay_with(const MeasuredSet& set, const Calibration& calibration) {
  return with_rows(set, Claim::nothing_fitted, calibration, {});
}

double interval_of_usual_constants(std::string_view device, bool in_8_bits) {
  constexpr double known = 0.12, unknown = 0.24;
  const bool is_known = device == "a100" || device == "a100-80gb" || device == "h100";
  return is_known && !in_8_bits ? known : unknown;
}

SetResult replay_usual(const MeasuredSet& set) {
  SetResult result = replay_with(set, {.constants = usual_constants(set.device)});
  if (result.rows.empty() || set.unknowns.empty()) return result;
  const bool in_8_bits = std::ranges::any_of(set.rows, &MeasuredRow::in_8_bits);
  result.interval = interval_of_usual_constants(set.device, in_8_bits);
  result.covered = part_within(result, *result.interval);
  return result;
}

std::vector<SetResult> replay_all(const MeasuredSet& set, std::uint64_t seed) {
  if (set.rows.empty() && set.left_out.empty()) return {};
  if (set.rows.empty() || set.unknowns.empty()) return {replay_with(set, {.constants = set.start})};
  if (set.fit_on) return {replay(set, Claim::one_row, seed)};
  std::vector<SetResult> results;
  for (const Claim claim : {Claim::in_family, Claim::out_of_family}) {
    if (!rows_to_fit(set, claim, seed).empty()) results.push_back(replay(set, claim, seed));
  }
  return results;
}

}  // namespace stagecraft
