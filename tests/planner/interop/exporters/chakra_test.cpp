// Chakra traces, read back by the field numbers of its schema.

#include <map>
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
  std::vector<std::uint64_t> before;
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
    if (field.number == 4 || field.number == 5) node.before.push_back(field.value);
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

LoadedPlan example() {
  const PlanQuestion question = question_of(6, "4xh100");
  const Plan plan = imported("megatron",
                             "--pipeline-model-parallel-size 2 --micro-batch-size 1 "
                             "--global-batch-size 8 --use-distributed-optimizer",
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
      if (node.type == 7) {
        CHECK(node.attributes.at("comm_type").field == 7);
        CHECK(node.attributes.at("comm_size").value > 0);
        groups.insert(node.attributes.at("pg_name").text);
      }
      if (node.type != 5 && node.type != 6) continue;
      const auto number = [&](const std::string& name, int field) {
        CHECK(node.attributes.at(name).field == field);
        return node.attributes.at(name).value;
      };
      const std::vector<std::uint64_t> message{number("comm_src", 5), number("comm_dst", 5),
                                               number("comm_tag", 5), number("comm_size", 7)};
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
