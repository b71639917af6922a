#!/usr/bin/env bash
# What nvcc makes of __builtin_assume_aligned where memory is copied in packs of 16 bytes.
#
# A kernel that copies 16 aligned bytes by `memcpy(&pack, __builtin_assume_aligned(from, 16), 16)` is
# meant to load them at once. With nvcc 13.0.88 that depends on the type of the pointer:
#
#   read,  const float*                one load of 16 bytes
#   read,  const void*                 16 loads of one byte, without a word: the promise makes it slower
#   write, float*                      not compiled: "Stored value type does not match pointer operand
#                                      type!", a complaint of the back end about what the front end made
#   write, void*                       16 stores of one byte, likewise
#
# So no form of the promise serves both ways. A structure that is declared with alignas(16), and read and
# written by its own type, is loaded and stored at once.
#
# Needs python3 with pip, g++ and the network; no GPU. Ends with 1 if nvcc does otherwise.
set -euo pipefail

version=13.0.88
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check --no-deps \
  nvidia-cuda-nvcc==$version nvidia-cuda-crt==$version nvidia-nvvm==$version nvidia-cuda-runtime==$version
toolkit=$(echo venv/lib/python3*/site-packages/nvidia/cu13)
chmod +x "$toolkit"/bin/* "$toolkit"/nvvm/bin/*
"$toolkit/bin/nvcc" --version | grep release

cat > packs.cu <<'CODE'
#include <cstring>

struct alignas(16) Four {
  float numbers[4];
};

#ifdef PROMISE
__device__ Four read(const float* from) {
  Four four;
  memcpy(&four, __builtin_assume_aligned(static_cast<PROMISE const*>(from), 16), sizeof four);
  return four;
}
__device__ void write(float* to, const Four& four) {
#ifdef WRITE
  memcpy(__builtin_assume_aligned(static_cast<WRITE*>(to), 16), &four, sizeof four);
#else
  for (int i = 0; i < 4; ++i) to[i] = four.numbers[i];
#endif
}
#else
__device__ Four read(const float* from) { return *reinterpret_cast<const Four*>(from); }
__device__ void write(float* to, const Four& four) { *reinterpret_cast<Four*>(to) = four; }
#endif

__global__ void copy(const float* from, float* to) {
  write(to + 4 * threadIdx.x, read(from + 4 * threadIdx.x));
}
CODE

failed=0
# expect WORDS COUNT INSTRUCTION FLAG...: so many of the instruction; 0: nvcc refuses.
expect() {
  local words=$1 count=$2 instruction=$3 got
  shift 3
  rm -f packs.ptx
  if "$toolkit/bin/nvcc" -std=c++20 -arch=sm_90 -I"$toolkit/include" "$@" -ptx -o packs.ptx packs.cu > said 2>&1; then
    got=$(grep -c "$instruction" packs.ptx || true)
    echo "$words: $got x $instruction"
  else
    got=0
    echo "$words: not compiled: $(head -n 1 said)"
  fi
  [[ $got -eq $count ]] || { echo "  expected $count"; failed=1; }
}

expect "a structure of its own" 1 ld.global.v4.f32
expect "promised, read as const float*" 1 ld.global.v4.f32 -DPROMISE=float
expect "promised, read as const void*" 16 ld.global.u8 -DPROMISE=void
expect "promised, written as void*" 16 st.global.u8 -DPROMISE=float -DWRITE=void
expect "promised, written as float*" 0 st.global -DPROMISE=float -DWRITE=float
exit $failed
