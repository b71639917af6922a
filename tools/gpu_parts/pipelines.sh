# Pipelines on one GPU: predicted beside measured.
# shellcheck shell=bash disable=SC2154

# with_microbatches FILE COUNT: the plan with so many microbatches of the size it has.
with_microbatches() {
  local size
  size=$(field "$1" microbatch)
  sed -E "s/\"global\": *[0-9]+/\"global\": $(($2 * size))/; s/\"microbatches\": *[0-9]+/\"microbatches\": $2/" "$1"
}

# The error of a prediction in percent, without a sign.
apart() {
  awk -v a="${1:-nan}" -v b="${2:-1}" 'BEGIN { e = 100 * (a / b - 1); printf "%.2f", e < 0 ? -e : e }'
}

# Of numbers on lines: the median, the largest.
median_and_largest() {
  sort -g | awk '{ x[NR] = $1 } END { printf "%s %s\n", x[int((NR + 1) / 2)], x[NR] }'
}

# Seconds that one more run may need.
enough_time() { $rehearse || [[ $(time_left) -gt 12 ]]; }

# Stages on one GPU that share its multiprocessors: how much longer than one stage they take.
shared_pipelines() {
  local p step alone=0
  for p in 1 2 4; do
    if ! enough_time; then
      out_of_time "p = $p, shared multiprocessors"
      return
    fi
    program "$folder/planned" plan "$folder/profile.json" "${p}x$kind" --batch $((8 * size)) \
      --microbatch "$size" --precision "$precision" --schedule 1f1b --max-stages "$p" --straight \
      --tensor-parallel 1 --recompute none -q -o "$folder/shared-$p.json" || return 0
    program "$folder/shared-$p.run.json" run "$folder/shared-$p.json" --steps "$steps" --backend "$backend" \
      "${for_time[@]}" --json || return 0
    step=$(field "$folder/shared-$p.run.json" step_ns)
    if [[ $p -eq 1 ]]; then
      alone=$step
    else
      judge "p = $p beside p = 1, shared multiprocessors" "at most 1.03 times its step" \
        "$(awk -v a="$step" -v b="$alone" 'BEGIN { printf "%.3f", a / b }')" "x <= 1.03"
    fi
  done
}

# Memory that a run's ranks had, beside what was simulated.
compare_memory() {
  local measured simulated i worst=0
  read -ra measured <<< "$(list "$1" peak_memory_bytes)"
  read -ra simulated <<< "$(list "$1" simulated_peak_memory_bytes)"
  for i in "${!measured[@]}"; do
    worst=$(awk -v w="$worst" -v e="$(apart "${simulated[i]:-0}" "${measured[i]}")" \
      'BEGIN { print (e > w ? e : w) }')
  done
  # That needs no GPU to be true.
  local verdict=ok
  awk -v x="$worst" 'BEGIN { exit !(x <= 1) }' || verdict=FAILED
  tell "$verdict" "peak memory of $2, simulated beside held" "at most 1 % apart on each device" "$worst %"
}

# predict PLAN: nanoseconds, in `prediction`.
predict() {
  program "$folder/predicted.json" simulate "$1" --json || return 1
  prediction=$(field "$folder/predicted.json" step_ns)
}

# The option that gives each rank a part of the multiprocessors, in `placed`.
find_parts() {
  placed=()
  if $rehearse; then return; fi
  case $(option_of run partitions) in
    "") tell FAILED "stages on parts of the multiprocessors" "run --partitions" \
          "this program has no such option; what follows shares all of them" ;;
    *takes) placed=(--partitions 4) ;;
    *) placed=(--partitions) ;;
  esac
}

# One schedule's traced run at 8 microbatches, whose trace calibrates it, and runs at others.
measure_schedule() {
  local schedule=$1 plan=$folder/$1 m
  program "$folder/planned" plan "$folder/profile.json" "4x$kind" --batch $((8 * size)) --microbatch "$size" \
    --precision "$precision" --schedule "$schedule" --straight --tensor-parallel 1 --max-stages 8 --recompute none -q \
    -o "$plan.json" || return
  program "$plan.trace-run.json" run "$plan.json" --steps "$traced" --backend "$backend" "${placed[@]}" \
    "${for_time[@]}" --trace "$plan.trace.json" --trace-steps $((traced - 2)) --json || return
  compare_memory "$plan.trace-run.json" "$schedule"
  for m in "${microbatches[@]}"; do
    if ! enough_time; then
      out_of_time "$schedule, m = $m"
      continue
    fi
    with_microbatches "$plan.json" "$m" > "$plan-$m.json"
    program "$plan-$m.run.json" run "$plan-$m.json" --steps "$steps" --backend "$backend" "${placed[@]}" \
      "${for_time[@]}" --json || continue
  done
}

