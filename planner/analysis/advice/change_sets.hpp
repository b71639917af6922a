// Changes that go together, by key. For the sources of this folder.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "planner/analysis/change_kinds.hpp"

namespace stagecraft::advising {

/// By key, so that each is set once; a later one takes an earlier one's place.
using ChangeSet = std::map<std::string, std::string>;

std::vector<Change> as_changes(const ChangeSet& set);

/// Nothing where they say different things.
std::optional<ChangeSet> merged(const std::vector<Change>& a, const std::vector<Change>& b);

/// Whether layers are moved one by one, which takes long.
bool is_balanced(const ChangeSet& set);

}  // namespace stagecraft::advising
