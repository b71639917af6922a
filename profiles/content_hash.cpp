#include "profiles/content_hash.hpp"

#include <xxhash.h>

#include <memory>
#include <new>

#include "profiles/json.hpp"

namespace stagecraft {

namespace {

std::string to_text(XXH128_hash_t hash) {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, hash);
  std::string text = "xxh3:";
  for (const unsigned char byte : canonical.digest) {
    constexpr std::string_view digits = "0123456789abcdef";
    text += digits[byte >> 4U];
    text += digits[byte & 15U];
  }
  return text;
}

}  // namespace

std::string content_hash(std::string_view bytes) {
  return to_text(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string content_hash(std::span<const std::string_view> pieces) {
  const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(),
                                                                              XXH3_freeState);
  if (!state) throw std::bad_alloc();
  XXH3_128bits_reset(state.get());
  for (const std::string_view piece : pieces) {
    XXH3_128bits_update(state.get(), piece.data(), piece.size());
  }
  return to_text(XXH3_128bits_digest(state.get()));
}

}  // namespace stagecraft
