// Checks a rank's results for NaN and infinity, so that an error names the instruction that made
// the first one, not a later one that used it.
//
//   RF1.0 ─→ F1.0 ─→ SF1.0        what arrives, and what leaves: boundary tensors
//            B1.0 ─→ G1.3 ─→ U1.3       gradients before they are summed, and before they are used
//
// If the backend is asynchronous, the answers are read at the end of the step, in the order of the
// checks. By then weights have been updated, so the error is less precise: the step, and the layers
// between which the number occurred.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "executor/training/trained_chunk.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

/// Thrown for NaN or infinity. Repeating the step would give it again.
class NotFinite : public Error {
 public:
  explicit NotFinite(const std::string& message) : Error(ErrorKind::execution, message) {}
};

class FiniteChecks {
 public:
  /// Does nothing unless `on`. Errors count steps since training began.
  FiniteChecks(bool on, int steps_before, const Program& program, Backend& backend)
      : on_(on), steps_before_(steps_before), program_(program), backend_(backend) {}

  /// A message is there, as its receiver has it; `work` is the receive. Throws NotFinite, as the
  /// next two, with what was bad: what came, a weight, a gradient or the result alone. Unless the
  /// answer is late.
  void arrived(int step, int work, const Tensor& tensor);
  void before(int step, int work, TrainedChunk& chunk);
  void after(int step, int work, TrainedChunk& chunk);

  /// Of late answers.
  struct Found {
    int work = 0;
    bool came_in_message = false;
    std::string sentence;
  };
  /// The first of the step's that is bad, when the backend has finished; the others are forgotten.
  std::optional<Found> first_found();

 private:
  /// Asked, and not answered yet.
  struct Question {
    Late<bool> is_finite;
    Late<double> number;  ///< is to be finite, too
    int work = 0;
    int step = 0;
    const char* what = "";
    const TrainedChunk* chunk = nullptr;  ///< that made it; null: it came in a message
  };

  [[noreturn]] void refuse(int step, const std::string& what) const;
  std::string sentence(int step, const std::string& what) const;
  static std::string source_of(const Question& question);
  bool is_bad(const Tensor& tensor) const;
  /// Whether it is known to be bad; else it may be found later that it is.
  bool ask(int step, int work, const char* what, const TrainedChunk* chunk, const Tensor& tensor,
           Late<double> number = {});
  std::string reason(const Work& work, TrainedChunk& chunk) const;
  const Work& at(int work) const { return program_.work[static_cast<std::size_t>(work)]; }

  bool on_;
  int steps_before_;
  const Program& program_;
  Backend& backend_;
  std::vector<Question> questions_;
};

}  // namespace stagecraft
