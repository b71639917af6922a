// Messages by TCP below the contract of transports: which receive they meet, and how processes
// find each other.

#include <cstring>
#include <thread>

#include "executor/transports/tcp/authentication.hpp"
#include "executor/transports/tcp/mailbox.hpp"
#include "executor/transports/tcp/rendezvous.hpp"
#include "profiles/error.hpp"
#include "tests/catch.hpp"
#include "tests/profiles/expect_error.hpp"

using namespace stagecraft;
using namespace stagecraft::tcp;
using namespace stagecraft::tests;
using namespace std::chrono_literals;

namespace {

/// All of a message at once.
void arrive(Mailbox& mailbox, int from, int tag, const std::string& text) {
  const auto letter = mailbox.announce(from, {.tag = tag, .bytes = text.size()});
  std::memcpy(letter->open(), text.data(), text.size());
  mailbox.end(*letter);
}

std::vector<long> numbers(Mailbox& mailbox) {
  std::vector<long> all;
  for (const auto& message : mailbox.take_completed()) all.push_back(message.number);
  return all;
}

int free_port() {
  return port_of(*listen_on("", 0));
}

}  // namespace

TEST_CASE("a message meets the first receive for it, whoever of both is first") {
  Mailbox mailbox;
  std::string a(3, '.'), b(3, '.'), c(3, '.'), d(3, '.');
  arrive(mailbox, 1, 7, "one");
  arrive(mailbox, 1, 7, "two");
  arrive(mailbox, 2, 7, "six");
  CHECK(numbers(mailbox).empty());
  mailbox.receive(10, 0, 2, 7, a.data(), a.size());
  mailbox.receive(11, 0, 1, 7, b.data(), b.size());
  mailbox.receive(12, 0, processes::any_peer, 7, c.data(), c.size());
  CHECK(numbers(mailbox) == std::vector<long>{10, 11, 12});
  CHECK(a + b + c == "sixonetwo");
  mailbox.receive(13, 0, 1, 7, a.data(), a.size());
  mailbox.receive(14, 0, processes::any_peer, 7, b.data(), b.size());
  mailbox.receive(15, 0, 1, 8, d.data(), d.size());
  arrive(mailbox, 2, 7, "any");
  arrive(mailbox, 1, 7, "uno");
  CHECK(numbers(mailbox) == std::vector<long>{14, 13});
  CHECK(a + b + d == "unoany...");
  mailbox.cancel(15);
  arrive(mailbox, 1, 8, "???");
  CHECK(numbers(mailbox).empty());
}

TEST_CASE("a receive that comes in the middle of a message gets all of it") {
  Mailbox mailbox;
  const auto letter = mailbox.announce(1, {.tag = 1, .bytes = 4});
  std::memcpy(letter->open(), "half", 4);
  std::string text(4, '.');
  mailbox.receive(1, 0, 1, 1, text.data(), text.size());
  CHECK(numbers(mailbox).empty());
  mailbox.end(*letter);
  CHECK(numbers(mailbox) == std::vector<long>{1});
  CHECK(text == "half");
}

TEST_CASE("a message of another size than its memory is told, and writes no more than that") {
  Mailbox mailbox;
  std::string text = "0123456789";
  mailbox.receive(1, 0, 1, 1, text.data(), 4);
  arrive(mailbox, 1, 1, "abcdefgh");
  arrive(mailbox, 1, 1, "xy");
  mailbox.receive(2, 0, 1, 1, text.data() + 5, 4);
  const auto completed = mailbox.take_completed();
  REQUIRE(completed.size() == 2);
  CHECK(completed[0].bytes == 8);
  CHECK(completed[1].bytes == 2);
  CHECK(text == "abcd4xy789");
}

TEST_CASE("processes find each other past strangers, and know who is on the same machine",
          "[seconds]") {
  const int port = free_port();
  const auto stranger = listen_on("", port);  // as torchrun's own store: it accepts, and is silent
  REQUIRE(stranger);
  std::vector<Connections> found(3);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        found[static_cast<std::size_t>(rank)] =
            connect_all({.host = "127.0.0.1", .port = port, .run = "a"}, rank, 3, 20s);
      });
    }
  }
  for (std::size_t rank = 0; rank < 3; ++rank) {
    for (std::size_t other = 0; other < 3; ++other) {
      CHECK(found[rank].sockets[other].is_open() == (rank != other));
    }
    CHECK(found[rank].machines == std::vector<std::string>(3, found[0].machines.front()));
  }
  char said = 'x', heard = 0;
  REQUIRE(write_all(found[1].sockets[2], std::as_bytes(std::span(&said, 1)), 1s));
  REQUIRE(read_all(found[2].sockets[1], std::as_writable_bytes(std::span(&heard, 1)), 1s));
  CHECK(heard == 'x');
}

