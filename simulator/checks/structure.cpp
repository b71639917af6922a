// Before anything is believed: does every index lead somewhere?

#include <algorithm>

#include "profiles/error.hpp"
#include "simulator/checks/rules.hpp"

namespace stagecraft::checks {

namespace {

template <class Table>
bool within(const Table& table, int index) {
  return index >= 0 && static_cast<std::size_t>(index) < table.size();
}

template <class Table>
bool within(const Table& table, IndexRange range) {
  return range.first >= 0 && range.first <= range.end &&
         static_cast<std::size_t>(range.end) <= table.size();
}

bool all_within(const std::vector<int>& indices, std::size_t size) {
  return std::all_of(indices.begin(), indices.end(), [&](int index) {
    return index >= 0 && static_cast<std::size_t>(index) < size;
  });
}

class Inspection {
 public:
  explicit Inspection(const Program& program) : program_(program) {}

  Verdict run() {
    sizes();
    if (!verdict_.holds()) return verdict_;
    chunks();
    if (!verdict_.holds()) return verdict_;
    channels();
    groups();
    buffers();
    for (std::size_t work = 0; work < program_.work.size(); ++work)
      inspect(program_.work[work], work);
    if (verdict_.holds()) order();
    if (verdict_.holds()) pairs();
    for (const CarriedWait& wait : program_.carried) {
      if (verdict_.holds()) carried(wait);
    }
    return verdict_;
  }

 private:
  void fault(const std::string& message, int device = 0, const Instruction& instruction = {}) {
    verdict_.found(message, device, instruction);
  }

  const Chunk& chunk(int index) const { return program_.chunks[static_cast<std::size_t>(index)]; }

  void sizes() {
    const auto devices = static_cast<std::size_t>(std::max(program_.devices, 0));
    if (program_.devices < 1 || program_.stages < 1 || program_.microbatches < 1) {
      fault("the program needs at least one device, one stage and one microbatch");
    } else if (program_.pipes < 1 || program_.stages % program_.pipes != 0) {
      fault(
          concat(program_.stages, " stages are not ", program_.pipes, " copies of the same ones"));
    } else if (program_.sequence_chunks < 1 ||
               program_.microbatches % program_.sequence_chunks != 0) {
      fault(
          concat(program_.microbatches, " pieces are not sequences of ", program_.sequence_chunks));
    } else if (program_.order.size() != devices) {
      fault(concat("the program has ", devices, " devices but orders for ", program_.order.size()));
    } else if (program_.arena.size() != devices) {
      fault(concat("the program has ", devices, " devices but arenas for ", program_.arena.size()));
    } else if (!program_.reserve.empty() && program_.reserve.size() != devices) {
      fault(concat("the program has ", devices, " devices but reserves for ",
                   program_.reserve.size()));
    }
    policies();
    const auto most = static_cast<std::size_t>(INT32_MAX);
    if (program_.work.size() >= most || program_.waits.size() >= most)
      fault("the program is too large to index");
  }

  void policies() {
    const bool flush = program_.weights == WeightPolicy::flush;
    const std::vector<int>& every = program_.update_every;
    const auto fits = [&](int interval) {
      return interval >= 1 && program_.microbatches % interval == 0;
    };
    if (program_.feedback < 0 || (program_.trains && program_.feedback > 0)) {
      fault(concat("the program feeds its output back after ", program_.feedback, " microbatches"));
    } else if (!program_.trains && !flush) {
      fault("the program has a policy for updates, but makes none");
    } else if (every.size() != (flush ? 0 : static_cast<std::size_t>(program_.stages))) {
      fault(concat("the program says of ", every.size(), " stages how often they update, but ",
                   flush ? "updates once" : concat("has ", program_.stages)));
    } else if (const auto odd = std::ranges::find_if_not(every, fits); odd != every.end()) {
      fault(concat("stage ", odd - every.begin(), " cannot update its weights every ", *odd, " of ",
                   program_.microbatches, " microbatches"));
    }
  }

