// What a plan for inference serves, as a table and as JSON.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/analysis/serving_table.hpp"

namespace stagecraft {

/// Tokens made for a request where nobody says so.
inline constexpr std::int64_t usual_output = 256;

/// Throws Error (usage) where the model has no positions for so many tokens made and a prompt.
void require_positions(const Model& model, std::int64_t output);

/// The table of a plan's requests; 0 tokens made: as usual.
std::optional<ServingTable> serving_for(const Plan& plan, const Profile& profile,
                                        const Cluster& cluster, std::int64_t output);

std::string serving_text(const ServingTable& table, bool unicode);
nlohmann::ordered_json serving_json(const ServingTable& table);

}  // namespace stagecraft
