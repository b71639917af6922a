#include "tools/reports/serving_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

std::optional<ServingTable> serving_for(const Plan& plan, const Profile& profile,
                                        const Cluster& cluster) {
  const auto shape = request_shape(plan, profile.model);
  return shape ? serving_table(plan, profile, cluster, *shape) : std::nullopt;
}

std::string serving_text(const ServingTable& table, bool unicode) {
  std::string text =
      fmt::format("serving requests with prompts of {} tokens, each of which generates {}\n",
                  table.shape.prompt, table.shape.output);
  Table rows({">requests at once", ">first token", ">each further", ">tokens/s", ">requests/s"});
  for (const ServingPoint& point : table.points) {
    rows.row({fmt::format("{}", point.requests), format_duration(point.first_token),
              format_duration(point.next_token), readable(point.tokens_per_second),
              readable(point.requests_per_second)});
  }
  text += rows.text(unicode);
  return text;
}

nlohmann::ordered_json serving_json(const ServingTable& table) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const ServingPoint& point : table.points) {
    points.push_back({{"requests", point.requests},
                      {"first_token_ns", point.first_token.count()},
                      {"next_token_ns", point.next_token.count()},
                      {"tokens_per_second", point.tokens_per_second},
                      {"requests_per_second", point.requests_per_second}});
  }
  return {{"prompt_tokens", table.shape.prompt},
          {"output_tokens", table.shape.output},
          {"room", table.room},
          {"points", std::move(points)}};
}

std::string room_sentence(const Plan& plan, const Cluster& cluster, const RequestRoom& room) {
  const Requests requests = requests_of(plan);
  const std::string tokens = requests.output > 0
                                 ? fmt::format("{} + {}", plan.batch.sequence, requests.output)
                                 : fmt::format("{}", plan.batch.sequence);
  std::string text =
      fmt::format("room for {} {} of {} tokens at once: device {}, full first, keeps {} of each\n",
                  room.requests, room.requests == 1 ? "request" : "requests", tokens, room.device,
                  format_bytes(room.each));
  if (!plan.requests) return text;
  const Bytes memory = kind_of(cluster, room.device).memory;
  text += fmt::format(
      "beside {} of weights, {} for a pass of up to {} tokens{}; {}\n", format_bytes(room.weights),
      format_bytes(room.pass), requests.chunk,
      room.reserve > 0 ? fmt::format(" and {} of CUDA and NCCL", format_bytes(room.reserve)) : "",
      requests.memory < 1
          ? fmt::format("a margin of {:.3g} % of its {} stays free (--mem-limit)",
                        100 * (1 - requests.memory), format_bytes(memory))
          : fmt::format("no margin of its {} stays free (--mem-limit)", format_bytes(memory)));
  return text;
}

nlohmann::ordered_json room_json(const RequestRoom& room) {
  return {{"requests", room.requests},        {"full_first", room.device},
          {"request_bytes", room.each},       {"weights_bytes", room.weights},
          {"pass_bytes", room.pass},          {"reserve_bytes", room.reserve},
          {"usable_memory_bytes", room.limit}};
}

namespace {

std::string degrees_of(const ServingChoice& choice) {
  return fmt::format("TP{} PP{} DP{}", choice.tensor, choice.pipeline, choice.replicas);
}

bool is_of(const ServingChoice& choice, const Plan& plan) {
  return choice.tensor == tensor_degree(plan) && choice.pipeline == pipeline_devices(plan) &&
         choice.replicas == replicas_of_stages(plan).front();
}

}  // namespace

std::string choices_text(const ServingChoices& choices, const Plan& plan, bool unicode) {
  if (choices.fit.empty()) return "";
  std::string text = "ways to serve on these devices, with one request and with all that fit\n";
  Table rows(
      {"degrees", ">first token", ">each further", ">requests", ">each further", ">tokens/s", ""});
  for (const ServingChoice& choice : choices.fit) {
    const ServingPoint& alone = choice.table.points.front();
    const ServingPoint& full = choice.table.points.back();
    rows.row({degrees_of(choice), format_duration(alone.first_token),
              format_duration(alone.next_token), fmt::format("{}", full.requests),
              format_duration(full.next_token), readable(full.tokens_per_second),
              is_of(choice, plan) ? "as this plan" : ""});
  }
  text += rows.text(unicode);
  if (choices.too_large.empty()) return text;
  std::vector<std::string> names;
  for (const ServingChoice& choice : choices.too_large) names.push_back(degrees_of(choice));
  return text + fmt::format("without room for a request: {}\n", fmt::join(names, ", "));
}

nlohmann::ordered_json choices_json(const ServingChoices& choices) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  const auto row_of = [](const ServingChoice& choice, bool fits) {
    return nlohmann::ordered_json{
        {"tp", choice.tensor}, {"pp", choice.pipeline}, {"dp", choice.replicas}, {"fits", fits}};
  };
  for (const ServingChoice& choice : choices.fit) {
    rows.push_back(row_of(choice, true));
    rows.back().update(serving_json(choice.table));
  }
  for (const ServingChoice& choice : choices.too_large) rows.push_back(row_of(choice, false));
  return rows;
}

}  // namespace stagecraft
