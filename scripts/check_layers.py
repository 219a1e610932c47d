#!/usr/bin/env python3
"""Checks the module graph and the include rules of docs/architecture.md.

Reads every #include in include/, src/ and apps/, and the module names in src/<module>/CMakeLists.txt. Prints one line
a violation and exits with 1. --self-test shows that each rule catches its violation.
"""

import argparse
import pathlib
import re
import sys
import tempfile

# Module -> modules it may use. Lowest first: a module may name earlier ones only, so that there is no cycle.
ALLOWED = {
    "core": [],
    "dist": ["core"],
    "data": ["core"],
    "models": ["core"],
    "attacks": ["core", "models"],
    "methods": ["core", "models", "attacks"],
    "optim": ["core"],
    "metrics": ["core"],
    "checkpoint": ["core"],
    "eval": ["core", "dist", "data", "models", "attacks", "metrics", "checkpoint"],
    "train": ["core", "dist", "data", "models", "attacks", "methods", "optim", "metrics", "checkpoint", "eval"],
    "launch": ["core", "dist"],
    "report": ["core", "metrics"],
}
ALLOWED["recipe"] = list(ALLOWED)
ALLOWED["apps"] = list(ALLOWED)

# Edges that are open for some headers only.
ALLOWED_HEADERS = {("launch", "dist"): {"temper/dist/collective_progress.h", "temper/dist/store.h"}}

TORCH_FREE = {"core", "data", "metrics", "launch", "report"}
# The tensors of core are a library of their own (temper::core_tensor).
TORCH_FREE_EXCEPTIONS = {"include/temper/core/random_tensor.h", "include/temper/core/state_dict.h",
                         "src/core/random_tensor.cpp"}

TORCH = re.compile(r"(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"]', re.MULTILINE)
COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^()\\ ]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'', re.DOTALL)
EXIT_CALL = re.compile(r"(?<![\w.>])(?:std::|::)?(exit|_exit|_Exit|quick_exit)\s*\(")


class File:
    """One source file: its path inside the tree, its module and what it includes."""

    def __init__(self, root, path):
        self.name = path.relative_to(root).as_posix()
        parts = self.name.split("/")
        self.is_public = parts[0] == "include"
        self.is_header = path.suffix == ".h"
        self.module = "apps" if parts[0] == "apps" else parts[2] if self.is_public else parts[1]
        text = path.read_text(encoding="utf-8")
        self.includes = [(match[1], text.count("\n", 0, match.start()) + 1) for match in INCLUDE.finditer(text)]
        # Same length and lines, so that positions still fit.
        self.code = COMMENT_OR_LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def read_tree(root):
    files = []
    for folder in ("include/temper", "src", "apps"):
        for path in sorted((root / folder).rglob("*")):
            deep_enough = folder == "apps" or len(path.relative_to(root / folder).parts) > 1
            if path.suffix in (".h", ".cpp") and deep_enough:
                files.append(File(root, path))
    return files


def public_headers_with_torch(files):
    """Public headers that reach a LibTorch header through any chain of public headers."""
    public = {file.name.removeprefix("include/"): file for file in files if file.is_public}
    with_torch = set()
    grown = True
    while grown:
        grown = False
        for name, file in public.items():
            if name not in with_torch and any(
                    TORCH.match(target) or target in with_torch for target, _ in file.includes):
                with_torch.add(name)
                grown = True
    return with_torch


def check_edges(file, with_torch):
    if file.module not in ALLOWED:
        yield f"{file.name}:1: module '{file.module}' is not in the table of scripts/check_layers.py"
        return
    torch_free = file.module in TORCH_FREE and file.name not in TORCH_FREE_EXCEPTIONS
    for target, line in file.includes:
        where = f"{file.name}:{line}"
        parts = target.split("/")
        if parts[0] == "temper" and len(parts) > 2:
            other = parts[1]
            if other != file.module and other not in ALLOWED[file.module]:
                yield f"{where}: {file.module} may not use {other} ({target})"
            elif target not in ALLOWED_HEADERS.get((file.module, other), {target}):
                yield f"{where}: {file.module} may not use this header of {other} ({target})"
            if torch_free and target in with_torch:
                yield f"{where}: {file.module} stays free of LibTorch, which {target} includes"
        elif len(parts) > 1 and parts[0] in ALLOWED and parts[0] != file.module:
            yield f"{where}: {target} is private to {parts[0]}"
        if torch_free and TORCH.match(target):
            yield f"{where}: {file.module} stays free of LibTorch ({target})"


