#include "tools/reports/page_packing.hpp"

#include <zlib.h>

#include <array>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k) {
      group = group << 8U | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? digits[group >> (18U - 6U * static_cast<unsigned>(k)) & 63U] : '=';
    }
  }
  return text;
}

std::string compressed_by_zlib(const std::string& bytes) {
  uLongf length = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(length, '\0');
  const int code = compress2(reinterpret_cast<Bytef*>(out.data()), &length,
                             reinterpret_cast<const Bytef*>(bytes.data()),
                             static_cast<uLong>(bytes.size()), Z_BEST_COMPRESSION);
  if (code != Z_OK) fail("zlib cannot compress ", bytes.size(), " bytes: error ", code);
  out.resize(length);
  return out;
}

}  // namespace

void PackedTable::add(std::uint64_t number) {
  while (number >= 128) {
    bytes_ += static_cast<char>((number & 127U) | 128U);
    number >>= 7U;
  }
  bytes_ += static_cast<char>(number);
}

void PackedTable::add_signed(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  add(number < 0 ? ~(bits << 1U) : bits << 1U);
}

void PackedTable::add_text(std::string_view text) {
  add(text.size());
  bytes_ += text;
}

std::string PackedTable::text() const {
  return base64(compressed_by_zlib(bytes_));
}

}  // namespace stagecraft
