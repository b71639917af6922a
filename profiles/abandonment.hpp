// Abandoning work: a search that must end gives up the plan that it is simulating, which may take
// many seconds, and returns the plans that it has.

#pragma once

#include "profiles/error.hpp"

namespace stagecraft {

/// Thrown out of the middle of such work.
class Abandoned : public Error {
 public:
  Abandoned();
};

/// From now on, in the whole process, or no longer.
void set_abandoned(bool abandoned) noexcept;
bool is_abandoned() noexcept;

/// While one lives, what its thread does may be given up; everything else is carried out.
class Abandonable {
 public:
  Abandonable();
  ~Abandonable();
  Abandonable(const Abandonable&) = delete;
  Abandonable& operator=(const Abandonable&) = delete;
};

/// Between the parts of work that takes long: throws Abandoned where it is to be given up.
void check_abandoned();

}  // namespace stagecraft
