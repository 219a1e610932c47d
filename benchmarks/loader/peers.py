#!/usr/bin/env python3
"""Measure the image loaders a user could choose instead of ours, on one ImageFolder directory, in one run.

    python peers.py DIR                          # every peer that can be imported, all allowed cores
    python peers.py DIR --cores 1 --rounds 5     # pinned to one core
    python peers.py DIR --peers torch_pil_u8,torch_v2_u8 --workers 0,2,3
    python peers.py DIR --own "./loader_bench {dir} --threads {cores} --epochs 3"

Needs torch and torchvision (with pillow); also measures ffcv, nvidia-dali-cuda130 (CPU pipeline, no GPU used) and spdl where
they can be imported. Prints one JSON line per peer, the best worker count of each, after all rounds:

    img_per_s       median over the rounds of the steady-state rate (epochs after the first), shuffled, batches of --batch
    cpu_s_per_1000  CPU seconds (user + system, all processes of the peer) per 1,000 images; the steadier number on a busy machine
    peak_mem_mb     highest sum of PSS over all processes of the peer, sampled in an extra epoch that is not timed
    first_batch_s   from building the dataset and loader to the first batch in hand (imports not counted, see import_s)
    other_load      cores that were busy with anything else while timing; above 0.3 the img_per_s is not to be trusted

Work unit of --task train: file on disk -> RandomResizedCrop(224, scale .08..1, ratio 3/4..4/3, bilinear, antialiased) and
horizontal flip -> uint8 batch. --task eval: Resize(256) + CenterCrop(224). The *_f32 peers add conversion to float and
Normalize. ffcv reads a .beton written beforehand (not timed) that holds the same JPEG bytes (ffcv_same) or ffcv's own
quality-90 encoding (ffcv_q90) or the decoded pixels (ffcv_raw); ffcv and spdl resize by other rules than Pillow (see docs/data.md).
Runs are interleaved: round 1 of every peer, round 2 of every peer, ... Nothing here caches decoded images.

--own runs a command of yours between the peers in every round, {dir}, {cores} and {batch} filled in. It must print one JSON
line with img_per_s (cpu_s_per_1000, first_batch_s are taken from it too where given); memory is sampled from outside.
"""
import argparse
import importlib.util
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time

TORCH_PEERS = ["torch_pil_u8", "torch_v2_u8", "torch_pil_f32", "torch_v2_f32"]
OTHER_PEERS = {"ffcv_same": "ffcv", "ffcv_q90": "ffcv", "ffcv_raw": "ffcv", "dali_cpu": "nvidia.dali", "spdl": "spdl.io"}
MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
TICK = os.sysconf("SC_CLK_TCK")


# ---------------------------------------------------------------- measuring

def tree(pid):
    """pid and its descendants."""
    children, out = {}, [pid]
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat") as f:
                    fields = f.read().rsplit(")", 1)[1].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry))
    for p in out:
        out += children.get(p, [])
    return out


def tree_cpu(pid):
    """CPU seconds of pid and its descendants, those that ended included."""
    total = 0
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/stat") as f:
                fields = f.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12]) + int(fields[13]) + int(fields[14])
    return total / TICK


def machine_busy(cpus):
    """CPU seconds the given cores were busy since boot."""
    total = 0
    with open("/proc/stat") as f:
        for line in f:
            name, *rest = line.split()
            if name[:3] == "cpu" and name[3:].isdigit() and int(name[3:]) in cpus:
                v = [int(x) for x in rest]
                total += sum(v[:3]) + sum(v[5:8])
    return total / TICK


def tree_pss_mb(pid):
    total = 0
    for p in tree(pid):
        try:
            with open(f"/proc/{p}/smaps_rollup") as f:
                for line in f:
                    if line.startswith("Pss:"):
                        total += int(line.split()[1])
        except OSError:
            continue
    return total / 1024


class PeakMemory:
    def __init__(self, pid):
        self.pid, self.peak, self.stop = pid, 0.0, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.stop.wait(0.03):
            self.peak = max(self.peak, tree_pss_mb(self.pid))

    def end(self):
        self.stop.set()
        self.thread.join()
        return self.peak


