#include "executor/transports/tcp/socket.hpp"

#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

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

bool binds(const Socket& socket, const sockaddr* address, socklen_t size) {
  set(socket, SOL_SOCKET, SO_REUSEADDR, 1);  // a run that has just ended does not hold its port
  return bind(socket.descriptor(), address, size) == 0 &&
         listen(socket.descriptor(), SOMAXCONN) == 0;
}

/// As a number. An IPv4 address in IPv6's clothes is told as what it is.
std::string text_of(const sockaddr* address, socklen_t size) {
  std::array<char, NI_MAXHOST> text{};
  if (getnameinfo(address, size, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string found = text.data();
  constexpr std::string_view mapped = "::ffff:";
  return found.starts_with(mapped) ? found.substr(mapped.size()) : found;
}

}  // namespace

Socket::~Socket() {
  if (is_open()) close(descriptor_);
}

/// Of both kinds of addresses, if there are both.
static std::optional<Socket> listen_on_any(int port) {
  const auto number = htons(static_cast<std::uint16_t>(port));
  Socket both = make_socket(AF_INET6);
  if (both.is_open()) {
    set(both, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_port = number;
    if (binds(both, reinterpret_cast<const sockaddr*>(&any), sizeof any)) return both;
    if (errno == EADDRINUSE) return {};
  }
  Socket old = make_socket(AF_INET);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = number;
  if (old.is_open() && binds(old, reinterpret_cast<const sockaddr*>(&any), sizeof any)) return old;
  return {};
}

std::optional<Socket> listen_on(const std::string& address, int port) {
  if (address.empty()) return listen_on_any(port);
  const Addresses addresses = resolve(address, port);
  for (const addrinfo* it = addresses.get(); it != nullptr; it = it->ai_next) {
    Socket socket = make_socket(it->ai_family);
    if (it->ai_family == AF_INET6) set(socket, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (socket.is_open() && binds(socket, it->ai_addr, it->ai_addrlen)) return socket;
  }
  return {};
}

std::optional<std::string> address_of_interface(const std::string& interface) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(all, freeifaddrs);
  std::optional<std::string> found;
  for (const ifaddrs* it = all; it != nullptr; it = it->ifa_next) {
    if (it->ifa_addr == nullptr || interface != it->ifa_name) continue;
    const int family = it->ifa_addr->sa_family;
    if (family == AF_INET) return text_of(it->ifa_addr, sizeof(sockaddr_in));
    if (family == AF_INET6 && !found) found = text_of(it->ifa_addr, sizeof(sockaddr_in6));
  }
  return found;
}

bool is_loopback(std::string_view address) {
  return address.starts_with("127.") || address == "::1" || address == "localhost";
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
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  return getpeername(socket.descriptor(), generic, &size) == 0 ? text_of(generic, size) : "";
}

std::string own_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  return getsockname(socket.descriptor(), generic, &size) == 0 ? text_of(generic, size) : "";
}

void await_input(std::span<const Socket* const> sockets, milliseconds patience) {
  std::vector<pollfd> entries;
  for (const Socket* socket : sockets) {
    entries.push_back({.fd = socket->descriptor(), .events = POLLIN, .revents = 0});
  }
  poll(entries.data(), entries.size(), static_cast<int>(patience.count()));
}

std::optional<std::size_t> read_some(const Socket& socket, std::span<std::byte> place) {
  const ssize_t came = recv(socket.descriptor(), place.data(), place.size(), 0);
  if (came > 0) return static_cast<std::size_t>(came);
  if (came < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  return {};
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
