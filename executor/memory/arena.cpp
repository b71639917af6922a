#include "executor/memory/arena.hpp"

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft {

namespace {

/// A neighbour's buffer on the same device is what this chunk's call leaves.
BufferRole role_for(const Buffer& buffer, int chunk) {
  if (buffer.chunk == chunk || buffer.role == BufferRole::evicted) return buffer.role;
  return buffer.role == BufferRole::input ? BufferRole::output : BufferRole::input_gradient;
}

}  // namespace

Arena::Arena(const TracedProgram& traced, int device, int peer, Backend& backend)
    : traced_(traced),
      program_(traced.compiled.program),
      peer_(index(peer)),
      backend_(backend),
      bytes_(program_.arena[index(device)]),
      past_gradients_(index(program_.sequence_chunks)) {
  block_ = backend.allocate_apart({bytes_ / element_bytes(Precision::float32)}, Precision::float32);
  backend_.forbid(block_.storage.get(), bytes_);
}

Arena::~Arena() {
  close();
  backend_.permit(block_.storage.get(), bytes_);
}

void* Arena::address(Bytes offset) const {
  return static_cast<std::byte*>(block_.storage.get()) + offset;
}

void Arena::open(int chunk) {
  constructs_ = true;
  first_version_ = tapes_of(chunk).memory.parameters;
  for (const int resident : program_.resident) {
    const Buffer& buffer = program_.buffers[index(resident)];
    if (buffer.chunk != chunk) continue;
    const bool is_older = buffer.category == MemoryCategory::weight_versions;
    (is_older ? older_versions_ : bases_[static_cast<std::size_t>(buffer.role)]) = buffer.offset;
    begin(buffer);
  }
  tape_ = &tapes_of(chunk).construction;
  next_ = 0;
  backend_.use(this);
}

void Arena::open_work(int index_of_work) {
  constructs_ = false;
  const Work& work = program_.work[index(index_of_work)];
  for (const int* it = begin_of(program_.allocations, work.allocates);
       it != end_of(program_.allocations, work.allocates); ++it) {
    const Buffer& buffer = program_.buffers[index(*it)];
    set_base(buffer, work.chunk);
    begin(buffer);
  }
  tape_ = &tape_of_work(index_of_work);
  next_ = 0;
  backend_.use(this);
}

void Arena::set_base(const Buffer& buffer, int chunk) {
  if (buffer.role == BufferRole::past_gradients) {
    past_gradients_[index(piece_of(buffer.microbatch))] = buffer.offset;
  } else {
    bases_[static_cast<std::size_t>(role_for(buffer, chunk))] = buffer.offset;
  }
}

/// Of a message, whose tensors are whole buffers, or what a partner's forward has left.
const Tape& Arena::tape_of_work(int index_of_work) {
  const Work& work = program_.work[index(index_of_work)];
  const ChunkMemory& memory = tapes_of(work.chunk).memory;
  switch (work.instruction.op) {
    case Op::receive_activation:
      message_ = {{.role = BufferRole::input, .bytes = memory.input, .offset = 0}};
      return message_;
    case Op::receive_gradient:
      message_ = {{.role = BufferRole::output_gradient, .bytes = memory.output, .offset = 0}};
      return message_;
    case Op::take_in:
      message_ = tapes_of(program_.channels[index(*work.channel)].from).kept;
      for (TensorPlace& claim : message_) claim.role = BufferRole::evicted;
      return message_;
    case Op::load: return tapes_of(work.chunk).kept;
    default: break;
  }
  message_.clear();
  const auto& calls = tapes_of(work.chunk).calls[index(piece_of(work.instruction.microbatch))];
  const auto found = calls.find(work.instruction.op);
  return found == calls.end() ? message_ : found->second;
}

void Arena::close() {
  tape_ = nullptr;
  backend_.use(nullptr);
}

void Arena::begin(const Buffer& buffer) {
  live_.add(buffer.bytes);
  backend_.permit(address(buffer.offset), buffer.bytes);
}

/// What messages take away may still be looked at, until something takes its place.
void Arena::end(int index_of_work) {
  const Work& work = program_.work[index(index_of_work)];
  for (const int* it = begin_of(program_.releases, work.frees);
       it != end_of(program_.releases, work.frees); ++it) {
    const Buffer& buffer = program_.buffers[index(*it)];
    live_.remove(buffer.bytes);
    if (work.lane == Lane::compute) backend_.forbid(address(buffer.offset), buffer.bytes);
  }
}

Bytes Arena::base_of(const TensorPlace& claim) const {
  return claim.role == BufferRole::past_gradients ? past_gradients_[index(claim.piece)]
                                                  : bases_[static_cast<std::size_t>(claim.role)];
}

std::shared_ptr<void> Arena::place(Bytes bytes) {
  if (next_ == tape_->size() || (*tape_)[next_].bytes != aligned(bytes)) {
    throw Error(ErrorKind::bug,
                concat("a tensor of ", bytes, " bytes is asked for that its trace does not know"));
  }
  const TensorPlace& claim = (*tape_)[next_++];
  if (constructs_ && claim.role == BufferRole::workspace) {
    backend_.use(nullptr);
    const Tensor apart = backend_.allocate({(bytes + 3) / 4}, Precision::float32);
    backend_.use(this);
    return apart.storage;
  }
  const bool is_older = constructs_ && claim.role == BufferRole::parameters &&
                        claim.offset >= first_version_ && older_versions_ > 0;
  const Bytes offset =
      is_older ? older_versions_ + claim.offset - first_version_ : base_of(claim) + claim.offset;
  return {block_.storage, address(offset)};
}

}  // namespace stagecraft
