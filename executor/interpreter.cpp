#include "executor/interpreter.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "executor/ranks.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::size_t index(int i) {
  return static_cast<std::size_t>(i);
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

/// The rows of `range` in a tensor that holds the chunk's rows.
Tensor part(const Tensor& tensor, const Chunk& chunk, IndexRange range) {
  return rows_of(tensor, range.first - chunk.rows.first, range.end - chunk.rows.first);
}

/// Weights that both chunks hold, by name.
std::set<std::string> common_names(std::span<const std::unique_ptr<TrainableLayer>> one,
                                   std::span<const std::unique_ptr<TrainableLayer>> other) {
  const auto names = [](auto layers) {
    std::set<std::string> all;
    for (const auto& layer : layers) {
      for (const ParameterSpec& spec : layer->parameters()) all.insert(spec.name);
    }
    return all;
  };
  std::set<std::string> common;
  std::ranges::set_intersection(names(one), names(other), std::inserter(common, common.end()));
  return common;
}

}  // namespace

Interpreter::Interpreter(const Training& training, const Program& program, Backend& backend,
                         Transport& transport)
    : training_(training),
      program_(program),
      backend_(backend),
      transport_(transport),
      order_(order_of_rank(program, transport.rank())),
      chunks_(program.chunks.size()),
      last_send_(last_sends(program, order_)),
      posted_(program.channels.size()),
      arrived_(program.work.size()) {
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const Chunk& chunk = program.chunks[i];
    if (chunk.device != transport.rank()) continue;
    chunks_[i] = std::make_unique<TrainedChunk>(training, chunk, backend);
  }
}

void Interpreter::step(int step, StepRecord& record) {
  step_ = step;
  record_ = &record;
  ties_added_ = false;
  std::ranges::fill(arrived_, char{0});
  Stamp& whole = record.ranks[index(transport_.rank())];
  whole.start = now();
  for (const int i : order_) {
    current_ = i;
    carry_out(i);
  }
  current_ = {};
  whole.end = now();
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
    case Op::reduce_tied:
    case Op::update: return compute(i);
    case Op::send_activation:
    case Op::send_gradient: return send(i);
    case Op::receive_activation:
    case Op::receive_gradient: return post(i);
    default:
      throw Error(ErrorKind::execution,
                  concat(to_string(work.instruction.op), " cannot be carried out yet"));
  }
}

/// Waiting for messages is not part of the time it takes.
void Interpreter::compute(int i) {
  const Work& work = program_.work[index(i)];
  wait_for_messages(work);
  Stamp& stamp = record_->work[index(i)];
  stamp.start = now();
  compute(work);
  stamp.end = now();
}

void Interpreter::compute(const Work& work) {
  TrainedChunk& chunk = chunk_of(work);
  const int microbatch = work.instruction.microbatch;
  switch (work.instruction.op) {
    case Op::forward: take_input(chunk, microbatch); return chunk.forward(step_, microbatch);
    case Op::backward: take_output_gradient(chunk, microbatch); return chunk.backward(microbatch);
    case Op::backward_input:
      take_output_gradient(chunk, microbatch);
      return chunk.backward_input(microbatch);
    case Op::backward_weight: return chunk.backward_weight(microbatch);
    case Op::recompute: return chunk.recompute(microbatch);
    case Op::reduce_gradient: return reduce(work);
    case Op::reduce_tied: return reduce_tied(work);
    case Op::update: return update(chunk);
    default: assert(false);  // carry_out calls for no other
  }
}

// --- From stage to stage on one device
// ------------------------------------------------------------

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
  TrainedChunk* before = neighbour(chunk, chunk.place().stage - 1);
  if (!input.empty() || before == nullptr) return;
  input = std::exchange(before->pass(microbatch).output, {});
}

void Interpreter::take_output_gradient(TrainedChunk& chunk, int microbatch) {
  Tensor& gradient = chunk.pass(microbatch).output_gradient;
  TrainedChunk* after = neighbour(chunk, chunk.place().stage + 1);
  if (!gradient.empty() || after == nullptr) return;
  gradient = std::exchange(after->pass(microbatch).input_gradient, {});
}

