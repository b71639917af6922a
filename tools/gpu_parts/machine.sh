# What there is on a machine: NVIDIA's libraries, the GPU, and how programs of ours are started.
# shellcheck shell=bash disable=SC2154

wanted_libraries=(libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libnccl.so.2)

# Folders where NVIDIA's libraries may be, each on a line, Python's packages first: there they fit
# each other.
nvidia_folders() {
  timeout 20 "${PYTHON:-python3}" - 2> /dev/null <<'END'
import glob, os, site, sys, sysconfig
roots = list(sysconfig.get_paths()[name] for name in ("purelib", "platlib"))
roots += [path for path in sys.path + site.getsitepackages() if path.endswith("-packages")]
try:
    import nvidia
    roots = [os.path.dirname(path) for path in nvidia.__path__] + roots
except ImportError:
    pass
for root in dict.fromkeys(roots):
    for folder in sorted(glob.glob(os.path.join(root, "nvidia", "*", "lib"))):
        print(folder)
END
  local folder
  for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib{64,} /usr/local/cuda*/lib{64,} \
                /usr/local/cuda*/targets/x86_64-linux/lib /usr/lib/x86_64-linux-gnu /usr/local/lib; do
    [[ -d $folder ]] && echo "$folder"
  done
}

# What is in none of those folders may be elsewhere.
folder_elsewhere() {
  timeout 10 find /opt /usr/local /usr/lib -maxdepth 8 -name "$1" -printf '%h\n' -quit 2> /dev/null
}

# Sets `libraries`, the folders for the programs' LD_LIBRARY_PATH, and writes down what was found.
find_libraries() {
  local folders library folder found
  folders=$(nvidia_folders | awk '!seen[$0]++')
  libraries=$here/lib
  : > "$results/libraries.txt"
  for library in "${wanted_libraries[@]}"; do
    found=
    while IFS= read -r folder; do
      [[ -n $folder && -e $folder/$library ]] || continue
      found=$folder
      break
    done <<< "$folders"
    found=${found:-$(folder_elsewhere "$library")}
    echo "$library ${found:-is nowhere}" >> "$results/libraries.txt"
    [[ -z $found || :$libraries: == *":$found:"* ]] || libraries+=:$found
  done
  [[ -z ${LD_LIBRARY_PATH:-} ]] || libraries+=:$LD_LIBRARY_PATH
  export STAGECRAFT_LIBRARIES=$libraries
}

# ours SECONDS COMMAND...: a program of ours; nobody else sees its libraries.
ours() {
  local limit=$1
  shift
  timeout -k 5 "$limit" env LD_LIBRARY_PATH="$libraries" "$@"
}

# What runs below this shell, which is about to end.
stop_children() {
  local each
  for each in $(jobs -p) $child; do kill "$each" 2> /dev/null; done
}

# Name, driver and clocks as NVIDIA's tool says them.
describe_device() {
  local words
  if $rehearse; then
    echo "CPU, rehearsed"
    return
  fi
  words=$(timeout 20 nvidia-smi \
    --query-gpu=name,driver_version,clocks.max.sm,clocks.max.mem,power.limit,uuid \
    --format=csv,noheader 2> /dev/null | head -n 1)
  echo "${words:-a GPU that nvidia-smi does not know}"
}

# "h100", as clusters call it.
device_kind() {
  local name
  name=$(tr '[:upper:]' '[:lower:]' <<< "$device_words")
  if [[ $name != *h100* && $name != *h200* ]]; then
    name=$(ours 30 "$here/stagecraft" doctor --json 2> /dev/null | tr '[:upper:]' '[:lower:]')
  fi
  case $name in *h100*) echo h100 ;; *) echo h200 ;; esac
}

# Power, temperature, clocks and why they are as they are, and versions as loaded, for whoever reads a
# part's numbers.
describe_device_fully() {
  if ! $rehearse; then
    timeout 20 nvidia-smi -q -x > "$folder/nvidia-smi.xml" 2> /dev/null
    [[ -s $results/doctor.json ]] || ours 30 "$here/stagecraft" doctor --json > "$results/doctor.json" 2>&1
    cp "$results/doctor.json" "$folder/"
  fi
  {
    echo "$device_words"
    echo "$program_words"
    cat "$results/libraries.txt"
    [[ ! -e $here/about ]] || cat "$here/about"
  } > "$folder/about"
}

no_gpu() {
  tell told "a GPU" "" "there is none: $1"
  echo "no GPU: $1"
  exit 77
}

# Words of the program that mean that there is no GPU, and not that something else is missing.
means_no_gpu() {
  grep -qE 'this machine has no NVIDIA driver|there is no GPU that can be used|^no GPU:' <<< "$1"
}

# The first value of a name in JSON: a number; words.
field() {
  grep -oE "\"$2\": *[-+.0-9e]+" "$1" 2> /dev/null | head -n 1 | grep -oE '[-+.0-9e]+$'
}
text_field() {
  grep -oE "\"$2\": *\"[^\"]*\"" "$1" 2> /dev/null | head -n 1 | sed -E 's/.*: *"(.*)"$/\1/'
}

# The numbers of a list.
list() {
  tr -d '\n' < "$1" | grep -oE "\"$2\": *\[[^]]*\]" | head -n 1 | grep -oE '\[.*' | tr -d '[] ' | tr ',' ' '
}

# program LOG ARGUMENT...: what it prints goes to LOG; what kept it from ending well is told.
program() {
  local log=$1
  shift
  local left code=0 why
  left=$(time_left)
  ours "$left" "$here/stagecraft" "$@" > "$log" 2> "$log.errors" < /dev/null &
  wait $! || code=$?
  [[ $code -ne 0 ]] || return 0
  why=$(grep -m 1 -h error: "$log.errors" "$log" || echo "exit code $code, without a word")
  if [[ $code -eq 124 || $code -eq 137 ]]; then
    cut=true
    why="stopped after $left s, all that was left for it"
  fi
  if means_no_gpu "$why"; then no_gpu "$why"; fi
  tell FAILED "stagecraft $1" "exit code 0" "$why"
  return 1
}

# option_of VERB PATTERN: the first option whose name the pattern matches; "NAME takes" if it takes a
# value; nothing if there is none.
option_of() {
  ours 20 "$here/stagecraft" "$1" --help 2> /dev/null |
    grep -oE -- "(^|[ ,])--$2( [A-Za-z[][A-Za-z|]*)?" | head -n 1 | sed -E 's/^[ ,]+//; s/ .+$/ takes/'
}

# run_for_time: options of runs whose weights nobody asks for.
run_for_time() {
  if [[ -n $(option_of run no-weights) ]]; then echo --no-weights; fi
}

# model_config FILE LAYERS WIDTH HEADS POSITIONS: a GPT-2 whose vocabulary is a multiple of 64, since
# rows of 50257 numbers of 16 bits are aligned to nothing.
model_config() {
  cat > "$1" <<END
{"model_type": "gpt2", "n_embd": $3, "n_layer": $2, "n_head": $4, "n_positions": $5,
 "vocab_size": $($rehearse && echo 256 || echo 50304), "layer_norm_epsilon": 1e-05, "tie_word_embeddings": true}
END
}
config_of_124m() {
  if $rehearse; then model_config "$1" 8 64 4 64; else model_config "$1" 12 768 12 1024; fi
}
config_of_350m() {
  if $rehearse; then model_config "$1" 8 64 4 64; else model_config "$1" 24 1024 16 1024; fi
}
