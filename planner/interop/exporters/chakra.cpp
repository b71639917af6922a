// Chakra execution traces (schema/protobuf/et_def.proto of mlcommons/chakra), one for each device
// of the plan's program, as ASTRA-sim replays them: a second opinion on a plan's messages, packet
// by packet if need be. Tensor-parallel peers do the same at the same time and are one NPU; what
// they say to each other is part of their compute, and so is what ZeRO-2 and 3 say in each pass.
//
//   NAME.0.et NAME.1.et …   GlobalMetadata, then a Node for every instruction of a step
//   NAME.json               communicator groups: the NPUs of each, by the name collectives give
//
// ASTRA-sim's feeder knows `data_deps` only, and issues what is ready by ascending id: one compute
// at a time, one send or collective at a time, receives at any time. A collective that is issued
// before a send that another member needs to get there would wait for ever. So what the program
// keeps in order stands in `data_deps`, too: compute in one row, sends and collectives in another.
// Ids follow the order of the program, but for a fused pair, which stands where its later half
// does: what follows either half follows both.
//
// Gradients that are summed in buckets while the last backward goes on cut that backward into as
// many pieces, each followed by its bucket. Times are whole microseconds, rounded to the nearest.

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/costs/exposed_sums.hpp"
#include "planner/costs/predict.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/protobuf.hpp"
#include "profiles/error.hpp"
#include "profiles/index.hpp"
#include "profiles/json.hpp"
#include "simulator/values/cost_of.hpp"

namespace stagecraft {

namespace {

/// enum NodeType
enum class NodeType : std::uint8_t { compute = 4, send = 5, receive = 6, collective = 7 };

/// enum CollectiveCommType
std::uint64_t collective_type(Op op) {
  constexpr std::uint64_t all_reduce = 0, all_gather = 2, reduce_scatter = 7;
  if (op == Op::gather_parameters) return all_gather;
  return op == Op::reduce_scatter ? reduce_scatter : all_reduce;
}

/// Fields of AttributeProto, one for each type of value.
enum class ValueField : std::uint8_t { int32 = 7, int64 = 9, boolean = 27, string = 29 };

/// A message Node.
class Node {
 public:
  Node(std::uint64_t id, const std::string& name, NodeType type) {
    message_.add_number(1, id);
    message_.add_bytes(2, name);
    message_.add_number(3, static_cast<std::uint64_t>(type));
  }
  void needs(std::uint64_t id) { message_.add_number(5, id); }
  void lasts(Duration time) {
    message_.add_number(7, static_cast<std::uint64_t>((time.count() + 500) / 1000));
  }
  void add(std::string_view name, ValueField field, std::uint64_t value) {
    ProtobufMessage attribute = named(name);
    attribute.add_number(static_cast<int>(field), value);
    message_.add_bytes(10, attribute.bytes());
  }
  void add(std::string_view name, std::string_view value) {
    ProtobufMessage attribute = named(name);
    attribute.add_bytes(static_cast<int>(ValueField::string), value);
    message_.add_bytes(10, attribute.bytes());
  }
  std::string text() const { return message_.delimited(); }

 private:
  static ProtobufMessage named(std::string_view name) {
    ProtobufMessage attribute;
    attribute.add_bytes(1, name);
    return attribute;
  }

  ProtobufMessage message_;
};

/// Communicator groups by their members, from 1: ASTRA-sim takes 0 for all NPUs.
class Communicators {
 public:
  int number_of(const std::set<int>& members) {
    return numbers_.try_emplace(members, static_cast<int>(numbers_.size()) + 1).first->second;
  }
  std::string text() const {
    std::map<int, std::set<int>> members;
    for (const auto& [devices, number] : numbers_) members[number] = devices;
    auto groups = nlohmann::ordered_json::object();
    for (const auto& [number, devices] : members) groups[std::to_string(number)] = devices;
    return to_text(groups);
  }

