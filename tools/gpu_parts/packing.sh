# What travels there, and what comes back.
# shellcheck shell=bash disable=SC2154

# A package and what comes back are each one file; larger ones are not carried.
most_bytes=$((16 * 1024 * 1024))

# The libraries of a file that are neither the system's own nor NVIDIA's.
own_libraries() {
  ldd "$1" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux.*)\.so|/lib(cu|nv|nccl)[A-Za-z]*[.-]'
}

# Commit and flags of what is packed.
write_about() {
  local build=$1 commit
  commit=$(git -C "$here" describe --always --dirty --abbrev=12 2> /dev/null || echo unknown)
  echo "commit $commit"
  grep -E '^(CMAKE_BUILD_TYPE|CMAKE_CXX_FLAGS_RELEASE|CMAKE_CUDA_ARCHITECTURES|STAGECRAFT_[A-Z]+):' \
    "$build/CMakeCache.txt" 2> /dev/null
  date -u +%Y-%m-%dT%H:%MZ
}

# gather BUILD FOLDER: what travels.
gather() {
  local build=$1 folder=$2 name library
  mkdir -p "$folder/lib"
  for name in stagecraft stagecraft_gpu_suite libstagecraft_cuda.so libstagecraft_nccl.so; do
    if [[ ! -e $build/$name ]]; then
      [[ $name == *nccl* ]] || fail "$build/$name: not built (ninja -C $build stagecraft stagecraft_gpu_suite)"
      echo "without $name: it is not built" >&2
      continue
    fi
    strip -o "$folder/$name" "$build/$name" 2> /dev/null || cp "$build/$name" "$folder/"
    for library in $(own_libraries "$build/$name"); do cp -Lu "$library" "$folder/lib/"; done
  done
  # Loaded at the first product, so that ldd does not name it.
  library=$(sed -n 's/^openblas_LIBRARY:[A-Z]*=//p' "$build/CMakeCache.txt" 2> /dev/null)
  if [[ -n $library ]]; then
    cp -L "$library" "$folder/lib/libopenblas.so.0"
    for library in $(own_libraries "$library"); do cp -Lu "$library" "$folder/lib/"; done
  fi
  chmod -R u+w "$folder"
  strip --strip-unneeded "$folder"/lib/* 2> /dev/null
  cp -r "$here/gpu-suite" "$here/gpu_parts" "$here"/torch/gpu_speed.py "$here"/torch/models.py "$folder/"
  cp "$here"/../tests/gpu/expected_losses.json "$folder/" 2> /dev/null ||
    echo "without tests/gpu/expected_losses.json: training is compared with what the CPU computes there" >&2
  write_about "$build" > "$folder/about"
}

# pack BUILD FILE
pack() {
  local file=$2 staging size
  staging=$(mktemp -d)
  (gather "$1" "$staging/gpu-suite") || { rm -rf "$staging"; exit 2; }
  tar -C "$staging" -cf - gpu-suite | xz -9 -T1 > "$file"
  rm -rf "$staging"
  size=$(stat -c %s "$file")
  cat <<END
$file: $size bytes, of $most_bytes at most. There:
  [ -e /tmp/gpu-suite ] || tar xJf $file -C /tmp; /tmp/gpu-suite/gpu-suite --results /tmp/results --seconds 230 first
END
  [[ $size -le $most_bytes ]] || fail "$file: larger than what is carried"
}

# expect BUILD
expect() {
  local file=$here/../tests/gpu/expected_losses.json
  timeout 3000 "$1/stagecraft_gpu_suite" expect > "$file.new" || fail "stagecraft_gpu_suite expect: failed"
  mv "$file.new" "$file"
}

kept_file() { echo "${OUT:-$results}/gpu-suite.tar.xz"; }

# Packs all results; of many and large ones, those that are small.
keep() {
  local file new limit
  file=$(kept_file)
  new=$file.$BASHPID
  for limit in 64M 4M 512k; do
    find "$results" -type f -size "-$limit" ! -name 'gpu-suite.tar.xz*' ! -path '*/inductor/*' -print0 2> /dev/null |
      timeout 40 tar --null --no-recursion -T - --transform "s,^.*/\($(basename "$results")/\),\1," -P \
        -cf - 2> /dev/null | timeout 40 xz -1 -T0 > "$new" 2> /dev/null
    [[ $(stat -c %s "$new") -gt $most_bytes ]] || break
  done
  mv "$new" "$file"
}
