// The rules of `check`, one file each. A rule reads the program's facts, and returns its findings
// and the properties that it proved.

#pragma once

#include <array>
#include <string>
#include <vector>

#include "simulator/checks/check.hpp"
#include "simulator/checks/facts.hpp"

namespace stagecraft::checks {

/// The result of one rule. It keeps only a few findings, since many findings of one kind usually
/// have one cause.
class Verdict {
 public:
  explicit Verdict(std::string rule) : rule_(std::move(rule)) {}

  void found(Finding finding);
  void found(std::string message, int device, const Instruction& instruction);
  void found(std::string message, const Facts& facts, int work);
  void proved(std::string sentence) { proved_.push_back(std::move(sentence)); }

  bool holds() const { return found_ == 0; }
  /// Appends the findings, or else the proved properties, to the report.
  void add_to(CheckReport& report) const;

 private:
  std::string rule_;
  std::size_t found_ = 0;
  std::vector<Finding> findings_;
  std::vector<std::string> proved_;
};

/// The tables fit together: no index leads outside of its table, every work is in its device's
/// order exactly once. All other rules rely on it.
Verdict structure(const Program& program);

Verdict conservation(const Facts& facts);
Verdict matching(const Facts& facts);
/// No deadlock, if each channel buffers `messages_in_flight` messages.
Verdict deadlock(const Facts& facts, int messages_in_flight);
Verdict version(const Facts& facts);
Verdict memory(const Facts& facts, const std::vector<Bytes>& limits,
               const std::vector<MemoryUse>& timed);

/// The happens-before relation of works, independent of times: it follows from lane order, waits,
/// messages and collectives.
///
/// Implemented by vector clocks with one entry per lane of each device, along one possible
/// execution. Queries are about two works of the same device, so only the entries of a work's own
/// device are kept; whole clocks live until all works that depend on them have run.
class HappensBefore {
 public:
  explicit HappensBefore(const Facts& facts);

  /// False if the execution deadlocked; then the other functions are meaningless.
  bool complete() const { return started_.size() == facts_.program.work.size(); }
  /// Whether `earlier` has always ended when `later` starts; both must be on the same device.
  bool ended(int earlier, int later) const;
  /// All works, in an order in which they may start.
  const std::vector<int>& started() const { return started_; }

 private:
  friend class Execution;
  const Facts& facts_;
  std::vector<std::array<int, lanes.size()>>
      ended_;  // per work: works of each lane of its device that have ended
  std::vector<int> started_;
};

Verdict order(const Facts& facts, const HappensBefore& before);
Verdict race(const Facts& facts, const HappensBefore& before);
Verdict sharding(const Facts& facts, const HappensBefore& before);
Verdict norm(const Facts& facts, const HappensBefore& before);

}  // namespace stagecraft::checks
