// Messages in protobuf's wire format (protobuf.dev/programming-guides/encoding), as far as they are
// varints and what is delimited by its length.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stagecraft {

class ProtobufMessage {
 public:
  /// uint64, int64 and int32 of 0 or more, bool, enum.
  void add_number(int field, std::uint64_t value);
  /// string, bytes, a message inside this one.
  void add_bytes(int field, std::string_view bytes);

  const std::string& bytes() const { return bytes_; }
  /// Behind its length, as messages follow each other in a file.
  std::string delimited() const;

 private:
  std::string bytes_;
};

}  // namespace stagecraft
