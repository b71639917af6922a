// Reading the question in a plan file.

#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/plan/plan.hpp"
#include "profiles/error.hpp"
#include "profiles/json.hpp"

namespace stagecraft {

/// Reads a name with `read`; an unknown name is an error at its place in the file.
template <class Kind>
Kind read_name(const Json& json, Kind (*read)(std::string_view)) {
  try {
    return read(json.string());
  } catch (const Error& error) {
    if (error.place()) throw;
    json.fail(error.message(), error.help());
  }
}

/// Throws Error (input), with its place, for a member that is unknown or missing, or that does not
/// divide the batch.
Question read_question(const Json& json, const Batch& batch);
nlohmann::ordered_json question_value(const Question& question);

ScheduleChoice read_schedule(const Json& json);
nlohmann::ordered_json schedule_value(const ScheduleChoice& choice);

}  // namespace stagecraft