TEST_CASE("strangers that say nothing, or nonsense, hold no place and keep nobody waiting") {
  const int port = free_port();
  std::vector<Connections> found(2);
  std::vector<Socket> strangers;
  {
    const auto meet = [&](int rank) {
      found[static_cast<std::size_t>(rank)] =
          connect_all({.host = "127.0.0.1", .port = port, .run = "a", .secret = "s"}, rank, 2, 60s);
    };
    const std::jthread first([&] { meet(0); });
    while (strangers.size() < 200) {
      auto stranger = connect_to("127.0.0.1", port, 5s);
      if (!stranger) continue;  // nobody listens yet
      const std::string said = strangers.size() % 3 == 0   ? std::string()
                               : strangers.size() % 3 == 1 ? std::string("GET / HTTP/1.0")
                                                           : std::string(4096, '\xff');
      write_all(*stranger, std::as_bytes(std::span(said)), 1s);
      strangers.push_back(std::move(*stranger));
    }
    const std::jthread second([&] { meet(1); });
  }
  CHECK(found[0].sockets[1].is_open());
  CHECK(found[1].sockets[0].is_open());
}

TEST_CASE("who does not know the run's secret is not admitted, and is told", "[seconds]") {
  const int port = free_port();
  const auto meet = [&](const std::string& secret, int rank, std::chrono::seconds patience) {
    return message_of([&] {
      connect_all({.host = "127.0.0.1", .port = port, .run = "a", .secret = secret}, rank, 3,
                  patience);
    });
  };
  std::string of_first, of_second, of_third;
  {
    const std::jthread first([&] { of_first = meet("one", 0, 4s); });
    // These do not wait for the rest of an hour.
    const std::jthread second([&] { of_second = meet("other", 1, 3600s); });
    const std::jthread third([&] { of_third = meet("third", 2, 3600s); });
  }
  CHECK_THAT(of_first,
             ContainsSubstring("rank 1, 2 of 3 has not come to rank 0; 2 callers knew another "
                               "secret (STAGECRAFT_SECRET); give all processes of the run the "
                               "same"));
  CHECK_THAT(of_first, !ContainsSubstring("MASTER_ADDR"));
  for (const std::string& of_other : {of_second, of_third}) {
    CHECK_THAT(of_other, ContainsSubstring("rank 0 at 127.0.0.1, port ") &&
                             ContainsSubstring(" knows another secret (STAGECRAFT_SECRET)"));
  }
}

TEST_CASE("a proof is the message's code by HMAC, with name-based UUIDs as its hash") {
  const auto hexadecimal = [](const Code& code) {
    std::string text;
    for (const std::uint8_t byte : code) {
      text += "0123456789abcdef"[byte >> 4];
      text += "0123456789abcdef"[byte & 15];
    }
    return text;
  };
  // As Python's hashlib has it.
  CHECK(hexadecimal(code_of("secret", "message")) == "2600e8604da55562b64343e816e57e39");
  CHECK(hexadecimal(code_of(std::string(100, 'k'), "")) == "f8adc071e6a45e609dfe8a214e3fd9bf");
  CHECK(is_equal(code_of("a", "b"), code_of("a", "b")));
  CHECK_FALSE(is_equal(code_of("a", "b"), code_of("a", "c")));
  CHECK(new_nonce() != new_nonce());
}

TEST_CASE("who does not come to the meeting, or meets another run, is told") {
  const int port = free_port();
  // Without checks: Catch has them on one thread at a time.
  const auto meet = [&](const std::string& run, int rank) {
    try {
      connect_all({.host = "127.0.0.1", .port = port, .run = run}, rank, 3, 1s);
      return std::string("met");
    } catch (const Error& error) {
      return concat(to_string(error.kind()), ": ", error.what());
    }
  };
  std::string of_first, of_second;
  {
    const std::jthread first([&] { of_first = meet("a", 0); });
    const std::jthread second([&] { of_second = meet("b", 1); });
  }
  CHECK(of_first.starts_with("execution: "));
  CHECK(of_second.starts_with("execution: "));
  CHECK_THAT(of_first, ContainsSubstring("rank 1, 2 of 3 has not come to rank 0; do all processes "
                                         "have MASTER_ADDR=127.0.0.1 and MASTER_PORT="));
  CHECK_THAT(of_second, ContainsSubstring("rank 0 does not answer; do all processes"));
}
