// The named constants that `kernel_times.hpp` turns operations into seconds with.

#pragma once

#include <array>
#include <string_view>

namespace stagecraft {

/// Datasheet-grade defaults; `stagecraft calibrate` and `ledger` fit them to measurements.
struct KernelConstants {
  double product_rate = 0.75;
  double product_depth = 60;
  double product_outputs = 4e5;
  double attention_rate = 0.55;
  double attention_length = 200;
  double memory_rate = 0.8;
  double kernel_seconds = 3e-6;
  double host_seconds = 6e-6;
  double module_launches = 0;
  double host_peer_seconds = 1e-6;
  double message_seconds = 2e-5;
  double peer_seconds = 3e-6;
  double inside_rate = 1.0;
  double between_rate = 0.8;
  double overlap = 0.7;
  double message_overlap = 0.7;
  double transfer_seconds = 2e-5;
  double update_rate = 0.8;
  double step_seconds = 1e-3;
  bool operator==(const KernelConstants&) const = default;
};

/// A constant by name, with the range in which it makes sense.
struct KernelConstant {
  std::string_view name;
  double KernelConstants::*member;
  double least, most;
  double prior;  ///< weight of its start in a fit (see Unknown): what differs much has little
  std::string_view unit;
  std::string_view meaning;
};
inline constexpr std::array kernel_constants{
    KernelConstant{"product_rate", &KernelConstants::product_rate, 0.05, 1.0, 0.002, "of peak",
                   "the best rate of matrix products"},
    KernelConstant{"product_depth", &KernelConstants::product_depth, 0.1, 5000, 0.02, "elements",
                   "the depth k at which a product has half of it"},
    KernelConstant{"product_outputs", &KernelConstants::product_outputs, 100, 2e7, 0.02, "elements",
                   "the number of outputs at which it has half of it"},
    KernelConstant{"attention_rate", &KernelConstants::attention_rate, 0.02, 1.0, 0.002, "of peak",
                   "the best rate of attention in one kernel"},
    KernelConstant{"attention_length", &KernelConstants::attention_length, 0.1, 20000, 0.02,
                   "tokens", "the sequence length at which attention has half of it"},
    KernelConstant{"memory_rate", &KernelConstants::memory_rate, 0.05, 1.0, 0.002, "of bandwidth",
                   "what limited by memory reaches"},
    KernelConstant{"kernel_seconds", &KernelConstants::kernel_seconds, 1e-7, 1e-4, 0.02, "s",
                   "the device's pause before each kernel"},
    KernelConstant{"host_seconds", &KernelConstants::host_seconds, 1e-7, 2e-4, 0.02, "s",
                   "the host's work for each kernel"},
    KernelConstant{"module_launches", &KernelConstants::module_launches, 0.0, 20, 0.5, "kernels",
                   "the host's work for each module of the framework, in kernels sent"},
    KernelConstant{"host_peer_seconds", &KernelConstants::host_peer_seconds, 1e-8, 1e-3, 0.02, "s",
                   "the host's wait at a message for each further member"},
    KernelConstant{"message_seconds", &KernelConstants::message_seconds, 1e-7, 1e-3, 0.02, "s",
                   "latency of a message or collective"},
    KernelConstant{"peer_seconds", &KernelConstants::peer_seconds, 1e-9, 1e-3, 0.02, "s",
                   "more of it for each further member"},
    KernelConstant{"inside_rate", &KernelConstants::inside_rate, 0.02, 2.0, 0.02, "of link",
                   "what collectives reach of the bus bandwidth inside a node"},
    KernelConstant{"between_rate", &KernelConstants::between_rate, 0.01, 2.0, 0.02, "of link",
                   "what they and messages reach between nodes"},
    KernelConstant{"overlap", &KernelConstants::overlap, 0.0, 1.0, 0, "of backward",
                   "backward work that can hide sums of gradients, where they overlap"},
    KernelConstant{"message_overlap", &KernelConstants::message_overlap, 0.0, 1.0, 0, "of messages",
                   "messages of a layer that its products hide, where they overlap"},
    KernelConstant{"transfer_seconds", &KernelConstants::transfer_seconds, 1e-6, 1e-2, 0.02, "s",
                   "a stage's wait at each message to a neighbour"},
    KernelConstant{"update_rate", &KernelConstants::update_rate, 0.01, 2.0, 0.02, "of bandwidth",
                   "what the optimizer reaches of memory bandwidth"},
    KernelConstant{"step_seconds", &KernelConstants::step_seconds, 0.0, 1.0, 0.02, "s",
                   "what a step takes besides"},
};

/// The default constants of a device of this kind.
KernelConstants usual_constants(std::string_view device);

}  // namespace stagecraft
