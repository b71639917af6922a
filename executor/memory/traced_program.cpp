#include "executor/memory/traced_program.hpp"

#include <algorithm>
#include <utility>

#include "executor/memory/trace.hpp"
#include "executor/transports/peers.hpp"
#include "profiles/error.hpp"

namespace stagecraft {

namespace {

ChunkMemory larger(const ChunkMemory& a, const ChunkMemory& b) {
  ChunkMemory most = a;
  for (const auto field :
       {&ChunkMemory::parameters, &ChunkMemory::gradients, &ChunkMemory::optimizer,
        &ChunkMemory::saved, &ChunkMemory::saved_for_weight, &ChunkMemory::saved_throughout,
        &ChunkMemory::past, &ChunkMemory::past_gradients, &ChunkMemory::input, &ChunkMemory::output,
        &ChunkMemory::workspace}) {
    most.*field = std::max(a.*field, b.*field);
  }
  most.forward_alone = std::max(a.forward_alone, b.forward_alone);
  return most;
}

/// The ranks of a device, ascending.
std::vector<int> ranks_of_device(const RankMap& ranks, int device) {
  std::vector<int> found;
  for (int rank = 0; rank < ranks.ranks(); ++rank) {
    if (ranks.device_of(rank) == device) found.push_back(rank);
  }
  return found;
}

std::vector<ChunkTapes> trace_peers(const Training& training, const Program& program, int chunk,
                                    const RankMap& ranks, Backend& dry) {
  std::vector<ChunkTapes> tapes;
  const int device = program.chunks[static_cast<std::size_t>(chunk)].device;
  for (const int rank : ranks_of_device(ranks, device)) {
    const auto peers = make_absent_peers(ranks, rank);
    tapes.push_back(trace_chunk(training, program, chunk, peers.get(), dry));
  }
  return tapes;
}

}  // namespace

TracedProgram trace_program(const Training& training, const Compiled& compiled,
                            const RankMap& ranks, Backend& dry) {
  TracedProgram traced{.compiled = compiled, .tapes = {}};
  LowerOptions& options = traced.compiled.lowering;
  const Program& program = compiled.program;
  options.memory.resize(static_cast<std::size_t>(program.stages));
  for (std::size_t i = 0; i < program.chunks.size(); ++i) {
    const Chunk& chunk = program.chunks[i];
    auto tapes = trace_peers(training, program, static_cast<int>(i), ranks, dry);
    ChunkMemory memory = tapes.front().memory;
    for (const ChunkTapes& peer : tapes) memory = larger(memory, peer.memory);
    auto& replicas = options.memory[static_cast<std::size_t>(chunk.stage)];
    replicas.resize(static_cast<std::size_t>(chunk.replicas));
    replicas[static_cast<std::size_t>(chunk.replica)] = memory;
    traced.tapes.push_back(std::move(tapes));
  }
  traced.compiled.program = lower(compiled.schedule, options);
  if (traced.compiled.program.chunks != program.chunks) {
    throw Error(ErrorKind::bug, "lowering with other memory has made other chunks");
  }
  return traced;
}

}  // namespace stagecraft
