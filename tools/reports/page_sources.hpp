// The files of page/, which CMake makes part of the program (page/embed.cmake).

#pragma once

#include <string_view>

namespace stagecraft::page_sources {

extern const std::string_view html;     ///< page.html, with {{name}} where the others go
extern const std::string_view style;    ///< page.css
extern const std::string_view packing;  ///< packing.js, and so on
extern const std::string_view clock;
extern const std::string_view elements;
extern const std::string_view timeline;
extern const std::string_view memory;
extern const std::string_view figures;
extern const std::string_view page;

}  // namespace stagecraft::page_sources
