// Values as bytes, for what ranks of one program tell each other: the reader asks for what the
// writer put, in its order. All ranks run the same program, so bytes are bytes of memory; a length
// is believed only as far as there are bytes.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "profiles/error.hpp"

namespace stagecraft {

class Packer {
 public:
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { packed_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  /// A text, or a piece of memory.
  void put_bytes(std::string_view bytes) {
    put(static_cast<std::uint64_t>(bytes.size()));
    packed_ += bytes;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put_list(const std::vector<T>& values) {
    put(static_cast<std::uint64_t>(values.size()));
    for (const T& value : values) put(value);
  }
  std::string take() { return std::move(packed_); }

 private:
  std::string packed_;
};

/// `packed` must outlive it. Throws Error (execution) where less was put than is asked for.
class Unpacker {
 public:
  explicit Unpacker(std::string_view packed) : rest_(packed) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> T get() {
    T value;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  requires std::is_trivially_copyable_v<T> std::vector<T> get_list() {
    const auto count = get<std::uint64_t>();
    if (count > rest_.size() / sizeof(T)) fail_short();
    std::vector<T> values(count);
    for (T& value : values) value = get<T>();
    return values;
  }
  std::string_view get_bytes() { return next(get<std::uint64_t>()); }
  bool done() const { return rest_.empty(); }

 private:
  [[noreturn]] static void fail_short() {
    throw Error(ErrorKind::execution,
                "what another rank said is cut short: its program is another one, or its memory "
                "damaged");
  }

  std::string_view next(std::size_t size) {
    if (size > rest_.size()) fail_short();
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace stagecraft
