"""Runs Temper's programs as a user does. TEMPER_APPS names the folder with trainer, evaluator and datatool."""
import atexit
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
APPS = pathlib.Path(os.environ.get("TEMPER_APPS", SOURCE / "build/release/apps"))
LIMIT = 120  # seconds; a hard limit for every program
# Jobs of a test share cores with each other, not with what else runs on the host: that would decide the number of
# compute threads, and with it the bits.
JOBS = pathlib.Path(tempfile.mkdtemp(prefix="temper-jobs-"))
atexit.register(shutil.rmtree, JOBS, ignore_errors=True)


def clean_environment(**extra):
    """The environment without what a launcher or scheduler of the machine may have left."""
    drop = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
    kept = {k: v for k, v in os.environ.items() if k not in drop and not k.startswith(("SLURM_", "TEMPER_L", "OMPI_"))}
    kept["TEMPER_JOBS"] = str(JOBS)
    kept.update({k: str(v) for k, v in extra.items()})
    return kept


def run(program, *arguments, cwd=None, limit=LIMIT, **environment):
    """The completed process of a program, with text output."""
    return subprocess.run([str(APPS / program), *map(str, arguments)], cwd=cwd or SOURCE, text=True, timeout=limit,
                          capture_output=True, env=clean_environment(**environment))


def start(program, *arguments, cwd=None, **environment):
    return subprocess.Popen([str(APPS / program), *map(str, arguments)], cwd=cwd or SOURCE, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment(**environment))


def metrics(run_dir, kind=None):
    lines = [json.loads(line) for line in (pathlib.Path(run_dir) / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if kind is None or line["kind"] == kind]


def wait_for(condition, what, limit=60):
    end = time.monotonic() + limit
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {limit} s for {what}")


def processes_with(text):
    """Pids of living processes that have `text` in their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except (OSError, IndexError):
                continue
            if text in command and state != "Z":
                found.append(int(entry.name))
    return found


def rank_pids(text):
    """Pids of the ranks by rank, among processes with `text` in their command line."""
    ranks = {}
    for pid in processes_with(text):
        try:
            variables = pathlib.Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        for variable in variables:
            if variable.startswith("RANK="):
                ranks[int(variable[5:])] = pid
    return ranks


class ProgramTest(unittest.TestCase):
    """Gives each test a folder of its own, and the digits as image files, unpacked once."""

    digits = None

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp(prefix="temper-test-"))
        cls.digits = cls.root / "digits"
        for split in ("train", "validation", "test"):
            done = run("datatool", "unpack", f"{SOURCE}/data/digits.npz#{split}", cls.digits / split)
            if done.returncode != 0:
                raise AssertionError(done.stderr)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.root, ignore_errors=True)

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=self.root))

    def tearDown(self):
        for pid in processes_with(str(self.root)):
            os.kill(pid, signal.SIGKILL)

    def digits_overrides(self, digits=None):
        digits = digits or self.digits
        return [f"data.train={digits}/train", f"data.validation={digits}/validation", f"data.test={digits}/test"]

    def train(self, run_dir, *arguments, config="digits_trades", nproc=2, limit=LIMIT, **environment):
        return run("trainer", "--config", SOURCE / f"configs/{config}.yaml", "--nproc", nproc, "--run-dir", run_dir,
                   *arguments, *self.digits_overrides(), limit=limit, **environment)

    def assertStatus(self, done, status):
        self.assertEqual(done.returncode, status, f"\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
