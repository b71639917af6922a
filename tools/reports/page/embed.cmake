# Writes OUTPUT, a C++ source that defines page_sources.hpp: cmake -DFOLDER=… -DOUTPUT=… -P embed.cmake
set(text "#include \"tools/reports/page_sources.hpp\"\n\nnamespace stagecraft::page_sources {\n\n")
foreach(source html=page.html style=page.css packing=packing.js clock=clock.js
               elements=elements.js timeline=timeline.js memory=memory.js figures=figures.js
               page=page.js)
  string(REGEX MATCH "^[^=]+" name ${source})
  string(REGEX REPLACE "^[^=]+=" "" file ${source})
  file(READ ${FOLDER}/${file} content)
  string(APPEND text "const std::string_view ${name} = R\"page!(${content})page!\";\n\n")
endforeach()
string(APPEND text "}  // namespace stagecraft::page_sources\n")
file(WRITE ${OUTPUT} "${text}")
