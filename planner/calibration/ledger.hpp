// The ledger validates predictions against every measured set, after fitting a few constants on at
// most a quarter of the rows. It always reports which rows were fitted and which were predicted.
//
// There are two claims. In family (interpolation): the fitted rows include every shape of layer,
// and the layers of a shape may get a correction factor, as a profile of them would give. Out of
// family (extrapolation): whole families of similar rows are fitted or held out, and only the
// constants carry over.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/calibration/measured_sets.hpp"

namespace stagecraft {

enum class Claim { in_family, out_of_family, one_row, nothing_fitted };
std::string_view to_string(Claim claim);  ///< "in family", "out of family", "calibrated on one row"

/// A constant as fitted, with the half width of its 95 % confidence interval.
struct FittedConstant {
  std::string name;
  double value = 0;
  double interval = 0;
  double start = 0;
};

/// The result of a fit: constants, and correction factors for blocks of certain shapes.
struct Calibration {
  KernelConstants constants;
  std::vector<FittedConstant> fitted;
  std::map<std::string, double> corrections;  ///< by shape
};

/// One row of the ledger, which contains every measured row.
struct LedgerRow {
  std::string label;
  std::string family;
  bool fitted = false;
  double measured = 0;
  double predicted = 0;
  std::optional<Bytes> memory, predicted_memory;
  std::string predicted_by;  ///< as in its measured row; empty if it has no recipe

  double error() const { return predicted / measured - 1; }
};

/// Errors as fractions, over held-out rows only, or over all rows if none was fitted.
struct ErrorSummary {
  int rows = 0;
  double mape = 0, median = 0, p90 = 0, max = 0, bias = 0;
  std::string worst_row;
};

struct SetResult {
  std::string name, source, device, unit;
  Claim claim = Claim::in_family;
  std::vector<LedgerRow> rows;
  int fitted_on = 0;
  ErrorSummary time;
  ErrorSummary memory;  ///< over all rows with measured memory, for which nothing is fitted
  /// Spearman's rank correlation of predicted and measured times, averaged over families of at
  /// least three rows.
  double rank_correlation = 0;
  double worst_rank_correlation = 0;
  /// Relative excess of the configuration predicted to be best over the measured best, averaged
  /// over problems with a choice.
  double regret = 0;
  int problems = 0;
  /// Half width of the prediction interval, from the fitted rows: p10 and p90 of another row are
  /// its prediction divided by, and times, 1 + this. Nothing if fewer than two rows (out of family:
  /// two families) were fitted.
  std::optional<double> interval;
  double covered = 0;  ///< fraction of the held-out rows within their intervals
  Calibration calibration;
  std::vector<std::string> assumptions, left_out;
};

/// Fits the set's unknowns on the given rows (Huber loss on the logarithm of predicted over
/// measured); `with_corrections` adds one factor for each shape.
Calibration fit_constants(const MeasuredSet& set, const std::vector<int>& rows,
                          bool with_corrections);

/// Whether these rows suffice for a factor for each of their shapes: on average three rows per
/// shape.
bool has_enough_for_corrections(const MeasuredSet& set, const std::vector<int>& rows);

/// How far p10 and p90 of rows that were not fitted are from their predictions (see
/// `SetResult::interval`), from what is wrong of each fitted row, out of family of each family,
/// where it is left out of the fit.
std::optional<double> interval_of_others(const MeasuredSet& set, const std::vector<int>& rows,
                                         const Calibration& calibration, Claim claim);
/// Fraction of the held-out rows within the interval.
double part_within(const SetResult& result, double interval);

/// Rows to fit on, at most a quarter (but one), drawn with the seed; empty if the claim makes no
/// sense for the set.
std::vector<int> rows_to_fit(const MeasuredSet& set, Claim claim, std::uint64_t seed);

/// The set under a claim that it supports.
SetResult replay(const MeasuredSet& set, Claim claim, std::uint64_t seed);
/// The set with constants fitted elsewhere: nothing is fitted, every row is predicted.
SetResult replay_with(const MeasuredSet& set, const Calibration& calibration);
/// p10 and p90 of runs that nobody fitted, by the usual constants, over and times 1 + this: what
/// four of five rows of publishers left out of a fit were within, as
/// `tools/benchmarks/prediction-errors --leave-out` counts them. Narrower where other publishers'
/// runs on this kind of device, in this precision, are part of the fit: A100 and H100 in 16 bits.
double interval_of_usual_constants(std::string_view device, bool in_8_bits);
/// The set with `usual_constants` of its device and their interval.
SetResult replay_usual(const MeasuredSet& set);
/// Under each claim that makes sense, the narrower one first.
std::vector<SetResult> replay_all(const MeasuredSet& set, std::uint64_t seed);

/// The rows that are most informative for the constants, chosen greedily: each time the row, out of
/// half of them drawn with the seed, whose prediction is least certain after the rows before.
/// Measured times are not used.
std::vector<int> informative_rows(const MeasuredSet& set, std::size_t count, std::uint64_t seed);

/// The value of an additional measurement.
struct NextMeasurement {
  std::string constant;  ///< whose interval is widest for its value
  std::string row;       ///< like this one
  double narrows = 0;    ///< the interval's loss, as a fraction
};
/// Which row of the set, measured once more, would narrow the least certain constant most; nothing
/// without constants or with one.
std::optional<NextMeasurement> next_measurement(const MeasuredSet& set,
                                                const Calibration& calibration);

// stagecraft-constants/1; the annotated example opens constants_json.cpp.
struct NamedCalibration {
  std::string set;
  std::string device;
  Calibration calibration;
};
std::string write_constants(const std::vector<NamedCalibration>& calibrations);
std::vector<NamedCalibration> read_constants(const Json& json);
/// Those of the set, else of its device, else none.
const NamedCalibration* constants_for(const std::vector<NamedCalibration>& known,
                                      const MeasuredSet& set);

ErrorSummary summarise(const std::vector<std::pair<std::string, double>>& errors);
/// Rank correlation with ties at their mean rank; 0 for fewer than two.
double spearman(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace stagecraft
