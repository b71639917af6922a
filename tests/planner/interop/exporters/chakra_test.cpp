// Chakra traces, read back by the field numbers of its schema (et_def.proto of mlcommons/chakra,
// the same in every release): int32_val 7, int64_val 9, bool_val 27, string_val 29. What code made
// from the schema reads, and how ASTRA-sim's feeder issues it, tools/peers asks.

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "planner/costs/predict.hpp"
#include "planner/interop/exporters.hpp"
#include "planner/interop/exporters/protobuf.hpp"
#include "planner/interop/load_plan.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/planner/interop/importers/questions.hpp"

using namespace stagecraft;
using namespace stagecraft::tests;

namespace {

/// A field of a message: its number, and its value or bytes.
struct Field {
  int number = 0;
  std::uint64_t value = 0;
  std::string bytes;
};

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool at_end() const { return place_ == bytes_.size(); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      REQUIRE(place_ < bytes_.size());
      const auto byte = static_cast<unsigned char>(bytes_[place_++]);
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) return value;
    }
  }

  std::string delimited() {
    const auto length = static_cast<std::size_t>(varint());
    REQUIRE(place_ + length <= bytes_.size());
    place_ += length;
    return bytes_.substr(place_ - length, length);
  }

  std::vector<Field> fields() {
    std::vector<Field> fields;
    while (!at_end()) {
      const std::uint64_t tag = varint();
      Field& field = fields.emplace_back();
      field.number = static_cast<int>(tag >> 3);
      if ((tag & 7) == 0) {
        field.value = varint();
      } else {
        REQUIRE((tag & 7) == 2);
        field.bytes = delimited();
      }
    }
    return fields;
  }

 private:
  std::string bytes_;
  std::size_t place_ = 0;
};

struct Attribute {
  int field = 0;  ///< which says the type
  std::uint64_t value = 0;
  std::string text;
};

struct ReadNode {
  std::uint64_t id = 0, type = 0, microseconds = 0;
  std::string name;
  std::vector<std::uint64_t> before, controls;  ///< data_deps, ctrl_deps
  std::map<std::string, Attribute> attributes;
};

Attribute read_attribute(const std::string& bytes, std::string& name) {
  Attribute attribute;
  for (const Field& field : Reader(bytes).fields()) {
    if (field.number == 1) {
      name = field.bytes;
    } else {
      attribute = {field.number, field.value, field.bytes};
    }
  }
  return attribute;
}

ReadNode read_node(const std::string& bytes) {
  ReadNode node;
  for (const Field& field : Reader(bytes).fields()) {
    if (field.number == 1) node.id = field.value;
    if (field.number == 2) node.name = field.bytes;
    if (field.number == 3) node.type = field.value;
    if (field.number == 4) node.controls.push_back(field.value);
    if (field.number == 5) node.before.push_back(field.value);
    if (field.number == 7) node.microseconds = field.value;
    if (field.number != 10) continue;
    std::string name;
    const Attribute attribute = read_attribute(field.bytes, name);
    node.attributes[name] = attribute;
  }
  return node;
}

std::vector<ReadNode> read_trace_of(const std::string& content) {
  Reader reader(content);
  const std::vector<Field> metadata = Reader(reader.delimited()).fields();
  REQUIRE(metadata.size() == 1);
  CHECK(metadata.front().bytes == "0.0.4");
  std::vector<ReadNode> nodes;
  while (!reader.at_end()) nodes.push_back(read_node(reader.delimited()));
  return nodes;
}

constexpr int int32_val = 7, int64_val = 9, bool_val = 27, string_val = 29;

LoadedPlan example(const std::string& flags = "--use-distributed-optimizer") {
  const PlanQuestion question = question_of(6, "4xh100");
  const Plan plan = imported("megatron",
                             "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
                             "--global-batch-size 8 " +
                                 flags,
                             question);
  return {.plan = plan,
          .profile = question.profile,
          .cluster = question.cluster,
          .path = "plan.json",
          .hash = {}};
}

}  // namespace

TEST_CASE("protobuf's own example of a varint") {
  ProtobufMessage message;
  message.add_number(1, 150);
  CHECK(message.bytes() == "\x08\x96\x01");
  ProtobufMessage text;
  text.add_bytes(2, "testing");
  CHECK(text.bytes() == "\x12\x07testing");
  CHECK(text.delimited() == "\x09\x12\x07testing");
}

TEST_CASE("a Chakra trace has every instruction once, in the program's order, with its time") {
  const LoadedPlan loaded = example();
  const Compiled compiled = compile(loaded.plan, loaded.profile, loaded.cluster);
  const std::vector<ExportedFile> files = export_chakra(loaded);
  REQUIRE(files.size() == static_cast<std::size_t>(compiled.program.devices) + 1);
  for (std::size_t device = 0; device + 1 < files.size(); ++device) {
    CHECK(files[device].suffix == concat(".", device, ".et"));
    const std::vector<ReadNode> nodes = read_trace_of(files[device].content);
    const std::vector<int>& order = compiled.program.order[device];
    REQUIRE(nodes.size() == order.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const Work& work = compiled.program.work[static_cast<std::size_t>(order[i])];
      INFO(nodes[i].name);
      CHECK(nodes[i].id == i);
      CHECK(nodes[i].name == to_string(work.instruction));
      for (const std::uint64_t before : nodes[i].before) CHECK(before < i);
      if (work.instruction.op != Op::forward) continue;
      CHECK(nodes[i].type == 4);
      const auto& costs = compiled.costs.chunks[static_cast<std::size_t>(work.chunk)];
      CHECK(nodes[i].microseconds ==
            static_cast<std::uint64_t>((costs.forward.count() + 500) / 1000));
    }
  }
}

