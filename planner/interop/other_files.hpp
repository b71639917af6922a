// Error for a file of another known format where a plan is expected; names the command that reads
// it.

#pragma once

#include <string>
#include <string_view>

namespace stagecraft {

/// Throws Error (input), with the command to use as help, if the content looks like a plan or a
/// schedule of another system. Cheap; returns for any other content.
void refuse_foreign_plan(std::string_view content, const std::string& file);

/// Like `refuse_foreign_plan`, for files with models, too.
void refuse_all_but_plans(std::string_view content, const std::string& file);

}  // namespace stagecraft
