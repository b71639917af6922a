// The question inside a plan file.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/plan.hpp"

namespace stagecraft {

class Json;

Question read_question(const Json& json);
nlohmann::ordered_json question_value(const Question& question);

ScheduleChoice read_schedule(const Json& json);
nlohmann::ordered_json schedule_value(const ScheduleChoice& choice);

}  // namespace stagecraft
