"""What the benchmarks share: processes seen from outside, and the machine that they ran on."""
import os
import pathlib
import statistics


def environment(**extra):
    """The environment without what a launcher or scheduler of the machine may have left."""
    drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    kept = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith(("SLURM_", "TEMPER_", "OMPI_"))}
    kept.update({k: str(v) for k, v in extra.items()})
    return kept


def parents():
    """Parent by process id, of all processes."""
    found = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
    return found


def descendants(pid):
    found, parent_of = {pid}, parents()
    grown = True
    while grown:
        more = {child for child, parent in parent_of.items() if parent in found} - found
        grown = bool(more)
        found |= more
    return found - {pid}


def rank_processes(pid):
    """Processes that `pid` started as ranks: those with RANK in their environment."""
    found = []
    for child in descendants(pid):
        try:
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(variable.startswith(b"RANK=") for variable in variables):
            found.append(child)
    return found


def memory_mib(pid):
    """Resident and proportional memory of a process in MiB."""
    fields = {}
    for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]:
        name, _, rest = line.partition(":")
        fields[name] = rest
    return {name: int(fields[name.capitalize()].split()[0]) / 1024 for name in ("rss", "pss")}


def cpu_seconds(pid, name_begins=""):
    """CPU time of the threads of a process whose names begin so."""
    nanoseconds = 0
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith(name_begins):
            nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), "unknown")
    return {"cpus": len(os.sched_getaffinity(0)), "model": model, "load_before": round(os.getloadavg()[0], 2)}


def summary(values):
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "all": values}
