// The rules of `check`, one file each. A rule reads the program's facts and answers with what it
// found and what it proved.

#pragma once

#include <array>
#include <string>
#include <vector>

#include "simulator/checks/check.hpp"
#include "simulator/checks/facts.hpp"

namespace stagecraft::checks {

/// What one rule says. Holds at most a handful of findings: a program with ten thousand mistakes of
/// one kind has one mistake.
class Verdict {
 public:
  explicit Verdict(std::string rule) : rule_(std::move(rule)) {}

  void found(Finding finding);
  void found(std::string message, int device, const Instruction& instruction);
  void found(std::string message, const Facts& facts, int work);
  void proved(std::string sentence) { proved_.push_back(std::move(sentence)); }

  bool holds() const { return found_ == 0; }
  /// Appends to the report: the findings, or else what was proved.
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
/// Each channel buffers so many messages.
Verdict deadlock(const Facts& facts, int messages_in_flight);
Verdict version(const Facts& facts);
Verdict memory(const Facts& facts, const std::vector<Bytes>& limits,
               const std::vector<MemoryUse>& timed);

/// Which work has surely ended when another one starts, whatever the clock says: lane order, waits,
/// messages, collectives.
///
/// Vector clocks, one entry per lane of each device, carried along one possible execution. Queries
/// are about two works of the same device, so of each work's clock only the entries of its own
/// device are kept; whole clocks live as long as something that depends on them has not run.
class HappensBefore {
 public:
  explicit HappensBefore(const Facts& facts);

  /// False if the execution got stuck; then nothing below means anything.
  bool complete() const { return started_.size() == facts_.program.work.size(); }
  /// Has `earlier` ended whenever `later` starts? Both on the same device.
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
