// Latency and throughput of a plan for inference, as more requests are served at once. Prompts and
// generated tokens are timed separately, since a prompt is bound by arithmetic and a token by
// memory bandwidth (Pope et al. 2023, "Efficiently scaling transformer inference").
//
//   stage 0   ▓▓▓▓ ▏▏▏▏ ▏▏▏▏ ▏▏▏▏ ▓▓▓▓        ▓ the prompt of a new request
//   stage 1        ▓▓▓▓ ▏▏▏▏ ▏▏▏▏ ▏▏▏▏ ▓▓▓▓   ▏ a token of each request of a batch
//
// There are as many batches in flight as stages, so that all stages work (vLLM's pipeline
// parallelism); a request's next token starts when its last one has arrived.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/costs/predict.hpp"

namespace stagecraft {

/// Lengths of requests.
struct RequestShape {
  std::int64_t prompt = 0;  ///< tokens of a request's prompt
  std::int64_t output = 0;  ///< tokens generated for a request
};

/// Figures for a number of concurrent requests; each one that ends is replaced by the next.
struct ServingPoint {
  std::int64_t requests = 0;
  Duration first_token{0};  ///< latency of a prompt without other prompts
  Duration next_token{0};   ///< time between a request's tokens, without prompts in between
  double requests_per_second = 0;
  double tokens_per_second = 0;  ///< generated tokens per second
};

struct ServingTable {
  RequestShape shape;
  std::int64_t room = 0;             ///< number of requests that fit in memory, over all replicas
  std::vector<ServingPoint> points;  ///< for 1, 2, 4 … requests per replica, and for as many as fit
};

/// The lengths of the plan's requests; if it has none, prompts of its sequence length and the
/// default number of generated tokens, with shorter prompts if the model's positions do not
/// suffice. Nothing if no position is left for a prompt.
std::optional<RequestShape> request_shape(const Plan& plan, const Model& model);

/// A token reads the weights once per batch, the keys and values of each request at half of its
/// output, and the experts that a batch uses under even routing. Kernels are launched as graphs,
/// without host time. Nothing if the plan trains or keeps no request state, if no request fits, or
/// if costs were measured, since these do not give the time of a single token.
std::optional<ServingTable> serving_table(const Plan& plan, const Profile& profile,
                                          const Cluster& cluster, const RequestShape& shape);

}  // namespace stagecraft