# ---------------------------------------------------------------- peers: each returns (epoch, images)
# epoch() is a generator of batches, images the number it yields in one epoch

def torch_peer(spec):
    import torch
    from torch.utils.data import DataLoader
    from torchvision import datasets
    from torchvision.io import ImageReadMode, decode_image
    torch.set_num_threads(1)
    train, floating = spec["task"] == "train", spec["peer"].endswith("_f32")
    if spec["peer"].startswith("torch_pil"):
        from torchvision import transforms as T
        steps = [T.RandomResizedCrop(224), T.RandomHorizontalFlip()] if train else [T.Resize(256), T.CenterCrop(224)]
        steps += [T.ToTensor(), T.Normalize(MEAN, STD)] if floating else [T.PILToTensor()]
        dataset = datasets.ImageFolder(spec["dir"], transform=T.Compose(steps))
    else:
        from torchvision.transforms import v2
        steps = ([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()] if train
                 else [v2.Resize(256, antialias=True), v2.CenterCrop(224)])
        if floating:
            steps += [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]
        dataset = datasets.ImageFolder(spec["dir"], transform=v2.Compose(steps),
                                       loader=lambda p: decode_image(p, mode=ImageReadMode.RGB))
    workers = spec["workers"]
    loader = DataLoader(dataset, batch_size=spec["batch"], shuffle=train, num_workers=workers, drop_last=train,
                        persistent_workers=workers > 0, prefetch_factor=4 if workers else None)
    batches = len(loader)
    return (lambda: (x for x, _ in loader)), (batches * spec["batch"] if train else len(dataset))


def beton_path(spec):
    return os.path.join(spec["scratch"], spec["peer"] + ".beton")


def write_beton(spec):
    import numpy as np
    from ffcv.fields import IntField, RGBImageField
    from ffcv.writer import DatasetWriter
    from PIL import Image
    from torchvision.datasets import ImageFolder
    same = spec["peer"] == "ffcv_same"
    samples = ImageFolder(spec["dir"]).samples

    class Files:
        def __len__(self):
            return len(samples)

        def __getitem__(self, i):
            path, label = samples[i]
            with Image.open(path) as im:
                if same:
                    with open(path, "rb") as f:
                        return (f.read(), im.size), label
                return im.convert("RGB"), label

    if same:
        def encode(self, destination, item, malloc):
            data, (w, h) = item
            destination["mode"], destination["height"], destination["width"] = 0, h, w
            destination["data_ptr"], storage = malloc(len(data))
            storage[:] = np.frombuffer(data, np.uint8)
        RGBImageField.encode = encode
    mode = "raw" if spec["peer"] == "ffcv_raw" else "jpg"
    fields = {"image": RGBImageField(write_mode=mode, jpeg_quality=90), "label": IntField()}
    part = beton_path(spec) + ".part"
    DatasetWriter(part, fields, num_workers=max(2, spec["cores"])).from_indexed_dataset(Files())
    os.rename(part, beton_path(spec))


def ffcv_peer(spec):
    from ffcv.fields.decoders import CenterCropRGBImageDecoder, IntDecoder, RandomResizedCropRGBImageDecoder
    from ffcv.loader import Loader, OrderOption
    from ffcv.transforms import RandomHorizontalFlip, ToTensor
    train = spec["task"] == "train"
    image = ([RandomResizedCropRGBImageDecoder((224, 224)), RandomHorizontalFlip()] if train
             else [CenterCropRGBImageDecoder((224, 224), ratio=224 / 256)])
    loader = Loader(beton_path(spec), batch_size=spec["batch"], num_workers=spec["workers"], os_cache=True, drop_last=train,
                    order=OrderOption.RANDOM if train else OrderOption.SEQUENTIAL,
                    pipelines={"image": image + [ToTensor()], "label": [IntDecoder(), ToTensor()]})
    n = len(loader.indices)
    return (lambda: (x for x, _ in loader)), (n // spec["batch"] * spec["batch"] if train else n)


def dali_peer(spec):
    from nvidia.dali import fn, pipeline_def, types
    train = spec["task"] == "train"

    @pipeline_def
    def pipe():
        data, _ = fn.readers.file(file_root=spec["dir"], random_shuffle=train, name="files")
        if train:
            x = fn.decoders.image_random_crop(data, device="cpu", output_type=types.RGB, jpeg_fancy_upsampling=True,
                                              random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3])
            x = fn.resize(x, size=[224, 224], interp_type=types.INTERP_TRIANGULAR, antialias=True)
            return fn.flip(x, horizontal=fn.random.coin_flip())
        x = fn.decoders.image(data, device="cpu", output_type=types.RGB, jpeg_fancy_upsampling=True)
        x = fn.resize(x, resize_shorter=256, interp_type=types.INTERP_TRIANGULAR, antialias=True)
        return fn.crop(x, crop=(224, 224))

    p = pipe(batch_size=spec["batch"], num_threads=spec["workers"], device_id=None, seed=1)
    p.build()
    batches = p.epoch_size("files") // spec["batch"]

    def epoch():
        for _ in range(batches):
            out, = p.run()
            yield out.as_tensor()

    return epoch, batches * spec["batch"]