 private:
  std::map<std::set<int>, int> numbers_;
};

/// What all devices' traces are made of.
class Traces {
 public:
  Traces(const LoadedPlan& loaded, const Compiled& compiled)
      : plan_(loaded.plan),
        compiled_(compiled),
        book_(loaded.profile, loaded.cluster, book_setting(loaded.plan)),
        sums_(loaded.plan.optimizer, loaded.plan.schedule) {
    const Program& program = compiled.program;
    const auto tags = static_cast<std::int64_t>(program.channels.size()) * program.microbatches;
    if (tags > std::numeric_limits<std::int32_t>::max())
      fail("Chakra numbers messages in 32 bits; this plan has more of them");
    for (const Group& group : program.groups) {
      std::set<int>& devices = members_.emplace_back();
      for (const int chunk : group.chunks) devices.insert(program.chunks[index(chunk)].device);
      numbers_.push_back(devices.size() > 1 ? communicators_.number_of(devices) : 0);
    }
  }

  const Program& program() const { return compiled_.program; }
  const Costs& costs() const { return compiled_.costs; }
  const std::set<int>& members(int group) const { return members_[index(group)]; }
  int communicator(int group) const { return numbers_[index(group)]; }
  std::string groups() const { return communicators_.text(); }

  /// Whether members say something to each other: sums of ZeRO-2 and 3 are part of each pass.
  bool meets(int group) const {
    const Op op = program().groups[index(group)].op;
    const Sharding sharding = plan_.optimizer.sharding;
    const bool is_sum = op == Op::reduce_gradient || op == Op::reduce_scatter;
    const bool is_said = (is_sum && shards_gradients(sharding)) ||
                         (op == Op::gather_parameters && sharding == Sharding::zero3);
    return members(group).size() > 1 && !is_said;
  }

  /// Of a sum of gradients, in the order in which they are complete.
  std::vector<GradientBucket> buckets(const Chunk& chunk) {
    const auto per_pipe = plan_.stages.size();
    const Stage& stage = plan_.stages[index(chunk.stage) % per_pipe];
    const auto replica = index(chunk.replica) % stage.devices.size();
    const int device = compiled_.devices[index(chunk.device)];
    const CostTable& table =
        book_.table(book_.cluster().devices[index(device)], plan_.batch.microbatch,
                    std::max<std::int64_t>(chunk.rows.size(), 1),
                    static_cast<int>(stage.devices[replica].size()));
    return sums_.buckets(table, stage.layers);
  }

 private:
  const Plan& plan_;
  const Compiled& compiled_;
  CostBook book_;
  ExposedSums sums_;
  Communicators communicators_;
  std::vector<std::set<int>> members_;  ///< devices of each group
  std::vector<int> numbers_;            ///< of its communicator; 0: nobody to talk to
};

/// One device's trace.
class DeviceTrace {
 public:
  DeviceTrace(Traces& traces, int device)
      : traces_(traces), program_(traces.program()), device_(device) {
    ProtobufMessage metadata;
    metadata.add_bytes(1, "0.0.4");
    text_ = metadata.delimited();
    const std::vector<int>& order = program_.order[index(device)];
    for (const int work : order) find_buckets(work);
    for (const int work : order) add(work);
  }
  const std::string& text() const { return text_; }

 private:
  const Work& at(int work) const { return program_.work[index(work)]; }
  int device_of(int work) const { return program_.chunks[index(at(work).chunk)].device; }

  /// Which backward is the last before a sum in several buckets.
  void find_buckets(int work) {
    const Work& each = at(work);
    const Op op = each.instruction.op;
    if (op == Op::backward || op == Op::backward_weight) {
      last_backward_[each.chunk] = work;
      return;
    }
    if (op != Op::reduce_gradient && op != Op::reduce_scatter) return;
    const auto last = last_backward_.find(each.chunk);
    if (!traces_.meets(*each.group) || last == last_backward_.end()) return;
    if (at(last->second).fused_with || !is_of_one_stage(*each.group)) return;
    std::vector<GradientBucket> buckets = traces_.buckets(program_.chunks[index(each.chunk)]);
    if (buckets.size() < 2) return;
    sum_of_[last->second] = work;
    buckets_[work] = std::move(buckets);
  }

  /// Replicas of a stage come to their last backwards in the same order; copies of it, in the
  /// pipelines of other directions, do not.
  bool is_of_one_stage(int group) const {
    const std::vector<int>& chunks = program_.groups[index(group)].chunks;
    const int stage = program_.chunks[index(chunks.front())].stage;
    return std::ranges::all_of(
        chunks, [&](int chunk) { return program_.chunks[index(chunk)].stage == stage; });
  }

