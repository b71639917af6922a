// Who learns the norm of all gradients, and when.
//
// Global: one all-reduce over all devices (N) stands between all gradients and every update.
//
//   device 0   ─ W0.7 ─────────── N ─ U0.7
//   device 1   ────── … ─ W1.7 ── N ─ U1.7
//
// Post-validated (Qi et al. 2024, "Zero Bubble Pipeline Parallelism", section 4): each device hands
// the squares of its gradients and of all before to the next one, and updates relying on them. The
// last one knows the whole norm. In the next iteration this goes back through the pipeline; nothing
// goes backward before it has come.
//
//   device 0   ─ W0.7 ─ U0.7 ─ F0.0 ─ F0.1 ─ … ────────── B0.0
//                  └ SN              next iteration         RV
//   device 1   ────── RN ─ W1.7 ─ U1.7 ─ F1.0 ─ … ─ B1.0    ┊
//                                           └ SV ┄┄┄┄┄┄┄┄┄┄┄┘
//
// A validation that fails is rare: the update is undone and done again with the whole norm, and
// the forwards since then are repeated. A program does not contain it.
//
// Every parameter counts once: replicas, copies in other pipes and the users of tied weights hold
// the same gradients as others, whose squares count. Where replicas hold shards, those of one
// pipeline device sum their squares first.

#include <algorithm>

#include "simulator/lowering/passes.hpp"

