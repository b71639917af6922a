#include "profiles/gzip.hpp"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "profiles/error.hpp"

namespace stagecraft {

namespace {

constexpr std::string_view gzip_front = "\x1f\x8b";

struct OtherCompression {
  std::string_view front, name, command;
};
constexpr std::array other_compressions{
    OtherCompression{"\x28\xb5\x2f\xfd", "zstd", "zstd -d"},
    OtherCompression{std::string_view("\xfd\x37zXZ\0", 6), "xz", "xz -d"},
    OtherCompression{"BZh", "bzip2", "bzip2 -d"},
};

[[noreturn]] void refuse(const std::string& file, const std::string& message,
                         const std::string& help) {
  throw Error(ErrorKind::input, message, SourcePlace{file, 0, 0}, {help});
}

void refuse_other_compressions(std::string_view bytes, const std::string& file) {
  for (const OtherCompression& other : other_compressions) {
    if (!bytes.starts_with(other.front)) continue;
    refuse(file,
           concat("is compressed by ", other.name, "; of compressed files those of gzip are read"),
           concat("write out what it holds: ", other.command, " ", file));
  }
}

/// zlib's state, which has an end.
class Inflation {
 public:
  explicit Inflation(std::string_view bytes) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) fail("zlib cannot begin");
    // zlib does not write to its input, but older releases do not say so.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    left_ = bytes.size();
  }
  ~Inflation() { inflateEnd(&stream_); }
  Inflation(const Inflation&) = delete;
  Inflation& operator=(const Inflation&) = delete;

  /// zlib's code after as much as fits into the buffer, and how much that is.
  std::pair<int, std::size_t> next(std::array<char, 65536>& buffer) {
    constexpr std::size_t most_at_once = 1U << 30;
    if (stream_.avail_in == 0) {
      stream_.avail_in = static_cast<uInt>(std::min(left_, most_at_once));
      left_ -= stream_.avail_in;
    }
    stream_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream_.avail_out = static_cast<uInt>(buffer.size());
    const int code = inflate(&stream_, Z_NO_FLUSH);
    return {code, buffer.size() - stream_.avail_out};
  }

  /// Whether another file stands behind the one that ended, as gzip itself reads them.
  bool begins_again() {
    const std::size_t left = stream_.avail_in + left_;
    const std::string_view rest(reinterpret_cast<const char*>(stream_.next_in), left);
    return rest.starts_with(gzip_front) && inflateReset(&stream_) == Z_OK;
  }

 private:
  z_stream stream_{};
  std::size_t left_ = 0;  ///< behind what the stream was told of
};

}  // namespace

std::string inflated(std::string bytes, const std::string& file, Bytes most) {
  refuse_other_compressions(bytes, file);
  if (!bytes.starts_with(gzip_front)) return bytes;
  std::string content;
  Inflation inflation(bytes);
  std::array<char, 65536> buffer;
  for (;;) {
    const auto [code, count] = inflation.next(buffer);
    if (static_cast<Bytes>(content.size() + count) > most) {
      refuse(file,
             concat("holds more than ", format_bytes(most), ", the most that is inflated here"),
             concat("if that is right, write out what it holds: gunzip ", file));
    }
    content.append(buffer.data(), count);
    if (code == Z_STREAM_END) {
      if (!inflation.begins_again()) return content;
    } else if (code == Z_BUF_ERROR) {
      refuse(file, "ends before its gzip data do: it was cut short", "write or copy it again");
    } else if (code != Z_OK) {
      refuse(file, "is damaged: gzip data that cannot be inflated", "write or copy it again");
    }
  }
}

std::string stem_of_content(std::string_view file) {
  std::filesystem::path path(file);
  if (path.extension() == ".gz") path.replace_extension();
  return path.stem().string();
}

}  // namespace stagecraft
