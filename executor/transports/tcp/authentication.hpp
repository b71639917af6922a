// How processes of a run recognise each other: who knows the run's secret proves it, without saying
// it, to whoever else knows it.
//
//   A ── hello, nonce a ──→ B
//     ←─ hello, nonce b, code(secret, "answers", both hellos) ── B
//     ── code(secret, "asks", both hellos) ──→                   B
//
// Nonces are random and used once, so what somebody has overheard proves nothing a second time.
// Bytes that follow are neither encrypted nor signed.

#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace stagecraft::tcp {

/// The variable with the run's secret. Whoever starts processes on this machine makes one up; on
/// several machines the user may set it. Without it all secrets are empty, and nobody is kept out.
inline constexpr const char* secret_variable = "STAGECRAFT_SECRET";

using Nonce = std::array<std::uint8_t, 16>;
using Code = std::array<std::uint8_t, 16>;

/// Throws Error (execution) where the system has no random numbers.
Nonce new_nonce();

/// HMAC (Krawczyk, Bellare and Canetti, RFC 2104) of the message, with SHA-1 as name-based UUIDs
/// have it (RFC 4122, version 5: 122 bits of it).
Code code_of(std::string_view secret, std::string_view message);

/// In a time that does not tell where they differ.
bool is_equal(const Code& one, const Code& other);

}  // namespace stagecraft::tcp
