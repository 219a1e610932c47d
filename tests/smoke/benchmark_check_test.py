"""The judgement of scripts/bench.sh and scripts/gpu_check.sh on canned results: a bar that does not hold or has no
number, and a test that failed or did not run, end with status 1.
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
for folder in ("startup", "supervision", "two_jobs"):
    sys.path.insert(0, str(SOURCE / "benchmarks" / folder))
import startup
import supervision
import two_jobs


def runs(seconds, rss, pss=1.0):
    return [{"seconds": s, "rss": r, "pss": pss} for s, r in zip(seconds, rss)]


def result(temper, python):
    return startup.result_of({"temper": temper, "python": python}, {"cpus": 2, "load_before": 0})


class Bars(unittest.TestCase):
    def check(self, *results):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, one in enumerate(results):
                paths.append(pathlib.Path(folder) / f"{number}.json")
                paths[-1].write_text(json.dumps(one))
            return subprocess.run([sys.executable, SOURCE / "benchmarks/bars.py", *paths], text=True,
                                  capture_output=True, timeout=60)

    def test_hold(self):
        done = self.check(result(runs([1.0, 1.1, 9.0], [150] * 3), runs([6.0, 5.6, 5.7], [600] * 3)))
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_too_late(self):
        done = self.check(result(runs([1.2] * 3, [150] * 3), runs([5.9] * 3, [600] * 3)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("BROKEN  first update", done.stdout)
        self.assertIn("holds   resident", done.stdout)

    def test_too_large(self):
        done = self.check(result(runs([1.0] * 3, [211] * 3), runs([9.0] * 3, [600] * 3)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("BROKEN  resident", done.stdout)

    def test_one_broken_result_among_good_ones(self):
        good = result(runs([1.0], [100]), runs([9.0], [600]))
        broken = result(runs([1.0], [100]), runs([4.0], [600]))
        self.assertEqual(self.check(broken, good).returncode, 1)

    def test_missing_numbers_and_unknown_names(self):
        for broken in ({"benchmark": "startup", "ratios": {"sooner": 9.0}}, {"benchmark": "startup"},
                       {"benchmark": "startup", "ratios": {"sooner": 9.0, "rss": float("nan")}},
                       {"benchmark": "start", "ratios": {"sooner": 9.0, "rss": 0.1}}):
            self.assertEqual(self.check(broken).returncode, 1, broken)
        self.assertNotEqual(self.check().returncode, 0)


    def test_two_jobs(self):
        machine = {"cpus": 2, "load_before": 0}
        sides = {"alone": [100.0, 50.0, 100.0], "together": [95.0, 47.0, 60.0]}  # 0.95, 0.94, 0.6
        good = two_jobs.result_of({"one_process": sides, "two_processes": sides}, machine)
        self.assertEqual(good["ratios"]["one_process"], 0.94)  # the median of turns, not of sides
        self.assertEqual(self.check(good).returncode, 0)
        slow = {"alone": [100.0] * 3, "together": [95.0, 89.0, 60.0]}
        done = self.check(two_jobs.result_of({"one_process": sides, "two_processes": slow}, machine))
        self.assertEqual(done.returncode, 1)
        self.assertIn("BROKEN  the same with two processes", done.stdout)

    def test_supervision(self):
        def check(launcher, threads, heartbeat_ns):
            runs = [{"launcher": launcher, "threads": threads}]
            return self.check(supervision.result_of(runs, heartbeat_ns, {"cpus": 2, "load_before": 0})).returncode

        self.assertEqual(check(0.001, 0.001, 50), 0)
        self.assertEqual(check(0.004, 0.001, 50), 1)
        self.assertEqual(check(0.001, 0.004, 50), 1)
        self.assertEqual(check(0.001, 0.001, 200), 1)


class Moment(unittest.TestCase):
    def first_update(self, text):
        with tempfile.TemporaryDirectory() as folder:
            log = pathlib.Path(folder) / "metrics.jsonl"
            if text is not None:
                log.write_text(text)
            return startup.first_update(log)

    def test_is_the_first_complete_record_of_an_update(self):
        started = '{"kind":"event","what":"started","update":0}\n'
        record = '{"kind":"train","update":1}'
        self.assertFalse(self.first_update(None))
        self.assertFalse(self.first_update(started))
        self.assertFalse(self.first_update(started + record))
        self.assertTrue(self.first_update(started + record + "\n"))


class TestTable(unittest.TestCase):
    """scripts/gpu_check.sh's table: a test that was skipped for want of a GPU has not passed."""

    passed = '<testcase name="a" time="1.5" status="run"/>'
    skipped = ('<testcase name="b" time="0" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>'
               "<system-out>needs 2 GPUs, 1 visible</system-out></testcase>")
    failed = '<testcase name="c" time="2" status="fail"><failure message=""/></testcase>'
    not_run = '<testcase name="d" time="0" status="notrun"/>'

    def table(self, *cases):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tests.xml"
            path.write_text(f"<testsuite>{''.join(cases)}</testsuite>")
            return subprocess.run([sys.executable, SOURCE / "scripts/test_table.py", path], text=True,
                                  capture_output=True, timeout=60)

    def test_counts_apart(self):
        done = self.table(self.passed, self.skipped)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("1 passed, 0 failed, 1 skipped", done.stdout)
        self.assertIn("skipped  needs 2 GPUs, 1 visible", done.stdout)

    def test_failures(self):
        for cases in ((self.passed, self.failed), (self.passed, self.not_run), (self.skipped,), ()):
            self.assertEqual(self.table(*cases).returncode, 1, cases)


if __name__ == "__main__":
    unittest.main()
