"""Every file and tree of the image zoo has its expected outcome and pixels.

    python zoo_test.py PROGRAM      # pixels_program, built from tests/interop/pixels_program.cpp

Makes the zoo in a temporary folder. TEMPER_IMAGE_ZOO names another folder of the same layout, whose manifest.json then says
what to expect of its files.
"""
import functools
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from support.pixel_jobs import Program

# How our messages name the kinds of refusal of the manifest.
KINDS = {"empty": "empty file", "not_an_image": "not an image", "too_large": "too large"}


def plain(quoted):
    return urllib.parse.unquote_to_bytes(quoted).decode("utf-8", "surrogateescape")


def digest(pixels):
    return hashlib.sha256(pixels.tobytes()).hexdigest()


def refusals(entry):
    """Words of which one must be in a refusal; none if a refusal is not accepted."""
    kinds = [entry["error"]] if entry.get("error") and entry["must"] in ("error", "load_or_error") else []
    if entry["must"] == "load_or_unsupported":
        kinds.append("unsupported")
    return [KINDS.get(kind, kind) for kind in kinds]


def check_pixels(entry, golden, answer):
    """`golden`: the digest that the pixels must have; None when the file has to be refused."""
    if answer.pixels is None:
        words = refusals(entry)
        return None if any(word in answer.refusal for word in words) else f"refused: {answer.refusal}; expected {words or 'pixels'}"
    if entry["must"] == "error":
        return f"loaded, expected a refusal as {entry['error']}"
    return None if digest(answer.pixels) == golden else "other pixels than the golden ones"


def add_file(program, zoo, entry):
    path = zoo / plain(entry["path"])
    goldens = entry.get("golden_sha256", {})
    add = lambda job, kind: program.add(job, functools.partial(check_pixels, entry, goldens.get(kind)))  # noqa: E731
    add(["decode", 3, path], "decode")
    add(["apply", 3, path, 0, "resize:256", "center_crop:224"], "eval")
    for i, box in enumerate(entry.get("crops", [])):
        add(["crop", 3, path, *box, 224], f"crop{i}")
    if entry["must"] == "error":
        # A crop that needs a part of the file alone must not miss the damage.
        for sample in range(4):
            add(["apply", 3, path, sample, "random_resized_crop:224"], "none")


def is_hidden(path):
    return any(part.startswith(".") for part in path.split("/"))


def expected_listing(reference):
    """Classes and samples that we list: torchvision's without names that start with a dot, in the order of bytes."""
    by_bytes = lambda text: os.fsencode(text)  # noqa: E731
    classes = sorted((plain(name) for name in reference["classes"] if not is_hidden(plain(name))), key=by_bytes)
    samples = [plain(path) for path, _ in reference["samples"] if not is_hidden(plain(path))]
    order = lambda path: (by_bytes(path.split("/")[0]), by_bytes(path.rpartition("/")[0]), by_bytes(path))  # noqa: E731
    return classes, [(classes.index(path.split("/")[0]), path) for path in sorted(samples, key=order)]


def parse_tree(text):
    fields = text.decode("utf-8", "surrogateescape").split("\0")
    classes, samples = [], []
    at = 0
    while at < len(fields) - 1:
        if fields[at] == "class":
            classes.append(fields[at + 1])
            at += 2
        else:
            samples.append((int(fields[at + 1]), fields[at + 2], fields[at + 3]))
            at += 4
    return classes, samples


def check_tree(zoo, entry, answer):
    root = zoo / plain(entry["path"])
    reference = entry["reference"]
    if reference["outcome"] == "error":
        return None if answer.refusal and str(root) in answer.refusal else f"expected a refusal that names the folder, got {answer.refusal}"
    if "each_once" in entry and answer.refusal:
        return None if "leads back" in answer.refusal else f"refused: {answer.refusal}"
    if answer.text is None:
        return f"refused: {answer.refusal}"
    classes, samples = parse_tree(answer.text)
    if "each_once" in entry:
        expected_classes = reference["classes"]
        expected = [(label, plain(path)) for path, label in entry["each_once"]]
    else:
        expected_classes, expected = expected_listing(reference)
    if classes != expected_classes or [sample[:2] for sample in samples] != expected:
        return f"lists {classes} {samples}, expected {expected_classes} {expected}"
    return "; ".join(filter(None, (check_outcome(root, path, outcome) for _, path, outcome in samples))) or None


def check_outcome(root, path, outcome):
    """A file that can be read loads; what cannot be read, or is no file, is named."""
    file = root / path
    if file.is_file() and os.access(file, os.R_OK):
        return None if outcome == "ok" else f"{path!r}: {outcome}"
    return None if outcome != "ok" and str(file) in outcome else f"{path!r}: {outcome}, expected an error that names it"


def check_whole(zoo, entries, answer):
    """The folder of all files as a data set: each file as expected, errors name their file."""
    if answer.text is None:
        return f"refused: {answer.refusal}"
    known = {plain(entry["path"]).partition("/")[2]: entry for entry in entries}
    problems = []
    for _, path, outcome in parse_tree(answer.text)[1]:
        entry = known[path]
        words = refusals(entry)
        good = entry["must"] != "error" if outcome == "ok" else str(zoo / "files" / path) in outcome and any(w in outcome for w in words)
        if not good:
            problems.append(f"{path}: {outcome}")
    return "; ".join(problems) or None


def check_zoo(program, zoo):
    manifest = json.loads((zoo / "manifest.json").read_text())
    for entry in manifest["files"]:
        add_file(program, zoo, entry)
    for entry in manifest.get("trees", []):
        program.add(["tree", 3, zoo / plain(entry["path"])], functools.partial(check_tree, zoo, entry))
    if (zoo / "files").is_dir() and all(entry["path"].startswith("files/") for entry in manifest["files"]):
        program.add(["tree", 3, zoo / "files"], functools.partial(check_whole, zoo, manifest["files"]))
    program.run()


def main():
    program = Program(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        made = subprocess.run([sys.executable, HERE / "make_image_zoo.py", folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode:
            print(made.stdout)
            sys.exit("the zoo differs from its kept manifest")
        check_zoo(program, Path(folder))
    other = os.environ.get("TEMPER_IMAGE_ZOO")
    if other:
        check_zoo(program, Path(other))
    sys.exit(program.report())


if __name__ == "__main__":
    main()
