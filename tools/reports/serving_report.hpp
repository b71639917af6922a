// What a plan for inference serves, as a table and as JSON.

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/analysis/serving_choices.hpp"
#include "planner/analysis/serving_table.hpp"
#include "planner/costs/request_room.hpp"

namespace stagecraft {

/// The table of a plan's requests.
std::optional<ServingTable> serving_for(const Plan& plan, const Profile& profile,
                                        const Cluster& cluster);

std::string serving_text(const ServingTable& table, bool unicode);
nlohmann::ordered_json serving_json(const ServingTable& table);

/// "room for 200 requests …", and what else is in the memory of the device that is full first.
std::string room_sentence(const Plan& plan, const Cluster& cluster, const RequestRoom& room);
nlohmann::ordered_json room_json(const RequestRoom& room);

/// Below a plan, which is one of them or has other cuts.
std::string choices_text(const ServingChoices& choices, const Plan& plan, bool unicode);
nlohmann::ordered_json choices_json(const ServingChoices& choices);

}  // namespace stagecraft
