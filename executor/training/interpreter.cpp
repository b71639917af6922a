#include "executor/training/interpreter.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "executor/backends/dry.hpp"
#include "executor/checkpoints/held.hpp"
#include "executor/driver/ranks.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// What the transport's rank carries out, in this order.
std::vector<int> order_of_rank(const Program& program, const RankMap& ranks,
                               const Transport& transport) {
  const int device = ranks.device_of(transport.rank());
  return transport.needs_global_order() ? program.order[index(device)]
                                        : order_of_device(program, device);
}

/// For each work whether it is the last that sends its tensor, or a piece of it.
std::vector<char> last_sends(const Program& program, const std::vector<int>& order) {
  std::vector<char> last(program.work.size());
  std::set<std::tuple<int, Op, int>> seen;
  for (auto i = order.rbegin(); i != order.rend(); ++i) {
    const Work& work = program.work[index(*i)];
    if (!is_send(work.instruction.op)) continue;
    last[index(*i)] =
        seen.emplace(work.chunk, work.instruction.op, work.instruction.microbatch).second;
  }
  return last;
}

/// While it lives, what is allocated has its place in the arena, if there is one.
class InArena {
 public:
  template <class Open>
  InArena(Arena* arena, const Open& open) : arena_(arena) {
    if (arena_ != nullptr) open();
  }
  ~InArena() {
    if (arena_ != nullptr) arena_->close();
  }
  InArena(const InArena&) = delete;
  InArena& operator=(const InArena&) = delete;

 private:
  Arena* arena_;
};

std::unique_ptr<Arena> make_arena(const TracedProgram* traced, const RankMap& ranks, int rank,
                                  Backend& backend) {
  if (traced == nullptr) return nullptr;
  return std::make_unique<Arena>(*traced, ranks.device_of(rank), ranks.peer_of(rank), backend);
}

std::vector<std::unique_ptr<TrainedChunk>> chunks_of_device(const Training& training,
                                                            const Program& program, int device,
                                                            TensorPeers* peers, Arena* arena,
                                                            Backend& backend) {
  std::vector<std::unique_ptr<TrainedChunk>> chunks(program.chunks.size());
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (program.chunks[i].device != device) continue;
    const InArena places(arena, [&] { arena->open(static_cast<int>(i)); });
    chunks[i] =
        std::make_unique<TrainedChunk>(training, program, static_cast<int>(i), peers, backend);
  }
  return chunks;
}

/// What this rank keeps of a microbatch for its partner, by channel, still without storage.
std::map<int, std::vector<Tensor>> shapes_lent(const Training& training, const Program& program,
                                               const std::vector<int>& order, TensorPeers* peers,
                                               Bytes row_alignment) {
  DryBackend dry(row_alignment);
  std::map<int, std::vector<Tensor>> shapes;
  for (const int i : order) {
    if (program.work[index(i)].instruction.op != Op::take_in) continue;
    const int channel = *program.work[index(i)].channel;
    const auto [found, is_new] = shapes.try_emplace(channel);
    if (is_new) {
      found->second =
          shapes_kept(training, program, program.channels[index(channel)].from, peers, dry);
    }
  }
  return shapes;
}

/// Throws Error (execution) with another rank's reason, if there is one by then.
void wait_for_reason(Transport& transport) {
  constexpr Duration patience = std::chrono::seconds(2), nap = std::chrono::milliseconds(1);
  for (const Moment start = now(); now() - start < patience; std::this_thread::sleep_for(nap)) {
    if (const auto reason = transport.aborted()) throw Error(ErrorKind::execution, *reason);
  }
}

/// The rows of `range` in a tensor that holds the chunk's rows.
Tensor part(const Tensor& tensor, const Chunk& chunk, IndexRange range) {
  return rows_of(tensor, range.first - chunk.rows.first, range.end - chunk.rows.first);
}

}  // namespace

Interpreter::Interpreter(const Training& training, const Program& program, const RankMap& ranks,
                         const TracedProgram* traced, Backend& backend, Transport& transport)
    : training_(training),
      program_(program),
      ranks_(ranks),
      backend_(backend),
      transport_(transport),
      peers_(make_peers(ranks, transport)),
      order_(order_of_rank(program, ranks, transport)),
      arena_(make_arena(traced, ranks, transport.rank(), backend)),
      chunks_(chunks_of_device(training, program, ranks.device_of(transport.rank()), peers_.get(),
                               arena_.get(), backend)),
      sums_(training, program, ranks, chunks_, backend, transport),
      clipping_(training, ranks, chunks_, backend, transport),
      checks_(training.options.oversight.check_finite, steps_before(training.options), program,
              backend),
      sent_(program, ranks),
      received_(program, ranks),
      last_send_(last_sends(program, order_)),
      shapes_lent_(shapes_lent(training, program, order_,
                               make_absent_peers(ranks, transport.rank()).get(),
                               backend.row_alignment())),
      sent_by_(program.work.size()),
      stamps_(program.work.size()),
      posted_(program.channels.size()),
      arrived_(program.work.size()) {}

