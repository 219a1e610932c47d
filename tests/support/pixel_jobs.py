"""Jobs for tests/interop/pixels_program.cpp, which makes pixels and lists data sets, and their answers."""
import io
import subprocess

import numpy as np


class Answer:
    """What the program made of one job: pixels, numbers beside them, or the reason of a refusal."""

    def __init__(self, line, out):
        word, _, rest = line.partition(" ")
        self.pixels, self.numbers, self.text, self.refusal = None, [], None, None
        if word == "ok":
            height, width, channels, *self.numbers = rest.split(" ")
            shape = int(height), int(width), int(channels)
            self.pixels = np.frombuffer(out.read(shape[0] * shape[1] * shape[2]), np.uint8).reshape(shape)
        elif word == "text":
            self.text = out.read(int(rest))
        else:
            self.refusal = rest


class Program:
    """Collects jobs, runs them all at once and checks the answers. A check returns what is wrong, or nothing."""

    def __init__(self, path):
        self.path = path
        self.jobs = []
        self.failures = []
        self.passed = 0

    def add(self, fields, check):
        self.jobs.append((list(map(str, fields)), check))

    def run(self):
        text = "".join("\t".join(fields) + "\n" for fields, _ in self.jobs)
        done = subprocess.run([self.path], input=text.encode("utf-8", "surrogateescape"), stdout=subprocess.PIPE)
        out = io.BytesIO(done.stdout)
        for fields, check in self.jobs:
            line = out.readline().decode("utf-8", "surrogateescape").rstrip("\n")
            if not line:
                self.failures.append(f"{fields}: no answer, the program ended with status {done.returncode}")
                break
            problem = check(Answer(line, out))
            if problem:
                self.failures.append(f"{fields}: {problem}")
            else:
                self.passed += 1
        if done.returncode or out.read(1):
            self.failures.append(f"status {done.returncode}, or more answers than jobs")
        self.jobs = []

    def report(self):
        """Prints the failures; the exit status."""
        for failure in self.failures[:50]:
            print(failure)
        print(f"{self.passed} as expected, {len(self.failures)} failed")
        return 1 if self.failures or not self.passed else 0


def difference(answer, expected):
    if answer.pixels is None:
        return f"refused: {answer.refusal}"
    expected = np.asarray(expected)
    expected = expected[..., None] if expected.ndim == 2 else expected
    if answer.pixels.shape != expected.shape:
        return f"shape {answer.pixels.shape}, expected {expected.shape}"
    gap = np.abs(answer.pixels.astype(int) - expected)
    return f"{np.count_nonzero(gap)} values differ, by up to {gap.max()}" if gap.any() else None
