#!/usr/bin/env bash
# Starts a private Slurm cluster (one controller, nodes n1, n2, ...) on this machine, as root, for tests. Clients need
# SLURM_CONF=DIR/slurm.conf. DIR must be short: the munge socket's path is limited to 107 bytes. Limits: no cgroups, no
# CPU binding, no GPUs; the nodes share the machine's cores, files and addresses, and their names resolve nowhere.
set -euo pipefail

DIR=${SLURM_LOOPBACK_DIR:-/tmp/slurm-loopback}
NODES=2
CPUS=4                 # per node; need not exist (config_overrides)
BASE_PORT=17000        # controller on BASE_PORT, node i on BASE_PORT+i
KILL_WAIT=10           # seconds between SIGTERM and SIGKILL at a time limit
REQUEUE_DELAY=5        # seconds a requeued job waits before it may start again
REQUEUE_EXIT=75        # batch exit code that requeues; empty = none
GRACE=20               # GraceTime of the preemptable partition

usage() {
  cat <<USAGE
usage: start_slurm.sh [--dir DIR] [--nodes N] [--cpus C] [--base-port P]
                      [--kill-wait S] [--requeue-delay S] [--requeue-exit CODE] [--grace S]
USAGE
}
while [ $# -gt 0 ]; do
  case $1 in
    --dir) DIR=$2; shift 2 ;;
    --nodes) NODES=$2; shift 2 ;;
    --cpus) CPUS=$2; shift 2 ;;
    --base-port) BASE_PORT=$2; shift 2 ;;
    --kill-wait) KILL_WAIT=$2; shift 2 ;;
    --requeue-delay) REQUEUE_DELAY=$2; shift 2 ;;
    --requeue-exit) REQUEUE_EXIT=$2; shift 2 ;;
    --grace) GRACE=$2; shift 2 ;;
    -h|--help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
