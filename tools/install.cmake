# What `cmake --install` makes with the program itself: completion for shells and a manual page.
# Run with PROGRAM, the one just installed, and PREFIX.
function(stagecraft_write file)
  cmake_path(GET file PARENT_PATH folder)
  file(MAKE_DIRECTORY ${folder})
  execute_process(COMMAND ${PROGRAM} ${ARGN} -q -o ${file} COMMAND_ERROR_IS_FATAL ANY)
  message(STATUS "Installing: ${file}")
endfunction()

stagecraft_write(${PREFIX}/share/bash-completion/completions/stagecraft completion bash)
stagecraft_write(${PREFIX}/share/zsh/site-functions/_stagecraft completion zsh)
stagecraft_write(${PREFIX}/share/fish/vendor_completions.d/stagecraft.fish completion fish)

# Text as troff shows it: backslashes, and points and quotes at the start of a line, mean something.
function(stagecraft_literal text result)
  string(REPLACE "\\" "\\e" text "${text}")
  string(REGEX REPLACE "(^|\n)([.'])" "\\1\\\\&\\2" text "${text}")
  string(REPLACE "-" "\\-" text "${text}")
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

function(stagecraft_printed result)
  execute_process(COMMAND ${PROGRAM} ${ARGN} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  stagecraft_literal("${text}" text)
  set(${result} "${text}" PARENT_SCOPE)
endfunction()

execute_process(COMMAND ${PROGRAM} --version OUTPUT_VARIABLE version OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} --help OUTPUT_VARIABLE overview COMMAND_ERROR_IS_FATAL ANY)
stagecraft_literal("${overview}" shown)
set(page ".TH STAGECRAFT 1 \"\" \"${version}\" \"User Commands\"
.SH NAME
stagecraft \\- plans, simulates and runs pipeline-parallel training
.SH SYNOPSIS
.B stagecraft
.I VERB
[\\fIARGUMENTS\\fR] [\\fIOPTIONS\\fR]
.SH DESCRIPTION
.nf
${shown}.fi
")
string(REGEX MATCHALL "\n  [a-z]+ +[^\n]+" rows "${overview}")
foreach(row ${rows})
  string(REGEX MATCH "[a-z]+" verb "${row}")
  if(NOT verb STREQUAL "stagecraft")
    stagecraft_printed(help ${verb} --help)
    string(TOUPPER ${verb} heading)
    string(APPEND page ".SH STAGECRAFT ${heading}\n.nf\n${help}.fi\n")
  endif()
endforeach()
string(APPEND page ".SH EXIT STATUS
0 ok, 1 bug, 2 usage, 3 invalid input, 4 infeasible, 5 execution failed, 6 a check or verification
failed, 130 interrupted, 143 ended by SIGTERM.
")
file(WRITE ${PREFIX}/share/man/man1/stagecraft.1 "${page}")
message(STATUS "Installing: ${PREFIX}/share/man/man1/stagecraft.1")