def spdl_peer(spec):
    import math
    import random
    import spdl.io
    from spdl.pipeline import PipelineBuilder
    from torchvision.datasets import ImageFolder
    train = spec["task"] == "train"
    paths = [p for p, _ in ImageFolder(spec["dir"]).samples]
    batches = len(paths) // spec["batch"]

    def crop(w, h):
        for _ in range(10):
            area = w * h * random.uniform(0.08, 1.0)
            ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
            cw, ch = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < cw <= w and 0 < ch <= h:
                return cw, ch, random.randint(0, w - cw), random.randint(0, h - ch)
        side = min(w, h)
        return side, side, (w - side) // 2, (h - side) // 2

    def load(batch):
        frames = []
        for path in batch:
            packets = spdl.io.demux_image(path)
            w, h = packets.width, packets.height
            if train:
                cw, ch, x, y = crop(w, h)
                flip = "hflip," if random.random() < 0.5 else ""
                desc = f"crop={cw}:{ch}:{x}:{y}:exact=1,scale=224:224:flags=bilinear,{flip}format=pix_fmts=rgb24"
            else:
                size = f"256:{h * 256 // w}" if w < h else f"{w * 256 // h}:256"
                desc = f"scale={size}:flags=bilinear,crop=224:224,format=pix_fmts=rgb24"
            frames.append(spdl.io.decode_packets(packets, filter_desc=desc))
        return spdl.io.to_numpy(spdl.io.convert_frames(frames))

    def epoch():
        order = random.sample(paths, len(paths)) if train else paths
        order = order[:batches * spec["batch"]]
        pipeline = (PipelineBuilder().add_source(order).aggregate(spec["batch"]).pipe(load, concurrency=spec["workers"])
                    .add_sink(4).build(num_threads=spec["workers"]))
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=600)

    return epoch, batches * spec["batch"]


def child(spec):
    os.sched_setaffinity(0, spec["cpus"])
    t = time.perf_counter()
    if spec["peer"].startswith("torch"):
        make = torch_peer
        import torch, torchvision, torchvision.transforms.v2  # noqa: E401
        version = f"torch {torch.__version__} torchvision {torchvision.__version__}"
    elif spec["peer"].startswith("ffcv"):
        make = ffcv_peer
        import ffcv.loader  # noqa: F401
        version = "ffcv " + package_version("ffcv")
    elif spec["peer"] == "dali_cpu":
        make = dali_peer
        import nvidia.dali.fn
        version = "dali " + nvidia.dali.__version__
    else:
        make = spdl_peer
        import spdl.io, spdl.pipeline, torchvision  # noqa: E401, F401
        version = "spdl " + package_version("spdl")
    imported = time.perf_counter() - t
    if spec.get("write"):
        write_beton(spec)
        os._exit(0)  # ffcv's writer may not let the interpreter end
    pid = os.getpid()
    t = time.perf_counter()
    epoch, images = make(spec)
    first, shape, dtype = None, None, None
    for batch in epoch():  # the first epoch warms file cache, workers and compilers
        if first is None:
            first = time.perf_counter() - t
            shape = list(batch.shape() if callable(batch.shape) else batch.shape)
            dtype = str(batch.dtype)
    if first is None:
        raise RuntimeError("the peer delivered no batch")
    rates, cpus = [], []
    busy, wall = machine_busy(spec["cpus"]), time.perf_counter()
    cpu_start = tree_cpu(pid)
    for _ in range(spec["epochs"]):
        c, t = tree_cpu(pid), time.perf_counter()
        for batch in epoch():
            pass
        rates.append(images / (time.perf_counter() - t))
        cpus.append((tree_cpu(pid) - c) / images * 1000)
    wall = time.perf_counter() - wall
    other = (machine_busy(spec["cpus"]) - busy - (tree_cpu(pid) - cpu_start)) / wall
    print("MEMORY", flush=True)
    for batch in epoch():
        pass
    print("RESULT " + json.dumps({
        "version": version, "img_per_s": statistics.median(rates), "cpu_s_per_1000": statistics.median(cpus),
        "first_batch_s": first, "import_s": imported, "other_load": max(0.0, other), "batch_shape": shape, "dtype": dtype}), flush=True)
    sys.stdin.read(1)  # memory is read until the parent closes the pipe
    os._exit(0)