// --- Messages
// -------------------------------------------------------------------------------------

/// What a send takes its rows from, and where a receive puts them.
Tensor& Interpreter::boundary(const Work& work) {
  Pass& pass = chunk_of(work).pass(work.instruction.microbatch);
  const Op op = work.instruction.op;
  if (is_send(op)) return op == Op::send_activation ? pass.output : pass.input_gradient;
  return op == Op::receive_activation ? pass.inputs.front() : pass.output_gradient;
}

void Interpreter::send(int i) {
  const Work& work = program_.work[index(i)];
  const Channel& channel = program_.channels[index(*work.channel)];
  Tensor& tensor = boundary(work);
  Tensor rows = part(tensor, program_.chunks[index(work.chunk)], channel.rows);
  if (last_send_[index(i)] != 0) tensor = {};
  transport_.send(*work.channel, std::move(rows), now());
}

void Interpreter::post(int i) {
  const Work& work = program_.work[index(i)];
  const Channel& channel = program_.channels[index(*work.channel)];
  const Chunk& chunk = program_.chunks[index(work.chunk)];
  Tensor& tensor = boundary(work);
  if (tensor.empty()) {
    const int stage = channel.cargo == Cargo::gradient ? chunk.stage : chunk.stage - 1;
    tensor = backend_.allocate(training_.boundary_shape(stage, chunk.rows.size()),
                               training_.plan.precision);
  }
  transport_.post(*work.channel, part(tensor, chunk, channel.rows));
  posted_[index(*work.channel)].push_back(i);
}

void Interpreter::wait_for_messages(const Work& work) {
  std::for_each(begin_of(program_.waits, work.waits), end_of(program_.waits, work.waits),
                [&](int on) {
                  const Work& awaited = program_.work[index(on)];
                  if (!is_receive(awaited.instruction.op)) return;
                  while (arrived_[index(on)] == 0) take_message(*awaited.channel);
                });
}

void Interpreter::take_message(int channel) {
  assert(!posted_[index(channel)].empty());
  const int receive = posted_[index(channel)].front();
  posted_[index(channel)].pop_front();
  const Arrival arrival = transport_.receive(channel, backend_);
  record_->work[index(receive)] = {.start = arrival.sent, .end = arrival.arrived};
  arrived_[index(receive)] = 1;
}

// --- Sums of gradients
// ----------------------------------------------------------------------------

void Interpreter::reduce(const Work& work) {
  transport_.all_reduce(*work.group, backend_, chunk_of(work).gradients());
}

/// By now each replica of a stage has the stage's sum, so only the first one's counts: the others
/// add zeros, which change no bit of it.
void Interpreter::reduce_tied(const Work& work) {
  const Group& group = program_.groups[index(*work.group)];
  const int owner = program_.chunks[index(group.chunks.front())].stage;
  const int user = program_.chunks[index(group.chunks.back())].stage;
  TrainedChunk& chunk = chunk_of(work);
  for (const std::string& name :
       common_names(training_.layers_of(owner), training_.layers_of(user))) {
    Tensor& gradient = chunk.find(name).front()->gradient;
    if (chunk.place().replica != 0) backend_.zero(gradient);
    transport_.all_reduce(*work.group, backend_, gradient);
  }
}

/// Copies of a weight on this rank, in model order: the first one's gradient plus the others', and
/// all get the sum.
void Interpreter::add_local_ties() {
  std::map<std::string, std::vector<Parameter*>> copies;
  for (const auto& chunk : chunks_) {
    if (!chunk) continue;
    for (Parameter* copy : chunk->parameters()) copies[copy->spec.name].push_back(copy);
  }
  for (auto& [name, tied] : copies) {
    Tensor& sum = tied.front()->gradient;
    for (std::size_t i = 1; i < tied.size(); ++i) backend_.add(tied[i]->gradient, sum);
    for (std::size_t i = 1; i < tied.size(); ++i) backend_.copy(sum, tied[i]->gradient);
  }
}

void Interpreter::update(TrainedChunk& chunk) {
  if (!std::exchange(ties_added_, true)) add_local_ties();
  chunk.update(step_ + 1);
}

}  // namespace stagecraft
