#include "executor/transports/tcp/authentication.hpp"

#include <sys/random.h>

#include <algorithm>
#include <boost/uuid/name_generator_sha1.hpp>
#include <boost/uuid/uuid.hpp>
#include <string>

#include "profiles/error.hpp"

namespace stagecraft::tcp {

namespace {

constexpr std::size_t block_bytes = 64;

Code hash_of(const std::string& message) {
  const boost::uuids::uuid hash =
      boost::uuids::name_generator_sha1(boost::uuids::uuid{})(message.data(), message.size());
  Code code{};
  std::copy(hash.begin(), hash.end(), code.begin());
  return code;
}

std::string text_of(const Code& code) {
  return {reinterpret_cast<const char*>(code.data()), code.size()};
}

/// The key as one block, each byte changed by `pad`.
std::string padded(std::string_view secret, char pad) {
  std::string block(secret.size() <= block_bytes ? std::string(secret)
                                                 : text_of(hash_of(std::string(secret))));
  block.resize(block_bytes, '\0');
  for (char& byte : block) byte = static_cast<char>(byte ^ pad);
  return block;
}

}  // namespace

Nonce new_nonce() {
  Nonce nonce{};
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw Error(ErrorKind::execution, "--transport tcp: the system has no random numbers");
  }
  return nonce;
}

Code code_of(std::string_view secret, std::string_view message) {
  const Code inner = hash_of(padded(secret, 0x36) + std::string(message));
  return hash_of(padded(secret, 0x5c) + text_of(inner));
}

bool is_equal(const Code& one, const Code& other) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < one.size(); ++i) difference |= one[i] ^ unsigned { other[i] };
  return difference == 0;
}

}  // namespace stagecraft::tcp