  void chunks() {
    for (std::size_t i = 0; i < program_.chunks.size(); ++i) {
      const Chunk& chunk = program_.chunks[i];
      const auto name = [&] {
        return concat("chunk ", i, " (stage ", chunk.stage, ", replica ", chunk.replica, ")");
      };
      if (chunk.device < 0 || chunk.device >= program_.devices) {
        fault(concat(name(), " is on device ", chunk.device, ", which does not exist"));
      } else if (chunk.stage < 0 || chunk.stage >= program_.stages) {
        fault(concat(name(), " belongs to a stage that does not exist"), chunk.device);
      } else if (chunk.rows.first < 0 || chunk.rows.size() < 1) {
        fault(concat(name(), " holds no rows of a microbatch"), chunk.device);
      }
    }
  }

  void channels() {
    for (std::size_t i = 0; i < program_.channels.size(); ++i) {
      const Channel& channel = program_.channels[i];
      const bool ends =
          within(program_.chunks, channel.from) && within(program_.chunks, channel.to);
      if (!ends) {
        fault(concat("channel ", i, " joins chunks that do not exist"));
      } else if (channel.bytes < 0) {
        fault(concat("channel ", i, " carries ", channel.bytes, " bytes"));
      }
    }
  }

  void groups() {
    for (std::size_t i = 0; i < program_.groups.size(); ++i) {
      const std::vector<int>& members = program_.groups[i].chunks;
      if (members.empty()) {
        fault(concat("group ", i, " has no members"));
      } else if (!all_within(members, program_.chunks.size())) {
        fault(concat("group ", i, " has members that do not exist"));
      } else {
        one_member_per_device(i);
      }
    }
  }

  // A device cannot be in the same collective twice: the first part would wait for the one behind
  // it.
  void one_member_per_device(std::size_t group) {
    std::vector<int> devices;
    for (const int member : program_.groups[group].chunks) devices.push_back(chunk(member).device);
    std::sort(devices.begin(), devices.end());
    const auto twice = std::adjacent_find(devices.begin(), devices.end());
    if (twice != devices.end())
      fault(concat("group ", group, " has two members on device ", *twice), *twice);
  }

  void buffers() {
    for (std::size_t i = 0; i < program_.buffers.size(); ++i) {
      const Buffer& buffer = program_.buffers[i];
      if (!within(program_.arena, buffer.device)) {
        fault(concat("buffer ", i, " is on device ", buffer.device, ", which does not exist"));
      } else if (!within(program_.chunks, buffer.chunk) ||
                 chunk(buffer.chunk).device != buffer.device) {
        fault(concat("buffer ", i, " belongs to a chunk that is not on its device"), buffer.device);
      } else if (buffer.bytes < 0 || buffer.offset < 0) {
        fault(concat("buffer ", i, " has a negative size or offset"), buffer.device);
      }
    }
    const bool known = all_within(program_.resident, program_.buffers.size()) &&
                       all_within(program_.allocations, program_.buffers.size()) &&
                       all_within(program_.releases, program_.buffers.size());
    if (!known) fault("a buffer is named that does not exist");
    if (!all_within(program_.waits, program_.work.size()))
      fault("something waits for work that does not exist");
  }

  // A device sees only its own works end.
  void carried(const CarriedWait& wait) {
    if (!within(program_.work, wait.work) || !within(program_.work, wait.on)) {
      return fault("something waits for work of the iteration before that does not exist");
    }
    const Work& work = program_.work[static_cast<std::size_t>(wait.work)];
    const int home = chunk(work.chunk).device;
    if (home == chunk(program_.work[static_cast<std::size_t>(wait.on)].chunk).device) return;
    fault(concat(describe(program_, wait.work), " waits for ", describe(program_, wait.on),
                 " of the iteration before, which its device cannot see"),
          home, work.instruction);
  }

