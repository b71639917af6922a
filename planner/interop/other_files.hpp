// Files where a plan should be that are something else which we know: said in one sentence with the
// verb that takes them.

#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// Throws Error (input) whose help is the command to use, if the content looks like a plan of
/// another system, or like its order of work. Cheap, and returns for anything else.
void refuse_foreign_plan(std::string_view content, const std::string& file);

/// The same for models, too.
void refuse_all_but_plans(std::string_view content, const std::string& file);

}  // namespace stagecraft
