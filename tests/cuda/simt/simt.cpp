#include "tests/cuda/simt/simt.hpp"

#include <algorithm>
#include <bit>
#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <vector>

#include "profiles/error.hpp"
#include "tests/cuda/simt/lanes.hpp"

namespace stagecraft::simt {

namespace {

constexpr int most_threads = 1024;
constexpr std::size_t stack_bytes = std::size_t{128} << 10;

/// Where the process, or a kernel's thread, goes on when it is switched to.
struct Fiber {
  boost::context::fiber context;
};

struct Lane {
  Fiber* fiber = nullptr;  ///< null: not begun
  std::uint64_t bits = 0;  ///< offered in a shuffle, and behind it received
  int source = 0;          ///< the lane that it takes the other's bits of
};

/// Sets of lanes, a bit each; every lane is in one of them, but for the one that runs.
struct Warp {
  std::uint32_t all = 0;
  std::uint32_t ready = 0;
  std::uint32_t at_shuffle = 0;
  std::uint32_t at_meeting = 0;  ///< __syncwarp
  std::uint32_t at_barrier = 0;  ///< __syncthreads
  std::uint32_t returned = 0;
  Shuffle how = Shuffle::exchange;  ///< the shuffle that lanes wait at
  int argument = 0;
};

/// What comes next is drawn by whoever stops, which then switches there: no lane goes through a
/// scheduler, and lanes that never wait are called one after the other on the same fiber.
class Engine {
 public:
  void carry_out(const Launch& launch);
  void draw_from(unsigned seed) { state_ = seed; }

  void meet_block();
  void meet_warp(unsigned mask);
  std::uint64_t shuffle_bits(unsigned mask, Shuffle how, std::uint64_t bits, int argument);
  /// Ends the launch. To be called from a lane.
  [[noreturn]] void stop(std::string_view why);
  bool in_lane() const { return running_ != &process_; }

 private:
  void carry_out_block(unsigned block);
  void work();
  void wait();
  void go_to(std::optional<unsigned> lane);
  void switch_to(Fiber& fiber);
  Fiber& free_fiber();
  void begin(unsigned lane);

  std::optional<unsigned> next();
  void release(Warp& warp);
  bool open_barrier();

  Warp& warp() { return warps_[lane_ / warp_size]; }
  std::uint32_t bit() const { return 1u << lane_ % warp_size; }
  std::uint32_t random();
  unsigned draw(std::uint32_t set);

  std::mutex mutex_;
  std::uint64_t state_ = 1;
  const Launch* launch_ = nullptr;
  std::string failure_;

  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  Fiber process_;
  Fiber* running_ = &process_;
  Fiber* previous_ = nullptr;  ///< which has switched to the one that runs

  std::vector<Lane> lanes_;
  std::vector<Warp> warps_;
  std::uint32_t able_ = 0;  ///< warps that may have lanes that can go on
  unsigned favourite_ = 0;
  unsigned lane_ = 0;  ///< that runs
};

/// Never destroyed, nor are its fibers, which would have to be unwound.
Engine& engine() {
  static auto& kept = *new Engine;
  return kept;
}

std::uint32_t Engine::random() {
  state_ = state_ * 6364136223846793005u + 1442695040888963407u;
  return static_cast<std::uint32_t>(state_ >> 32);
}

unsigned Engine::draw(std::uint32_t set) {
  const int turn = static_cast<int>(random() % 32);
  return static_cast<unsigned>(std::countr_zero(std::rotr(set, turn)) + turn) % 32;
}

// --- Blocks --------------------------------------------------------------------------------------

void require_possible(const Launch& launch) {
  const auto& [x, y, z] = launch.grid;
  if (x == 0 || y == 0 || z == 0 || x > 0x7fffffffu || y > 0xffffu || z > 0xffffu) {
    fail(launch.kernel->name, ": a grid of ", x, " x ", y, " x ", z,
         " blocks is none; there are 1 to 2147483647, and 1 to 65535 of the others");
  }
  if (launch.threads < 1 || launch.threads > most_threads) {
    fail(launch.kernel->name, ": a block of ", launch.threads, " threads is none; it has 1 to ",
         most_threads);
  }
}

void Engine::carry_out(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  require_possible(launch);
  launch_ = &launch;
  gridDim = launch.grid;
  blockDim = dim3(static_cast<unsigned>(launch.threads));
  std::vector<unsigned> order(std::size_t{launch.grid.x} * launch.grid.y * launch.grid.z);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random() % i]);
  for (const unsigned block : order) carry_out_block(block);
}

