// The interpreter: executes a rank's part of a program, for training or inference, work by work.
//
// One thread runs all lanes of the program. A receive only posts memory, and the compute that needs
// the message waits for it. A send passes its tensor to the transport and continues. Only a
// reduction blocks the rank. With an asynchronous backend, the rank runs ahead of its device and
// waits for it at the end of the step: only then are losses, times and checks for NaN read.
//
//   order      RF1.0   F1.0            SB..    RF1.1   …
//   rank       post    wait, compute   send    post
//
// Memory is allocated and freed as the program says: a receive allocates the stage's whole input,
// of which each message fills its rows; an output lives until its last send; the backward frees the
// tensors that its forward kept. In an arena, places are fixed, and a tensor that reuses the place
// of a message waits until the message is delivered. Evicted activations go to the partner and back
// tensor by tensor.

#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executor/memory/arena.hpp"
#include "executor/training/clipping.hpp"
#include "executor/training/finite_checks.hpp"
#include "executor/training/gradient_sums.hpp"
#include "executor/training/trained_chunk.hpp"
#include "executor/training/worker.hpp"
#include "executor/transports/labels.hpp"
#include "executor/transports/peers.hpp"
#include "executor/transports/transport.hpp"

namespace stagecraft {

class Interpreter final : public Worker {
 public:
  /// Allocates and initialises the weights of all chunks of the transport's rank, in an arena if
  /// there is a traced program, which must outlive the interpreter.
  Interpreter(const Training& training, const Program& program, const RankMap& ranks,
              const TracedProgram* traced, Backend& backend, Transport& transport);

  void step(int step, StepRecord& record) override;
  std::vector<ChunkLoss> losses() override;
  std::vector<HeldWeight> weights() override;
  std::vector<HeldState> state() override;
  Bytes peak_memory() const override { return arena_ ? arena_->peak() : backend_.peak_bytes(); }
  Bytes allocated_memory() const override { return backend_.peak_bytes(); }

 private:
  void carry_out(int index);
  void compute(int index);
  void compute(int index, const Work& work);

  TrainedChunk& chunk_of(const Work& work) {
    return *chunks_[static_cast<std::size_t>(work.chunk)];
  }
  TrainedChunk* before(const TrainedChunk& chunk);
  TrainedChunk* after(const TrainedChunk& chunk);
  TrainedChunk* neighbour(const TrainedChunk& chunk, int stage);
  void take_input(TrainedChunk& chunk, int microbatch);
  void take_output_gradient(TrainedChunk& chunk, int microbatch);
  void learn_norm();
  bool norm_tells(const Work& work) const;

  Tensor& boundary(const Work& work);
  std::vector<Tensor*> lent(const Work& work);
  long send_lent(const Work& work);
  void post_lent(const Work& work);
  void send(int index);
  long hand_over(const Work& work, const Tensor& tensor);
  void wait_for_memory(const Work& work);
  void post(int index);
  void wait_for_messages(const Work& work);
  void meet_device();
  void take_message(int channel);

  const Training& training_;
  const Program& program_;
  const RankMap& ranks_;
  Backend& backend_;
  Transport& transport_;
  std::unique_ptr<TensorPeers> peers_;
  std::vector<int> order_;
  std::unique_ptr<Arena> arena_;
  std::vector<std::unique_ptr<TrainedChunk>> chunks_;  ///< indexed like the program's chunks; null
                                                       ///< if another rank holds the chunk
  GradientSums sums_;
  Clipping clipping_;
  FiniteChecks checks_;
  MessageLabels sent_, received_;
  std::vector<char> last_send_;  ///< per work of the program: whether it is the last send of its
                                 ///< tensor
  std::map<int, std::vector<Tensor>> shapes_lent_;           ///< by channel to this rank
  std::map<std::pair<int, int>, std::vector<Tensor>> kept_;  ///< tensors kept for a partner, by
                                                             ///< chunk and microbatch

  std::vector<long> sent_by_;  ///< per work: messages sent over its channel, up to its last one

  // State of the current step:
  int step_ = 0;
  struct LateStamp {
    Late<Moment> start, end;
  };
  std::vector<LateStamp> stamps_;        ///< parallel to the program's work
  std::vector<std::deque<int>> posted_;  ///< per channel: receives whose message has not been taken
  std::vector<char> arrived_;            ///< parallel to the program's work: receives
};

}  // namespace stagecraft
