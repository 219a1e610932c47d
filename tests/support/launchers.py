"""Real launchers for tests: torchrun of .deps, a private Slurm cluster, Open MPI, hosts as network namespaces."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from support.programs import APPS, SOURCE, clean_environment, wait_for

SLURM = pathlib.Path(__file__).resolve().parent / "slurm"


def require_programs(*names):
    """A missing tool is a failure, never a skipped test."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        raise AssertionError(f"{', '.join(missing)} not found: run scripts/setup.sh --tests")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def torchrun(*arguments):
    return [str(pathlib.Path(sys.executable).parent / "torchrun"), "--no-python", *map(str, arguments)]


def start_program(command, log, cwd, **environment):
    """A process in a session of its own, its output in the file `log`."""
    with open(log, "ab") as output:
        return subprocess.Popen([str(word) for word in command], cwd=cwd, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT, start_new_session=True, env=clean_environment(**environment))


def end_group(process):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def wait_until_idle(pid):
    """Returns when a process has used no CPU time for a second, as one that waits for a stopped peer."""

    def ticks():
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]

    def idle():
        before = ticks()
        time.sleep(1)
        return ticks() == before

    wait_for(idle, f"process {pid} to wait")


def updates(log):
    """How many training records rank 0 has printed or written."""
    log = pathlib.Path(log)
    return log.read_text(errors="replace").count('"kind":"train"') if log.exists() else 0


class SlurmCluster:
    """One controller, the nodes n1 and n2, all on this machine; stopped with everything in it at the end."""

    def __init__(self):
        require_programs("munged")
        require_programs("slurmctld", "slurmd", "srun", "sbatch")
        if os.geteuid() != 0:
            raise AssertionError("the private Slurm cluster of the tests needs root")
        # The socket's path has to be short.
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="temper-slurm-", dir="/tmp"))
        for attempt in range(4):
            port = 17000 + (os.getpid() * 7 + attempt * 101) % 2000
            done = subprocess.run([SLURM / "start_slurm.sh", "--dir", self.folder, "--base-port",
                                   str(port), "--requeue-delay", "5", "--grace", "20"], text=True, timeout=120,
                                  capture_output=True, env=clean_environment())
            if done.returncode == 0:
                break
            if "is in use" not in done.stderr:
                raise AssertionError(done.stdout + done.stderr)
        else:
            raise AssertionError(done.stderr)

    def stop(self):
        subprocess.run([SLURM / "stop_slurm.sh", "--dir", self.folder], timeout=120, capture_output=True,
                       env=clean_environment())
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command, limit=60):
        return subprocess.run([str(word) for word in command], text=True, timeout=limit, capture_output=True,
                              stdin=subprocess.DEVNULL, env=clean_environment(SLURM_CONF=self.folder / "slurm.conf"))

    def submit(self, script, output, *options):
        done = self.run("sbatch", "--parsable", "-o", output, *options, script)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        return done.stdout.strip()

    def job(self, number):
        """What scontrol shows, as a dictionary."""
        return dict(re.findall(r"(\w+)=(\S*)", self.run("scontrol", "show", "job", number).stdout))

    def wait_for_state(self, number, *states, limit=90):
        return wait_for(lambda: self.job(number).get("JobState") in states and self.job(number),
                        f"job {number} to be {' or '.join(states)}", limit)


class Hosts:
    """Two hosts: network namespaces n1 (10.77.0.1) and n2 (10.77.0.2), joined by a cable, each with its own name."""

    addresses = ("10.77.0.1", "10.77.0.2")

    def __init__(self):
        require_programs("ip", "unshare")
        self.names = tuple(f"temper{os.getpid()}n{i}" for i in (1, 2))
        self.ip("netns", "add", self.names[0])
        self.ip("netns", "add", self.names[1])
        self.ip("-n", self.names[0], "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", self.names[1])
        for name, address in zip(self.names, self.addresses):
            self.ip("-n", name, "address", "add", f"{address}/24", "dev", "cable")
            self.ip("-n", name, "link", "set", "cable", "up")
            self.ip("-n", name, "link", "set", "lo", "up")

    @staticmethod
    def ip(*arguments):
        done = subprocess.run(["ip", *arguments], text=True, capture_output=True)
        if done.returncode != 0:
            raise AssertionError(f"ip {' '.join(arguments)}: {done.stderr} (network namespaces need root)")

    def command(self, host, *command):
        """Runs on the host 0 or 1, under a name that no resolver knows."""
        return ["ip", "netns", "exec", self.names[host], "unshare", "-u", "sh", "-c",
                f'hostname {self.names[host]} && exec "$@"', "sh", *map(str, command)]

    def remove(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
