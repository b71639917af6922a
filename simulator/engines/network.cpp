#include "simulator/engines/network.hpp"

#include "profiles/text.hpp"

namespace stagecraft {

std::string_view to_string(Sharing sharing) {
  switch (sharing) {
    case Sharing::fair: return "fair";
    case Sharing::fifo: return "fifo";
  }
  return "";
}

Sharing read_sharing(std::string_view name) {
  return read_choice("sharing of links", name, {Sharing::fair, Sharing::fifo});
}

}  // namespace stagecraft
