// How tables of numbers travel inside a page: as variable-length integers (seven bits a byte, the
// lowest first; signed ones zigzag), compressed by zlib, in base64. page/packing.js reads them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace stagecraft {

class PackedTable {
 public:
  void add(std::uint64_t number);
  void add_signed(std::int64_t number);
  /// Characters, behind their number.
  void add_text(std::string_view text);

  /// What the page gets.
  std::string text() const;

 private:
  std::string bytes_;
};

}  // namespace stagecraft
