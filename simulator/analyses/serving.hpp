// Inference from the requests' view: latency of the first and the last token, tokens per second,
// and memory of keys and values on each device.
//
//   request   prompt ─── first token ─── token ─── … ─── last token
//   device    F(0): writes the prompt's keys and values   F(1..n): reads all, adds one token's
//             ▁▁▁▁▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇█████▁▁▁   until its last F has ended there

#pragma once

#include <vector>

#include "simulator/analyses/jitter.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// Requests are microbatches of the schedule's shape; all of them are present at the start.
struct ServingShape {
  int requests = 1;           ///< m: pass s of request k is microbatch s m + k
  int decode_steps = 0;       ///< passes after the first
  int prompt = 1;             ///< tokens of each request's prompt
  Bytes cache_per_token = 0;  ///< bytes of keys and values of one token of a request, on each
                              ///< device
};

struct Serving {
  Summary first_token;     ///< time from the start until a prompt has passed the last stage
  Summary between_tokens;  ///< time between a request's tokens; zeros without decode steps
  Summary latency;         ///< time until a request's last token
  double requests_per_second = 0;
  double tokens_per_second = 0;   ///< generated tokens per second
  std::vector<Bytes> peak_cache;  ///< per device
};

/// Computes the figures from a timeline of one iteration of `inference`. Throws Error (input) if
/// memory exceeds the range of Bytes, and Error (usage) if the timeline lacks passes or the shape
/// has negative values.
Serving serving(const Timeline& timeline, const ServingShape& shape);

}  // namespace stagecraft
