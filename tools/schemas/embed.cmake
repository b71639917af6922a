# Writes OUTPUT, a C++ source that defines schemas(): cmake -DFOLDER=… -DOUTPUT=… -P embed.cmake
file(GLOB files ${FOLDER}/*.schema.json)
list(SORT files)
set(rows "")
foreach(file ${files})
  file(READ ${file} content)
  cmake_path(GET file STEM name)  # up to the first dot
  string(JSON title GET "${content}" title)
  string(JSON format GET "${content}" "$id")
  string(REGEX REPLACE "^.*:" "" format "${format}")
  string(APPEND rows "    Schema{\"${name}\", \"${format}\", R\"schema!(${title})schema!\",\n"
                     "           R\"schema!(${content})schema!\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"tools/schemas/schemas.hpp\"

#include <array>

namespace stagecraft {

std::span<const Schema> schemas() {
  static constexpr std::array all{
${rows}  };
  return all;
}

}  // namespace stagecraft
")
