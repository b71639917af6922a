// Inference as those who ask see it: how long until the first token and the last, how many tokens
// come out per second, and what memory their keys and values take on each device.
//
//   request   prompt ─── first token ─── token ─── … ─── last token
//   device    F(0): writes the prompt's keys and values   F(1..n): reads all, adds one token's
//             ▁▁▁▁▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▆▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇█████▁▁▁   until its last F has ended there

#pragma once

#include <vector>

#include "simulator/analyses/jitter.hpp"
#include "simulator/values/timeline.hpp"

namespace stagecraft {

/// A request is a microbatch of the schedule's shape: all of them are there at the start.
struct ServingShape {
  int requests = 1;           ///< m: pass s of request k is microbatch s m + k
  int decode_steps = 0;       ///< passes after the first
  int prompt = 1;             ///< tokens of each request's prompt
  Bytes cache_per_token = 0;  ///< keys and values of one token of a request, on each device
};

struct Serving {
  Summary first_token;     ///< from the start of all until a prompt has passed the last stage
  Summary between_tokens;  ///< of a request; zeros without decode steps
  Summary latency;         ///< until its last token
  double requests_per_second = 0;
  double tokens_per_second = 0;   ///< tokens made
  std::vector<Bytes> peak_cache;  ///< per device
};

/// Reads it off a timeline of one iteration of `inference`. Throws Error (input) if memory exceeds
/// what Bytes holds, and Error (usage) if the timeline has not all passes or the shape is negative.
Serving serving(const Timeline& timeline, const ServingShape& shape);

}  // namespace stagecraft
