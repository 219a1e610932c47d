"""The program `diagnose`: what it reports, and what it makes of a machine that is not right."""
import json
import os
import pathlib
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")

from support.programs import APPS, clean_environment, processes_with, run, wait_for

NUMBER = (int, float)
# Key -> type, a dict of keys, or a list of one element type; None stands for null.
SCHEMA = {
    "versions": {"temper": str, "libtorch": str, "cuda": str, "nccl": str, "compiler": str},
    "host": {"name": str, "addresses": [str], "error": (str, None)},
    "launcher": str,
    "driver": (str, None),
    "gpus": [{"name": str, "uuid": str, "pci": str, "memory_bytes": int, "compute_capability": NUMBER}],
    "cpus": {"count": int, "source": str},
    "memory": {"total_bytes": int, "available_bytes": int, "cgroup_limit_bytes": (int, None), "cgroup_used_bytes": int},
    "limits": {name: {"soft": (int, None), "hard": (int, None)}
               for name in ("nofile", "nproc", "memlock", "core", "fsize")},
    "shared_memory": {"path": str, "total_bytes": int, "free_bytes": int, "writable": bool},
    "working_directory": {"path": str, "total_bytes": int, "free_bytes": int, "writable": bool},
    "interfaces": [{"interface": str, "address": str}],
    "infiniband": bool,
    "master_address": ({"name": str, "addresses": [str], "error": (str, None)}, None),
    "environment": dict,
    "all_reduce": {"ranks": int, "backend": str, "error": (str, None)},
    "findings": [{"severity": str, "check": str, "text": str}],
    "usable": bool,
}


