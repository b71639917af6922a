#include "executor/backends/cuda/cuda_backend.hpp"

#include <cstring>

#include "executor/backends/cuda/cuda_backend_parts.hpp"
#include "executor/backends/cuda/neighbours.hpp"
#include "executor/backends/cuda/ranges.hpp"

namespace stagecraft::cuda {

namespace {

Graphs graphs_of(const CudaOptions& options) {
  switch (options.graphs) {
    case GraphUse::automatic: return Graphs::automatic;
    case GraphUse::on: return Graphs::on;
    case GraphUse::off: break;
  }
  return Graphs::off;
}

std::shared_ptr<Memory> memory_at(const Place& place) {
  if (place.parts == 1) return std::make_shared<Memory>(place.device);
  return std::make_shared<Memory>(place.device, Partitions::of_device(place.device, place.parts),
                                  place.part);
}

/// What algorithms are chosen for; 0: all of the GPU. Others have other bits, so a part of a GPU
/// takes the same as the whole, unless bits are nobody's concern.
int multiprocessors_of(const Memory& memory, const CudaOptions& options) {
  return options.deterministic ? 0 : memory.multiprocessors();
}

}  // namespace

CudaBackend::CudaBackend(const Place& place, const CudaOptions& options)
    : options_(options),
      memory_(memory_at(place)),
      events_(Events::of_device(place.device)),
      scratch_(std::make_shared<Scratch>(memory_, Matmul::most_workspace)),
      inputs_(std::make_shared<Scratch>(memory_)),
      pinned_(std::make_shared<Pinned>()),
      commands_(memory_, graphs_of(options), options.remark),
      matmul_(scratch_, multiprocessors_of(*memory_, options)),
      attention_(commands_, scratch_, matmul_, multiprocessors_of(*memory_, options),
                 options.deterministic, options.remark) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices), "count the GPUs");
  open_ = open_memory_of(devices_of_ranks(options, devices), place.device);
  anchor_ = events_->anchor();
}

/// What is under way may use all that goes now. Nothing to tell anybody if it fails.
CudaBackend::~CudaBackend() {
  (void)cudaSetDevice(memory_->device());
  (void)cudaStreamSynchronize(memory_->raw_stream());
}

// --- Memory --------------------------------------------------------------------------------------

Tensor CudaBackend::allocate_apart(std::vector<std::int64_t> shape, Precision precision) {
  with_type(precision, [](auto) {});
  Bytes bytes = element_bytes(precision);
  for (const std::int64_t extent : shape) bytes *= extent;
  return {.storage = memory_->allocate(bytes), .shape = std::move(shape), .precision = precision};
}

void CudaBackend::finish() {
  check(cudaStreamSynchronize(commands_.stream()), "finish the work on the GPU");
  anchor_ = events_->anchor();
}

SharedSignal CudaBackend::signal() {
  return events_->signal(commands_.stream());
}

void CudaBackend::await(const SharedSignal& signal) {
  if (signal && !Events::await(commands_.stream(), *signal)) signal->wait();
}

Late<Moment> CudaBackend::moment() {
  return events_->moment(commands_.stream(), anchor_);
}

void CudaBackend::begin_work(const Instruction& instruction) {
  works_ = true;
  is_backward_ = instruction.op == Op::backward;
  if (options_.ranges) open_range(instruction);
  commands_.begin();
}

void CudaBackend::end_work() {
  works_ = is_backward_ = false;
  sums_.forget_passes();
  add_pending_sums();
  commands_.end();
  held_inputs_.clear();
  if (options_.ranges) close_range();
}

void CudaBackend::upload(std::span<const std::byte> from, Tensor& to) {
  assert(from.size() == static_cast<std::size_t>(to.bytes()));
  (void)zeros_.settle(to.storage.get(), to.bytes());  // all of it is overwritten
  check(cudaMemcpyAsync(to.storage.get(), from.data(), from.size(), cudaMemcpyHostToDevice,
                        commands_.stream()),
        "copy to the GPU");
  finish();
}

void CudaBackend::download(const Tensor& from, std::span<std::byte> to) {
  assert(to.size() == static_cast<std::size_t>(from.bytes()));
  settle(from);
  check(cudaMemcpyAsync(to.data(), from.storage.get(), to.size(), cudaMemcpyDeviceToHost,
                        commands_.stream()),
        "copy from the GPU");
  finish();
}

void CudaBackend::add_later(const ColumnSums& sums, int which, Tensor& to) {
  assert(to.precision == Precision::float32 && to.elements() == sums.columns);
  const bool adds = adds_to(to);
  sums_.add(sums, which, to.data<float>(), adds);
  if (!works_ || sums_.is_full()) add_pending_sums();
}

void CudaBackend::add_pending_sums() {
  const auto [list, rooms] = sums_.take();
  if (list.count > 0) add_chunks(commands_, list);
}

void CudaBackend::zero(Tensor& x) {
  sums_.wrote(x);
  (void)zeros_.settle(x.storage.get(), x.bytes());
  set_to_zero(commands_, x.storage.get(), x.bytes());
}

void CudaBackend::zero_for_sums(Tensor& x) {
  zeros_.add(x.storage, x.bytes());
}

void CudaBackend::settle(const Tensor& x) {
  if (sums_.touch(x)) add_pending_sums();
  for (const PendingZeros::Piece& piece : zeros_.settle(x.storage.get(), x.bytes())) {
    set_to_zero(commands_, piece.data.get(), piece.bytes);
  }
}

bool CudaBackend::adds_to(const Tensor& x) {
  sums_.wrote(x);
  if (zeros_.take(x.storage.get(), x.bytes())) return false;
  settle(x);
  return true;
}

void CudaBackend::copy(const Tensor& from, Tensor& to) {
  assert(from.bytes() == to.bytes());
  settle(from);
  (void)zeros_.settle(to.storage.get(), to.bytes());
  sums_.wrote(to);
  copy_between(commands_, from.storage.get(), to.storage.get(), from.bytes());
}

void CudaBackend::upload_now(const void* from, Bytes bytes, void* to) {
  const auto stage = pinned_->take(bytes);
  std::memcpy(stage->data(), from, static_cast<std::size_t>(bytes));
  check(cudaMemcpyAsync(to, stage->data(), static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice,
                        commands_.stream_before()),
        "copy to the GPU");
  stage->keep_until(events_->record(commands_.stream_before(), false));
}

}  // namespace stagecraft::cuda
