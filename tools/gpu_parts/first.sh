# What decides all else, in steps; none of them keeps the next from running.
# shellcheck shell=bash disable=SC2154

# step SECONDS COMMAND...: within so many of the 200 seconds that all of them are worth, and what the
# others have left over.
step() {
  local whole=$deadline worth=$1
  shift
  local left=$((whole - SECONDS))
  if [[ $left -lt 3 ]]; then
    out_of_time "$*"
    return
  fi
  deadline=$((SECONDS + left * worth / steps_left))
  # A module's first load is from a disk that nobody has read yet.
  [[ $deadline -ge $((SECONDS + 20)) ]] || deadline=$((SECONDS + 20))
  [[ $deadline -le $whole ]] || deadline=$whole
  steps_left=$((steps_left - worth))
  "$@"
  deadline=$whole
}

part_first() {
  local steps_left=200 warming=
  step 4 tell_libraries
  step 10 examine
  step 26 smoke
  warm_up_torch
  step 35 suite kernels kernels
  step 20 suite attention attention
  step 40 suite pipelines pipelines
  step 20 first_training
  end_of_warming
  step 20 suite sizes sizes
  step 25 first_profile
}

# PyTorch compiles what speed-124m compares with, beside checks whose times nobody asks for: most of
# that is work of the other processors. What is compiled is kept.
warm_up_torch() {
  export TORCHINDUCTOR_CACHE_DIR=$results/inductor
  if $rehearse || [[ -n ${STAGECRAFT_PEEK:-} ]]; then return; fi
  timeout -k 5 "$(time_left)" nice -n 10 "${PYTHON:-python3}" "$here/gpu_speed.py" - 124m \
    --serve CUDNN_ATTENTION --compiled > "$folder/torch.log" 2>&1 < /dev/null &
  warming=$! warming_since=$SECONDS
}

# It may go on as long as there is enough time for what is measured: 75 seconds.
end_of_warming() {
  [[ -n $warming ]] || return
  while kill -0 "$warming" 2> /dev/null && [[ $(time_left) -gt 75 ]]; do sleep 0.5; done
  if kill "$warming" 2> /dev/null; then
    tell told "PyTorch compiling meanwhile" "" "not done after $((SECONDS - warming_since)) s"
  else
    tell told "PyTorch compiling meanwhile" "" "$(grep -E '^ready' "$folder/torch.log" || tail -n 1 "$folder/torch.log")"
  fi
  wait "$warming" 2> /dev/null
}

smoke() {
  if ! $rehearse; then
    export CUBLASLT_LOG_LEVEL=2 CUBLASLT_LOG_FILE=$folder/smoke.cublaslt.log
    export CUDNN_LOGLEVEL_DBG=2 CUDNN_LOGDEST_DBG=$folder/smoke.cudnn.log
  fi
  suite smoke smoke
  # Errors alone from now on.
  if ! $rehearse; then
    export CUBLASLT_LOG_LEVEL=1 CUBLASLT_LOG_FILE=$folder/cublaslt.%i.log
    export CUDNN_LOGLEVEL_DBG=1 CUDNN_LOGDEST_DBG=$folder/cudnn.log
  fi
}

# Where NVIDIA's libraries are, and whether our modules find all they need.
tell_libraries() {
  local library place module missing
  while read -r library place; do
    tell told "$library" "" "$place"
  done < "$results/libraries.txt"
  for module in cuda nccl; do
    [[ -e $here/libstagecraft_$module.so ]] || continue
    ours 20 ldd "$here/libstagecraft_$module.so" > "$folder/$module.ldd" 2>&1
    missing=$(grep 'not found' "$folder/$module.ldd" | awk '{ print $1 }' | tr '\n' ' ')
    tell "$([[ -z $missing ]] && echo ok || echo FAILED)" "libraries of libstagecraft_$module.so" \
      "all are found" "${missing:+not found: }${missing:-all are found}"
  done
}

# Versions as loaded, and the device.
examine() {
  program "$folder/doctor.txt" doctor || return
  if $rehearse; then
    tell told "the program's own view" "" "$(wc -l < "$folder/doctor.txt") lines"
    return
  fi
  local words
  words=$(grep -E '^CUDA |^GPU 0' "$folder/doctor.txt" | tr '\n' ' ')
  if [[ -z $words ]]; then words=$(grep -iE 'cuda' "$folder/doctor.txt" | tail -n 1); fi
  tell "$(grep -q '^GPU 0' "$folder/doctor.txt" && echo ok || echo FAILED)" "the program's own view" \
    "a GPU" "$words"
}

# GPT-2 124M in bf16, one rank, beside the losses that the CPU had.
first_training() {
  # shellcheck disable=SC2046
  suite training training --only "beside the CPU" $(expected_losses)
}

first_profile() {
  local model device=cuda precision=bf16 size=8
  if $rehearse; then device=cpu precision=fp32 size=1; fi
  for model in 124m 350m; do
    if $rehearse && [[ $model == 350m ]]; then continue; fi
    "config_of_$model" "$folder/gpt2-$model.json"
    program "$folder/$model.profiled" profile "$folder/gpt2-$model.json" --device "$device" \
      --precision "$precision" --microbatch "$size" --repeats 5 -o "$folder/gpt2-$model.profile.json" ||
      continue
    tell_layers "layer of GPT-2 $model" "$folder/$model.profiled"
  done
}

# tell_layers WHAT FILE: the rows of a table, of layers that are alike the first.
tell_layers() {
  local line
  while read -r line; do
    tell told "$1" "" "$line"
  done < <(grep -vE '──|--' "$2" | grep -vE '^ *block\.([2-9]|[0-9][0-9])')
}

part_profile() {
  local device=cuda precision=bf16 sizes=4,8 line
  if $rehearse; then device=cpu precision=fp32 sizes=1,2; fi
  config_of_124m "$folder/gpt2-124m.json"
  if program "$folder/profiled" profile "$folder/gpt2-124m.json" --device "$device" --precision "$precision" \
       --microbatch "$sizes" --tensor-parallel 1,2 --repeats 5 -o "$folder/gpt2-124m.profile.json"; then
    tell_layers "cost of a layer" "$folder/profiled"
  fi
  if program "$folder/copied" profile links --device "$device"; then
    while read -r line; do tell told "cost of a copy" "" "$line"; done < <(grep -vE '──|--' "$folder/copied")
  fi
}