class Diagnose(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="temper-diagnose-test-")
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def diagnose(self, *arguments, limits=(), **environment):
        def lower_limits():
            for which, value in limits:
                resource.setrlimit(which, (value, value))

        return subprocess.run([str(APPS / "diagnose"), *map(str, arguments)], cwd=self.folder, text=True, timeout=110,
                              capture_output=True, preexec_fn=lower_limits,
                              env=clean_environment(TMPDIR=self.folder, **environment))

    def report(self, done):
        lines = done.stdout.splitlines()
        self.assertEqual(len(lines), 1, f"\n--- stdout\n{done.stdout}\n--- stderr\n{done.stderr}")
        report = json.loads(lines[0])
        self.check(report, SCHEMA, "report")
        return report

    def check(self, value, schema, place):
        if isinstance(schema, tuple):
            if value is None:
                self.assertIn(None, schema, place)
            elif isinstance(schema[0], dict):
                self.check(value, schema[0], place)
            else:
                self.assertIsInstance(value, tuple(one for one in schema if one), place)
        elif isinstance(schema, dict):
            for key, part in schema.items():
                self.assertIn(key, value, place)
                self.check(value[key], part, f"{place}.{key}")
        elif isinstance(schema, list):
            self.assertIsInstance(value, list, place)
            for number, one in enumerate(value):
                self.check(one, schema[0], f"{place}[{number}]")
        else:
            self.assertIsInstance(value, schema, place)

    def problems(self, report):
        return {one["check"]: one["text"] for one in report["findings"] if one["severity"] == "problem"}

    def test_json_of_three_ranks(self):
        done = self.diagnose("--json", "--nproc", 3)
        report = self.report(done)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(report["usable"])
        self.assertEqual(report["launcher"], "spawn")
        self.assertEqual(report["host"]["name"], socket.gethostname())
        self.assertEqual(report["working_directory"]["path"], self.folder)
        self.assertIn("127.0.0.1", [one["address"] for one in report["interfaces"]])
        self.assertEqual(report["limits"]["nofile"]["soft"], resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        self.assertEqual(report["memory"]["total_bytes"] // 1024,
                         int(pathlib.Path("/proc/meminfo").read_text().split()[1]))
        self.assertEqual(report["all_reduce"]["ranks"], 3)
        self.assertGreater(report["all_reduce"]["latency_microseconds"], 0)
        self.assertGreater(report["all_reduce"]["bytes_per_second"], 1e6)
        self.assertEqual(os.listdir(self.folder), [], "nothing is left behind")

    def test_text(self):
        done = self.diagnose(OMP_NUM_THREADS=1, NCCL_DEBUG="WARN", SECRET_TOKEN="hidden")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for part in ("libtorch", "ulimits", "nofile", "shared memory", "interface lo", "MASTER_ADDR         not set",
                     "OMP_NUM_THREADS=1", "NCCL_DEBUG=WARN", "all-reduce          2 ranks over gloo: ", "GB/s for 16 MiB",
                     "usable: no problem found"):
            self.assertIn(part, done.stdout)
        self.assertNotIn("hidden", done.stdout)

    def test_master_address_that_does_not_resolve(self):
        report = self.report(self.diagnose("--json", "--launcher", "spawn", MASTER_ADDR="nowhere.invalid"))
        self.assertIn("nowhere.invalid does not resolve", self.problems(report)["network"])
        self.assertEqual(report["master_address"]["addresses"], [])
        self.assertFalse(report["usable"])

    def test_rank_that_is_half_named(self):
        done = self.diagnose("--json", RANK=1, WORLD_SIZE=2)
        self.assertEqual(done.returncode, 1)
        report = self.report(done)
        self.assertIn("missing LOCAL_RANK", self.problems(report)["launcher"])
        self.assertIsNone(report["all_reduce"]["error"], "the all-reduce runs all the same")

    def test_few_open_files_and_small_files(self):
        done = self.diagnose("--json", limits=[(resource.RLIMIT_NOFILE, 64), (resource.RLIMIT_FSIZE, 1 << 26)])
        self.assertEqual(done.returncode, 1, done.stderr)
        report = self.report(done)
        self.assertIn("only 64 open files", self.problems(report)["limits"])
        self.assertTrue(any("files may have 64 MiB at most" in one["text"] for one in report["findings"]), report)

    def test_all_reduce_that_fails_names_the_reason(self):
        # Too few for the pipes of the ranks.
        done = self.diagnose("--json", limits=[(resource.RLIMIT_NOFILE, 20)])
        self.assertEqual(done.returncode, 1)
        report = self.report(done)
        self.assertIn("Too many open files", report["all_reduce"]["error"])
        self.assertIn("Too many open files", done.stderr)
        self.assertEqual(self.problems(report)["all-reduce"].split(":")[0], "2 ranks over gloo")
        self.assertEqual(processes_with(self.folder), [])

    def test_killed_rank_is_named(self):
        for _ in range(5):
            process = subprocess.Popen([str(APPS / "diagnose"), "--json"], cwd=self.folder, text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=clean_environment(TMPDIR=self.folder))
            ranks = wait_for(lambda: process.poll() is not None or self.ranks_of(process.pid), "ranks")
            if ranks is not True:
                try:
                    os.kill(ranks[-1], signal.SIGKILL)
                except ProcessLookupError:
                    pass
            output, errors = process.communicate(timeout=100)
            if process.returncode != 0:  # else it had ended before
                break
        self.assertEqual(process.returncode, 1, errors)
        report = json.loads(output)
        self.assertIn("killed by SIGKILL (signal 9)", report["all_reduce"]["error"])
        (kept,) = pathlib.Path(self.folder).glob("temper-diagnose-*/failure.json")
        self.assertIn(str(kept), errors)

    def ranks_of(self, launcher):
        text = pathlib.Path(f"/proc/{launcher}/task/{launcher}/children").read_text()
        return [int(pid) for pid in text.split()]

    def named_ranks(self, *ranks):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return [subprocess.Popen([str(APPS / "diagnose"), "--json"], cwd=self.folder, text=True,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 env=clean_environment(RANK=rank, LOCAL_RANK=rank, WORLD_SIZE=2, LOCAL_WORLD_SIZE=2,
                                                       MASTER_ADDR="localhost", MASTER_PORT=port))
                for rank in ranks]

    def test_ranks_of_another_launcher_report_once(self):
        first, second = self.named_ranks(0, 1)
        outputs = [process.communicate(timeout=100) for process in (first, second)]
        self.assertEqual([first.returncode, second.returncode], [0, 0], outputs)
        self.assertEqual(outputs[1][0], "")
        report = json.loads(outputs[0][0])
        self.assertEqual(report["all_reduce"]["ranks"], 2)
        self.assertEqual(report["launcher"], "torchrun")
        self.assertIn("127.0.0.1", report["master_address"]["addresses"])

    def test_missing_rank_ends_in_bounded_time(self):
        (first,) = self.named_ranks(0)
        output, errors = first.communicate(timeout=100)
        self.assertEqual(first.returncode, 1)
        report = json.loads(output)
        self.assertIn("rank 1 of 2 did not start", report["all_reduce"]["error"])
        self.assertIn("rank 1 of 2 did not start", errors)
        self.assertFalse(report["usable"])

    def test_usage(self):
        for arguments in (["--nproc", "0"], ["--nproc", "many"], ["--unknown"], ["--launcher", "bash"]):
            self.assertEqual(run("diagnose", *arguments).returncode, 2, arguments)
        self.assertIn("libtorch 2.11.0", run("diagnose", "--version").stdout)


if __name__ == "__main__":
    unittest.main()
