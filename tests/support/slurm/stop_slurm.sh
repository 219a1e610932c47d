#!/usr/bin/env bash
# Stop the private Slurm cluster started by start_slurm.sh, and nothing else.
set -uo pipefail
DIR=${SLURM_LOOPBACK_DIR:-/tmp/slurm-loopback}
KEEP=0
while [ $# -gt 0 ]; do
  case $1 in
    --dir) DIR=$2; shift 2 ;;
    --keep) KEEP=1; shift ;;           # keep state and logs
    *) echo "usage: stop_slurm.sh [--dir DIR] [--keep]" >&2; exit 2 ;;
  esac
done
[ -d "$DIR/pid" ] || { echo "stop_slurm: nothing to stop in $DIR"; exit 0; }
export SLURM_CONF=$DIR/slurm.conf

start_time() { awk '{sub(/^.*\) /,""); print $20}' "/proc/$1/stat" 2>/dev/null || true; }
alive() {
  local f=$DIR/pid/$1 pid t; [ -s "$f" ] || return 1
  read -r pid t < "$f"; [ -n "$t" ] && [ "$(start_time "$pid")" = "$t" ]
}
wait_gone() { local limit=$1 i; shift; for i in $(seq 1 $((limit * 5))); do "$@" >/dev/null 2>&1 || return 0; sleep 0.2; done; return 1; }
jobs_left() { [ -n "$(squeue -h -t RUNNING,COMPLETING 2>/dev/null)" ]; }
# Processes of this cluster: their environment names this cluster's configuration file.
members() {
  local e p
  for e in /proc/[0-9]*/environ; do
    p=${e#/proc/}; p=${p%/environ}
    [ "$p" = "$$" ] || [ "$p" = "$BASHPID" ] || [ "$p" = "$PPID" ] && continue
    case $(cat "/proc/$p/comm" 2>/dev/null) in slurmstepd*) ;; *) grep -qzs '^SLURM_JOB_ID=' "$e" || continue ;; esac
    grep -qzsxF "SLURM_CONF=$SLURM_CONF" "$e" && echo "$p"
  done
}

if alive slurmctld; then
  timeout 10 scancel --full --signal=KILL --state=RUNNING 2>/dev/null
  timeout 10 scancel --state=PENDING 2>/dev/null; timeout 10 scancel --state=RUNNING 2>/dev/null
  wait_gone 15 jobs_left
fi
for f in "$DIR"/pid/slurmd-* "$DIR"/pid/slurmctld; do  # they take a few seconds each
  if [ -e "$f" ] && alive "${f##*/}"; then read -r pid _ < "$f"; kill -TERM "$pid" 2>/dev/null; fi
done
for f in "$DIR"/pid/slurmd-* "$DIR"/pid/slurmctld "$DIR"/pid/munged; do
  [ -e "$f" ] || continue
  n=${f##*/}
  if alive "$n"; then
    read -r pid _ < "$f"
    kill -TERM "$pid" 2>/dev/null
    wait_gone 10 alive "$n" || kill -KILL "$pid" 2>/dev/null
    echo "stop_slurm: stopped $n"
  fi
  rm -f "$f"
done
for p in $(members); do kill -KILL "$p" 2>/dev/null; done
[ "$KEEP" = 1 ] || rm -rf "$DIR"
exit 0
