# Tokens per second beside PyTorch's.
# shellcheck shell=bash disable=SC2154

# speed MODEL LEAST
speed() {
  local line name asked got verdict python=${PYTHON:-python3} limit
  limit=$(($(time_left) - 8))
  # The longest kernels of one step, where there is time for them.
  local keep_for_kernels=0
  if ! $rehearse && [[ -n $(kernel_profiler) && $limit -gt 200 ]]; then keep_for_kernels=35; fi
  limit=$((limit - keep_for_kernels > 5 ? limit - keep_for_kernels : 5))
  export TORCHINDUCTOR_CACHE_DIR=$results/inductor
  local arguments=("$here/stagecraft" "$1" --seconds "$limit" --least "$2" --keep "$folder" --device "$kind")
  if $rehearse; then arguments+=(--rehearse); fi
  exec 3< <(exec timeout -k 10 $((limit + 10)) "$python" "$here/gpu_speed.py" "${arguments[@]}" \
              2> "$folder/errors" < /dev/null)
  child=$!
  while IFS= read -r -u 3 line; do
    printf '%s\n' "$line" >> "$folder/speed.log"
    # An empty field is one, too.
    IFS=$'\t' read -r name asked got verdict <<< "${line//$'\t'/ $'\t'}"
    name=${name% } asked=${asked% } got=${got% }
    case $verdict in
      x*) judge "$name" "$asked" "$got" "$verdict" ;;
      without) tell "$($rehearse && echo told || echo FAILED)" "$name" "$asked" "$got" ;;
      told | FAILED) tell "$verdict" "$name" "$asked" "$got" ;;
    esac
  done
  exec 3<&-
  wait "$child" || tell FAILED gpu_speed.py "exit code 0" "it stopped: $(tail -n 1 "$folder/errors")"
  child=
  [[ $keep_for_kernels -eq 0 || ! -e $folder/plan.json ]] || longest_kernels
}

part_speed_124m() { speed 124m 1.10; }
part_speed_350m() { speed 350m 1.05; }
part_speed_1300m() { speed 1300m 1.02; }

kernel_profiler() {
  command -v ncu && return
  local file
  for file in /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu; do
    [[ -x $file ]] && echo "$file" && return
  done
}

# A step behind the first ones, call by call: time and share of memory's bandwidth of each kernel.
longest_kernels() {
  local left
  left=$(time_left)
  [[ $left -gt 25 ]] || { out_of_time "longest kernels"; return; }
  timeout -k 5 $((left - 5)) env LD_LIBRARY_PATH="$libraries" "$(kernel_profiler)" --clock-control none \
    --launch-skip 1300 --launch-count 650 --csv --page raw \
    --metrics gpu__time_duration.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed \
    "$here/stagecraft" run "$folder/plan.json" --steps 5 --backend cuda --graphs off $(run_for_time) \
    > "$folder/kernels.csv" 2> "$folder/kernels.errors" < /dev/null
  timeout 20 "${PYTHON:-python3}" - "$folder/kernels.csv" > "$folder/kernels.txt" 2>> "$folder/kernels.errors" <<'END'
import collections, csv, sys
lines = [line for line in open(sys.argv[1]) if line.startswith('"')]
rows = list(csv.DictReader(lines))
time = "gpu__time_duration.sum"
share = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
units = {"ns": 1e-3, "us": 1.0, "usecond": 1.0, "nsecond": 1e-3, "ms": 1e3, "msecond": 1e3}
unit = units.get(rows[0].get(time), 1e-3) if rows else 1
number = lambda row, name: float(row[name].replace(",", ""))
rows = [row for row in rows if row.get("ID", "").isdigit() and row.get(time)]
kernels = collections.defaultdict(lambda: [0, 0.0, 0.0])
for row in rows:
    kernel = kernels[row["Kernel Name"][:90]]
    kernel[0] += 1
    kernel[1] += number(row, time) * unit
    kernel[2] += number(row, time) * unit * number(row, share)
for name, (count, sum_, weighted) in sorted(kernels.items(), key=lambda item: -item[1][1])[:14]:
    print(f"{sum_:.0f} us in {count} calls at {weighted / sum_:.0f} % of memory's bandwidth: {name}")
END
  local line
  while IFS= read -r line; do tell told "longest kernels" "" "$line"; done < "$folder/kernels.txt"
  [[ -s $folder/kernels.txt ]] || tell told "longest kernels" "" "none: $(tail -n 1 "$folder/kernels.errors")"
}