void Engine::carry_out_block(unsigned block) {
  const dim3 grid = launch_->grid;
  blockIdx = {block % grid.x, block / grid.x % grid.y, block / grid.x / grid.y};
  for (const auto memory : launch_->kernel->shared) {
    std::memset(memory.data(), 0xff, memory.size());  // no number
  }
  const auto threads = static_cast<unsigned>(launch_->threads);
  lanes_.assign(threads, Lane{});
  warps_.assign((threads + warp_size - 1) / warp_size, Warp{});
  for (unsigned first = 0; first < threads; first += warp_size) {
    Warp& each = warps_[first / warp_size];
    each.all = threads - first < warp_size ? (1u << (threads - first)) - 1 : full_mask;
    each.ready = each.all;
  }
  able_ = full_mask >> (32 - warps_.size());
  favourite_ = draw(able_);
  go_to(next());
  if (failure_.empty()) return;
  // Its lanes will never go on.
  static auto& abandoned = *new std::vector<std::unique_ptr<Fiber>>;
  std::ranges::move(fibers_, std::back_inserter(abandoned));
  fibers_.clear();
  idle_.clear();
  fail(std::exchange(failure_, {}));
}

void Engine::stop(std::string_view why) {
  failure_ = concat(launch_->kernel->name, ", block ", blockIdx.x, " ", blockIdx.y, " ", blockIdx.z,
                    ": ", why);
  switch_to(process_);
  std::abort();  // nobody switches back
}

// --- Fibers --------------------------------------------------------------------------------------

void Engine::switch_to(Fiber& fiber) {
  previous_ = running_;
  running_ = &fiber;
  boost::context::fiber came_from = std::move(fiber.context).resume();
  previous_->context = std::move(came_from);
}

Fiber& Engine::free_fiber() {
  if (!idle_.empty()) {
    Fiber& last = *idle_.back();
    idle_.pop_back();
    return last;
  }
  Fiber& made = *fibers_.emplace_back(std::make_unique<Fiber>());
  boost::context::protected_fixedsize_stack stacks(stack_bytes);
  const boost::context::stack_context stack = stacks.allocate();
  // Stacks begin at different places of a page: else all would share a few lines of the cache.
  const std::size_t apart = fibers_.size() * 320 % 4096;
  const boost::context::preallocated place(static_cast<char*>(stack.sp) - apart, stack.size - apart,
                                           stack);
  made.context = boost::context::fiber(std::allocator_arg, place, stacks,
                                       [this](boost::context::fiber&& came_from) {
                                         previous_->context = std::move(came_from);
                                         work();
                                         return boost::context::fiber();
                                       });
  return made;
}

void Engine::begin(unsigned lane) {
  lane_ = lane;
  threadIdx = {lane, 0, 0};
}

/// None: the block is over.
void Engine::go_to(std::optional<unsigned> lane) {
  if (!lane) return switch_to(process_);
  begin(*lane);
  Fiber* kept = lanes_[*lane].fiber;
  switch_to(kept != nullptr ? *kept : free_fiber());
}

/// What a fiber does: lane after lane, as long as each returns before the next one begins.
void Engine::work() {
  for (;;) {
    launch_->work();
    warp().returned |= bit();
    const std::optional<unsigned> following = next();
    if (following && lanes_[*following].fiber == nullptr) {
      begin(*following);
      continue;
    }
    idle_.push_back(running_);
    go_to(following);
  }
}

/// Until the lane, which has said what for, is ready again and drawn.
void Engine::wait() {
  const unsigned self = lane_;
  lanes_[self].fiber = running_;
  const std::optional<unsigned> following = next();
  if (following != self)
    go_to(following);
  else
    begin(self);
}

// --- Who goes on ---------------------------------------------------------------------------------

/// A lane that is ready; none if all have returned.
std::optional<unsigned> Engine::next() {
  for (;;) {
    Warp& ahead = warps_[favourite_];
    if (ahead.ready == 0) release(ahead);
    if (ahead.ready != 0) {
      const unsigned drawn = draw(ahead.ready);
      ahead.ready &= ~(1u << drawn);
      return favourite_ * warp_size + drawn;
    }
    able_ &= ~(1u << favourite_);
    if (able_ == 0 && !open_barrier()) return std::nullopt;
    favourite_ = draw(able_);
  }
}

