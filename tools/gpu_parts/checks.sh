# The checks of stagecraft_gpu_suite, each in a process that lives until one of them crashes.
# shellcheck shell=bash disable=SC2154

most_processes=6  # of one set of checks
most_alone=2      # failed checks of one set that are asked again alone
under=()

# The line "FAILED  NAME: GOT", taken apart and told; its name is left in `told_name`.
tell_line() {
  [[ $1 =~ ^(ok|FAILED|told)\ +([^:]+):\ (.*)$ ]] || return 1
  told_name=${BASH_REMATCH[2]}
  tell "${BASH_REMATCH[1]}" "$told_name" "" "${BASH_REMATCH[3]}"
}

# suite NAME ARGUMENT...: the checks that these arguments choose. NAME.names are those that have begun,
# and are not asked again.
suite() {
  local name=$1 names=$folder/$1.names tries=0 before failed=() ended line code begun begun_at told_name
  shift
  [[ -x $here/stagecraft_gpu_suite ]] || { tell FAILED "$name" "it is there" "no stagecraft_gpu_suite"; return; }
  local arguments=("$@" --without "$names") started=$SECONDS
  if $rehearse; then arguments+=(--rehearse); fi
  touch "$names"
  ended=false
  while ! $ended && ((++tries <= most_processes)); do
    before=$(wc -l < "$names") begun='' begun_at=$SECONDS code=unknown
    exec 3< <(exec timeout -k 5 "$(time_left)" env LD_LIBRARY_PATH="$libraries" "${under[@]}" \
                "$here/stagecraft_gpu_suite" "${arguments[@]}" 2>&1 < /dev/null)
    child=$!
    while IFS= read -r -u 3 line; do
      printf '%s\n' "$line" >> "$folder/$name.log"
      case $line in
        "begins  "*) begun=${line#begins  } begun_at=$SECONDS; printf '%s\n' "$begun" >> "$names" ;;
        "ok "* | "FAILED "* | "told "*)
          tell_line "$line" || continue
          [[ $line != FAILED* ]] || failed+=("$told_name")
          [[ $told_name != "$begun" ]] || begun='' ;;
        "all is well" | *[0-9]" failed") ended=true ;;
      esac
    done
    exec 3<&-
    code=0
    wait "$child" || code=$?
    child=
    if [[ $code == 77 ]]; then no_gpu "$(grep -m 1 '^no GPU' "$folder/$name.log")"; fi
    if ! $ended && [[ -n $begun || $(wc -l < "$names") -eq $before ]]; then
      if [[ ($code == 124 || $code == 137) && $((2 * (SECONDS - begun_at))) -lt $((SECONDS - started)) ]]; then
        # The others took most of the time.
        out_of_time "$begun"
        sed -i '$d' "$names"
      else
        crashed "$name" "${begun:-stagecraft_gpu_suite ${arguments[*]}}" "$code"
        [[ -z $begun ]] || failed+=("$begun")
      fi
    fi
    if [[ $code == 124 || $code == 137 || $(wc -l < "$names") -eq $before ]]; then break; fi
  done
  for line in "${failed[@]:0:most_alone}"; do alone "$name" "$line" "$@"; done
}

# crashed SET CHECK CODE
crashed() {
  local words
  words="exit code $3: $(grep -vE '^begins' "$folder/$1.log" | tail -n 1)"
  if [[ $3 == 124 || $3 == 137 ]]; then
    cut=true
    words="stopped when the time for it was over"
  fi
  if grep -q "^FAILED  loading" "$folder/$1.log"; then return; fi
  tell FAILED "$2" "it ends" "$words"
}

# alone SET CHECK ARGUMENT...: a failed one again, call by call, and under compute-sanitizer.
alone() {
  local name=$1 check=$2 line sanitizer said left seed
  shift 2
  # With the numbers that it failed with.
  seed=$(grep -oE '^inputs of --seed [0-9]+' "$folder/$name.log" | tail -n 1 | grep -oE '[0-9]+$')
  set -- "$@" ${seed:+--seed "$seed"}
  left=$(time_left)
  if $rehearse || [[ $left -lt 15 || ${#under[@]} -gt 0 || $check == loading* ]]; then return; fi
  said=$(CUDA_LAUNCH_BLOCKING=1 ours $((left < 30 ? left : 30)) "$here/stagecraft_gpu_suite" "$@" \
           --only "$check" 2>&1 < /dev/null)
  printf '%s\n' "--- $check, call by call" "$said" >> "$folder/$name.alone.log"
  line=$(grep -E '^(ok|FAILED|told) ' <<< "$said" | head -n 1)
  tell told "$check, alone and call by call" "" "${line:-no answer: $(tail -n 1 <<< "$said")}"
  sanitizer=$(sanitizer_program)
  left=$(time_left)
  [[ -n $sanitizer && $left -ge 20 ]] || return
  said=$(ours $((left < 40 ? left : 40)) "$sanitizer" --tool memcheck "$here/stagecraft_gpu_suite" "$@" \
           --only "$check" 2>&1 < /dev/null)
  printf '%s\n' "--- $check under compute-sanitizer" "$said" >> "$folder/$name.alone.log"
  line=$(grep -E '^=========' <<< "$said" | grep -vE 'COMPUTE-SANITIZER|^========= *$' | head -n 1)
  tell told "$check, under compute-sanitizer" "" "${line:-no answer: $(tail -n 1 <<< "$said")}"
}

sanitizer_program() {
  command -v compute-sanitizer && return
  local file
  for file in "${CUDA_HOME:-/usr/local/cuda}/bin/compute-sanitizer" /usr/local/cuda*/bin/compute-sanitizer; do
    [[ -x $file ]] && echo "$file" && return
  done
}

expected_losses() {
  if ! $rehearse && [[ -e $here/expected_losses.json ]]; then echo "--expected $here/expected_losses.json"; fi
}

part_kernels() { suite kernels kernels; }

part_training() {
  # shellcheck disable=SC2046
  suite training training $(expected_losses)
}

part_sanitizer() {
  local sanitizer
  if $rehearse; then
    tell told "compute-sanitizer" "" "there is nothing for it to look at without a GPU"
    return
  fi
  sanitizer=$(sanitizer_program)
  if [[ -z $sanitizer ]]; then
    tell FAILED "compute-sanitizer" "found on PATH or in \$CUDA_HOME/bin" "not there"
    return
  fi
  under=("$sanitizer" --tool memcheck --error-exitcode 9)
  suite sanitizer kernels
  under=()
}
