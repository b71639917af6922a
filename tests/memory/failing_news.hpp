// operator new of this program, of which a chosen call fails.

#pragma once

namespace stagecraft::tests {

/// From now on the call of this thread after so many others throws std::bad_alloc, once.
void fail_allocation(long after);
/// None does any more. Whether one has failed since `fail_allocation`.
bool end_failing();

/// Whether one has failed, while it may still be asked.
bool has_failed();

/// Pieces that this thread has asked for and not given back.
long live_allocations();

}  // namespace stagecraft::tests