void Interpreter::step(int step, StepRecord& record) {
  step_ = step;
  sums_.begin_step();
  clipping_.begin_step();
  for (const auto& chunk : chunks_) {
    if (chunk) chunk->begin_step();
  }
  std::ranges::fill(arrived_, char{0});
  const Late<Moment> start = backend_.moment();
  for (const int i : order_) {
    begin(i);
    carry_out(i);
  }
  const Late<Moment> end = backend_.moment();
  meet_device();
  record.ranks[index(transport_.rank())] = {.start = start.get(), .end = end.get()};
  for (const int i : order_) {
    const LateStamp stamp = std::exchange(stamps_[index(i)], {});
    record.work[index(i)] = {.start = stamp.start.get(), .end = stamp.end.get()};
  }
}

/// What it found that is not finite is an error of the work that made it.
void Interpreter::meet_device() {
  begin_to_finish();
  backend_.finish();
  const auto found = checks_.first_found();
  if (!found) return;
  begin(found->work);
  // Its sender says more.
  if (found->came_in_message) wait_for_reason(transport_);
  throw NotFinite(found->sentence);
}

/// Peers have the same.
std::vector<ChunkLoss> Interpreter::losses() {
  std::vector<ChunkLoss> losses;
  if (ranks_.peer_of(transport_.rank()) != 0) return losses;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!chunks_[i] || !is_last(training_.schedule, program_.chunks[i].stage)) continue;
    for (int m = 0; m < program_.microbatches; ++m) {
      losses.push_back({m, static_cast<int>(i), chunks_[i]->pass(m).loss.get()});
    }
  }
  return losses;
}

std::vector<HeldWeight> Interpreter::weights() {
  std::vector<HeldWeight> held;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!chunks_[i]) continue;
    for (const Parameter* parameter : chunks_[i]->parameters()) {
      held.push_back({static_cast<int>(i), &parameter->spec, parameter->weight});
    }
  }
  return held;
}

std::vector<HeldState> Interpreter::state() {
  std::vector<HeldState> held;
  const int peer = ranks_.peer_of(transport_.rank());
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    if (!chunks_[i]) continue;
    std::ranges::move(state_of(training_, program_, static_cast<int>(i), peer, *chunks_[i]),
                      std::back_inserter(held));
  }
  return held;
}

void Interpreter::carry_out(int i) {
  const Work& work = program_.work[index(i)];
  switch (work.instruction.op) {
    case Op::forward:
    case Op::backward:
    case Op::backward_input:
    case Op::backward_weight:
    case Op::recompute:
    case Op::reduce_gradient:
    case Op::reduce_scatter:
    case Op::reduce_tied:
    case Op::gather_parameters:
    case Op::reduce_norm:
    case Op::update: return compute(i);
    case Op::send_activation:
    case Op::send_gradient:
    case Op::evict:
    case Op::give_back: return send(i);
    case Op::receive_activation:
    case Op::receive_gradient:
    case Op::take_in:
    case Op::load: return post(i);
    case Op::send_norm:
    case Op::receive_norm:
    case Op::send_validation:
    case Op::receive_validation: break;  // `execute` has refused the program
  }
  throw Error(ErrorKind::execution,
              concat(to_string(work.instruction.op), " cannot be carried out yet"));
}

/// Waiting for messages is not part of the time it takes.
void Interpreter::compute(int i) {
  const Work& work = program_.work[index(i)];
  wait_for_messages(work);
  wait_for_memory(work);
  LateStamp& stamp = stamps_[index(i)];
  stamp.start = backend_.moment();
  backend_.begin_work(work.instruction);
  if (!norm_tells(work)) checks_.before(step_, i, chunk_of(work));
  compute(i, work);
  checks_.after(step_, i, chunk_of(work));
  backend_.end_work();
  stamp.end = backend_.moment();
  if (arena_) arena_->end(i);
}

/// Where gradients are clipped, their squares say whether they are finite: nobody has to look once
/// more.
bool Interpreter::norm_tells(const Work& work) const {
  return work.instruction.op == Op::update && training_.options.clip_norm > 0;
}

