// What a plan for inference serves: prompts and the tokens made after them apart, since a prompt is
// arithmetic and a token is memory traffic (Pope et al. 2023, "Efficiently scaling transformer
// inference"), and latency against throughput as more requests are served at once.
//
//   stage 0   ▓▓▓▓ ▏▏▏▏ ▏▏▏▏ ▏▏▏▏ ▓▓▓▓        ▓ the prompt of a new request
//   stage 1        ▓▓▓▓ ▏▏▏▏ ▏▏▏▏ ▏▏▏▏ ▓▓▓▓   ▏ a token of each request of a batch
//
// As many batches are on the way as there are stages, so that all stages work (vLLM's pipeline
// parallelism); a request's next token starts when its last one is there.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// How long requests are.
struct RequestShape {
  std::int64_t prompt = 0;  ///< tokens that a request comes with
  std::int64_t output = 0;  ///< tokens that are made for it
};

/// So many requests at once, as one ends the next one coming.
struct ServingPoint {
  std::int64_t requests = 0;
  Duration first_token{0};  ///< of a prompt that meets no other
  Duration next_token{0};   ///< of a request, while no prompts come between
  double requests_per_second = 0;
  double tokens_per_second = 0;  ///< tokens made
};

struct ServingTable {
  RequestShape shape;
  std::int64_t room = 0;             ///< requests that there is memory for, over all replicas
  std::vector<ServingPoint> points;  ///< 1, 2, 4 … requests of each replica, and its room
};

/// What a plan says of its requests; of one that does not, prompts of its sequence and as many
/// tokens more as usual, where that is longer than the model's positions, after shorter prompts.
/// Nothing where there are no positions for a prompt.
std::optional<RequestShape> request_shape(const Plan& plan, const Model& model);

/// Of a token, weights are read once for a batch, and keys and values of each request as they are
/// half-way through its output; experts as many as a batch meets where their choice is even.
/// Kernels are launched as graphs, without work of the host. Nothing where the plan trains or keeps
/// nothing of requests, where there is no room for one, and where times were measured: of measured
/// layers nobody knows how long a single token takes.
std::optional<ServingTable> serving_table(const Plan& plan, const Profile& profile,
                                          const Cluster& cluster, const RequestShape& shape);

}  // namespace stagecraft