# What its own timeline, and the profile alone, predict; a line of `steps` for each m.
predict_schedule() {
  local schedule=$1 plan=$folder/$1 m measured calibrated prediction
  [[ -s $plan.trace.json ]] || return
  program "$folder/calibrated" calibrate "$plan.json" "$plan.trace.json" -o "$plan.profile.json" \
    --cluster "$plan.cluster.json" --plan "$plan.calibrated.json" || return
  for m in "${microbatches[@]}"; do
    measured=$(field "$plan-$m.run.json" step_ns)
    if [[ -z $measured ]]; then
      [[ ! -s $plan-$m.run.json ]] || tell FAILED "$schedule, m = $m" "a step's time" "the run told none"
      continue
    fi
    with_microbatches "$plan.calibrated.json" "$m" > "$plan-$m.calibrated.json"
    predict "$plan-$m.calibrated.json" || continue
    calibrated=$prediction
    predict "$plan-$m.json" || continue
    echo "$m $schedule $measured $calibrated $prediction" >> "$folder/steps"
  done
}

# Four stages on a part of the multiprocessors each. Every schedule is calibrated by one run, of 8
# microbatches, and predicts the others. Measured first: what is to be made of it can wait.
predicted_pipelines() {
  local schedule placed
  find_parts
  rm -f "$folder/steps"
  for schedule in "${schedules[@]}"; do
    if enough_time; then
      measure_schedule "$schedule"
    else
      out_of_time "$schedule"
    fi
  done
  for schedule in "${schedules[@]}"; do predict_schedule "$schedule"; done
  [[ -s $folder/steps ]] || return 0
  judge_predictions
}

judge_predictions() {
  local m schedule measured calibrated plain median largest others=0
  while read -r m schedule measured calibrated plain; do
    tell told "$schedule, m = $m" "" "$measured ns, predicted $calibrated ns calibrated and $plain ns not"
  done < "$folder/steps"
  read -r median largest < <(while read -r _ _ measured calibrated _; do apart "$calibrated" "$measured"; echo
                             done < "$folder/steps" | median_and_largest)
  judge "error of calibrated predictions, median" "at most 3 %" "$median %" "x <= 3"
  judge "error of calibrated predictions, largest" "at most 7 %" "$largest %" "x <= 7"
  read -r median largest < <(while read -r _ _ measured _ plain; do apart "$plain" "$measured"; echo
                             done < "$folder/steps" | median_and_largest)
  judge "error of predictions before calibration, largest" "at most 15 %" "$largest %" "x <= 15"
  for m in "${microbatches[@]}"; do
    [[ $(grep "^$m " "$folder/steps" | sort -gk3 | cut -d' ' -f2) == \
       $(grep "^$m " "$folder/steps" | sort -gk4 | cut -d' ' -f2) ]] || others=$((others + 1))
  done
  judge "numbers of microbatches whose schedules rank otherwise than predicted" "0" "$others" "x == 0"
}

part_pipelines() {
  local size=8 device=cuda backend=cuda precision=bf16 steps=8 traced=10 in_parts=() for_time=() own
  local schedules=(1f1b zb-h1 gpipe interleaved) microbatches=(8 16)
  # Four parts with two streams each and what runs beside them.
  export CUDA_DEVICE_MAX_CONNECTIONS=32
  if $rehearse; then
    size=1 device=cpu backend=cpu kind=cpu precision=fp32 steps=2 traced=6
    microbatches=(4 8)
  elif [[ -n $(option_of profile partitions) ]]; then
    in_parts=(--partitions 4)
  fi
  read -ra for_time <<< "$(run_for_time)"
  config_of_124m "$folder/gpt2.json"
  program "$folder/profiled" profile "$folder/gpt2.json" --device "$device" --precision "$precision" \
    --microbatch "$size" --repeats 5 "${in_parts[@]}" -o "$folder/profile.json" || return 0
  # As the profile calls the GPU, so its costs are found.
  own=$(text_field "$folder/profile.json" device)
  kind=${own:-$kind}
  predicted_pipelines
  shared_pipelines
}
