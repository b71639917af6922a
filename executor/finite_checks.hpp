// Searching what a rank hands on for NaN and infinity, so that the instruction that made the first
// one is named, and not one that choked on it later.
//
//   RF1.0 ─→ F1.0 ─→ SF1.0        what arrives, and what leaves: boundary tensors
//            B1.0 ─→ G1.3 ─→ U1.3       gradients before they are summed, and before they are used

#pragma once

#include "executor/trained_chunk.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// A number was NaN or infinite. It would be again if the step was repeated.
class NotFinite : public Error {
 public:
  explicit NotFinite(const std::string& message) : Error(ErrorKind::execution, message) {}
};

class FiniteChecks {
 public:
  /// Does nothing unless `on`. Steps are told as they are counted since training began.
  FiniteChecks(bool on, int steps_before, Backend& backend)
      : on_(on), steps_before_(steps_before), backend_(backend) {}

  /// A message is there, as its receiver has it; `work` is the receive. Throws NotFinite, as the
  /// next two, with what was bad: what came, a weight, a gradient or the result alone.
  void arrived(int step, const Work& work, const Tensor& tensor) const;
  void before(int step, const Work& work, TrainedChunk& chunk) const;
  void after(int step, const Work& work, TrainedChunk& chunk) const;

 private:
  [[noreturn]] void refuse(int step, const std::string& what) const;
  bool is_bad(const Tensor& tensor) const;
  std::string reason(const Work& work, TrainedChunk& chunk) const;

  bool on_;
  int steps_before_;
  Backend& backend_;
};

}  // namespace stagecraft
