#include "planner/analysis/serving_table.hpp"

#include <algorithm>

#include "planner/costs/request_room.hpp"
#include "planner/problem/asked_requests.hpp"
#include "planner/problem/defaults.hpp"
#include "profiles/kernel_times.hpp"
#include "profiles/request_state.hpp"

namespace stagecraft {

namespace {

/// Of samples of so many tokens, behind which none are made.
Plan with_rows(Plan plan, std::int64_t microbatch, std::int64_t sequence, int microbatches) {
  plan.requests = requests_of(plan);
  plan.requests->output = 0;
  plan.batch.microbatch = microbatch;
  plan.batch.sequence = sequence;
  plan.batch.microbatches = microbatches;
  plan.batch.global = microbatch * microbatches;
  return plan;
}

Plan with_shape(Plan plan, const RequestShape& shape) {
  plan.requests = requests_of(plan);
  plan.requests->output = shape.output;
  plan.batch = {.sequence = shape.prompt};
  return plan;
}

/// The sum and the largest of the stages' times for one microbatch, messages on the way included.
struct StageTimes {
  Duration through{0};  ///< from the first stage to the end of the last
  Duration longest{0};
};

/// `more`: what each stage takes besides.
StageTimes times_of(const Prediction& prediction, const std::vector<Duration>& more = {}) {
  StageTimes times;
  for (std::size_t stage = 0; stage < prediction.stages.size(); ++stage) {
    const StagePrediction& each = prediction.stages[stage];
    const Duration own = each.forward + (more.empty() ? Duration{0} : more[stage]);
    times.through += own + each.send;
    times.longest = std::max(times.longest, own);
  }
  return times;
}

class Server {
 public:
  Server(const Plan& plan, const Profile& profile, const Cluster& cluster,
         const RequestShape& shape)
      : plan_(plan), profile_(profile), cluster_(cluster), decoding_(cluster), shape_(shape) {
    for (DeviceKind& kind : decoding_.kinds) {
      KernelConstants constants = kernel_setting(kind, plan.precision).constants;
      constants.host_seconds = constants.host_peer_seconds = 0;
      kind.constants = constants;
    }
    prompt_ = times_of(predict(with_rows(plan, 1, shape.prompt, 1), profile, cluster));
  }

  ServingPoint point(std::int64_t requests) const {
    const auto stages = static_cast<std::int64_t>(plan_.stages.size());
    const std::int64_t batches = std::min(requests, stages);
    const std::int64_t rows = (requests + batches - 1) / batches;
    const StageTimes token = token_times(rows);
    const Duration next = std::max(token.through, batches * token.longest);
    const auto output = static_cast<double>(shape_.output);
    // Each request holds up every stage for its prompt once, and its share of each token.
    const double each =
        seconds(prompt_.longest) + (output - 1) * seconds(next) / static_cast<double>(requests);
    // One request alone finds all stages free for all its tokens.
    const double alone =
        (seconds(prompt_.through) + (output - 1) * seconds(next)) / static_cast<double>(requests);
    const double rate = 1 / std::max(each, alone);
    return {.requests = requests,
            .first_token = prompt_.through,
            .next_token = next,
            .requests_per_second = rate,
            .tokens_per_second = rate * output};
  }

 private:
  /// Of a pass of one token of so many requests.
  StageTimes token_times(std::int64_t rows) const {
    Plan plan = with_rows(plan_, rows, 1, 1);
    plan.parallelism.sequence = false;
    std::vector<Duration> reading;
    for (std::size_t stage = 0; stage < plan.stages.size(); ++stage)
      reading.push_back(cache_reading(stage, rows));
    return times_of(predict(plan, profile_, decoding_), reading);
  }

  /// Keys and values of all requests of a batch, once through the stage's memory.
  Duration cache_reading(std::size_t stage, std::int64_t rows) const {
    const Stage& own = plan_.stages[stage];
    const std::int64_t context = shape_.prompt + shape_.output / 2;
    std::int64_t numbers = 0;
    for (int layer = own.layers.first; layer < own.layers.end; ++layer)
      numbers += numbers_of_request(profile_.model, layer, context, tensor_degree(plan_));
    const DeviceKind& kind = kind_of(decoding_, own.devices.front().front());
    const double rate =
        static_cast<double>(kind.memory_bandwidth.bytes_per_second) * kind.constants->memory_rate;
    const auto bytes = static_cast<double>(numbers * element_bytes(plan_.precision) * rows);
    return from_seconds(bytes / rate);
  }

  const Plan& plan_;
  const Profile& profile_;
  const Cluster& cluster_;
  Cluster decoding_;  // without the host's work
  RequestShape shape_;
  StageTimes prompt_;
};

}  // namespace

std::optional<RequestShape> request_shape(const Plan& plan, const Model& model) {
  const std::int64_t sequence = plan.batch.sequence > 0 ? plan.batch.sequence : model.sequence;
  if (plan.requests && plan.requests->output < 1) return {};
  if (plan.requests) return RequestShape{.prompt = sequence, .output = plan.requests->output};
  constexpr std::int64_t output = usual_output_tokens;
  const std::int64_t positions = model.transformer ? model.transformer->positions : 0;
  const std::int64_t prompt = positions > 0 ? std::min(sequence, positions - output) : sequence;
  if (prompt < 1) return {};
  return RequestShape{.prompt = prompt, .output = output};
}

std::optional<ServingTable> serving_table(const Plan& plan, const Profile& profile,
                                          const Cluster& cluster, const RequestShape& shape) {
  if (!estimates_kernels(profile)) return {};
  // Each request is one replica's.
  const Plan alone = with_shape(of_one_replica(plan), shape);
  const auto room = room_for_requests(alone, profile, cluster);
  if (!room || room->requests == 0) return {};
  const std::int64_t replicas = replicas_of_stages(plan).front();
  const Server server(alone, profile, cluster, shape);
  ServingTable table{.shape = shape, .room = room->requests * replicas, .points = {}};
  for (std::int64_t requests = 1;; requests *= 2) {
    const bool last = requests >= room->requests;
    ServingPoint point = server.point(std::min(requests, room->requests));
    point.requests *= replicas;
    point.requests_per_second *= static_cast<double>(replicas);
    point.tokens_per_second *= static_cast<double>(replicas);
    table.points.push_back(point);
    if (last) return table;
  }
}

}  // namespace stagecraft
