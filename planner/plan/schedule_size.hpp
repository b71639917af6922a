// The maximum size of a schedule that is generated in reasonable time.

#pragma once

#include <string>

namespace stagecraft {

/// Why a schedule of so many stages and microbatches, each in so many pieces, is not worked out;
/// empty if it is. Where the order repeats, four million instructions take a second (see
/// `compile_counted`), else half a minute and 2 GB; more of them tell nothing that fewer do not,
/// since a step's time grows in proportion with microbatches.
std::string against_size(int stages, int microbatches, int pieces);

}  // namespace stagecraft