TEST_CASE("every message of Chakra traces is sent once and received once") {
  std::map<std::vector<std::uint64_t>, int> sent, received;
  std::set<std::string> groups;
  const std::vector<ExportedFile> files = export_chakra(example());
  for (std::size_t device = 0; device + 1 < files.size(); ++device) {
    for (const ReadNode& node : read_trace_of(files[device].content)) {
      INFO(node.name);
      CHECK(node.attributes.at("is_cpu_op").field == bool_val);
      CHECK_FALSE(node.attributes.contains("num_ops"));
      if (node.type == 7) {
        CHECK(node.attributes.at("comm_type").field == int64_val);
        CHECK(node.attributes.at("pg_name").field == string_val);
        CHECK(node.attributes.at("comm_size").value > 0);
        groups.insert(node.attributes.at("pg_name").text);
      }
      if (node.type != 5 && node.type != 6) continue;
      const auto number = [&](const std::string& name, int field) {
        CHECK(node.attributes.at(name).field == field);
        return node.attributes.at(name).value;
      };
      const std::vector<std::uint64_t> message{
          number("comm_src", int32_val), number("comm_dst", int32_val),
          number("comm_tag", int32_val), number("comm_size", int64_val)};
      CHECK(message[node.type == 5 ? 0 : 1] == device);
      ++(node.type == 5 ? sent : received)[message];
    }
  }
  CHECK(sent == received);
  CHECK(sent.size() == 2 * 2 * 4);  // two pipelines, both ways, 4 microbatches
  for (const auto& [message, times] : sent) CHECK(times == 1);
  CHECK(groups.size() >= 2);
  for (const std::string& group : groups)
    CHECK(files.back().content.find('"' + group + "\":") != std::string::npos);
}

TEST_CASE(
    "compute of a Chakra trace is in one row of data dependencies, sends and collectives too") {
  const std::vector<ExportedFile> files = export_chakra(example());
  for (std::size_t device = 0; device + 1 < files.size(); ++device) {
    std::optional<std::uint64_t> compute, communication;
    for (const ReadNode& node : read_trace_of(files[device].content)) {
      INFO(node.name);
      CHECK(node.controls.empty());
      if (node.type == 6) continue;
      std::optional<std::uint64_t>& last = node.type == 4 ? compute : communication;
      if (last) CHECK(std::ranges::count(node.before, *last) == 1);
      last = node.id;
    }
  }
}

TEST_CASE("collectives of Chakra traces carry what each member has, in groups numbered from 1") {
  // All-reduces of a stage's gradients, or reduce-scatters and gathers of its halves.
  const auto bytes_of = [](const LoadedPlan& loaded) {
    std::map<std::uint64_t, std::vector<std::uint64_t>> bytes;  // by type
    const std::vector<ExportedFile> files = export_chakra(loaded);
    CHECK(files.back().content.find("\"0\"") == std::string::npos);
    for (const ReadNode& node : read_trace_of(files.front().content)) {
      const bool is_tied = node.name.starts_with("T");  // of embedding and head, with others
      if (node.type != 7 || is_tied) continue;
      CHECK(node.attributes.at("pg_name").text == "1");
      bytes[node.attributes.at("comm_type").value].push_back(node.attributes.at("comm_size").value);
    }
    return bytes;
  };
  const LoadedPlan plain = example("");
  const Compiled compiled = compile(plain.plan, plain.profile, plain.cluster);
  const auto whole = static_cast<std::uint64_t>(compiled.program.groups.front().bytes);
  constexpr std::uint64_t all_reduce = 0, all_gather = 2, reduce_scatter = 7;
  CHECK(bytes_of(plain) ==
        std::map<std::uint64_t, std::vector<std::uint64_t>>{{all_reduce, {whole}}});
  const LoadedPlan sharded = example();
  const Compiled program = compile(sharded.plan, sharded.profile, sharded.cluster);
  std::map<std::uint64_t, std::vector<std::uint64_t>> expected;
  for (const Group& group : program.program.groups) {
    if (program.program.chunks[static_cast<std::size_t>(group.chunks.front())].stage != 0) continue;
    const auto bytes = static_cast<std::uint64_t>(group.bytes);
    if (group.op == Op::gather_parameters) expected[all_gather] = {bytes / 2};
    if (group.op == Op::reduce_scatter) expected[reduce_scatter] = {bytes};
  }
  CHECK(expected.size() == 2);
  CHECK(bytes_of(sharded) == expected);
  // Of ZeRO-3 everything is said in the passes.
  CHECK(bytes_of(example("--use-distributed-optimizer --use-megatron-fsdp "
                         "--data-parallel-sharding-strategy optim_grads_params"))
            .empty());
  // In buckets it is as much in all, each behind its piece of the last backward.
  const LoadedPlan bucketed = example("--overlap-grad-reduce --ddp-bucket-size 1");
  const std::vector<std::uint64_t> buckets = bytes_of(bucketed)[all_reduce];
  REQUIRE(buckets.size() == 4);  // the embedding and three blocks
  std::uint64_t sum = 0;
  for (const std::uint64_t bucket : buckets) sum += bucket;
  CHECK(sum + 4 >= whole);
  CHECK(sum <= whole + 4);
  const std::vector<ExportedFile> files = export_chakra(bucketed);
  std::uint64_t pieces = 0, backward = 0;
  for (const ReadNode& node : read_trace_of(files.front().content)) {
    if (node.name.starts_with("B0.3")) pieces += node.microseconds;
    if (node.name == "B0.0") backward = node.microseconds;
  }
  CHECK(pieces + 4 >= backward);
  CHECK(pieces <= backward + 4);
}
