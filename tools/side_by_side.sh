# Programs that run side by side, for scripts that source it. They set scratch, a folder, and define run_step NAME ...,
# which calls has_passed NAME where the program ended well: what never ran has not passed.
started=()
: >"$scratch/passed"

has_passed() { echo "$1" >>"$scratch/passed"; }

# One after another: run_one NAME ...
run_one() {
  started+=("$1")
  run_step "$@"
}

# At most so many at once: run_beside MOST NAME ...
run_beside() {
  local most=$1; shift
  while [ "$(jobs -rp | wc -l)" -ge "$most" ]; do wait -n || true; done
  started+=("$1")
  run_step "$@" &
}

# Waits for all, and ends the script where one has not passed.
require_passed() {
  wait
  local name failed=()
  for name in "${started[@]}"; do grep -qxF -- "$name" "$scratch/passed" || failed+=("$name"); done
  [ ${#failed[@]} -eq 0 ] || { echo "failed: ${failed[*]}" >&2; exit 1; }
}
