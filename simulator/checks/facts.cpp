#include "simulator/checks/facts.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "profiles/error.hpp"
#include "profiles/index.hpp"

namespace stagecraft::checks {

Facts::Facts(const Program& the_program, std::vector<int> names)
    : program(the_program), device_names(std::move(names)) {
  stages_per_pipe = program.stages / program.pipes;
  chunks_of_stage.resize(index(program.stages));
  for (std::size_t chunk = 0; chunk < program.chunks.size(); ++chunk) {
    const IndexRange own = program.chunks[chunk].rows;
    chunks_of_stage[index(program.chunks[chunk].stage)].push_back(static_cast<int>(chunk));
    rows =
        chunk == 0 ? own : IndexRange{std::min(rows.first, own.first), std::max(rows.end, own.end)};
  }
  find_lanes();
  find_works_of_chunks();
  meeting_of.assign(program.work.size(), none);
  find_messages();
  find_collectives();
  find_dependents();
}

int Facts::device_of(int work) const {
  return chunk_of(work).device;
}

const Chunk& Facts::chunk_of(int work) const {
  return program.chunks[index(program.work[index(work)].chunk)];
}

const std::vector<int>& Facts::lane(int device, Lane lane) const {
  return lanes_[index(device) * lanes.size() + static_cast<std::size_t>(lane)];
}

void Facts::find_lanes() {
  lanes_.resize(index(program.devices) * lanes.size());
  position.resize(program.work.size());
  for (std::size_t device = 0; device < program.order.size(); ++device) {
    for (const int work : program.order[device]) {
      const auto lane = static_cast<std::size_t>(program.work[index(work)].lane);
      auto& queue = lanes_[device * lanes.size() + lane];
      position[index(work)] = static_cast<int>(queue.size());
      queue.push_back(work);
    }
  }
}

void Facts::find_works_of_chunks() {
  works_of_chunk_.resize(program.chunks.size());
  for (std::size_t work = 0; work < program.work.size(); ++work) {
    works_of_chunk_[index(program.work[work].chunk)].push_back(static_cast<int>(work));
  }
  const auto key = [this](int work) {
    const Instruction& instruction = program.work[index(work)].instruction;
    return std::tuple(instruction.op, instruction.microbatch, work);
  };
  for (auto& works : works_of_chunk_) {
    std::sort(works.begin(), works.end(), [&](int a, int b) { return key(a) < key(b); });
  }
}

std::span<const int> Facts::works(int chunk, Op op) const {
  const auto& all = works_of_chunk_[index(chunk)];
  const auto op_of = [this](int work) { return program.work[index(work)].instruction.op; };
  const auto first =
      std::partition_point(all.begin(), all.end(), [&](int work) { return op_of(work) < op; });
  const auto end =
      std::partition_point(first, all.end(), [&](int work) { return op_of(work) == op; });
  return {first, end};
}

std::span<const int> Facts::works(int chunk, Op op, int microbatch) const {
  const auto& all = works_of_chunk_[index(chunk)];
  const auto key = [this](int work) {
    const Instruction& instruction = program.work[index(work)].instruction;
    return std::pair(instruction.op, instruction.microbatch);
  };
  const std::pair wanted(op, microbatch);
  const auto first =
      std::partition_point(all.begin(), all.end(), [&](int work) { return key(work) < wanted; });
  const auto end =
      std::partition_point(first, all.end(), [&](int work) { return key(work) == wanted; });
  return {first, end};
}

// A message is known by its channel and microbatch. What occurs twice, or has no counterpart, meets
// nobody here; the rule about matching says so.
void Facts::find_messages() {
  std::vector<std::tuple<int, int, int>> ends;  // channel, microbatch, work
  for (std::size_t work = 0; work < program.work.size(); ++work) {
    const Work& it = program.work[work];
    if (it.channel)
      ends.emplace_back(*it.channel, it.instruction.microbatch, static_cast<int>(work));
  }
  std::sort(ends.begin(), ends.end());
  const auto same_message = [&](std::size_t a, std::size_t b) {
    return std::get<0>(ends[a]) == std::get<0>(ends[b]) &&
           std::get<1>(ends[a]) == std::get<1>(ends[b]);
  };
  for (std::size_t first = 0, end = 0; first < ends.size(); first = end) {
    for (end = first + 1; end < ends.size() && same_message(first, end);) ++end;
    if (end - first != 2) continue;
    Meeting meeting{std::get<2>(ends[first]), std::get<2>(ends[first + 1])};
    const auto sends = [this](int work) {
      return is_send(program.work[index(work)].instruction.op);
    };
    if (sends(meeting[1])) std::swap(meeting[0], meeting[1]);
    if (!sends(meeting[0]) || sends(meeting[1])) continue;
    for (const int work : meeting) meeting_of[index(work)] = static_cast<int>(meetings.size());
    meetings.push_back(std::move(meeting));
  }
}

// The n-th occurrence of a group on one member meets the n-th on every other.
void Facts::find_collectives() {
  std::map<std::pair<int, int>, std::vector<int>>
      occurrences;  // by group and chunk, in issue order
  for (const auto& order : program.order) {
    for (const int work : order) {
      const Work& it = program.work[index(work)];
      if (it.group) occurrences[{*it.group, it.chunk}].push_back(work);
    }
  }
  for (std::size_t group = 0; group < program.groups.size(); ++group) {
    const auto& members = program.groups[group].chunks;
    std::size_t times = program.work.size();
    for (const int chunk : members) {
      times = std::min(times, occurrences[{static_cast<int>(group), chunk}].size());
    }
    for (std::size_t time = 0; time < times; ++time) {
      Meeting meeting;
      for (const int chunk : members) {
        meeting.push_back(occurrences[{static_cast<int>(group), chunk}][time]);
        meeting_of[index(meeting.back())] = static_cast<int>(meetings.size());
      }
      meetings.push_back(std::move(meeting));
    }
  }
}

std::vector<int> Facts::local_waits(int work) const {
  std::vector<int> waits;
  const auto add = [&](int waiting) {
    const IndexRange range = program.work[index(waiting)].waits;
    for (const int* wait = begin_of(program.waits, range); wait != end_of(program.waits, range);
         ++wait) {
      if (device_of(*wait) == device_of(work)) waits.push_back(*wait);
    }
  };
  add(work);
  if (const auto other = program.work[index(work)].fused_with) add(*other);
  return waits;
}

std::vector<int> Facts::chunks_of_copies(int stage) const {
  std::vector<int> chunks;
  for (int copy = stage % stages_per_pipe; copy < program.stages; copy += stages_per_pipe) {
    const auto& replicas = chunks_of_stage[index(copy)];
    chunks.insert(chunks.end(), replicas.begin(), replicas.end());
  }
  std::sort(chunks.begin(), chunks.end());
  return chunks;
}

void Facts::find_dependents() {
  first_dependent_.assign(program.work.size() + 1, 0);
  const int works = static_cast<int>(program.work.size());
  for (int work = 0; work < works; ++work) {
    for (const int wait : local_waits(work)) ++first_dependent_[index(wait) + 1];
  }
  for (std::size_t i = 1; i < first_dependent_.size(); ++i)
    first_dependent_[i] += first_dependent_[i - 1];
  dependents_.resize(index(first_dependent_.back()));
  std::vector<int> next(first_dependent_.begin(), first_dependent_.end() - 1);
  for (int work = 0; work < works; ++work) {
    for (const int wait : local_waits(work)) dependents_[index(next[index(wait)]++)] = work;
  }
}

std::span<const int> Facts::dependents(int work) const {
  const auto first = index(first_dependent_[index(work)]);
  return std::span(dependents_).subspan(first, index(first_dependent_[index(work) + 1]) - first);
}

int Facts::update_interval(int stage) const {
  return program.weights == WeightPolicy::flush ? program.microbatches
                                                : program.update_every[index(stage)];
}

int Facts::updates(int stage) const {
  return program.trains ? program.microbatches / update_interval(stage) : 0;
}

int Facts::update_of(int work) const {
  const Instruction& instruction = program.work[index(work)].instruction;
  return instruction.microbatch / update_interval(instruction.stage);
}

IndexRange first_gap(IndexRange whole, std::vector<IndexRange> pieces) {
  std::sort(pieces.begin(), pieces.end(), [](IndexRange a, IndexRange b) {
    return std::tie(a.first, a.end) < std::tie(b.first, b.end);
  });
  int covered = whole.first;
  for (const IndexRange piece : pieces) {
    if (piece.first > covered) return {covered, std::min(piece.first, whole.end)};
    covered = std::max(covered, piece.end);
    if (covered >= whole.end) return {};
  }
  return covered < whole.end ? IndexRange{covered, whole.end} : IndexRange{};
}

std::string rows_text(IndexRange rows) {
  return concat("rows [", rows.first, ", ", rows.end, ")");
}

std::string count(std::size_t number, const std::string& noun) {
  return concat(number, " ", noun, number == 1 ? "" : "s");
}

}  // namespace stagecraft::checks