void Interpreter::compute(int i, const Work& work) {
  TrainedChunk& chunk = chunk_of(work);
  const InArena places(is_compute(work.instruction.op) ? arena_.get() : nullptr,
                       [&] { arena_->open_work(i); });
  const int microbatch = work.instruction.microbatch;
  if (work.instruction.op <= Op::recompute) {
    chunk.use_version(work.weight_version);
  }
  switch (work.instruction.op) {
    case Op::forward: take_input(chunk, microbatch); return chunk.forward(step_, microbatch);
    case Op::backward: take_output_gradient(chunk, microbatch); return chunk.backward(microbatch);
    case Op::backward_input:
      take_output_gradient(chunk, microbatch);
      return chunk.backward_input(microbatch);
    case Op::backward_weight: return chunk.backward_weight(microbatch);
    case Op::recompute: return chunk.recompute(microbatch);
    case Op::update:
      sums_.add_local_ties(chunk, work.weight_version);
      if (training_.options.clip_norm > 0) learn_norm();
      if (norm_tells(work) && !clipping_.is_finite()) checks_.before(step_, i, chunk);
      return chunk.update(work.weight_version, clipping_.factor());
    case Op::reduce_norm: return learn_norm();
    case Op::reduce_gradient:
    case Op::reduce_scatter:
    case Op::reduce_tied:
    case Op::gather_parameters: return sums_.carry_out(work);
    default: assert(false);  // carry_out calls for no other
  }
}

/// Of gradients that are complete; with a flush every update makes version 1.
void Interpreter::learn_norm() {
  for (const auto& chunk : chunks_) {
    if (chunk) sums_.add_local_ties(*chunk, 1);
  }
  clipping_.learn_norm();
}

// --- From stage to stage on one device
// ------------------------------------------------------------

TrainedChunk* Interpreter::before(const TrainedChunk& chunk) {
  const int stage = chunk.place().stage;
  return is_first(training_.schedule, stage) ? nullptr : neighbour(chunk, stage - 1);
}

TrainedChunk* Interpreter::after(const TrainedChunk& chunk) {
  const int stage = chunk.place().stage;
  return is_last(training_.schedule, stage) ? nullptr : neighbour(chunk, stage + 1);
}

/// The same replica of another stage, on this rank.
TrainedChunk* Interpreter::neighbour(const TrainedChunk& chunk, int stage) {
  for (const auto& other : chunks_) {
    if (!other || other->place().stage != stage) continue;
    if (other->place().replica == chunk.place().replica) return other.get();
  }
  return nullptr;
}

/// Unless messages have brought it, the input is what the stage before left.
void Interpreter::take_input(TrainedChunk& chunk, int microbatch) {
  Tensor& input = chunk.pass(microbatch).inputs.front();
  TrainedChunk* producer = before(chunk);
  if (!input.empty() || producer == nullptr) return;
  input = std::exchange(producer->pass(microbatch).output, {});
}

void Interpreter::take_output_gradient(TrainedChunk& chunk, int microbatch) {
  Tensor& gradient = chunk.pass(microbatch).output_gradient;
  TrainedChunk* producer = after(chunk);
  if (!gradient.empty() || producer == nullptr) return;
  gradient = std::exchange(producer->pass(microbatch).input_gradient, {});
}

// --- Messages
// -------------------------------------------------------------------------------------

/// What a send takes its rows from, and where a receive puts them.
Tensor& Interpreter::boundary(const Work& work) {
  MicrobatchPass& pass = chunk_of(work).pass(work.instruction.microbatch);
  const Op op = work.instruction.op;
  if (is_send(op)) return op == Op::send_activation ? pass.output : pass.input_gradient;
  return op == Op::receive_activation ? pass.inputs.front() : pass.output_gradient;
}

void Interpreter::send(int i) {
  const Work& work = program_.work[index(i)];
  const Channel& channel = program_.channels[index(*work.channel)];
  if (channel.cargo == Cargo::evicted) {
    sent_by_[index(i)] = send_lent(work);
  } else {
    Tensor& tensor = boundary(work);
    const Tensor rows = part(tensor, program_.chunks[index(work.chunk)], channel.rows);
    if (last_send_[index(i)] != 0) tensor = {};
    sent_by_[index(i)] = hand_over(work, rows);
  }
  if (arena_) arena_->end(i);
}