  void add(int work) {
    const Work& each = at(work);
    if (each.channel) return add_message(work);
    if (each.fused_with) {
      // The first half waits for what its pair needs, and stands there.
      if (*each.fused_with < work) add_pair(*each.fused_with, work);
      return;
    }
    if (const auto sum = sum_of_.find(work); sum != sum_of_.end()) {
      return add_pieces(work, sum->second);
    }
    if (buckets_.contains(work)) return add_bucket(work, buckets_.at(work).size() - 1);
    if (each.group && traces_.meets(*each.group)) return add_collective(work);
    add_compute(work, to_string(each.instruction), own_time(work), needs_of({work}));
  }

  Duration own_time(int work) const {
    const Work& each = at(work);
    if (each.group) {
      return traces_.members(*each.group).size() > 1 ? Duration{0}
                                                     : traces_.costs().groups[index(*each.group)];
    }
    return cost_of(traces_.costs().chunks[index(each.chunk)], each.instruction.op);
  }

  void add_pair(int first, int second) {
    const auto is_forward = [&](int work) { return at(work).instruction.op == Op::forward; };
    const int forward = is_forward(first) ? first : second;
    const int backward = is_forward(first) ? second : first;
    const Duration apart = own_time(forward) + own_time(backward);
    const Duration together =
        traces_.costs().chunks[index(at(forward).chunk)].fused.value_or(apart);
    const Duration half = std::min(own_time(forward), together);
    const std::set<std::uint64_t> needs = needs_of({forward, backward});
    add_compute(forward, to_string(at(forward).instruction), half, needs);
    add_compute(backward, to_string(at(backward).instruction), together - half, needs);
    ends_[forward] = ends_[backward];
  }

  /// Each piece but the last is followed by its bucket, which the sum's own place has.
  void add_pieces(int work, int sum) {
    const std::vector<GradientBucket>& buckets = buckets_.at(sum);
    Duration all{0};
    for (const GradientBucket& bucket : buckets) all += bucket.backward;
    const Duration whole = own_time(work);
    const std::string name = to_string(at(work).instruction);
    Duration before{0}, done{0};
    for (std::size_t i = 0; i < buckets.size(); ++i) {
      const bool is_last = i + 1 == buckets.size();
      before += buckets[i].backward;
      const Duration until = is_last ? whole : part(whole, before, all);
      add_compute(work, concat(name, ".piece", i), until - done, needs_of({work}));
      done = until;
      if (!is_last) add_bucket(sum, i, ends_.at(work));
    }
  }

  void add_bucket(int sum, std::size_t which, std::optional<std::uint64_t> piece = {}) {
    const std::vector<GradientBucket>& buckets = buckets_.at(sum);
    Bytes gradients = 0;
    for (const GradientBucket& bucket : buckets) gradients += bucket.gradients.all;
    const double share = gradients == 0 ? 0
                                        : static_cast<double>(buckets[which].gradients.all) /
                                              static_cast<double>(gradients);
    const Bytes bytes = program_.groups[index(*at(sum).group)].bytes;
    add_collective_node(sum, concat(to_string(at(sum).instruction), ".bucket", which),
                        scaled_by(bytes, share),
                        piece ? std::set<std::uint64_t>{*piece} : needs_of({sum}));
  }

  static Duration part(Duration whole, Duration share, Duration all) {
    if (all.count() == 0) return whole;
    return scaled_by(whole, static_cast<double>(share.count()) / static_cast<double>(all.count()));
  }

  void add_compute(int work, const std::string& name, Duration time,
                   std::set<std::uint64_t> needs) {
    Node node(next_, name, NodeType::compute);
    if (last_compute_) needs.insert(*last_compute_);
    for (const std::uint64_t id : needs) node.needs(id);
    node.lasts(time);
    node.add("is_cpu_op", ValueField::boolean, 0);
    last_compute_ = finish(work, node);
  }

