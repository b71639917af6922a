#include "executor/checkpoints/writer.hpp"

#include <map>
#include <utility>

#include "executor/checkpoints/files.hpp"
#include "executor/checkpoints/manifest.hpp"
#include "executor/checkpoints/slices.hpp"
#include "executor/values/packing.hpp"
#include "executor/weights/weight_shard.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

namespace {

using States = std::map<std::pair<std::string, StateKind>, StoredState>;

StoredState stored_as(const HeldState& held) {
  return {.name = held.spec->name,
          .kind = held.kind,
          .precision = held.values.precision,
          .shape = whole_shape(*held.spec),
          .slices = {},
          .updates = held.updates};
}

// --- A rank's own file
// ----------------------------------------------------------------------------

/// Piece by piece behind what is there already, by way of the process's memory.
void append(Backend& backend, const HeldState& held, Bytes slice_bytes, DurableFile& file,
            std::vector<StoredSlice>& slices) {
  const Precision precision = held.values.precision;
  const std::int64_t most = std::max<Bytes>(1, slice_bytes / element_bytes(precision));
  for (WeightSlice& piece : pieces_of(held.slice, most)) {
    Tensor copy = host_tensor({piece.elements()}, precision);
    const std::int64_t first = piece.first - held.slice.first;
    backend.download(rows_of(held.values, first, first + piece.elements()), bytes_of(copy));
    const std::string_view bytes{copy.data<char>(), static_cast<std::size_t>(copy.bytes())};
    slices.push_back({.slice = std::move(piece),
                      .file = {},
                      .offset = file.size(),
                      .hash = content_hash(bytes)});
    file.write(bytes);
  }
}

/// Makes no file for nothing.
std::vector<StoredState> write_file(const std::filesystem::path& path, Backend& backend,
                                    const std::vector<HeldState>& state, Bytes slice_bytes,
                                    SystemCalls& calls) {
  std::vector<StoredState> stored;
  if (state.empty()) return stored;
  Bytes whole = 0;
  for (const HeldState& held : state) whole += held.values.bytes();
  DurableFile file(path, whole, std::string(checkpoint_remedy), calls);
  for (const HeldState& held : state) {
    append(backend, held, slice_bytes, file, stored.emplace_back(stored_as(held)).slices);
  }
  file.finish();
  return stored;
}

// --- What rank 0 is told of it
// --------------------------------------------------------------------

void pack(Packer& packer, const WeightSlice& slice) {
  packer.put(slice.first);
  packer.put(slice.end);
  packer.put(slice.shard.has_value());
  if (!slice.shard) return;
  packer.put(slice.shard->columns);
  packer.put(static_cast<std::uint64_t>(slice.shard->ranges.size()));
  for (const auto& [first, end] : slice.shard->ranges) {
    packer.put(first);
    packer.put(end);
  }
}

WeightSlice unpack_slice(Unpacker& unpacker, const std::vector<std::int64_t>& whole) {
  WeightSlice slice;
  slice.first = unpacker.get<std::int64_t>();
  slice.end = unpacker.get<std::int64_t>();
  if (!unpacker.get<bool>()) return slice;
  slice.shard = WeightShard{.whole = whole, .columns = unpacker.get<bool>()};
  slice.shard->ranges.resize(unpacker.get<std::uint64_t>());
  for (auto& [first, end] : slice.shard->ranges) {
    first = unpacker.get<std::int64_t>();
    end = unpacker.get<std::int64_t>();
  }
  return slice;
}

std::string packed(const std::vector<StoredState>& states) {
  Packer packer;
  for (const StoredState& state : states) {
    packer.put_bytes(state.name);
    packer.put(state.kind);
    packer.put(state.precision);
    packer.put_list(state.shape);
    packer.put(state.updates);
    packer.put(static_cast<std::uint64_t>(state.slices.size()));
    for (const StoredSlice& stored : state.slices) {
      pack(packer, stored.slice);
      packer.put(stored.offset);
      packer.put_bytes(stored.hash);
    }
  }
  return packer.take();
}

/// Adds a rank's slices to those of the ranks before.
void unpack_states(std::string_view said, const std::string& file, States& states) {
  Unpacker unpacker(said);
  while (!unpacker.done()) {
    StoredState own{.name = std::string(unpacker.get_bytes())};
    own.kind = unpacker.get<StateKind>();
    own.precision = unpacker.get<Precision>();
    own.shape = unpacker.get_list<std::int64_t>();
    own.updates = unpacker.get<int>();
    StoredState& state = states.try_emplace({own.name, own.kind}, own).first->second;
    for (auto left = unpacker.get<std::uint64_t>(); left > 0; --left) {
      StoredSlice stored{.slice = unpack_slice(unpacker, own.shape), .file = file};
      stored.offset = unpacker.get<std::int64_t>();
      stored.hash = unpacker.get_bytes();
      state.slices.push_back(std::move(stored));
    }
  }
}

std::string file_of(std::size_t rank) {
  return concat("rank-", rank, ".bin");
}

}  // namespace

CheckpointWriter::CheckpointWriter(Checkpoint about, const CheckpointOptions& options,
                                   int first_step, bool leads)
    : about_(std::move(about)),
      options_(options),
      calls_(options.calls != nullptr ? *options.calls : system_calls()) {
  make_checkpoints_folder(options_.folder, calls_);
  if (!leads) return;
  lock_.emplace(options_.folder);
  prepare_checkpoints(options_.folder, first_step);
}

/// Only now: while a rank that has failed unwinds, others may still be writing there.
CheckpointWriter::~CheckpointWriter() {
  if (unfinished_) abandon_checkpoint(options_.folder, *unfinished_);
}

void CheckpointWriter::write(Transport& transport, Backend& backend,
                             const std::vector<HeldState>& state,
                             const TrainingPosition& position) {
  const Moment start = now();
  const int step = position.steps;
  const bool leads = transport.rank() == 0;
  if (leads) {
    unfinished_ = step;
    begin_checkpoint(options_.folder, step, calls_);
  }
  transport.broadcast("begun");
  const auto path = unfinished_folder(options_.folder, step) /
                    file_of(static_cast<std::size_t>(transport.rank()));
  const auto said =
      transport.gather(packed(write_file(path, backend, state, options_.slice_bytes, calls_)));
  if (leads) {
    end(position, said, start);
    unfinished_.reset();
  }
  transport.broadcast("ended");
}

void CheckpointWriter::end(const TrainingPosition& position,
                           const std::vector<std::string>& of_ranks, Moment start) {
  States states;
  for (std::size_t rank = 0; rank < of_ranks.size(); ++rank) {
    unpack_states(of_ranks[rank], file_of(rank), states);
  }
  Checkpoint checkpoint = about_;
  checkpoint.position = position;
  WrittenCheckpoint written{.step = position.steps};
  for (auto& [name, state] : states) {
    for (const StoredSlice& slice : state.slices) written.bytes += bytes_of(state, slice);
    checkpoint.states.push_back(std::move(state));
  }
  const std::string text = write_manifest(checkpoint);
  DurableFile manifest(unfinished_folder(options_.folder, position.steps) / manifest_name,
                       static_cast<Bytes>(text.size()), std::string(checkpoint_remedy), calls_);
  manifest.write(text);
  manifest.finish();
  end_checkpoint(options_.folder, position.steps, options_.keep, calls_);
  written.time = now() - start;
  written_.push_back(written);
}

}  // namespace stagecraft