done
say() { echo "start_slurm: $*"; }
die() { echo "start_slurm: error: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "must run as root"

# --- packages -------------------------------------------------------------------------------
missing() { local c; for c in slurmctld slurmd munged munge srun sbatch; do command -v "$c" >/dev/null || return 0; done; return 1; }
missing && die "slurm or munge is not installed: run scripts/setup.sh --tests"

# --- pid records: "<pid> <start time>" so that a recycled pid is never signalled --------------
start_time() { awk '{sub(/^.*\) /,""); print $20}' "/proc/$1/stat" 2>/dev/null || true; }
alive() { # alive NAME -> true if the recorded process still runs
  local f=$DIR/pid/$1 pid t; [ -s "$f" ] || return 1
  read -r pid t < "$f"; [ -n "$t" ] && [ "$(start_time "$pid")" = "$t" ]
}
record() { echo "$2 $(start_time "$2")" > "$DIR/pid/$1"; }

mkdir -p "$DIR"/{pid,log,state,munge,bin}
chmod 755 "$DIR" "$DIR"/*
HOST=$(hostname -s)
CONF=$DIR/slurm.conf
SOCKET=$DIR/munge/socket
export SLURM_CONF=$CONF

write_env() {
  # Clients read SLURM_CONF only; no other variable is needed.
  printf 'export SLURM_CONF=%q\n' "$CONF" > "$DIR/env.sh"
}
names=(munged slurmctld); for i in $(seq 1 "$NODES"); do names+=("slurmd-n$i"); done
all_up=1; for n in "${names[@]}"; do alive "$n" || all_up=0; done
if [ "$all_up" = 1 ] && [ -s "$CONF" ]; then
  say "already running in $DIR"; write_env; echo "source $DIR/env.sh"; exit 0
fi

# --- configuration --------------------------------------------------------------------------
if [ ! -s "$DIR/munge/key" ]; then (umask 077; dd if=/dev/urandom of="$DIR/munge/key" bs=1024 count=1 status=none); fi
NODE_LIST="n[1-$NODES]"; [ "$NODES" = 1 ] && NODE_LIST=n1
{
  cat <<CONF
ClusterName=loopback
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$BASE_PORT
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# cred_expire is also the time a requeued job waits before it may start again (default 120 s).
AuthInfo=socket=$SOCKET,cred_expire=$REQUEUE_DELAY
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=3,bf_interval=3
SchedulerType=sched/backfill
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
KillWait=$KILL_WAIT
MinJobAge=600
CompleteWait=0
StateSaveLocation=$DIR/state
SlurmctldPidFile=$DIR/log/slurmctld.pid
SlurmctldLogFile=$DIR/log/slurmctld.log
SlurmdPidFile=$DIR/log/slurmd.%n.pid
SlurmdLogFile=$DIR/log/slurmd.%n.log
SlurmdSpoolDir=$DIR/spool.%n
CONF
  [ -n "$REQUEUE_EXIT" ] && echo "RequeueExit=$REQUEUE_EXIT"
  for i in $(seq 1 "$NODES"); do
    echo "NodeName=n$i NodeHostname=$HOST NodeAddr=127.0.0.1 Port=$((BASE_PORT + i)) CPUs=$CPUS Boards=1 SocketsPerBoard=1 CoresPerSocket=$CPUS ThreadsPerCore=1 State=UNKNOWN"
  done
  echo "PartitionName=main Nodes=$NODE_LIST Default=YES MaxTime=INFINITE State=UP PriorityTier=10 GraceTime=$GRACE PreemptMode=REQUEUE"
  echo "PartitionName=urgent Nodes=$NODE_LIST Default=NO MaxTime=INFINITE State=UP PriorityTier=100 PreemptMode=OFF"
} > "$CONF"
write_env

# A failed start leaves nothing running; state and logs stay for inspection.
trap 'code=$?; [ $code = 0 ] || "$(dirname "$0")/stop_slurm.sh" --dir "$DIR" --keep >/dev/null 2>&1 || true; exit $code' EXIT
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }
for i in $(seq 0 "$NODES"); do
  n=slurmctld; [ "$i" = 0 ] || n=slurmd-n$i
  ! alive "$n" && listens $((BASE_PORT + i)) && die "port $((BASE_PORT + i)) is in use; choose another with --base-port"
done

# --- daemons --------------------------------------------------------------------------------
wait_for() { local limit=$1 i; shift; for i in $(seq 1 $((limit * 5))); do "$@" >/dev/null 2>&1 && return 0; sleep 0.2; done; return 1; }
launch() { # launch NAME command...  (foreground daemon in its own session)
  local name=$1; shift
  alive "$name" && return 0
  setsid "$@" </dev/null >>"$DIR/log/$name.out" 2>&1 &
  local pid=$!
  disown "$pid"
  sleep 0.2
  record "$name" "$pid"
}
launch munged munged --foreground --force --socket="$SOCKET" --key-file="$DIR/munge/key" \
  --log-file="$DIR/munge/log" --pid-file="$DIR/munge/pid" --seed-file="$DIR/munge/seed" --num-threads=4
wait_for 10 munge -S "$SOCKET" -n || { tail -n 5 "$DIR/log/munged.out" "$DIR/munge/log" >&2; die "munged did not start"; }
launch slurmctld slurmctld -D -f "$CONF"
for i in $(seq 1 "$NODES"); do mkdir -p "$DIR/spool.n$i"; launch "slurmd-n$i" slurmd -D -N "n$i" -f "$CONF"; done
ready() { [ "$(sinfo -h -N -p main -o '%T' 2>/dev/null | grep -cxE 'idle|mixed|allocated')" = "$NODES" ]; }
if ! wait_for 30 ready; then
  scontrol update nodename="$NODE_LIST" state=resume >/dev/null 2>&1 || true
  wait_for 20 ready || { sinfo -N -l >&2 || true; tail -n 5 "$DIR"/log/*.log >&2; die "nodes did not become idle"; }
fi
say "running: $NODES nodes, controller port $BASE_PORT, state in $DIR"
echo "source $DIR/env.sh"