def package_version(name):
    from importlib.metadata import version
    return version(name)


# ---------------------------------------------------------------- parent

def run_peer(spec):
    started = time.monotonic()
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "--child", json.dumps(spec)], text=True,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    clock = threading.Timer(spec["timeout"], process.kill)
    clock.start()
    errors = []
    reader = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
    reader.start()
    memory, result = None, None
    for line in process.stdout:
        if line.startswith("MEMORY"):
            memory = PeakMemory(process.pid)
        elif line.startswith("RESULT "):
            result = json.loads(line[7:])
            result["peak_mem_mb"] = memory.end()
            break
    process.stdin.close()
    process.wait()
    clock.cancel()
    reader.join(timeout=5)
    if process.returncode < 0 and time.monotonic() - started >= spec["timeout"]:
        return {"error": f"no result within {spec['timeout']:.0f} s"}
    if result is None and not spec.get("write"):
        return {"error": (errors[-1].strip() if errors else f"exit status {process.returncode}")}
    if spec.get("write") and process.returncode:
        return {"error": errors[-1].strip() if errors else f"exit status {process.returncode}"}
    return result


def run_own(command, args, cpus):
    words = [w.format(dir=args.dir, cores=len(cpus), batch=args.batch) for w in shlex.split(command)]
    busy, t = machine_busy(cpus), time.perf_counter()
    before = os.times()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, preexec_fn=lambda: os.sched_setaffinity(0, cpus))
    memory = PeakMemory(process.pid)
    out = process.communicate()[0]
    peak = memory.end()
    wall, after = time.perf_counter() - t, os.times()
    mine = sum(after[:4]) - sum(before[:4])
    if process.returncode:
        return {"error": f"exit status {process.returncode}"}
    for line in reversed(out.splitlines()):
        if line.startswith("{"):
            result = json.loads(line)
            result.setdefault("peak_mem_mb", peak)
            result["other_load"] = max(0.0, (machine_busy(cpus) - busy - mine) / wall)
            return result
    return {"error": "no JSON line printed"}


