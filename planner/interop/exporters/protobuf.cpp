#include "planner/interop/exporters/protobuf.hpp"

namespace stagecraft {

namespace {

constexpr std::uint64_t varint_type = 0, delimited_type = 2;

/// Seven bits a byte, lowest first; the eighth says that more follow.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

std::string tag(int field, std::uint64_t type) {
  return varint(static_cast<std::uint64_t>(field) << 3 | type);
}

}  // namespace

void ProtobufMessage::add_number(int field, std::uint64_t value) {
  bytes_ += tag(field, varint_type) + varint(value);
}

void ProtobufMessage::add_bytes(int field, std::string_view bytes) {
  bytes_ += tag(field, delimited_type) + varint(bytes.size());
  bytes_ += bytes;
}

std::string ProtobufMessage::delimited() const {
  return varint(bytes_.size()) + bytes_;
}

}  // namespace stagecraft
