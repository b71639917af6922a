// Values as bytes, for what ranks of one program tell each other: the reader asks for what the
// writer put, in its order. All ranks run the same program, so bytes are bytes of memory.

#pragma once

#include <cassert>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

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

/// `packed` must outlive it.
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
    std::vector<T> values(get<std::uint64_t>());
    for (T& value : values) value = get<T>();
    return values;
  }
  std::string_view get_bytes() { return next(get<std::uint64_t>()); }
  bool done() const { return rest_.empty(); }

 private:
  std::string_view next(std::size_t size) {
    assert(size <= rest_.size());
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace stagecraft
