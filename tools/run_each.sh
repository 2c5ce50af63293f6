#!/usr/bin/env bash
# Runs every example, every fuzzer or every benchmark; fails at the end, with their names, if one did.
# usage: tools/run_each.sh examples | fuzz BUILD_DIR SECONDS | bench BUILD_DIR short|full
set -euo pipefail
cd "$(dirname "$0")/.."
shopt -s nullglob
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Shows what a step printed only if it fails; the steps after it run all the same.
run_step() {
  local name=$1 start=$SECONDS log; shift
  log=$(mktemp -p "$scratch")
  if "$@" >"$log" 2>&1; then
    has_passed "$name"
    echo "$name: ok ($((SECONDS - start)) s)"
  else
    cat "$log"
    echo "$name: FAILED: $*" >&2
  fi
}
source tools/side_by_side.sh

case $1 in
  examples)
    for script in examples/[!_]*.py; do
      run_one "$script" .venv/bin/python "$script" --short --output-dir "$scratch/$(basename "$script" .py)"
    done ;;
  fuzz)
    for target in "$2"/fuzz/*_fuzz; do
      run_beside "$(nproc)" "$(basename "$target")" "$target" --seconds "$3"
    done ;;
  bench)
    for target in "$2"/benchmarks/micro/*_bench; do
      if [ "$3" = short ]; then
        run_one "$(basename "$target")" "$target" --benchmark_min_time=0.001
      else
        "$target"
      fi
    done
    if [ "$3" = short ]; then
      run_one benchmarks/loader .venv/bin/python benchmarks/loader/run.py --modes short
      run_one benchmarks/cloud .venv/bin/python benchmarks/cloud.py --cells 4000 --genes 500 --nonzeros 50 --seconds 1
      run_one benchmarks/cloud_rivals .venv/bin/python benchmarks/cloud_rivals.py --cells 40000 --genes 500 --nonzeros 20 --seconds 1 --rounds 1
      run_one benchmarks/dense .venv/bin/python benchmarks/dense.py --cells 6000 --genes 500 --rounds 1
      run_one benchmarks/csc .venv/bin/python benchmarks/csc.py --cells 2000 --genes 500 --nonzeros 50 --rounds 1
      run_one benchmarks/opening .venv/bin/python benchmarks/opening.py --small 200 --large 400 --files 5 --shards 5 --rounds 2
      run_one benchmarks/packed .venv/bin/python benchmarks/packed.py --cells 2000 --genes 500 --nonzeros 50 --rounds 1
      run_one benchmarks/mtx .venv/bin/python benchmarks/mtx.py --cells 100 --genes 2000 --rounds 1
      run_one benchmarks/layers .venv/bin/python benchmarks/layers.py --cells 2000 --genes 500 --nonzeros 50 --rounds 1
      run_one benchmarks/preprocess .venv/bin/python benchmarks/preprocess.py --cells 2000 --genes 2000 --nonzeros 100 --top 300 --rounds 1
      run_one benchmarks/many_machines .venv/bin/python benchmarks/many_machines.py --cells 600 --genes 2500 --nonzeros 50 --shards 3 --rounds 1
      run_one benchmarks/tokens .venv/bin/python benchmarks/tokens.py --cells 1000 --genes 4000 --rounds 1
      run_one benchmarks/science .venv/bin/python benchmarks/science/run.py --seeds 1 --steps 5 --cells 500 --genes 50 --data "$scratch"
      run_one benchmarks/steps .venv/bin/python benchmarks/loader/steps.py --cells 300 --genes 300 --width 64 --steps 1 --batch-size 8
      run_one benchmarks/mapped .venv/bin/python benchmarks/mapped.py --cells 4000 --genes 500 --nonzeros 50 --rounds 1 --batches 1 --filtered 10000
      run_one benchmarks/gpu .venv/bin/python -W ignore benchmarks/gpu.py --device cpu --cells 1000 --genes 300 --batch-size 64 --rounds 1 --seconds 0.1
      run_one benchmarks/series .venv/bin/python benchmarks/series/windows.py --short
      run_one benchmarks/series/scale .venv/bin/python benchmarks/series/scale.py --short
    else
      .venv/bin/python benchmarks/series/windows.py
      .venv/bin/python benchmarks/loader/run.py --modes all --write benchmarks/RESULTS.md
    fi ;;
esac

require_passed