/// If all lanes of a warp wait for each other, they go on.
void Engine::release(Warp& warp) {
  if ((warp.at_shuffle | warp.at_meeting) == 0) return;
  if (warp.at_shuffle == warp.all) {
    std::uint64_t received[warp_size];
    Lane* lanes = &lanes_[favourite_ * warp_size];
    for (int i = 0; i < warp_size; ++i) received[i] = lanes[lanes[i].source].bits;
    for (int i = 0; i < warp_size; ++i) lanes[i].bits = received[i];
  } else if (warp.at_meeting != warp.all) {
    stop(warp.at_shuffle != 0 ? "not all lanes of a warp reach a shuffle with the full mask"
                              : "not all lanes of a warp reach its __syncwarp");
  }
  warp.ready = warp.all;
  warp.at_shuffle = warp.at_meeting = 0;
}

/// No warp can go on: all threads wait at the barrier, or none does and the block is over.
bool Engine::open_barrier() {
  bool waits = false, returned = false;
  for (const Warp& each : warps_) {
    waits = waits || each.at_barrier != 0;
    returned = returned || each.returned != 0;
  }
  if (!waits) return false;
  if (returned) stop("threads wait at a barrier that others, which have returned, never reach");
  for (Warp& each : warps_) each.ready = std::exchange(each.at_barrier, 0u);
  able_ = full_mask >> (32 - warps_.size());
  return true;
}

// --- What lanes ask for --------------------------------------------------------------------------

void Engine::meet_block() {
  warp().at_barrier |= bit();
  wait();
}

void Engine::meet_warp(unsigned mask) {
  if (mask != full_mask)
    stop("a lane waits for a part of its warp; only the full mask is known here");
  warp().at_meeting |= bit();
  wait();
}

std::uint64_t Engine::shuffle_bits(unsigned mask, Shuffle how, std::uint64_t bits, int argument) {
  Warp& own = warp();
  if (mask != full_mask)
    stop("a lane shuffles in a part of its warp; only the full mask is known here");
  if (own.all != full_mask) stop("a lane shuffles with the full mask in a warp of fewer lanes");
  if (argument < 0 || argument >= warp_size)
    stop("a lane shuffles over more lanes than a warp has");
  if (own.at_shuffle == 0) {
    own.how = how;
    own.argument = argument;
  }
  // Only the lane that is looked at may differ.
  if (own.how != how || (how != Shuffle::from && own.argument != argument)) {
    stop("lanes of a warp shuffle in different ways, or over different distances");
  }
  const int self = static_cast<int>(lane_ % warp_size);
  const auto source = [&] {
    switch (how) {
      case Shuffle::exchange: return self ^ argument;
      case Shuffle::down: return self + argument < warp_size ? self + argument : self;
      case Shuffle::up: return self >= argument ? self - argument : self;
      case Shuffle::from: return argument;
    }
    return self;
  };
  Lane& lane = lanes_[lane_];
  lane.bits = bits;
  lane.source = source();
  own.at_shuffle |= bit();
  wait();
  return lane.bits;
}

}  // namespace

void carry_out(const Launch& launch) {
  engine().carry_out(launch);
}
void draw_from(unsigned seed) {
  engine().draw_from(seed);
}
void meet_block() {
  engine().meet_block();
}
void meet_warp(unsigned mask) {
  engine().meet_warp(mask);
}
std::uint64_t shuffle_bits(unsigned mask, Shuffle how, std::uint64_t bits, int argument) {
  return engine().shuffle_bits(mask, how, bits, argument);
}

void* require_alignment(void* address, std::size_t bytes) {
  if (reinterpret_cast<std::uintptr_t>(address) % bytes != 0) {
    engine().stop(concat(bytes, " bytes at once at an address that is no multiple of them"));
  }
  return address;
}
const void* require_alignment(const void* address, std::size_t bytes) {
  return require_alignment(const_cast<void*>(address), bytes);
}

}  // namespace stagecraft::simt

// --- What the compiler calls ---------------------------------------------------------------------

// Kernels are compiled with -fsanitize=alignment, which calls this function of the sanitizer's
// library for an address that does not suit the type which is read or written there.
struct AccessWithoutAlignment {
  const char* file;
  std::uint32_t line, column;
  const void* type;
  unsigned char log_alignment, kind;
};
extern "C" [[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(
    const AccessWithoutAlignment* access, std::uintptr_t address) {
  const std::size_t bytes = std::size_t{1} << access->log_alignment;
  const std::string why =
      stagecraft::concat(access->file, ":", access->line, ": ", bytes, " bytes at once at ",
                         address == 0 ? "null" : "an address that is no multiple of them");
  if (stagecraft::simt::engine().in_lane()) stagecraft::simt::engine().stop(why);
  std::fprintf(stderr, "%s\n", why.c_str());
  std::abort();
}
