// Memory: what each device holds at most, walking its work in issue order, and whether that fits.

#include <algorithm>
#include <limits>

#include "profiles/error.hpp"
#include "profiles/text.hpp"
#include "profiles/units.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

struct Peak {
  Bytes bytes = 0;
  MemoryUse use{};
  int work = none;  ///< none: what lives as long as the program is already the most
  bool is_timed = false;
};

Bytes sum(const MemoryUse& use) {
  Bytes all = 0;
  for (const Bytes bytes : use) all += bytes;
  return all;
}

class Walk {
 public:
  Walk(const Program& program, int device) : program_(program) {
    if (!program.reserve.empty()) {
      use_[static_cast<std::size_t>(MemoryCategory::reserve)] =
          program.reserve[static_cast<std::size_t>(device)];
    }
    for (const int index : program.resident) {
      if (program.buffers[static_cast<std::size_t>(index)].device == device) change(index, 1);
    }
    peak_ = {.bytes = sum(use_), .use = use_};
    for (const int work : program.order[static_cast<std::size_t>(device)]) step(work);
  }

  const Peak& peak() const { return peak_; }

 private:
  void change(int index, int sign) {
    const Buffer& buffer = program_.buffers[static_cast<std::size_t>(index)];
    use_[static_cast<std::size_t>(buffer.category)] += sign * buffer.bytes;
  }

  void step(int index) {
    const Work& work = program_.work[static_cast<std::size_t>(index)];
    const auto& begun = program_.allocations;
    const auto& ended = program_.releases;
    for (const int* it = begin_of(begun, work.allocates); it != end_of(begun, work.allocates); ++it)
      change(*it, 1);
    if (const Bytes now = sum(use_); now > peak_.bytes)
      peak_ = {.bytes = now, .use = use_, .work = index};
    const auto free = [&](IndexRange range) {
      for (const int* it = begin_of(ended, range); it != end_of(ended, range); ++it)
        change(*it, -1);
    };
    // The halves of a fused pair end together.
    const bool ends = !work.fused_with || work.instruction.op != Op::forward;
    if (ends) free(work.frees);
    if (ends && work.fused_with) {
      free(program_.work[static_cast<std::size_t>(*work.fused_with)].frees);
    }
  }

  const Program& program_;
  MemoryUse use_{};
  Peak peak_;
};

/// "6 GiB of parameters, 1 GiB of activations", largest first.
std::string breakdown(const MemoryUse& use) {
  std::vector<MemoryCategory> categories(memory_categories.begin(), memory_categories.end());
  const auto bytes = [&](MemoryCategory category) {
    return use[static_cast<std::size_t>(category)];
  };
  std::stable_sort(categories.begin(), categories.end(),
                   [&](MemoryCategory a, MemoryCategory b) { return bytes(a) > bytes(b); });
  std::vector<std::string> words;
  for (const MemoryCategory category : categories) {
    if (bytes(category) > 0)
      words.push_back(concat(format_bytes(bytes(category)), " of ", to_string(category)));
  }
  return join_words(words);
}

void judge_arena(const Facts& facts, Verdict& verdict) {
  const Program& program = facts.program;
  for (std::size_t i = 0; i < program.buffers.size(); ++i) {
    const Buffer& buffer = program.buffers[i];
    const Bytes arena = program.arena[static_cast<std::size_t>(buffer.device)];
    if (buffer.bytes <= arena && buffer.offset <= arena - buffer.bytes) continue;
    const Instruction nothing;
    verdict.found(
        concat("buffer ", i, " (", to_string(buffer.category), ", ", exact_bytes(buffer.bytes),
               " at offset ", buffer.offset, ") reaches beyond the arena of device ",
               facts.name_of(buffer.device), ", ", exact_bytes(arena)),
        buffer.device, nothing);
  }
}

void judge_limit(const Facts& facts, int device, const Peak& peak, Bytes limit, Verdict& verdict) {
  const Program& program = facts.program;
  if (peak.bytes <= limit) return;
  const Instruction instruction =
      peak.work == none ? Instruction{}
                        : program.work[static_cast<std::size_t>(peak.work)].instruction;
  const std::string when = peak.is_timed       ? "while messages are under way"
                           : peak.work == none ? "from the start"
                                               : concat("at ", to_string(instruction));
  verdict.found(concat("device ", facts.name_of(device), " needs ", format_bytes(peak.bytes),
                       " of ", format_bytes(limit), ", short by ", format_bytes(peak.bytes - limit),
                       " ", when, ": ", breakdown(peak.use)),
                device, instruction);
}

}  // namespace

Verdict memory(const Facts& facts, const std::vector<Bytes>& limits,
               const std::vector<MemoryUse>& timed) {
  Verdict verdict("memory");
  const Program& program = facts.program;
  judge_arena(facts, verdict);
  std::vector<Peak> peaks;
  for (int device = 0; device < program.devices; ++device) {
    Peak& peak = peaks.emplace_back(Walk(program, device).peak());
    if (!timed.empty()) {
      const MemoryUse& use = timed[static_cast<std::size_t>(device)];
      if (sum(use) > peak.bytes) peak = {.bytes = sum(use), .use = use, .is_timed = true};
    }
    if (!limits.empty())
      judge_limit(facts, device, peaks.back(), limits[static_cast<std::size_t>(device)], verdict);
  }
  // Named is the device with the least room to spare; without limits, the one that needs most.
  const auto room = [&](std::size_t device) {
    return (limits.empty() ? 0 : limits[device]) - peaks[device].bytes;
  };
  std::size_t tightest = 0;
  for (std::size_t device = 1; device < peaks.size(); ++device) {
    if (room(device) < room(tightest)) tightest = device;
  }
  const bool is_limited = !limits.empty() && limits[tightest] != std::numeric_limits<Bytes>::max();
  verdict.proved(concat("peak memory ", format_bytes(peaks[tightest].bytes),
                        is_limited ? " of " + format_bytes(limits[tightest]) : "", " on device ",
                        facts.name_of(static_cast<int>(tightest))));
  return verdict;
}

}  // namespace stagecraft::checks
