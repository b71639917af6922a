// Whole numbers of 128 bits, for products and sums of nanoseconds and bytes that do not fit in 64.

#pragma once

namespace stagecraft {

__extension__ using Wide = __int128;
__extension__ using UnsignedWide = unsigned __int128;

}  // namespace stagecraft