def check_libraries(file):
    for target, line in file.includes:
        where = f"{file.name}:{line}"
        if target.startswith("torch/csrc/distributed/") and not file.name.startswith("src/dist/"):
            yield f"{where}: only src/dist includes c10d ({target})"
        if target.startswith("yaml-cpp/") and file.module != "recipe":
            yield f"{where}: only recipe includes yaml-cpp ({target})"
        if target.startswith("spdlog/") and file.name != "src/core/log.cpp":
            yield f"{where}: only src/core/log.cpp includes spdlog ({target})"
        if target.startswith("fmt/"):
            yield f"{where}: fmt comes in two versions, use temper::concat ({target})"
        if file.is_header and target == "nlohmann/json.hpp":
            yield f"{where}: nlohmann/json.hpp belongs into .cpp files, headers take json_fwd.hpp"
        if file.is_header and target == "torch/torch.h":
            yield f"{where}: torch/torch.h costs half a minute a file, include the single headers"


def check_exit(file):
    if file.module == "apps":
        return
    for match in EXIT_CALL.finditer(file.code):
        # A launched worker must leave without running the destructors of its parent's copies.
        if match[1] == "_exit" and file.module == "launch":
            continue
        line = file.code.count("\n", 0, match.start()) + 1
        yield f"{file.name}:{line}: only apps end the process ({match[1]})"


def check_build_files(root, files):
    for module in ALLOWED:
        listing = root / "src" / module / "CMakeLists.txt"
        own = [file for file in files if file.module == module and module != "apps"]
        if not listing.exists():
            if own:
                yield f"src/{module}/CMakeLists.txt:1: missing, but the module has sources"
            continue
        text = re.sub(r"#[^\n]*", "", listing.read_text(encoding="utf-8"))
        words = set(re.split(r"[\s()/\"]+", text))
        for file in own:
            name = file.name.rsplit("/", 1)[1]
            if (file.is_public or not file.is_header) and name not in words:
                yield f"{file.name}:1: not listed in src/{module}/CMakeLists.txt"
        linked = re.findall(r"temper::(\w+)", text)
        for depends in re.findall(r"\bDEPENDS\s+([a-z_\s]+)", text):
            linked += depends.split()
        # A library of a part of a module carries the module's name in front: core_tensor, dist_store.
        for other in sorted({name.split("_")[0] for name in linked} & set(ALLOWED)):
            if other != module and other not in ALLOWED[module]:
                yield f"src/{module}/CMakeLists.txt:1: {module} may not link {other}"


def check_table():
    modules = list(ALLOWED)
    for module, others in ALLOWED.items():
        for other in others:
            if modules.index(other) >= modules.index(module):
                yield f"scripts/check_layers.py:1: {module} names {other}, which is not below it"


def check(root):
    files = read_tree(root)
    with_torch = public_headers_with_torch(files)
    violations = list(check_table())
    for file in files:
        violations += check_edges(file, with_torch)
        violations += check_libraries(file)
        violations += check_exit(file)
    violations += check_build_files(root, files)
    return files, violations


