#include "executor/memory/trace.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>

#include "executor/memory/recorder.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

/// One behind the other.
class Row {
 public:
  Bytes add(Bytes bytes) { return std::exchange(end_, end_ + bytes); }
  Bytes end() const { return end_; }

 private:
  Bytes end_ = 0;
};

class Tracer {
 public:
  Tracer(const Training& training, const Program& program, int chunk, TensorPeers* peers,
         Backend& dry)
      : training_(training), program_(program), chunk_(chunk), dry_(dry) {
    dry_.use(&recorder_);
    trial_.emplace(training, program, chunk, peers, dry_);
    claims_.resize(recorder_.size());
    pieces_.resize(static_cast<std::size_t>(program.sequence_chunks));
  }

  ~Tracer() { dry_.use(nullptr); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  ChunkTapes run() {
    settle_construction();
    const int pieces = program_.sequence_chunks;
    // Where some microbatches' backward is split and others' is not, what the forward saves has the
    // same places for both.
    for (const Op backward : {Op::backward, Op::backward_input}) {
      if (program_.trains && !happens(backward)) continue;
      for (piece_ = 0; piece_ < pieces; ++piece_) forward();
      if (!program_.trains) break;
      for (piece_ = pieces - 1; piece_ >= 0; --piece_) {
        if (happens(Op::recompute)) recompute();
        note_saved();
        backward == Op::backward ? go_backward() : go_backward_in_two();
      }
      require_nothing_left(backward);
    }
    if (program_.trains) {
      for (piece_ = 0; piece_ < pieces; ++piece_) settle_saved();
      if (happens(Op::update)) update();
    }
    tapes_.memory.keeps_input = !program_.chunks[static_cast<std::size_t>(chunk_)].passes_on;
    for (OfPiece& piece : pieces_) tapes_.calls.push_back(std::move(piece.tapes));
    return std::move(tapes_);
  }

 private:
  /// Of one piece of the first microbatch's sequences, or of them as a whole.
  struct OfPiece {
    std::map<Op, std::pair<std::size_t, std::size_t>> calls;  ///< the claims of each
    std::map<Op, Tape> tapes;
    std::vector<std::size_t> saved, throughout;
  };

  OfPiece& here() { return pieces_[static_cast<std::size_t>(piece_)]; }
  MicrobatchPass& pass() { return trial_->pass(piece_); }

  bool happens(Op op) const {
    return std::ranges::any_of(program_.work, [&](const Work& work) {
      return work.chunk == chunk_ && work.instruction.op == op;
    });
  }

  Bytes place(std::size_t i, BufferRole role, Row& row) {
    claims_[i] = {
        .role = role, .bytes = recorder_.at(i).bytes, .offset = row.add(recorder_.at(i).bytes)};
    return claims_[i].offset;
  }

  /// The number of a tensor that the trial itself has asked for.
  std::size_t own(const Tensor& tensor, std::size_t first) const {
    const auto found = recorder_.find(tensor);
    if (!found || *found < first) {
      throw Error(ErrorKind::bug, concat("a layer of stage ", trial_->place().stage,
                                         " hands on memory that is not its own"));
    }
    return *found;
  }

  void settle_construction() {
    Row parameters, gradients, optimizer;
    for (auto& slot : trial_->weight_slots()) {
      for (std::size_t i = 0; i < slot.size(); ++i) {
        if (!trial_->is_twin(i)) place(own(slot[i], 0), BufferRole::parameters, parameters);
      }
      if (&slot == &trial_->weight_slots().front()) tapes_.memory.parameters = parameters.end();
    }
    if (program_.trains) {
      place(own(trial_->gradients(), 0), BufferRole::gradients, gradients);
      for (const OptimizerState& state : trial_->optimizer()) {
        for (const Tensor* tensor : {&state.master, &state.first_moment, &state.second_moment}) {
          if (!tensor->empty()) place(own(*tensor, 0), BufferRole::optimizer, optimizer);
        }
      }
    }
    for (std::size_t i = 0; i < claims_.size(); ++i) claims_[i].bytes = recorder_.at(i).bytes;
    tapes_.construction = claims_;
    tapes_.memory.gradients = gradients.end();
    tapes_.memory.optimizer = optimizer.end() * static_cast<Bytes>(trial_->shard().members);
  }

  /// Calls, and writes down what stays: all else is workspace.
  template <class Body>
  void call(Op op, const Body& body) {
    const std::size_t first = recorder_.size();
    body();
    claims_.resize(recorder_.size());
    here().calls[op] = {first, recorder_.size()};
    place_workspace(op);
    write(op);
  }

  void write(Op op) {
    const auto [first, end] = here().calls[op];
    here().tapes[op] = {claims_.begin() + static_cast<std::ptrdiff_t>(first),
                        claims_.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  static void grow(Bytes& bytes, const Row& row) { bytes = std::max(bytes, row.end()); }

  /// The largest first, each at the lowest place that is free while it lives.
  void place_workspace(Op op) {
    const auto [first, end] = here().calls[op];
    std::vector<std::size_t> order;
    for (std::size_t i = first; i < end; ++i) {
      claims_[i] = {.role = BufferRole::workspace, .bytes = recorder_.at(i).bytes, .offset = 0};
      if (!recorder_.lives(i)) order.push_back(i);
    }
    std::ranges::stable_sort(order, std::greater<>(),
                             [&](std::size_t i) { return claims_[i].bytes; });
    Bytes extent = 0;
    std::vector<std::size_t> placed;
    for (const std::size_t i : order) {
      claims_[i].offset = lowest_place(i, placed);
      extent = std::max(extent, claims_[i].offset + claims_[i].bytes);
      placed.push_back(i);
    }
    const bool alone = op == Op::forward && (!program_.trains || happens(Op::recompute));
    std::optional<Bytes>& forward_alone = tapes_.memory.forward_alone;
    if (alone) {
      forward_alone = std::max(forward_alone.value_or(0), extent);
    } else {
      tapes_.memory.workspace = std::max(tapes_.memory.workspace, extent);
    }
  }

  Bytes lowest_place(std::size_t i, std::vector<std::size_t> placed) const {
    std::erase_if(placed, [&](std::size_t other) {
      return recorder_.at(other).end < recorder_.at(i).begin ||
             recorder_.at(i).end < recorder_.at(other).begin;
    });
    std::ranges::sort(placed, {}, [&](std::size_t other) { return claims_[other].offset; });
    Bytes place = 0;
    for (const std::size_t other : placed) {
      if (place + claims_[i].bytes <= claims_[other].offset) break;
      place = std::max(place, claims_[other].offset + claims_[other].bytes);
    }
    return place;
  }

  /// From its input to what it hands on.
  void forward() {
    const Chunk& place = trial_->place();
    if (!is_first(training_.schedule, place.stage)) {
      pass().inputs.front() = boundary(place.stage - 1);
      tapes_.memory.input = recorder_.at(recorder_.size() - 1).bytes;
    }
    call(Op::forward, [&] { trial_->forward(0, piece_); });
    settle_result(Op::forward, pass().output, BufferRole::output, tapes_.memory.output);
    if (!happens(Op::recompute)) return;
    Row row;
    for (const Tensor* tensor : trial_->past(piece_)) {
      place_new(Op::forward, *tensor, {.role = BufferRole::past}, row);
    }
    grow(tapes_.memory.past, row);
    write(Op::forward);
  }

  void recompute() {
    call(Op::recompute, [&] { trial_->recompute(piece_); });
  }

  void note_saved() {
    const auto [first, end] = here().calls[saves()];
    here().saved.clear();
    here().throughout.clear();
    for (std::size_t i = first; i < end; ++i) {
      if (recorder_.lives(i)) here().saved.push_back(i);
    }
    kept_.clear();
    for (const Tensor* tensor : trial_->kept(piece_)) kept_.push_back(own(*tensor, first));
    const Chunk& place = trial_->place();
    if (!is_last(training_.schedule, place.stage)) {
      pass().output_gradient = boundary(place.stage);
      tapes_.memory.output = recorder_.at(recorder_.size() - 1).bytes;
    }
  }

  Op saves() const { return happens(Op::recompute) ? Op::recompute : Op::forward; }

  Tensor boundary(int stage) {
    Tensor tensor = dry_.allocate(training_.boundary_shape(stage, trial_->place().rows.size()),
                                  training_.precision());
    claims_.resize(recorder_.size());
    return tensor;
  }

  /// A tensor that this call has asked for and leaves.
  void place_new(Op op, const Tensor& tensor, const TensorPlace& where, Row& row) {
    const std::size_t i = own(tensor, here().calls[op].first);
    place(i, where.role, row);
    claims_[i].piece = where.piece;
  }

  /// What a call hands on; then it is sent.
  void settle_result(Op op, Tensor& result, BufferRole role, Bytes& bytes) {
    if (result.empty()) return;
    Row row;
    place_new(op, result, {.role = role}, row);
    grow(bytes, row);
    write(op);
    result = {};
  }

  void go_backward() {
    call(Op::backward, [&] { trial_->backward(piece_); });
    settle_backward(Op::backward);
  }

  void settle_backward(Op op) {
    settle_result(op, pass().input_gradient, BufferRole::input_gradient, tapes_.memory.input);
    if (piece_ + 1 < program_.sequence_chunks) return;
    for (int piece = 0; piece < piece_; ++piece) {
      Row row;
      for (const Tensor* tensor : trial_->past_gradients(piece)) {
        place_new(op, *tensor, {.role = BufferRole::past_gradients, .piece = piece}, row);
      }
      grow(tapes_.memory.past_gradients, row);
    }
    write(op);
  }

  void go_backward_in_two() {
    const auto gradient = recorder_.find(pass().output_gradient);
    call(Op::backward_input, [&] { trial_->backward_input(piece_); });
    settle_backward(Op::backward_input);
    std::erase_if(here().saved, [&](std::size_t i) {
      if (!recorder_.lives(i)) return false;
      here().throughout.push_back(i);
      return true;
    });
    if (gradient && recorder_.lives(*gradient)) tapes_.memory.weight_reads_output_gradient = true;
    Row row;
    const auto [first, end] = here().calls[Op::backward_input];
    for (std::size_t i = first; i < end; ++i) {
      const bool is_placed = claims_[i].role != BufferRole::workspace;
      if (recorder_.lives(i) && !is_placed) place(i, BufferRole::saved_for_weight, row);
    }
    grow(tapes_.memory.saved_for_weight, row);
    write(Op::backward_input);
    call(Op::backward_weight, [&] { trial_->backward_weight(piece_); });
  }

  void require_nothing_left(Op op) const {
    for (std::size_t i = tapes_.construction.size(); i < recorder_.size(); ++i) {
      if (!recorder_.lives(i)) continue;
      throw Error(ErrorKind::bug, concat(to_string(op), " of stage ", trial_->place().stage,
                                         " leaves ", recorder_.at(i).bytes, " bytes behind"));
    }
  }

  /// Now that it is known what stays for the weight gradient.
  void settle_saved() {
    Row row, throughout;
    for (const std::size_t i : here().saved) place(i, BufferRole::saved, row);
    for (const std::size_t i : here().throughout) {
      place(i, BufferRole::saved_throughout, throughout);
    }
    grow(tapes_.memory.saved, row);
    grow(tapes_.memory.saved_throughout, throughout);
    if (piece_ == 0) {
      for (const std::size_t i : kept_) tapes_.kept.push_back(claims_[i]);
    }
    write(saves());
  }

  void update() {
    const std::size_t first = recorder_.size();
    trial_->update(1, 1);
    if (recorder_.size() > first) {
      throw Error(ErrorKind::bug, "an update asks for memory of its own");
    }
  }

  const Training& training_;
  const Program& program_;
  int chunk_;
  Recorder recorder_;
  Backend& dry_;
  std::optional<TrainedChunk> trial_;
  std::vector<TensorPlace> claims_;  ///< parallel to what the recorder was asked for
  int piece_ = 0;                    ///< whose turn it is
  std::vector<OfPiece> pieces_;
  std::vector<std::size_t> kept_;  ///< by the first piece
  ChunkTapes tapes_;
};

}  // namespace

ChunkTapes trace_chunk(const Training& training, const Program& program, int chunk,
                       TensorPeers* peers, Backend& dry) {
  return Tracer(training, program, chunk, peers, dry).run();
}

}  // namespace stagecraft
