// Chakra execution traces (schema/protobuf/et_def.proto of mlcommons/chakra), one for each device
// of the plan's program, as ASTRA-sim replays them: a second opinion on a plan's messages, packet
// by packet if need be. Tensor-parallel peers do the same at the same time and are one NPU; what
// they say to each other is part of their compute.
//
//   NAME.0.et NAME.1.et …   GlobalMetadata, then a Node for every instruction of a step
//   NAME.json               communicator groups: the NPUs of each, by the name collectives give
//
// ASTRA-sim issues what is ready by ascending id, so ids follow the order of the program, and what
// the program keeps in order (compute, collectives, the messages of one channel) depends on what
// comes before. Times are whole microseconds there, rounded to the nearest.

#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planner/costs/predict.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/protobuf.hpp"
#include "profiles/error.hpp"
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
enum class ValueField : std::uint8_t { int32 = 5, int64 = 7, boolean = 27, string = 29 };

class Node {
 public:
  Node(std::uint64_t id, const std::string& name, NodeType type) {
    message_.add_number(1, id);
    message_.add_bytes(2, name);
    message_.add_number(3, static_cast<std::uint64_t>(type));
  }
  void after(std::uint64_t id) { message_.add_number(4, id); }
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

class Traces {
 public:
  explicit Traces(const Compiled& compiled)
      : program_(compiled.program), costs_(compiled.costs), ids_(program_.work.size()) {
    const auto tags = static_cast<std::int64_t>(program_.channels.size()) * program_.microbatches;
    if (tags > std::numeric_limits<std::int32_t>::max())
      fail("Chakra numbers messages in 32 bits; this plan has more of them");
    for (const auto& order : program_.order) {
      std::uint64_t id = 0;
      for (const int work : order) ids_[static_cast<std::size_t>(work)] = id++;
    }
  }

  std::string trace(int device) const {
    ProtobufMessage metadata;
    metadata.add_bytes(1, "0.0.4");
    std::string text = metadata.delimited();
    std::map<int, std::uint64_t> last;  // of each row
    for (const int work : program_.order[static_cast<std::size_t>(device)]) {
      Node node = node_of(work);
      const auto [before, is_first] = last.try_emplace(row_of(work), id(work));
      if (!is_first) node.after(before->second);
      before->second = id(work);
      for (const int other : waits_here(work)) node.needs(id(other));
      text += node.text();
    }
    return text;
  }

  std::string groups() const {
    auto groups = nlohmann::ordered_json::object();
    for (std::size_t group = 0; group < program_.groups.size(); ++group)
      groups[std::to_string(group)] = members(program_.groups[group]);
    return to_text(groups);
  }

 private:
  const Work& at(int work) const { return program_.work[static_cast<std::size_t>(work)]; }
  std::uint64_t id(int work) const { return ids_[static_cast<std::size_t>(work)]; }
  int device_of(int work) const { return device_of_chunk(at(work).chunk); }
  int device_of_chunk(int chunk) const {
    return program_.chunks[static_cast<std::size_t>(chunk)].device;
  }

  /// What is in order on a device: its compute, its collectives, a channel's messages.
  int row_of(int work) const {
    if (const auto& channel = at(work).channel) return *channel;
    return at(work).lane == Lane::compute ? -1 : -2;
  }

  /// A receive waits for a send elsewhere, which its tag says.
  std::vector<int> waits_here(int work) const {
    std::vector<int> here;
    const IndexRange range = at(work).waits;
    for (const int* other = begin_of(program_.waits, range); other != end_of(program_.waits, range);
         ++other) {
      if (device_of(*other) == device_of(work)) here.push_back(*other);
    }
    return here;
  }

  std::set<int> members(const Group& group) const {
    std::set<int> devices;
    for (const int chunk : group.chunks) devices.insert(device_of_chunk(chunk));
    return devices;
  }

  Node node_of(int work) const {
    const Work& each = at(work);
    const std::string name = to_string(each.instruction);
    if (each.channel) return message_node(work, name);
    const bool meets = each.group && members(group_of(each)).size() > 1;
    Node node(id(work), name, meets ? NodeType::collective : NodeType::compute);
    node.add("is_cpu_op", ValueField::boolean, 0);
    if (meets) {
      node.add("comm_type", ValueField::int64, collective_type(each.instruction.op));
      node.add("comm_size", ValueField::int64, static_cast<std::uint64_t>(group_of(each).bytes));
      node.add("pg_name", std::to_string(*each.group));
    } else {
      node.lasts(each.group ? costs_.groups[static_cast<std::size_t>(*each.group)]
                            : cost_of(costs_.chunks[static_cast<std::size_t>(each.chunk)],
                                      each.instruction.op));
      node.add("num_ops", ValueField::int64, 0);
    }
    return node;
  }

  Node message_node(int work, const std::string& name) const {
    const Work& each = at(work);
    const Channel& channel = program_.channels[static_cast<std::size_t>(*each.channel)];
    const bool sends = is_send(each.instruction.op);
    Node node(id(work), name, sends ? NodeType::send : NodeType::receive);
    const int tag = *each.channel * program_.microbatches + each.instruction.microbatch;
    node.add("is_cpu_op", ValueField::boolean, 0);
    node.add("comm_src", ValueField::int32, number(device_of_chunk(channel.from)));
    node.add("comm_dst", ValueField::int32, number(device_of_chunk(channel.to)));
    node.add("comm_tag", ValueField::int32, number(tag));
    node.add("comm_size", ValueField::int64, static_cast<std::uint64_t>(channel.bytes));
    return node;
  }

  const Group& group_of(const Work& work) const {
    return program_.groups[static_cast<std::size_t>(*work.group)];
  }
  static std::uint64_t number(int value) { return static_cast<std::uint64_t>(value); }

  const Program& program_;
  const Costs& costs_;
  std::vector<std::uint64_t> ids_;
};

}  // namespace

std::vector<ExportedFile> export_chakra(const LoadedPlan& loaded) {
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  const Traces traces(compiled);
  std::vector<ExportedFile> files;
  for (int device = 0; device < compiled.program.devices; ++device)
    files.push_back({concat(".", device, ".et"), traces.trace(device)});
  files.push_back({".json", traces.groups()});
  return files;
}

}  // namespace stagecraft
