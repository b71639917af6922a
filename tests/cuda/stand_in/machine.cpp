#include "tests/cuda/stand_in/machine.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "profiles/error.hpp"
#include "tests/cuda/simt/simt.hpp"

namespace stagecraft::stand_in {

namespace {

constexpr std::size_t region_bytes = std::size_t{64} << 30;  // of addresses, not of memory
constexpr std::size_t alignment = 256;
/// With a fence behind: neighbours are apart, so that what writes behind a block's end is found.
constexpr std::size_t room_of(std::size_t bytes) {
  return (bytes + 2 * alignment) / alignment * alignment;
}
/// A quiet NaN as fp32 and as bf16, and no index.
constexpr int poison = 0xff;

std::unique_ptr<State>& kept_state() {
  static std::unique_ptr<State> kept = std::make_unique<State>(Machine{});
  return kept;
}

std::chrono::steady_clock::time_point& beginning() {
  static auto moment = std::chrono::steady_clock::now();
  return moment;
}

}  // namespace

State& state() {
  return *kept_state();
}

int& current_device() {
  thread_local int device = 0;
  return device;
}

int& recordings_of_thread() {
  thread_local int recordings = 0;
  return recordings;
}

double host_time() {
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - beginning())
      .count();
}

void set_up(const Machine& machine) {
  kept_state() = std::make_unique<State>(machine);
  beginning() = std::chrono::steady_clock::now();
  current_device() = 0;
  simt::draw_from(machine.seed);
}

std::vector<std::string> complaints() {
  const std::lock_guard lock(state().mutex);
  state().look_behind_all();
  return state().complaints;
}

void complain(std::string_view call, std::string_view what) {
  const std::lock_guard lock(state().mutex);
  state().complaints.push_back(concat(call, ": ", what));
}

Counts counts() {
  const std::lock_guard lock(state().mutex);
  return state().counts;
}

// --- Memory --------------------------------------------------------------------------------------

State::State(const Machine& given) : machine(given), generator_(given.seed) {
  region_ = mmap(nullptr, region_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (region_ == MAP_FAILED) fail("the stand-in finds no addresses for its memory");
}

State::~State() {
  munmap(region_, region_bytes);
}

void* State::allocate(std::size_t bytes, const Block& like) {
  const std::size_t size = room_of(bytes);
  if (used_ + size > region_bytes || bytes > region_bytes / 8) return nullptr;
  auto* data = static_cast<std::byte*>(region_) + used_;
  used_ += size;
  Block& block = blocks[reinterpret_cast<std::uintptr_t>(data)];
  block = like;
  block.bytes = bytes;
  // The workspaces of libraries are large, and never touched.
  constexpr std::size_t most_poisoned = std::size_t{8} << 20;
  std::memset(data, poison, std::min(bytes, most_poisoned));
  std::memset(data + bytes, poison, size - bytes);
  return data;
}

void State::look_behind(std::uintptr_t begin, Block& block) {
  const auto* first = reinterpret_cast<const unsigned char*>(begin) + block.bytes;
  const auto* end = reinterpret_cast<const unsigned char*>(begin) + room_of(block.bytes);
  if (block.has_broken_fence || std::all_of(first, end, [](auto byte) { return byte == poison; })) {
    return;
  }
  block.has_broken_fence = true;
  complain("memory", concat("something was written behind the end of ", block.bytes, " bytes"));
}

void State::look_behind_all() {
  for (auto& [begin, block] : blocks) look_behind(begin, block);
}

Block* State::find(const void* address, std::uintptr_t* begin) {
  const auto number = reinterpret_cast<std::uintptr_t>(address);
  auto found = blocks.upper_bound(number);
  if (found == blocks.begin()) return nullptr;
  --found;
  if (number > found->first + found->second.bytes) return nullptr;
  if (begin != nullptr) *begin = found->first;
  return &found->second;
}

void State::release(void* address) {
  Block* block = find(address);
  if (block == nullptr || block->is_free) return;
  look_behind(reinterpret_cast<std::uintptr_t>(address), *block);
  block->is_free = true;
  constexpr std::size_t most_poisoned = std::size_t{8} << 20;
  std::memset(address, poison, std::min(block->bytes, most_poisoned));
}

void require_usable(const void* data, std::size_t bytes) {
  State& all = state();
  if (data == nullptr || bytes == 0) return;
  std::uintptr_t begin = 0;
  const Block* block = all.find(data, &begin);
  if (block == nullptr || block->is_pinned) return;
  const auto complain_of = [&](std::string_view what) { complain(all.running_call, what); };
  if (reinterpret_cast<std::uintptr_t>(data) + bytes > begin + block->bytes) {
    complain_of("reaches beyond the end of its memory");
  }
  if (block->is_free) complain_of("uses memory that has been given back");
  if (!block->is_ready) complain_of("uses memory before its stream has allocated it");
  if (all.running == nullptr || block->device == all.running->device) return;
  const auto& peers = block->is_pooled ? all.pool_peers : all.peers;
  if (!peers.contains({all.running->device, block->device})) {
    complain_of(concat("runs on device ", all.running->device, ", and uses memory of device ",
                       block->device, " that it has no access to"));
  }
}

void require_addresses(const void* arguments, std::size_t bytes) {
  State& all = state();
  for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
    const void* address = nullptr;
    std::memcpy(&address, static_cast<const std::byte*>(arguments) + at, sizeof address);
    std::uintptr_t begin = 0;
    const Block* block = all.find(address, &begin);
    // What is empty may lie at the end of something.
    if (block == nullptr || reinterpret_cast<std::uintptr_t>(address) == begin + block->bytes) {
      continue;
    }
    require_usable(address, 1);
  }
}

