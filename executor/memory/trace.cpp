#include "executor/memory/trace.hpp"

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr long forever = std::numeric_limits<long>::max();

struct Asked {
  Bytes bytes = 0;
  long begin = 0;
  long end = forever;
  std::weak_ptr<void> storage;
};

/// Gives no memory, and remembers who asked for it and gave it back when. Must outlive its tensors.
class Recorder final : public Placement {
 public:
  std::shared_ptr<void> place(Bytes bytes) override {
    static char nowhere = 0;
    const std::size_t number = asked_.size();
    std::shared_ptr<void> storage(&nowhere, [this, number](void*) { asked_[number].end = ++now_; });
    asked_.push_back({.bytes = aligned(bytes), .begin = ++now_, .storage = storage});
    return storage;
  }

  std::size_t size() const { return asked_.size(); }
  const Asked& at(std::size_t i) const { return asked_[i]; }
  bool lives(std::size_t i) const { return asked_[i].end == forever; }

  /// Whose memory a tensor shares.
  std::optional<std::size_t> find(const Tensor& tensor) const {
    for (std::size_t i = asked_.size(); i-- > 0;) {
      const std::weak_ptr<void>& storage = asked_[i].storage;
      if (!storage.owner_before(tensor.storage) && !tensor.storage.owner_before(storage)) return i;
    }
    return {};
  }

 private:
  std::vector<Asked> asked_;
  long now_ = 0;
};

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
  }

  ~Tracer() { dry_.use(nullptr); }
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;

  ChunkTapes run() {
    settle_construction();
    if (!program_.trains) {
      forward();
      return std::move(tapes_);
    }
    // Where some microbatches' backward is split and others' is not, what the forward saves has the
    // same places for both.
    if (happens(Op::backward)) {
      forward();
      backward();
    }
    if (happens(Op::backward_input)) {
      forward();
      backward_in_two();
    }
    settle_saved();
    call(Op::update, [&] { trial_->update(1); });
    return std::move(tapes_);
  }

 private:
  MicrobatchPass& pass() { return trial_->pass(0); }

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
      for (const Tensor& weight : slot) place(own(weight, 0), BufferRole::parameters, parameters);
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
    calls_[op] = {first, recorder_.size()};
    place_workspace(op);
    write(op);
  }

  void write(Op op) {
    const auto [first, end] = calls_[op];
    tapes_.calls[op] = {claims_.begin() + static_cast<std::ptrdiff_t>(first),
                        claims_.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  /// The largest first, each at the lowest place that is free while it lives.
  void place_workspace(Op op) {
    const auto [first, end] = calls_[op];
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
    if (op == Op::update && extent > 0) {
      throw Error(ErrorKind::bug, "an update asks for memory of its own");
    }
    if (alone) {
      tapes_.memory.forward_alone = extent;
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

  /// From its input to what is saved.
  void forward() {
    const Chunk& place = trial_->place();
    if (!is_first(training_.schedule, place.stage)) {
      pass().inputs.front() = boundary(place.stage - 1);
      tapes_.memory.input = recorder_.at(recorder_.size() - 1).bytes;
    }
    call(Op::forward, [&] { trial_->forward(0, 0); });
    settle_result(Op::forward, pass().output, BufferRole::output, tapes_.memory.output);
    if (happens(Op::recompute)) call(Op::recompute, [&] { trial_->recompute(0); });
    if (!program_.trains) return;
    const auto [first, end] = calls_[saves()];
    saved_.clear();
    for (std::size_t i = first; i < end; ++i) {
      if (recorder_.lives(i)) saved_.push_back(i);
    }
    kept_.clear();
    for (const Tensor* tensor : trial_->kept(0)) kept_.push_back(own(*tensor, first));
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

  /// What a call hands on; then it is sent.
  void settle_result(Op op, Tensor& result, BufferRole role, Bytes& bytes) {
    if (result.empty()) return;
    Row row;
    place(own(result, calls_[op].first), role, row);
    bytes = std::max(bytes, row.end());
    write(op);
    result = {};
  }

  void backward() {
    call(Op::backward, [&] { trial_->backward(0); });
    settle_result(Op::backward, pass().input_gradient, BufferRole::input_gradient,
                  tapes_.memory.input);
    require_nothing_left(Op::backward);
  }

  void backward_in_two() {
    const auto gradient = recorder_.find(pass().output_gradient);
    call(Op::backward_input, [&] { trial_->backward_input(0); });
    settle_result(Op::backward_input, pass().input_gradient, BufferRole::input_gradient,
                  tapes_.memory.input);
    std::erase_if(saved_, [&](std::size_t i) {
      if (!recorder_.lives(i)) return false;
      throughout_.push_back(i);
      return true;
    });
    tapes_.memory.weight_reads_output_gradient = gradient && recorder_.lives(*gradient);
    Row row;
    const auto [first, end] = calls_[Op::backward_input];
    for (std::size_t i = first; i < end; ++i) {
      if (recorder_.lives(i)) place(i, BufferRole::saved_for_weight, row);
    }
    tapes_.memory.saved_for_weight = row.end();
    write(Op::backward_input);
    call(Op::backward_weight, [&] { trial_->backward_weight(0); });
    require_nothing_left(Op::backward_weight);
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
    for (const std::size_t i : saved_) place(i, BufferRole::saved, row);
    for (const std::size_t i : throughout_) place(i, BufferRole::saved_throughout, throughout);
    tapes_.memory.saved = row.end();
    tapes_.memory.saved_throughout = throughout.end();
    for (const std::size_t i : kept_) tapes_.kept.push_back(claims_[i]);
    write(saves());
  }

  const Training& training_;
  const Program& program_;
  int chunk_;
  Recorder recorder_;
  Backend& dry_;
  std::optional<TrainedChunk> trial_;
  std::vector<TensorPlace> claims_;  ///< parallel to what the recorder was asked for
  std::map<Op, std::pair<std::size_t, std::size_t>> calls_;  ///< the claims of each
  std::vector<std::size_t> saved_, throughout_, kept_;
  ChunkTapes tapes_;
};

}  // namespace

ChunkTapes trace_chunk(const Training& training, const Program& program, int chunk,
                       TensorPeers* peers, Backend& dry) {
  return Tracer(training, program, chunk, peers, dry).run();
}

}  // namespace stagecraft
