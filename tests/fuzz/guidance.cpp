#include "tests/fuzz/guidance.hpp"

#include <algorithm>

#include "tests/fuzz/mutations.hpp"

namespace stagecraft::tests {
namespace {

constexpr std::size_t places = 1 << 16;

/// Of this thread alone, so that the same input always counts the same.
struct Counting {
  bool is_on = false;
  std::uintptr_t before = 0;
  std::array<std::uint8_t, places> counts{};
};
thread_local Counting counting;

/// Where the program was loaded, which differs from start to start, cancels out.
std::uintptr_t place_in_program(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(&is_guided);
}

std::uint8_t class_of(std::uint8_t count) {
  constexpr std::array<std::uint8_t, 7> first{2, 3, 4, 8, 16, 32, 128};
  const auto above = std::ranges::upper_bound(first, count);
  return static_cast<std::uint8_t>(1U << (above - first.begin()));
}

}  // namespace

/// The compiler's calls. Without instrumented code nobody calls it.
extern "C" void __sanitizer_cov_trace_pc() {
  if (!counting.is_on) return;
  const std::uintptr_t now = place_in_program(__builtin_return_address(0));
  std::uint8_t& count = counting.counts[((now >> 1) ^ now ^ counting.before) % places];
  if (count < 255) ++count;
  counting.before = now << 3;
}

bool is_guided() {
#ifdef STAGECRAFT_GUIDED
  return true;
#else
  return false;
#endif
}

bool Reach::is_new(const std::function<void()>& work) {
  counting = {.is_on = true};
  struct Ending {
    ~Ending() { counting.is_on = false; }
  };
  {
    const Ending ending;
    work();
  }
  bool any = false;
  for (std::size_t i = 0; i < places; ++i) {
    if (counting.counts[i] == 0) continue;
    const std::uint8_t now = class_of(counting.counts[i]);
    any = any || (classes_[i] & now) == 0;
    classes_[i] = static_cast<std::uint8_t>(classes_[i] | now);
  }
  return any;
}

std::size_t Reach::steps() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(classes_, [](std::uint8_t each) { return each != 0; }));
}

std::size_t search_guided(std::vector<std::string> inputs, long runs, std::mt19937_64& random,
                          const std::function<void(const std::string&)>& read) {
  Reach reach;
  for (const std::string& input : inputs) reach.is_new([&] { read(input); });
  for (long i = 0; i < runs; ++i) {
    std::string input = mutated(inputs, random);
    if (reach.is_new([&] { read(input); })) inputs.push_back(std::move(input));
  }
  return reach.steps();
}

}  // namespace stagecraft::tests