namespace stagecraft::lowering {

namespace {

using Works = std::vector<int>;

/// A norm is one number.
constexpr Bytes norm_bytes = 8;

/// A program device: its chunks, and the work after which it knows all squares it is to know.
struct Knowing {
  std::vector<int> chunks;
  Works known;
};

std::vector<Knowing> gradients_by_device(const Draft& draft) {
  std::vector<Knowing> devices(index(draft.program.devices));
  for (std::size_t chunk = 0; chunk < draft.program.chunks.size(); ++chunk) {
    Knowing& device = devices[index(draft.program.chunks[chunk].device)];
    device.chunks.push_back(static_cast<int>(chunk));
    const Works& complete = draft.gradients_complete[chunk];
    device.known.insert(device.known.end(), complete.begin(), complete.end());
  }
  return devices;
}

/// Per pipeline device, the program devices of its replicas.
std::vector<std::vector<int>> pipeline(const Draft& draft) {
  std::vector<std::vector<int>> devices(draft.schedule.devices.size());
  for (int stage = 0; stage < draft.program.stages; ++stage) {
    auto& replicas = devices[index(draft.schedule.device_of_stage[index(stage)])];
    if (!replicas.empty()) continue;
    for (const int chunk : draft.chunks_of_stage[index(stage)]) {
      replicas.push_back(draft.program.chunks[index(chunk)].device);
    }
  }
  std::erase_if(devices, [](const auto& replicas) { return replicas.empty(); });
  return devices;
}

int last_microbatch(const Draft& draft) {
  return draft.program.microbatches - 1;
}

/// These devices learn what any of them knows.
void all_reduce(Draft& draft, std::vector<Knowing>& devices, const std::vector<int>& members) {
  if (members.size() < 2) return;
  std::vector<int> chunks;
  for (const int device : members) chunks.push_back(devices[index(device)].chunks.front());
  const int group = add_group(draft, Op::reduce_norm, std::move(chunks), norm_bytes);
  for (const int device : members) {
    Knowing& own = devices[index(device)];
    const int work = add_member(draft, group, own.chunks.front(), last_microbatch(draft));
    for (const int on : own.known) add_wait(draft, work, on);
    own.known = {work};
  }
}

int add_message(Draft& draft, int from, int to, Cargo cargo, const Works& producers) {
  const int channel = static_cast<int>(draft.program.channels.size());
  draft.program.channels.push_back(
      {.from = from, .to = to, .cargo = cargo, .rows = {}, .bytes = norm_bytes});
  return add_message(draft, channel, last_microbatch(draft), producers);
}

/// Forward through the pipeline; where replicas differ in number, one may tell several.
void pass_on(Draft& draft, std::vector<Knowing>& devices) {
  const std::vector<std::vector<int>> order = pipeline(draft);
  for (std::size_t d = 1; d < order.size(); ++d) {
    for (std::size_t replica = 0; replica < order[d].size(); ++replica) {
      const Knowing& from = devices[index(order[d - 1][replica % order[d - 1].size()])];
      Knowing& to = devices[index(order[d][replica])];
      to.known.push_back(
          add_message(draft, from.chunks.front(), to.chunks.front(), Cargo::norm, from.known));
    }
  }
}

void let_updates_wait(Draft& draft, const std::vector<Knowing>& devices) {
  for (const Knowing& device : devices) {
    for (const int chunk : device.chunks) draft.gradients_complete[index(chunk)] = device.known;
  }
}

/// The device's first compute with one of these.
template <class Is>
std::optional<int> first_compute(const Draft& draft, int device, Is is) {
  for (const int item : draft.compute[index(device)]) {
    if (is(draft.program.work[index(item)].instruction.op)) return item;
  }
  return {};
}

int chunk_on(const Draft& draft, int device) {
  const auto& chunks = draft.program.chunks;
  const auto place = std::find_if(chunks.begin(), chunks.end(),
                                  [&](const Chunk& chunk) { return chunk.device == device; });
  return static_cast<int>(place - chunks.begin());
}

/// The replicas that do the pipeline device's first forward, and these forwards. (In turn, it is
/// one.) Every backward needs this microbatch's forward or a later one, so that nothing waits for
/// each other.
std::vector<KeyedValue> first_forwards(const Draft& draft, const std::vector<int>& replicas) {
  std::vector<KeyedValue> forwards;
  for (const int device : replicas) {
    const auto first = first_compute(draft, device, [](Op op) { return op == Op::forward; });
    if (first) forwards.push_back({device, *first});
  }
  const auto instruction = [&](const KeyedValue& forward) {
    return draft.program.work[index(forward.value)].instruction;
  };
  const auto earlier = [](const KeyedValue& a, const KeyedValue& b) { return a.value < b.value; };
  const KeyedValue first = *std::min_element(forwards.begin(), forwards.end(), earlier);
  std::erase_if(forwards, [&](const KeyedValue& forward) {
    return instruction(forward) != instruction(first);
  });
  return forwards;
}

}  // namespace

void add_norm(Draft& draft) {
  if (draft.program.norm == GradientNorm::none) return;
  std::vector<Knowing> devices = gradients_by_device(draft);
  if (draft.program.norm == GradientNorm::global) {
    std::vector<int> all;
    for (int device = 0; device < draft.program.devices; ++device) {
      if (!devices[index(device)].chunks.empty()) all.push_back(device);
    }
    all_reduce(draft, devices, all);
  } else {
    if (draft.program.sharding != Sharding::none) {
      for (const auto& replicas : pipeline(draft)) all_reduce(draft, devices, replicas);
    }
    pass_on(draft, devices);
  }
  let_updates_wait(draft, devices);
}

/// The last device tells what it knows with its first forward, well before a gradient leaves it.
void add_validation(Draft& draft) {
  if (draft.program.norm != GradientNorm::post_validated) return;
  const std::vector<std::vector<int>> order = pipeline(draft);
  std::vector<KeyedValue> senders = first_forwards(draft, order.back());
  for (std::size_t d = order.size() - 1; d > 0; --d) {
    std::vector<KeyedValue> receivers;
    for (const int device : order[d - 1]) {
      const KeyedValue& sender = senders[receivers.size() % senders.size()];
      const int receive = add_message(draft, chunk_on(draft, sender.key), chunk_on(draft, device),
                                      Cargo::validation, {sender.value});
      receivers.push_back({device, receive});
      const auto waiting =
          first_compute(draft, device, [](Op op) { return is_backward(op) || op == Op::update; });
      // A replica that never has a turn at a stage that only passes on does neither.
      if (waiting) add_wait(draft, *waiting, receive);
    }
    senders = std::move(receivers);
  }
}

}  // namespace stagecraft::lowering