  void inspect(const Work& work, std::size_t index) {
    const auto name = [&] { return concat(to_string(work.instruction), " (work ", index, ")"); };
    if (!within(program_.chunks, work.chunk))
      return fault(name() + " has no chunk", 0, work.instruction);
    const Chunk& chunk = program_.chunks[static_cast<std::size_t>(work.chunk)];
    const Instruction& instruction = work.instruction;
    const auto wrong = [&](std::string_view what) {
      fault(concat(name(), what), chunk.device, instruction);
    };
    if (instruction.stage != chunk.stage)
      wrong(concat(" is done by a chunk of stage ", chunk.stage));
    if (instruction.microbatch < 0 || instruction.microbatch >= program_.microbatches) {
      wrong(concat(" is for a microbatch outside of [0, ", program_.microbatches, ")"));
    }
    if (work.lane != lane_of(instruction.op)) wrong(" is on the wrong lane");
    const bool message = is_send(instruction.op) || is_receive(instruction.op);
    if (message != work.channel.has_value()) wrong(message ? " has no channel" : " has a channel");
    if (is_collective(instruction.op) != work.group.has_value()) {
      wrong(is_collective(instruction.op) ? " has no group" : " has a group");
    }
    if (work.channel && !within(program_.channels, *work.channel))
      wrong(" has a channel that does not exist");
    if (work.group && !within(program_.groups, *work.group))
      wrong(" has a group that does not exist");
    if (work.fused_with && !within(program_.work, *work.fused_with))
      wrong(" is fused with work that does not exist");
    const bool ranges = within(program_.waits, work.waits) &&
                        within(program_.allocations, work.allocates) &&
                        within(program_.releases, work.frees);
    if (!ranges) wrong(" refers to entries outside of the program's tables");
  }

  void order() {
    std::vector<int> seen(program_.work.size(), 0);
    for (std::size_t device = 0; device < program_.order.size(); ++device) {
      for (const int index : program_.order[device]) {
        const int place = static_cast<int>(device);
        if (!within(program_.work, index)) {
          fault(concat("device ", device, " is to do work that does not exist"), place);
          continue;
        }
        const Work& work = program_.work[static_cast<std::size_t>(index)];
        const int home = program_.chunks[static_cast<std::size_t>(work.chunk)].device;
        if (home != place) {
          fault(concat(describe(program_, index), " is in the order of device ", device), place,
                work.instruction);
        }
        if (++seen[static_cast<std::size_t>(index)] == 2) {
          fault(concat(describe(program_, index), " is in its device's order twice"), place,
                work.instruction);
        }
      }
    }
    for (std::size_t index = 0; index < seen.size(); ++index) {
      if (seen[index] > 0) continue;
      const Work& work = program_.work[index];
      fault(concat(describe(program_, static_cast<int>(index)),
                   " is in no device's order and would never run"),
            program_.chunks[static_cast<std::size_t>(work.chunk)].device, work.instruction);
    }
  }

  // A fused pair is a forward and, right behind it on the same device, a whole backward.
  void pairs() {
    for (const std::vector<int>& order : program_.order) {
      int open = none;  // the backward that must come next
      for (const int index : order) {
        const Work& work = program_.work[static_cast<std::size_t>(index)];
        if (work.lane != Lane::compute) continue;
        if (open != none) {
          if (open != index || work.instruction.op != Op::backward) return torn(open);
          open = none;
        } else if (work.fused_with) {
          const Work& other = program_.work[static_cast<std::size_t>(*work.fused_with)];
          if (work.instruction.op != Op::forward || other.fused_with != index) return torn(index);
          open = *work.fused_with;
        }
      }
      if (open != none) return torn(open);
    }
  }

  void torn(int index) {
    const Work& work = program_.work[static_cast<std::size_t>(index)];
    const Work& other = program_.work[static_cast<std::size_t>(*work.fused_with)];
    fault(concat(describe(program_, index), " and ", to_string(other.instruction),
                 " cannot be a fused pair: expected a forward and, right behind it, a backward"),
          program_.chunks[static_cast<std::size_t>(work.chunk)].device, work.instruction);
  }

  const Program& program_;
  Verdict verdict_{"structure"};
};

}  // namespace

Verdict structure(const Program& program) {
  return Inspection(program).run();
}

}  // namespace stagecraft::checks
