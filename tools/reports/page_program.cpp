// The format, in the order of the numbers; `column` means one number for each row, column by
// column, so that what repeats stands together.
//
//   devices  works  nodes  prices  patterns
//   prices     kind (0 plain, 1 fused), device + 1 of computes or 0, entries of `listed_costs`:
//              plain: one; fused: of the pair, the forward, the backward; each + 1, 0 is no entry
//   nodes      columns: how far back first and second are (0: the value 0), delay, cost
//   works      per device its number of works; columns: op, stage, microbatch (less the one
//              before), value (less the one before), delay, cost, latency, the patterns of what it
//              takes at its start and gives back at its end, peer + 1 of sends and receives or 0
//   patterns   of memory: number of categories; category and bytes of each
//   resident   per device, per category: bytes

#include "tools/reports/page_program.hpp"

#include <map>

#include "profiles/index.hpp"
#include "simulator/engines/compiled.hpp"
#include "tools/reports/page_packing.hpp"

namespace stagecraft {

namespace {

constexpr int entries_of_chunk = 7;
constexpr int entry_of_fused = 6;

/// The place of an operation among a chunk's entries.
int entry_of(Op op) {
  switch (op) {
    case Op::forward: return 0;
    case Op::backward: return 1;
    case Op::backward_input: return 2;
    case Op::backward_weight: return 3;
    case Op::recompute: return 4;
    default: return 5;
  }
}

/// Where the entries of chunks, channels and groups begin.
struct Entries {
  const Program& program;
  int chunk(int which, int entry) const { return which * entries_of_chunk + entry; }
  int channel(int which, int entry) const {
    return static_cast<int>(program.chunks.size()) * entries_of_chunk + 2 * which + entry;
  }
  int group(int which) const {
    return channel(static_cast<int>(program.channels.size()), 0) + which;
  }
};

void pack_price(PackedTable& table, const Program& program, const Price& price) {
  const Entries entries{program};
  const auto device = [&](int chunk) { return program.chunks[index(chunk)].device + 1; };
  const auto add = [&](int number) { table.add(static_cast<std::uint64_t>(number)); };
  add(price.kind == Price::Kind::fused ? 1 : 0);
  switch (price.kind) {
    case Price::Kind::nothing: add(0); return add(0);
    case Price::Kind::compute:
      add(device(price.index));
      return add(entries.chunk(price.index, entry_of(price.op)) + 1);
    case Price::Kind::fused:
      add(device(price.index));
      add(entries.chunk(price.index, entry_of_fused) + 1);
      add(entries.chunk(price.index, entry_of(Op::forward)) + 1);
      return add(entries.chunk(price.partner, entry_of(price.op)) + 1);
    case Price::Kind::latency:
    case Price::Kind::occupancy:
      add(0);
      return add(entries.channel(price.index, price.kind == Price::Kind::latency ? 0 : 1) + 1);
    case Price::Kind::group: add(0); return add(entries.group(price.index) + 1);
  }
}

void pack_nodes(PackedTable& table, const std::vector<CompiledTables::Node>& nodes) {
  const auto back = [&](std::size_t i, std::uint32_t value) {
    table.add(value == 0 ? 0 : i + 1 - value);
  };
  for (std::size_t i = 0; i < nodes.size(); ++i) back(i, nodes[i].first);
  for (std::size_t i = 0; i < nodes.size(); ++i) back(i, nodes[i].second);
  for (const CompiledTables::Node& node : nodes) table.add(node.delay);
  for (const CompiledTables::Node& node : nodes) table.add(node.cost);
}

using Pattern = std::map<MemoryCategory, Bytes>;

/// Patterns by their numbers; 0 is the empty one.
class Patterns {
 public:
  Patterns() { number({}); }
  std::uint64_t number(const Pattern& pattern) {
    const auto [place, is_new] = numbers_.try_emplace(pattern, list_.size());
    if (is_new) list_.push_back(pattern);
    return place->second;
  }
  const std::vector<Pattern>& list() const { return list_; }