// --- Queues --------------------------------------------------------------------------------------

Stream* find_stream(cudaStream_t stream, std::string_view call) {
  State& all = state();
  auto* own = reinterpret_cast<Stream*>(stream);
  if (all.streams.contains(own)) return own;
  complain(call, stream == nullptr ? "uses the default stream" : "uses a stream that is destroyed");
  return nullptr;
}

Event* find_event(cudaEvent_t event, std::string_view call) {
  auto* own = reinterpret_cast<Event*>(event);
  if (state().events.contains(own)) return own;
  complain(call, "uses an event that is destroyed");
  return nullptr;
}

bool refuse_while_recording(Stream* stream, std::string_view call) {
  if (stream == nullptr || !stream->recorded) return false;
  stream->spoilt_by = call;
  return true;
}

bool put(Stream& stream, Operation operation) {
  State& all = state();
  stream.has_worked = stream.has_worked || operation.work || operation.needs;
  if (stream.recorded && operation.call == all.machine.forbidden) {
    stream.spoilt_by = operation.call;
    return false;
  }
  if (stream.recorded) {
    stream.recorded->operations.push_back(std::move(operation));
  } else {
    stream.time = std::max(stream.time, stream.queue.empty() ? host_time() : 0.0);
    stream.queue.push_back(std::move(operation));
  }
  return true;
}

void enqueue(cudaStream_t handle, std::string_view call, std::function<void()> work, Cost cost) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  Stream* stream = find_stream(handle, call);
  if (stream == nullptr) return;
  if (stream->device != current_device()) {
    complain(call, concat("is asked for on a stream of device ", stream->device, " while device ",
                          current_device(), " is current"));
  }
  if (!stream->recorded) ++all.counts.launches;
  put(*stream, {.call = std::string(call),
                .work = std::move(work),
                .nanoseconds = cost.nanoseconds,
                .needs = nullptr,
                .records = nullptr});
}

bool State::can_go_on(const Stream& stream) const {
  return !stream.queue.empty() &&
         (!stream.queue.front().needs || stream.queue.front().needs->is_done);
}

void State::carry_out_first(Stream& stream) {
  Operation operation = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (operation.needs) stream.time = std::max(stream.time, operation.needs->time);
  running = &stream;
  running_call = operation.call;
  if (operation.work) operation.work();
  running = nullptr;
  stream.time += operation.nanoseconds;
  if (!operation.records) return;
  operation.records->is_done = true;
  operation.records->time = stream.time;
}

/// As far as they come.
void State::let_others_go_first(const Stream& stream) {
  for (bool moved = true; moved;) {
    moved = false;
    for (auto& [key, other] : streams) {
      while (other.get() != &stream && can_go_on(*other)) {
        carry_out_first(*other);
        moved = true;
      }
    }
  }
}

void State::wait_until(Stream& stream, const std::function<bool()>& is_done) {
  if (machine.order == Order::others_first) let_others_go_first(stream);
  while (!is_done()) {
    if (machine.order == Order::drawn) {
      std::vector<Stream*> able;
      for (auto& [key, other] : streams) {
        if (can_go_on(*other)) able.push_back(other.get());
      }
      if (able.empty()) fail("the stand-in's streams wait for each other in a circle");
      carry_out_first(*able[generator_() % able.size()]);
    } else if (can_go_on(stream)) {
      carry_out_first(stream);
    } else {
      carry_out(*stream.queue.front().needs);
    }
  }
}

void State::carry_out(Stream& stream) {
  wait_until(stream, [&] { return stream.queue.empty(); });
}

void State::carry_out(const Record& record) {
  wait_until(*record.stream, [&] { return record.is_done; });
}

void State::nudge() {
  for (auto& [key, stream] : streams) {
    if (can_go_on(*stream)) return carry_out_first(*stream);
  }
}

int multiprocessors_of(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  const Stream* own = find_stream(stream, "multiprocessors_of");
  return own == nullptr ? 0 : own->multiprocessors;
}

int device_of(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  const Stream* own = find_stream(stream, "device_of");
  return own == nullptr ? -1 : own->device;
}

bool records(cudaStream_t stream) {
  const std::lock_guard lock(state().mutex);
  const Stream* own = find_stream(stream, "records");
  return own != nullptr && own->recorded != nullptr;
}

}  // namespace stagecraft::stand_in
