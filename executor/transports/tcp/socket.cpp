#include "executor/transports/tcp/socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

namespace stagecraft::tcp {

namespace {

using std::chrono::milliseconds;

/// Whether it can be read from (POLLIN) or written to (POLLOUT) within this time.
bool is_ready(const Socket& socket, short events, milliseconds patience) {
  pollfd entry{.fd = socket.descriptor(), .events = events, .revents = 0};
  int ready = 0;
  do {
    ready = poll(&entry, 1, static_cast<int>(patience.count()));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

void set(const Socket& socket, int level, int option, int value) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof value);
}

Socket make_socket(int family) {
  return Socket(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Small messages go at once.
void send_promptly(const Socket& socket) {
  set(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  set(socket, SOL_SOCKET, SO_KEEPALIVE, 1);
}

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

Addresses resolve(const std::string& host, int port) {
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &wanted, &found) != 0) {
    found = nullptr;
  }
  return {found, [](addrinfo* list) {
            if (list != nullptr) freeaddrinfo(list);
          }};
}

bool connects(const Socket& socket, const addrinfo& address, milliseconds patience) {
  if (connect(socket.descriptor(), address.ai_addr, address.ai_addrlen) == 0) return true;
  if (errno != EINPROGRESS || !is_ready(socket, POLLOUT, patience)) return false;
  int failure = 0;
  socklen_t size = sizeof failure;
  return getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &failure, &size) == 0 &&
         failure == 0;
}

template <class Address>
bool binds(const Socket& socket, const Address& address) {
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a run that has just ended does not hold its port
  return bind(socket.descriptor(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
             0 &&
         listen(socket.descriptor(), SOMAXCONN) == 0;
}

}  // namespace

Socket::~Socket() {
  if (is_open()) close(descriptor_);
}

std::optional<Socket> listen_on(int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  Socket both = make_socket(AF_INET6);
  if (both.is_open()) {
    set(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = number;
    if (binds(both, any)) return both;
    if (errno == EADDRINUSE) return {};
  }
  Socket old = make_socket(AF_INET);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = number;
  if (old.is_open() && binds(old, any)) return old;
  return {};
}

int port_of(const Socket& listener) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  getsockname(listener.descriptor(), reinterpret_cast<sockaddr*>(&address), &size);
  const auto& as_new = reinterpret_cast<const sockaddr_in6&>(address);
  const auto& as_old = reinterpret_cast<const sockaddr_in&>(address);
  return ntohs(address.ss_family == AF_INET6 ? as_new.sin6_port : as_old.sin_port);
}

std::optional<Socket> connect_to(const std::string& host, int port, milliseconds patience) {
  const Addresses addresses = resolve(host, port);
  for (const addrinfo* it = addresses.get(); it != nullptr; it = it->ai_next) {
    Socket socket = make_socket(it->ai_family);
    if (!socket.is_open() || !connects(socket, *it, patience)) continue;
    send_promptly(socket);
    return socket;
  }
  return {};
}

std::optional<Socket> accept_from(const Socket& listener, milliseconds patience) {
  if (!is_ready(listener, POLLIN, patience)) return {};
  Socket socket(accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket.is_open()) return {};
  send_promptly(socket);
  return socket;
}

std::string address_of_peer(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> text{};
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (getpeername(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      getnameinfo(generic, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string found = text.data();
  constexpr std::string_view mapped = "::ffff:";  // an IPv4 address in IPv6's clothes
  return found.starts_with(mapped) ? found.substr(mapped.size()) : found;
}

bool write_all(const Socket& socket, std::span<const std::byte> bytes, milliseconds patience) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EINTR) {
      if (!is_ready(socket, POLLOUT, patience)) return false;
    } else {
      return false;
    }
  }
  return true;
}

bool read_all(const Socket& socket, std::span<std::byte> bytes, milliseconds patience) {
  while (!bytes.empty()) {
    const ssize_t came = recv(socket.descriptor(), bytes.data(), bytes.size(), 0);
    if (came > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(came));
    } else if (came < 0 && (errno == EAGAIN || errno == EINTR)) {
      if (!is_ready(socket, POLLIN, patience)) return false;
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace stagecraft::tcp