 private:
  std::map<Pattern, std::uint64_t> numbers_;
  std::vector<Pattern> list_;
};

Pattern pattern_of(const Program& program, const std::vector<int>& buffers, IndexRange range) {
  Pattern pattern;
  for (int i = range.first; i < range.end; ++i) {
    const Buffer& buffer = program.buffers[index(buffers[index(i)])];
    pattern[buffer.category] += buffer.bytes;
  }
  return pattern;
}

/// All works, device by device in issue order.
std::vector<int> works_in_order(const Program& program) {
  std::vector<int> works;
  for (const auto& order : program.order) works.insert(works.end(), order.begin(), order.end());
  return works;
}

int peer_of_message(const Program& program, const Work& work) {
  if (!work.channel) return -1;
  const Channel& channel = program.channels[index(*work.channel)];
  return program.chunks[index(is_send(work.instruction.op) ? channel.to : channel.from)].device;
}

struct TakenMemory {
  std::vector<std::uint64_t> taken, given_back;  ///< patterns, per work in order
  Patterns patterns;
};

TakenMemory memory_of_works(const Program& program, const std::vector<int>& order) {
  TakenMemory memory;
  for (const int i : order) {
    const Work& work = program.work[index(i)];
    memory.taken.push_back(
        memory.patterns.number(pattern_of(program, program.allocations, work.allocates)));
    memory.given_back.push_back(
        memory.patterns.number(pattern_of(program, program.releases, work.frees)));
  }
  return memory;
}

void pack_instructions(PackedTable& table, const std::vector<Instruction>& instructions) {
  for (const Instruction& instruction : instructions)
    table.add(static_cast<std::uint64_t>(instruction.op));
  for (const Instruction& instruction : instructions)
    table.add(static_cast<std::uint64_t>(instruction.stage));
  int before = 0;
  for (const Instruction& instruction : instructions) {
    table.add_signed(instruction.microbatch - before);
    before = instruction.microbatch;
  }
}

void pack_works(PackedTable& table, const Program& program, const std::vector<int>& order,
                const CompiledTables& compiled, const TakenMemory& memory) {
  for (const auto& of_device : program.order) table.add(of_device.size());
  std::vector<Instruction> instructions;
  for (const int i : order) instructions.push_back(program.work[index(i)].instruction);
  pack_instructions(table, instructions);
  const auto moment = [&](int i) -> const CompiledTables::Moment& {
    return compiled.works[index(i)];
  };
  std::int64_t before = 0;
  for (const int i : order) {
    table.add_signed(moment(i).value - before);
    before = moment(i).value;
  }
  for (const int i : order) table.add(moment(i).delay);
  for (const int i : order) table.add(moment(i).cost);
  for (const int i : order) table.add(moment(i).latency);
  for (const std::uint64_t pattern : memory.taken) table.add(pattern);
  for (const std::uint64_t pattern : memory.given_back) table.add(pattern);
  for (const int i : order) {
    table.add(index(peer_of_message(program, program.work[index(i)]) + 1));
  }
}

void pack_resident(PackedTable& table, const Program& program) {
  std::vector<MemoryUse> use(index(program.devices), MemoryUse{});
  for (std::size_t device = 0; device < program.reserve.size(); ++device)
    use[device][static_cast<std::size_t>(MemoryCategory::reserve)] = program.reserve[device];
  for (const int i : program.resident) {
    const Buffer& buffer = program.buffers[index(i)];
    use[index(buffer.device)][static_cast<std::size_t>(buffer.category)] += buffer.bytes;
  }
  for (const MemoryUse& of_device : use) {
    for (const Bytes bytes : of_device) table.add(static_cast<std::uint64_t>(bytes));
  }
}

}  // namespace

std::vector<std::int64_t> listed_costs(const Costs& costs) {
  std::vector<std::int64_t> list;
  for (const ChunkCosts& chunk : costs.chunks) {
    for (const Duration time : {chunk.forward, chunk.backward, chunk.backward_input,
                                chunk.backward_weight, chunk.recompute, chunk.update}) {
      list.push_back(time.count());
    }
    list.push_back(chunk.fused ? chunk.fused->count() : -1);
  }
  for (const ChannelCosts& channel : costs.channels) {
    list.push_back(channel.latency.count());
    list.push_back(channel.occupancy.count());
  }
  for (const Duration group : costs.groups) list.push_back(group.count());
  return list;
}

std::string packed_program(const Compiled& compiled) {
  const Program& program = compiled.program;
  const CompiledTables tables = CompiledProgram(program).tables();
  const std::vector<int> order = works_in_order(program);
  const TakenMemory memory = memory_of_works(program, order);
  PackedTable table;
  for (const std::size_t size : {index(program.devices), order.size(), tables.nodes.size(),
                                 tables.prices.size(), memory.patterns.list().size()}) {
    table.add(size);
  }
  for (const Price& price : tables.prices) pack_price(table, program, price);
  pack_nodes(table, tables.nodes);
  pack_works(table, program, order, tables, memory);
  for (const Pattern& pattern : memory.patterns.list()) {
    table.add(pattern.size());
    for (const auto& [category, bytes] : pattern) {
      table.add(static_cast<std::uint64_t>(category));
      table.add(static_cast<std::uint64_t>(bytes));
    }
  }
  pack_resident(table, program);
  return table.text();
}

/// devices; per device its number of works; columns: op, stage, microbatch (less the one before),
/// start (less the one before), time.
std::string packed_timeline(const Timeline& timeline) {
  std::vector<std::vector<const Span*>> rows(index(timeline.devices));
  for (const Span& span : timeline.spans) {
    const bool shown = span.lane == Lane::compute || span.lane == Lane::collective;
    if (shown) rows[index(span.device)].push_back(&span);
  }
  PackedTable table;
  table.add(rows.size());
  std::vector<Instruction> instructions;
  for (const auto& row : rows) {
    table.add(row.size());
    for (const Span* span : row) instructions.push_back(span->instruction);
  }
  pack_instructions(table, instructions);
  std::int64_t before = 0;
  for (const auto& row : rows) {
    for (const Span* span : row) {
      table.add_signed(span->start.count() - before);
      before = span->start.count();
    }
  }
  for (const auto& row : rows) {
    for (const Span* span : row) table.add(static_cast<std::uint64_t>(span->time().count()));
  }
  return table.text();
}

}  // namespace stagecraft