def importable(module):
    try:
        return importlib.util.find_spec(module) is not None
    except ImportError:
        return False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dir", nargs="?", help="ImageFolder directory: DIR/class/file.jpg")
    parser.add_argument("--peers", help="comma-separated, default: all that can be imported")
    parser.add_argument("--task", choices=["train", "eval"], default="train")
    parser.add_argument("--cores", type=int, help="pin to this many cores (default: all allowed)")
    parser.add_argument("--workers", default="auto", help="DataLoader worker counts to try, e.g. 0,1,2 (default: 0 and cores..cores+2)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=2, help="timed epochs per round")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--timeout", type=float, default=600, help="seconds for one run of one peer; ffcv's writer can hang")
    parser.add_argument("--scratch", help="folder for ffcv's .beton files (default: a temporary one)")
    parser.add_argument("--own", action="append", default=[], help="command of your own loader, may be repeated")
    parser.add_argument("--verbose", action="store_true", help="one line per run on standard error")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        child(json.loads(args.child))
        return
    if not args.dir:
        parser.error("give an ImageFolder directory")
    allowed = sorted(os.sched_getaffinity(0))
    cpus = allowed[:args.cores] if args.cores else allowed
    cores = len(cpus)
    peers = args.peers.split(",") if args.peers else TORCH_PEERS + [p for p, m in OTHER_PEERS.items() if importable(m)]
    unknown = [p for p in peers if p not in TORCH_PEERS and p not in OTHER_PEERS]
    if unknown:
        parser.error("unknown peers: " + ", ".join(unknown))
    if args.workers == "auto":
        counts = [0, cores, cores + 1, cores + 2]
    else:
        counts = [int(w) for w in args.workers.split(",")]
    scratch = args.scratch or tempfile.mkdtemp(prefix="loader_peers_")
    os.makedirs(scratch, exist_ok=True)
    try:
        measure(args, peers, counts, cpus, scratch)
    finally:
        if not args.scratch:
            import shutil
            shutil.rmtree(scratch, ignore_errors=True)


def measure(args, peers, counts, cpus, scratch):
    base = {"dir": args.dir, "task": args.task, "cores": len(cpus), "cpus": cpus, "batch": args.batch, "epochs": args.epochs, "scratch": scratch,
            "timeout": args.timeout}
    specs, runs, failed = [], {}, {}
    for peer in peers:
        if peer.startswith("ffcv") and not os.path.exists(beton_path({**base, "peer": peer})):
            outcome = run_peer({**base, "peer": peer, "workers": 1, "write": True})
            if outcome and "error" in outcome:
                failed[peer] = outcome["error"]
                continue
        for workers in (counts if peer.startswith("torch") else [len(cpus)]):
            specs.append({**base, "peer": peer, "workers": workers})

    def record(name, workers, result, number):
        if args.verbose:
            brief = result.get("error") or "{img_per_s:.0f} img/s, {cpu} CPU s/1000, other load {other_load:.2f}".format(
                cpu=round(result.get("cpu_s_per_1000", 0), 2), **{k: result[k] for k in ("img_per_s", "other_load")})
            print(f"round {number + 1} {name} workers={workers}: {brief}", file=sys.stderr, flush=True)
        if "error" in result:
            failed[name] = result["error"]
        else:
            runs.setdefault((name, workers), []).append(result)

    for number in range(args.rounds):
        for spec in specs:
            record(spec["peer"], spec["workers"], run_peer(spec), number)
        for k, command in enumerate(args.own):
            record(f"own{k + 1}" if len(args.own) > 1 else "own", len(cpus), run_own(command, args, cpus), number)
    names = list(dict.fromkeys(n for n, _ in runs))
    for name in names:
        def middle(results, key):
            values = [r[key] for r in results if r.get(key) is not None]
            return statistics.median(values) if values else None
        tried = {w: r for (n, w), r in runs.items() if n == name}
        best = max(tried, key=lambda w: middle(tried[w], "img_per_s"))
        results = tried[best]
        line = {"peer": name, "task": args.task, "cores": len(cpus), "workers": best, "rounds": len(results),
                "version": results[0].get("version")}
        for key, digits in (("img_per_s", 0), ("cpu_s_per_1000", 2), ("peak_mem_mb", 0), ("first_batch_s", 2), ("import_s", 2), ("other_load", 2)):
            value = middle(results, key)
            line[key] = None if value is None else round(value, digits) if digits else round(value)
        line["img_per_s_min_max"] = [round(min(r["img_per_s"] for r in results)), round(max(r["img_per_s"] for r in results))]
        if len(tried) > 1:
            line["img_per_s_by_workers"] = {str(w): round(middle(r, "img_per_s")) for w, r in sorted(tried.items())}
        line["batch"] = [results[0].get("batch_shape"), results[0].get("dtype")]
        print(json.dumps(line), flush=True)
    for name, message in failed.items():
        if name not in names:
            print(json.dumps({"peer": name, "task": args.task, "cores": len(cpus), "error": message[:300]}), flush=True)


if __name__ == "__main__":
    main()
