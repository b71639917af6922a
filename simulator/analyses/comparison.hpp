// Comparison of a predicted and a measured timeline of one program: what took longer, and where the
// difference began.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Instructions of one kind on one stage: their number and mean times.
struct KindDifference {
  Op op = Op::forward;
  int stage = 0;
  int count = 0;
  Duration predicted{0};
  Duration measured{0};
  bool operator==(const KindDifference&) const = default;
};

/// Messages from one device to another.
struct LinkDifference {
  int from = 0;
  int to = 0;
  int count = 0;
  Duration predicted{0};
  Duration measured{0};
  bool operator==(const LinkDifference&) const = default;
};

/// A part of the difference between the two steps. The parts of one device add up to the
/// difference.
struct Share {
  std::string what;   ///< "B on stage 1", "waiting and gaps"
  Duration extra{0};  ///< measured minus predicted
  bool operator==(const Share&) const = default;
};

/// The first instruction that ended noticeably later or earlier than predicted.
struct Departure {
  int device = 0;
  Instruction instruction;
  Duration late{0};     ///< measured end minus predicted end
  std::string because;  ///< "slow compute", "late start"
  bool operator==(const Departure&) const = default;
};

struct Comparison {
  Duration predicted{0};
  Duration measured{0};
  double error = 0;                    ///< predicted / measured - 1
  std::vector<KindDifference> kinds;   ///< by stage, then kind
  std::vector<LinkDifference> links;   ///< by sender, then receiver
  int device = 0;                      ///< the device that ended last, whose shares are given
  std::vector<Share> shares;           ///< largest first
  std::optional<Departure> departure;  ///< nothing if every end is within 1 % of the predicted step
};

/// Compares the first iteration of each. Throws Error (input) unless both have the same devices and
/// the same instructions.
Comparison compare(const Timeline& predicted, const Timeline& measured);

}  // namespace stagecraft
