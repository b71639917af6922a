#include "tools/reports/serving_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "profiles/error.hpp"
#include "profiles/units.hpp"
#include "tools/reports/results.hpp"
#include "tools/table.hpp"

namespace stagecraft {

void require_positions(const Model& model, std::int64_t output) {
  if (!model.transformer || output < model.transformer->positions) return;
  fail_usage("--output-tokens ", output, ": ", model.name, " has ", model.transformer->positions,
             " positions for a prompt and what follows it");
}

std::optional<ServingTable> serving_for(const Plan& plan, const Profile& profile,
                                        const Cluster& cluster, std::int64_t output) {
  const auto shape = request_shape(plan, profile.model, output > 0 ? output : usual_output);
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

}  // namespace stagecraft