/// To every peer of the receiving device that this one serves. Returns how many messages each has
/// had by now.
long Interpreter::hand_over(const Work& work, const Tensor& tensor) {
  long messages = 0;
  for (const int each : ranks_.channels_from(transport_.rank(), *work.channel)) {
    const MessageLabel label = sent_.next(each, work);
    transport_.send(each, backend_, tensor, now(), label);
    messages = label.number + 1;
  }
  return messages;
}

/// In an arena: what this work writes to may be on its way to another rank still.
void Interpreter::wait_for_memory(const Work& work) {
  if (!arena_) return;
  std::for_each(begin_of(program_.waits, work.waits), end_of(program_.waits, work.waits),
                [&](int on) {
                  const Work& awaited = program_.work[index(on)];
                  const bool own = chunks_[index(awaited.chunk)] != nullptr;
                  if (!own || !is_send(awaited.instruction.op)) return;
                  for (const int each : ranks_.channels_from(transport_.rank(), *awaited.channel)) {
                    transport_.wait_for_delivery(each, backend_, sent_by_[index(on)]);
                  }
                });
}

void Interpreter::post(int i) {
  const Work& work = program_.work[index(i)];
  const Channel& channel = program_.channels[index(*work.channel)];
  wait_for_memory(work);
  const InArena places(arena_.get(), [&] { arena_->open_work(i); });
  posted_[index(*work.channel)].push_back(i);
  if (channel.cargo == Cargo::evicted) return post_lent(work);
  const Chunk& chunk = program_.chunks[index(work.chunk)];
  Tensor& tensor = boundary(work);
  if (tensor.empty()) {
    const int stage = channel.cargo == Cargo::gradient ? chunk.stage : chunk.stage - 1;
    tensor = backend_.allocate(training_.boundary_shape(stage, chunk.rows.size()),
                               training_.precision());
  }
  transport_.post(ranks_.channel_to(transport_.rank(), *work.channel), backend_,
                  part(tensor, chunk, channel.rows));
}

/// The tensors that go to a partner and come back, here or there.
std::vector<Tensor*> Interpreter::lent(const Work& work) {
  const Op op = work.instruction.op;
  const int microbatch = work.instruction.microbatch;
  if (op == Op::evict || op == Op::load) return chunk_of(work).kept(microbatch);
  std::vector<Tensor*> all;
  for (Tensor& tensor : kept_[{work.chunk, microbatch}]) all.push_back(&tensor);
  return all;
}

/// A partner hands back what has arrived; the lender's is there already.
long Interpreter::send_lent(const Work& work) {
  if (work.instruction.op == Op::give_back) wait_for_messages(work);
  long messages = 0;
  for (Tensor* tensor : lent(work)) {
    const Tensor whole = *tensor;
    tensor->storage = {};
    messages = hand_over(work, whole);
  }
  return messages;
}

void Interpreter::post_lent(const Work& work) {
  if (work.instruction.op == Op::take_in) {
    kept_[{work.chunk, work.instruction.microbatch}] = shapes_lent_.at(*work.channel);
  }
  for (Tensor* tensor : lent(work)) {
    *tensor = backend_.allocate_like(*tensor);
    transport_.post(ranks_.channel_to(transport_.rank(), *work.channel), backend_, *tensor);
  }
}

void Interpreter::wait_for_messages(const Work& work) {
  std::for_each(begin_of(program_.waits, work.waits), end_of(program_.waits, work.waits),
                [&](int on) {
                  const Work& awaited = program_.work[index(on)];
                  const bool own = chunks_[index(awaited.chunk)] != nullptr;
                  if (!own || !is_receive(awaited.instruction.op)) return;
                  while (arrived_[index(on)] == 0) take_message(*awaited.channel);
                });
}

void Interpreter::take_message(int channel) {
  assert(!posted_[index(channel)].empty());
  const int receive = posted_[index(channel)].front();
  posted_[index(channel)].pop_front();
  const Work& work = program_.work[index(receive)];
  const bool is_lent = program_.channels[index(channel)].cargo == Cargo::evicted;
  LateStamp& stamp = stamps_[index(receive)];
  for (std::size_t left = is_lent ? lent(work).size() : 1, all = left; left > 0; --left) {
    const int from = ranks_.channel_to(transport_.rank(), channel);
    const Arrival arrival = transport_.receive(from, backend_);
    received_.check(from, work, arrival.label);
    checks_.arrived(step_, receive, arrival.tensor);
    if (left == all) stamp.start = arrival.sent;
    stamp.end = arrival.arrived;
  }
  arrived_[index(receive)] = 1;
}

}  // namespace stagecraft
