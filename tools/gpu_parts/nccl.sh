# Several processes on one GPU, connected by NCCL.
# shellcheck shell=bash disable=SC2154

# NCCL refuses two ranks on one GPU unless they name different hosts; then they talk by sockets. They
# take turns on the GPU, and few of their kernels must fit beside each other.
as_a_host_of_its_own() {
  export NCCL_HOSTID=stage-$RANK
  export NCCL_SOCKET_IFNAME==lo NCCL_NET=Socket NCCL_IB_DISABLE=1 NCCL_MNNVL_ENABLE=0 \
         NCCL_NVLS_ENABLE=0 NCCL_RAS_ENABLE=0 NCCL_MAX_CTAS=4 NCCL_LAUNCH_ORDER_IMPLICIT=1 \
         CUDA_DEVICE_MAX_CONNECTIONS=32 NCCL_DEBUG=${NCCL_DEBUG:-INFO}
  [[ -z ${STAGECRAFT_NCCL_LOGS:-} ]] || export NCCL_DEBUG_FILE=$STAGECRAFT_NCCL_LOGS/nccl-$RANK.%p.log
  exec env LD_LIBRARY_PATH="${STAGECRAFT_LIBRARIES:-}" "$@"
}

# As torchrun starts them: they meet by TCP, so there need be no MPI. Rank 0 decides how it ends.
together() {
  local rank code=0 limit others=()
  limit=$(time_left)
  [[ $limit -lt 60 ]] || limit=60
  export WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 20000))
  shift
  for ((rank = WORLD_SIZE - 1; rank > 0; --rank)); do
    RANK=$rank "$here/gpu-suite" as-a-host timeout -k 5 "$limit" "$@" < /dev/null &
    others+=($!)
  done
  RANK=0 "$here/gpu-suite" as-a-host timeout -k 5 "$limit" "$@" < /dev/null || code=$?
  wait "${others[@]}"
  return $code
}

# lose_a_rank PLAN TRANSPORT: its last rank is killed as it trains; the others must end by themselves.
lose_a_rank() {
  local plan=$1 transport=$2 pid start words code=0 limit
  limit=$(time_left)
  if [[ $limit -lt 25 ]]; then
    out_of_time "a killed rank of 4"
    return
  fi
  export WORLD_SIZE=4 MASTER_ADDR=127.0.0.1 MASTER_PORT=$((20000 + RANDOM % 20000))
  local pids=() rank
  for rank in 0 1 2 3; do
    # In place of this shell, so that a signal to it is one to the rank.
    (export RANK=$rank; exec "$here/gpu-suite" as-a-host "$here/stagecraft" run "$plan" --steps 1000000 \
      --transport "$transport" < /dev/null > "$folder/rank-$rank" 2>&1) &
    pids+=($!)
  done
  local waited=0
  until grep -q 'step ' "$folder/rank-0" || ((++waited > 10 * (limit - 18))); do sleep 0.1; done
  kill -KILL "${pids[3]}" 2> /dev/null
  start=$(date +%s%N)
  # Who would wait for ever does not.
  (sleep 15; kill -KILL "${pids[@]:0:3}") > /dev/null 2>&1 < /dev/null &
  local guard=$!
  wait "${pids[0]}" || code=$?
  local took=$((($(date +%s%N) - start) / 1000000))
  for pid in "${pids[@]}"; do wait "$pid" 2> /dev/null; done
  kill "$guard" 2> /dev/null
  words=$(cat "$folder"/rank-[012] | grep error:)
  local verdict=FAILED
  if [[ $code -eq 5 && $took -le 10000 && $(wc -l <<< "$words") -eq 1 && $words == *"rank 3"* ]]; then
    verdict=ok
  fi
  tell "$verdict" "a killed rank of 4" "one cause, exit code 5, within 10 s" \
    "exit code $code after $took ms: ${words:-no words}"
}

part_nccl() {
  local ranks said line transport=nccl device=cuda
  if $rehearse; then transport=tcp kind=cpu device=cpu; fi
  export STAGECRAFT_NCCL_LOGS=$folder
  for ranks in 2 4; do
    program "$folder/planned" plan tiny-gpt "${ranks}x$kind" --batch 8 --microbatch 1 --schedule 1f1b \
      --precision fp32 --max-stages "$ranks" --straight --tensor-parallel 1 -q -o "$folder/plan.json" || return 0
    said=$(together "$ranks" "$here/stagecraft" run "$folder/plan.json" --steps 5 \
             --transport "$transport" --verify 2>&1)
    line=$?
    printf '%s\n' "--- $ranks ranks, exit code $line" "$said" >> "$folder/together.log"
    if [[ $line -eq 0 ]]; then
      tell ok "$ranks ranks on one GPU by ${transport^^}" "" "$(tail -n 1 <<< "$said")"
    elif means_no_gpu "$said"; then
      no_gpu "$(grep -m 1 error: <<< "$said")"
    else
      tell FAILED "$ranks ranks on one GPU by ${transport^^}" "" \
        "$(grep -m 1 error: <<< "$said" || tail -n 1 <<< "$said")"
    fi
  done
  lose_a_rank "$folder/plan.json" "$transport"
  if [[ $(time_left) -lt 5 ]]; then return; fi
  if said=$(together 2 "$here/stagecraft" profile links --device "$device" --transport "$transport" 2>&1); then
    while read -r line; do tell told "cost of a message" "" "$line"; done < <(grep -vE '──|--' <<< "$said")
  else
    tell FAILED "links by ${transport^^}" "exit code 0" "$(grep -m 1 error: <<< "$said" || tail -n 1 <<< "$said")"
  fi
}
