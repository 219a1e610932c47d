"""The script of --print-sbatch, run by bash with stand-ins for srun and scontrol."""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, __file__.rsplit("/tests/", 1)[0] + "/tests")

from support.programs import APPS, ProgramTest, clean_environment, run, SOURCE

CONFIG = str(SOURCE / "configs/digits_trades.yaml")
ODD = "run.name=it's a \"name\" with $HOME `id` \\ and *"

SRUN = """#!/bin/bash
printf '%s\\0' "$@" > "$RECORD/srun"
pwd > "$RECORD/directory"
exit "$STATUS"
"""
SCONTROL = """#!/bin/bash
if [ "$1 $2" = "show config" ]; then echo "RequeueExit             = $REQUEUE_EXIT"; else echo "$@" >> "$RECORD/scontrol"; fi
"""


class BatchScript(ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.stand_ins = cls.root / "bin"
        cls.stand_ins.mkdir()
        for name, text in (("srun", SRUN), ("scontrol", SCONTROL)):
            (cls.stand_ins / name).write_text(text)
            (cls.stand_ins / name).chmod(0o755)

    def script(self, *arguments):
        done = run("trainer", "--config", CONFIG, "--print-sbatch", *arguments, cwd=self.folder)
        self.assertStatus(done, 0)
        return done.stdout

    def execute(self, script, status=0, requeue_exit="(null)"):
        path = self.folder / "job.sh"
        path.write_text(script)
        environment = clean_environment(RECORD=self.folder, STATUS=status, REQUEUE_EXIT=requeue_exit,
                                        SLURM_JOB_ID=4711, SLURM_CPUS_PER_TASK=3,
                                        PATH=f"{self.stand_ins}:{os.environ['PATH']}")
        done = subprocess.run(["bash", str(path)], cwd="/", env=environment, text=True, capture_output=True, timeout=60)
        self.assertEqual(done.stderr, "")
        return done.returncode

    def srun_arguments(self):
        return (self.folder / "srun").read_text().split("\0")[:-1]

    def requeues(self):
        record = self.folder / "scontrol"
        return record.read_text().splitlines() if record.exists() else []

    def test_every_argument_arrives_as_it_was_given(self):
        given = ["--resume", "must", ODD, "data.transform.train=[]", "method.beta=4"]
        script = self.script("--nproc", 4, "--cpus=12", "--max-restarts", 3, "--dry-run", "--launcher", "spawn", "--local-rank=0", *given,
                             f"data.train={self.folder}/a b")
        self.assertEqual(self.execute(script), 0)
        name = ODD.removeprefix("run.name=")
        self.assertEqual(self.srun_arguments(), [
            "--kill-on-bad-exit=1", "--wait=60", "--cpus-per-task=3", "--cpu-bind=cores",
            str(APPS / "trainer"), "--run-dir", f"runs/{name}/4711", "--config", CONFIG, *given,
            f"data.train={self.folder}/a b"])
        self.assertEqual((self.folder / "directory").read_text().strip(), str(self.folder))

    def test_settings_of_the_job(self):
        script = self.script("--nproc", 4, "--cpus", 12, "training.max_time=1d3h30s")
        for line in ("#SBATCH --nodes=1", "#SBATCH --ntasks-per-node=4", "#SBATCH --cpus-per-task=3",
                     "#SBATCH --requeue", "#SBATCH --open-mode=append", "#SBATCH --signal=USR1@120",
                     "#SBATCH --job-name=digits_trades", "#SBATCH --time=1-03:11:00"):
            self.assertIn(line, script.splitlines())
        self.assertTrue(script.startswith("#!/bin/bash\n#SBATCH"))
        self.assertNotIn("MASTER_ADDR", script)
        self.assertNotIn("RANK", script)
        self.assertNotIn("\n#SBATCH --time", self.script())

    def test_asks_for_gpus_where_the_build_can_use_them(self):
        cpu_build = "cuda none" in run("trainer", "--version").stdout
        self.assertEqual("#SBATCH --gpus-per-node=2" in self.script("--nproc", 2), not cpu_build)
        self.assertNotIn("--gpus-per-node=", self.script("--nproc", 2, "distributed.backend=gloo"))
        done = run("trainer", "--config", CONFIG, "--print-sbatch", "--gpus", "0,1")
        self.assertStatus(done, 2)
        self.assertIn("Slurm chooses the GPUs", done.stderr)

    def test_status_75_goes_back_into_the_queue_once(self):
        script = self.script()
        for status, requeue_exit, requeues in ((75, "(null)", ["requeue 4711"]), (75, "75", []), (75, "1,75,80", []),
                                               (75, "175", ["requeue 4711"]), (0, "(null)", []), (1, "(null)", []),
                                               (137, "(null)", []), (124, "(null)", [])):
            with self.subTest(status=status, requeue_exit=requeue_exit):
                (self.folder / "scontrol").unlink(missing_ok=True)
                self.assertEqual(self.execute(script, status, requeue_exit), status)
                self.assertEqual(self.requeues(), requeues)

    def test_a_run_directory_of_ones_own_stays(self):
        self.assertEqual(self.execute(self.script("--run-dir", "runs/my run")), 0)
        arguments = self.srun_arguments()
        self.assertEqual(arguments.count("--run-dir"), 1)
        self.assertEqual(arguments[arguments.index("--run-dir") + 1], "runs/my run")

    def test_shellcheck_finds_nothing(self):
        self.assertIsNotNone(shutil.which("shellcheck"), "scripts/setup.sh --tests installs it")
        done = subprocess.run(["shellcheck", "--severity=warning", "-"], input=self.script(ODD), text=True, capture_output=True, timeout=60)
        self.assertEqual(done.stdout + done.stderr, "")

    def test_bad_configuration_prints_no_script(self):
        done = run("trainer", "--config", CONFIG, "--print-sbatch", "training.epocs=3")
        self.assertStatus(done, 2)
        self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    unittest.main()