  void add_collective(int work) {
    const Work& each = at(work);
    const Group& group = program_.groups[index(*each.group)];
    // A device with two of the members, as copies of a model may have, speaks once.
    if (!met_.emplace(*each.group, each.instruction.microbatch).second) {
      return add_compute(work, to_string(each.instruction), Duration{0}, needs_of({work}));
    }
    const auto members = static_cast<Bytes>(traces_.members(*each.group).size());
    const bool gathers = group.op == Op::gather_parameters;
    add_collective_node(work, to_string(each.instruction),
                        gathers ? (group.bytes + members - 1) / members : group.bytes,
                        needs_of({work}));
  }

  /// ASTRA-sim counts what each member has before: all of a sum, its own part of a gather.
  void add_collective_node(int work, const std::string& name, Bytes bytes,
                           std::set<std::uint64_t> needs) {
    Node node(next_, name, NodeType::collective);
    if (last_communication_) needs.insert(*last_communication_);
    for (const std::uint64_t id : needs) node.needs(id);
    node.add("is_cpu_op", ValueField::boolean, 0);
    node.add("comm_type", ValueField::int64, collective_type(at(work).instruction.op));
    node.add("comm_size", ValueField::int64, static_cast<std::uint64_t>(std::max<Bytes>(bytes, 1)));
    node.add("pg_name", std::to_string(traces_.communicator(*at(work).group)));
    last_communication_ = finish(work, node);
  }

  void add_message(int work) {
    const Work& each = at(work);
    const Channel& channel = program_.channels[index(*each.channel)];
    const bool sends = is_send(each.instruction.op);
    Node node(next_, to_string(each.instruction), sends ? NodeType::send : NodeType::receive);
    std::set<std::uint64_t> needs = needs_of({work});
    if (sends && last_communication_) needs.insert(*last_communication_);
    for (const std::uint64_t id : needs) node.needs(id);
    const int tag = *each.channel * program_.microbatches + each.instruction.microbatch;
    node.add("is_cpu_op", ValueField::boolean, 0);
    node.add("comm_src", ValueField::int32, device_number(channel.from));
    node.add("comm_dst", ValueField::int32, device_number(channel.to));
    node.add("comm_tag", ValueField::int32, static_cast<std::uint64_t>(tag));
    node.add("comm_size", ValueField::int64, static_cast<std::uint64_t>(channel.bytes));
    const std::uint64_t id = finish(work, node);
    if (sends) last_communication_ = id;
  }

  std::uint64_t device_number(int chunk) const {
    return static_cast<std::uint64_t>(program_.chunks[index(chunk)].device);
  }

  /// The nodes of this device that these wait for; a receive waits for a send elsewhere, which its
  /// tag says.
  std::set<std::uint64_t> needs_of(const std::vector<int>& works) const {
    std::set<std::uint64_t> needs;
    for (const int work : works) {
      const IndexRange range = at(work).waits;
      for (int i = range.first; i < range.end; ++i) {
        const int other = program_.waits[index(i)];
        if (device_of(other) != device_) continue;
        if (const auto end = ends_.find(other); end != ends_.end()) needs.insert(end->second);
      }
    }
    return needs;
  }

  std::uint64_t finish(int work, const Node& node) {
    text_ += node.text();
    ends_[work] = next_;
    return next_++;
  }

  Traces& traces_;
  const Program& program_;
  int device_;
  std::string text_;
  std::uint64_t next_ = 0;
  std::map<int, std::uint64_t> ends_;  ///< the last node of each work
  std::optional<std::uint64_t> last_compute_, last_communication_;
  std::map<int, int> last_backward_;                    ///< of each chunk
  std::map<int, int> sum_of_;                           ///< behind a backward that is cut
  std::map<int, std::vector<GradientBucket>> buckets_;  ///< of a sum
  std::set<std::pair<int, int>> met_;                   ///< groups and microbatches
};

}  // namespace

std::vector<ExportedFile> export_chakra(const LoadedPlan& loaded) {
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  Traces traces(loaded, compiled);
  std::vector<ExportedFile> files;
  for (int device = 0; device < compiled.program.devices; ++device)
    files.push_back({concat(".", device, ".et"), DeviceTrace(traces, device).text()});
  files.push_back({".json", traces.groups()});
  return files;
}

}  // namespace stagecraft