CLEAN_TREE = {
    "include/temper/core/text.h": "#pragma once\n#include <string>\n",
    "include/temper/core/random_tensor.h": '#include <ATen/core/Tensor.h>\n#include "temper/core/text.h"\n',
    "include/temper/dist/store.h": '#include "temper/core/text.h"\n',
    "include/temper/dist/group.h": "#include <string>\n",
    "include/temper/models/net.h": "#include <torch/nn/module.h>\n",
    "src/core/text.cpp": '#include "temper/core/text.h"\n// exit(1)\nconst char* t = "exit(1)";\n',
    "src/core/log.cpp": "#include <spdlog/spdlog.h>\n",
    "src/core/random_tensor.cpp": '#include "temper/core/random_tensor.h"\n',
    "src/core/CMakeLists.txt": "text.cpp log.cpp text.h random_tensor.h random_tensor.cpp",
    "src/dist/store.cpp": "#include <torch/csrc/distributed/c10d/TCPStore.hpp>\n",
    "src/dist/CMakeLists.txt": "store.cpp store.h group.h DEPENDS core",
    "src/models/CMakeLists.txt": "net.h DEPENDS core_tensor",
    "src/launch/spawn.cpp": '#include "temper/dist/store.h"\nvoid f() { _exit(1); }\n',
    "src/launch/CMakeLists.txt": "spawn.cpp DEPENDS core dist",
    "apps/trainer.cpp": '#include "temper/models/net.h"\nint main() { std::exit(2); }\n',
}

# What to add to the clean tree, and a part of the message that must follow.
VIOLATIONS = [
    ("src/core/text.cpp", '#include "temper/models/net.h"\n', "core may not use models"),
    ("src/launch/spawn.cpp", '#include "temper/dist/group.h"\n', "may not use this header of dist"),
    ("src/launch/spawn.cpp", '#include "dist/store_handle.h"\n', "is private to dist"),
    ("src/launch/spawn.cpp", "  #  include <c10/util/Optional.h>\n", "launch stays free of LibTorch"),
    ("src/launch/spawn.cpp", '#include "temper/core/random_tensor.h"\n', "random_tensor.h includes"),
    ("include/temper/dist/store.h", "#include <ATen/ATen.h>\n", "store.h includes"),
    ("include/temper/dist/group.h", "#include <torch/csrc/distributed/c10d/Store.hpp>\n", "only src/dist"),
    ("include/temper/models/net.h", "#include <torch/torch.h>\n", "half a minute"),
    ("include/temper/models/net.h", "#include <nlohmann/json.hpp>\n", "json_fwd.hpp"),
    ("src/core/text.cpp", "#include <yaml-cpp/yaml.h>\n", "only recipe"),
    ("src/core/text.cpp", "#include <spdlog/spdlog.h>\n", "log.cpp includes spdlog"),
    ("src/core/text.cpp", "#include <fmt/core.h>\n", "temper::concat"),
    ("src/core/text.cpp", "void g() { std::exit(1); }\n", "only apps end the process"),
    ("src/core/text.cpp", "void g() { ::_exit(1); }\n", "only apps end the process"),
    ("src/models/CMakeLists.txt", " DEPENDS core attacks", "models may not link attacks"),
    ("src/models/CMakeLists.txt", " temper::dist_store", "models may not link dist"),
    ("src/core/extra.cpp", "\n", "not listed in src/core/CMakeLists.txt"),
    ("src/other/thing.cpp", "\n", "not in the table"),
]


def write_tree(root, tree):
    for name, text in tree.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def self_test():
    failures = 0
    for changed, addition, expected in [(None, "", None), *VIOLATIONS]:
        tree = dict(CLEAN_TREE)
        if changed:
            tree[changed] = tree.get(changed, "") + addition
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            write_tree(root, tree)
            _, violations = check(root)
        good = not violations if expected is None else any(expected in line for line in violations)
        if not good:
            failures += 1
            print(f"self-test: {changed} with {addition!r}: expected {expected!r}, got {violations}")
    print(f"check_layers self-test: {len(VIOLATIONS) + 1} cases, {failures} failed")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description="Checks the module graph and the include rules.")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true", help="show that each rule catches its violation")
    arguments = parser.parse_args()
    if arguments.self_test:
        return self_test()
    files, violations = check(arguments.root)
    for line in violations:
        print(line)
    print(f"check_layers: {len(files)} files, {len(violations)} violations")
    return 1 if violations or not files else 0


if __name__ == "__main__":
    sys.exit(main())
