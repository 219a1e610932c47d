"""The loader beside those of others, on photos: throughput, CPU time, memory, first batch; two jobs at once; waiting of a
training step; slow and cold files. All in turns on this machine; ratios are what counts.

    python benchmarks/loader/loader.py --program .../loader_benchmark --datatool .../datatool --work FOLDER --json OUT.json
        [--python PEERS_PYTHON] [--rounds N] [--photos FOLDER] [--parts peers,memory,...]

PEERS_PYTHON is an interpreter with torch, torchvision and, as far as they are to be compared, ffcv 1.0.2 and
nvidia-dali-cuda130. FOLDER keeps the photo set (2,000 files, 155 MB), its packs and ffcv's files.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
sys.path.insert(0, str(SOURCE / "benchmarks"))
import measure

TORCH_MIB = 119  # of a process that has imported torch, taken off the DataLoader's memory
PARTS = ("peers", "memory", "two_jobs", "step", "slow_open", "cold")


def run(command, **options):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, check=False, **options)
    if done.returncode != 0:
        raise SystemExit(f"status {done.returncode} of: {' '.join(map(str, command))}")
    return done.stdout


def last_json(text):
    return json.loads([line for line in text.splitlines() if line.startswith("{")][-1])


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.work = arguments.work.resolve()
        self.photos = (arguments.photos or self.work / "photos").resolve()
        self.rounds = arguments.rounds
        self.ratios = {}
        self.figures = {}

    def prepare(self):
        self.work.mkdir(parents=True, exist_ok=True)
        if not self.photos.exists():
            run([sys.executable, SOURCE / "scripts/make_photo_set.py", self.photos, "--count", 2000])
        self.packs = {}
        for name, options in (("encoded", []), ("raw", ["--pixels"])):
            self.packs[name] = self.work / f"{self.photos.name}-{name}.pack"
            if not self.packs[name].exists():
                run([self.arguments.datatool, "pack", self.photos, self.packs[name], *options])

    def own(self, path=None, cpus=None, environment=None, **options):
        """One run of our program: its line of JSON."""
        path = path or self.photos
        words = [self.arguments.program, path, "--format", "pack" if str(path).endswith(".pack") else "folder"]
        for name, value in options.items():
            words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
        pin = (lambda: os.sched_setaffinity(0, cpus)) if cpus else None
        return last_json(run(words, preexec_fn=pin, env=environment))

    # Every peer at its best worker count, and ours, in turns.
    def peers(self):
        for cores in (1, 2):
            found = self.peers_on(cores)
            self.figures[f"peers_{cores}"] = found
            ours, raw = found["own1"], found["own2"]
            speed = lambda name: found[name]["img_per_s"] if name in found else None
            others = [speed(name) for name in ("torch_v2_u8", "ffcv_same", "dali_cpu") if name in found]
            self.ratios[f"over_torchvision_{cores}"] = ours["img_per_s"] / speed("torch_pil_u8")
            self.ratios[f"over_best_{cores}"] = ours["img_per_s"] / max(others)
            if speed("ffcv_raw"):
                self.ratios[f"raw_over_ffcv_raw_{cores}"] = raw["img_per_s"] / speed("ffcv_raw")
            if cores == 2:
                self.ratios["memory"] = ours["peak_mem_mb"] / (found["torch_pil_u8"]["peak_mem_mb"] - TORCH_MIB)
                self.ratios["first_batch"] = ours["first_batch_s"]
            self.print_peers(cores, found)

    def peers_on(self, cores):
        own = "{} {{dir}} --threads {{cores}} --epochs 2 --batch {{batch}}".format(self.arguments.program)
        raw = "{} {} --format pack --threads {{cores}} --epochs 2 --batch {{batch}}".format(self.arguments.program,
                                                                                          self.packs["raw"])
        peers = "torch_pil_u8,torch_v2_u8,ffcv_same,ffcv_raw,dali_cpu"
        text = run([self.arguments.python, HERE / "peers.py", self.photos, "--cores", cores, "--rounds", self.rounds,
                    "--epochs", 1, "--workers", f"{cores},{cores + 1}", "--peers", peers, "--scratch", self.work / "ffcv",
                    "--own", own, "--own", raw])
        lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        for line in lines:
            if "error" in line:
                print(f"{line['peer']}: not measured: {line['error']}")
        return {line["peer"]: line for line in lines if "error" not in line}

    @staticmethod
    def print_peers(cores, found):
        names = {"own1": "Temper, folder", "own2": "Temper, pack of pixels"}
        print(f"\n{cores} core{'s' if cores > 1 else ''}; images/s (min-max), CPU s per 1,000, PSS MiB, first batch s")
        for peer, line in sorted(found.items(), key=lambda item: item[1]["img_per_s"]):
            low, high = line["img_per_s_min_max"]
            print(f"{names.get(peer, peer):24} {line['img_per_s']:7} ({low}-{high})  {line['cpu_s_per_1000']:6}"
                  f"  {line['peak_mem_mb']:6}  {line['first_batch_s']:6}  load of others {line['other_load']}")

    # What a thread takes, and whether memory grows with the epochs.
    def memory(self):
        few, many = (self.own(threads=n, epochs=1, batch=64)["resident_mib"] for n in (2, 10))
        self.ratios["mib_a_thread"] = (many - few) / 8
        by_epoch = self.own(threads=2, epochs=20, batch=64, memory_each_epoch=True)["resident_mib_by_epoch"]
        slope = statistics.linear_regression(range(15), by_epoch[5:]).slope
        self.ratios["mib_an_epoch"] = slope
        self.figures["memory"] = {"threads_2": few, "threads_10": many, "by_epoch": by_epoch}
        print(f"\nmemory: {few:.1f} MiB with 2 threads, {many:.1f} with 10; {by_epoch[5]:.1f} after 6 epochs, "
              f"{by_epoch[-1]:.1f} after 20 ({slope:+.3f} an epoch)")

    # Two at once against one alone, in turns; the same for 16 workers each of the DataLoader.
    def two_jobs(self):
        cpus = sorted(os.sched_getaffinity(0))[:2]
        alone, together = [], []
        for _ in range(self.rounds):
            alone.append(self.rate_together([self.own_command()], cpus))
            together.append(self.rate_together([self.own_command()] * 2, cpus))
        self.ratios["two_jobs"] = statistics.median(together) / statistics.median(alone)
        theirs = {}
        for count in (1, 2):
            command = [self.arguments.python, HERE / "peers.py", self.photos, "--cores", 2, "--rounds", 1, "--epochs", 1,
                       "--workers", 16, "--peers", "torch_pil_u8"]
            theirs[count] = self.rate_together([command] * count, cpus)
        self.figures["two_jobs"] = {"alone": alone, "together": together, "dataloader_16": theirs,
                                    "dataloader_ratio": theirs[2] / theirs[1]}
        print(f"\ntwo jobs on two cores, images/s: {statistics.median(alone):.0f} alone, "
              f"{statistics.median(together):.0f} together (ratio {self.ratios['two_jobs']:.2f}); DataLoader with 16 "
              f"workers each: {theirs[1]:.0f}, {theirs[2]:.0f} ({theirs[2] / theirs[1]:.2f})")

    def own_command(self):
        return [self.arguments.program, self.photos, "--threads", 2, "--epochs", 4]

    @staticmethod
    def rate_together(commands, cpus):
        processes = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                                      preexec_fn=lambda: os.sched_setaffinity(0, cpus)) for command in commands]
        return sum(last_json(process.communicate()[0])["img_per_s"] for process in processes)

    # A step of 20 ms that leaves the processors alone, as on a GPU, at a quarter of the loader's speed.
    def step(self):
        line = self.own(threads=1, epochs=3, batch=8, step_ms=20)
        self.ratios["wait_share"] = line["wait_share"]
        self.figures["step"] = line
        print(f"\na step of 20 ms with 8 images: waits {100 * line['wait_share']:.2f} % of the time, "
              f"{line['queued_batches']:.1f} batches ready")

    # 20 ms to open a file.
    def slow_open(self):
        library = self.work / "slow_open.so"
        run(["cc", "-shared", "-fPIC", "-O2", "-o", library, HERE / "slow_open.c", "-ldl"])
        slow = dict(os.environ, LD_PRELOAD=str(library), SLOW_OPEN_FOLDER=str(self.photos), SLOW_OPEN_MS="20")
        turns = [(self.own(threads=2, epochs=1), self.own(threads=2, epochs=1, environment=slow))
                 for _ in range(self.rounds)]
        fast, delayed = (statistics.median(turn[side]["img_per_s"] for turn in turns) for side in (0, 1))
        self.ratios["slow_open"] = delayed / fast
        self.figures["slow_open"] = {"without": fast, "with": delayed}
        print(f"\nopening a file takes 20 ms longer: {delayed:.0f} images/s, without that {fast:.0f} "
              f"(ratio {delayed / fast:.2f}); one after another it would be at most {2 / 0.02:.0f}")

    # Nothing in the page cache: one file per sample, and packs.
    def cold(self):
        figures = {}
        for name, path in (("folder", self.photos), ("pack", self.packs["encoded"])):
            rates = []
            for _ in range(self.rounds):
                self.forget(path)
                rates.append(self.own(path, threads=2, epochs=1, first_epoch=True)["first_epoch_img_per_s"])
            figures[name] = statistics.median(rates)
        self.figures["cold"] = figures
        print(f"\ncold files, first epoch, images/s: folder {figures['folder']:.0f}, pack {figures['pack']:.0f}")

    @staticmethod
    def forget(path):
        os.sync()
        for file in [path] if path.is_file() else path.rglob("*.jpg"):
            with open(file, "rb") as opened:
                os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True)
    parser.add_argument("--datatool", type=pathlib.Path, required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--photos", type=pathlib.Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    sys.stdout.reconfigure(line_buffering=True)
    machine = measure.machine()
    bench = Bench(arguments)
    bench.prepare()
    for part in arguments.parts.split(","):
        if part not in PARTS:
            parser.error(f"no part is named {part}: {', '.join(PARTS)}")
        getattr(bench, part)()
    if arguments.json:
        arguments.json.write_text(json.dumps({"benchmark": "loader", "machine": machine, "rounds": arguments.rounds,
                                              "ratios": bench.ratios, "figures": bench.figures}, indent=1))


if __name__ == "__main__":
    main()
