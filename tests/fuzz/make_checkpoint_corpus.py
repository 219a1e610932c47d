"""Makes tests/fuzz/corpus/fuzz_checkpoint: good files and known tricks. Usage: make_checkpoint_corpus.py TEMPER_CHECKPOINT"""
import io
import os
import pathlib
import pickle
import struct
import sys
import zipfile
import zlib

import torch

FOLDER = pathlib.Path(__file__).parent / "corpus/fuzz_checkpoint"


class Evil:
    def __reduce__(self):
        return os.system, ("true",)


def archive(records, compression=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as file:
        for name, content in records.items():
            file.writestr(f"archive/{name}", content)
    return out.getvalue()


def saved(value):
    out = io.BytesIO()
    torch.save(value, out)
    return out.getvalue()


def with_same_record_twice(data):
    """The directory names the storage once more under another name: two names, the same bytes."""
    at = data.rindex(b"PK\x05\x06")
    size, offset = struct.unpack("<II", data[at + 12:at + 20])
    directory = data[offset:offset + size]
    entry = directory[directory.index(b"archive/data/0") - 46:][:46 + len("archive/data/0")]
    directory += entry.replace(b"data/0", b"data/1")
    end = data[at:at + 8] + struct.pack("<HHIIH", 9, 9, len(directory), offset, 0)
    count = directory.count(b"PK\x01\x02")
    end = end[:8] + struct.pack("<HH", count, count) + end[12:]
    return data[:offset] + directory + end


def with_huge_size(data):
    """The directory says that a record has almost 4 GiB."""
    at = data.rindex(b"archive/data.pkl") - 46
    return data[:at + 20] + struct.pack("<II", 0xfffffff0, 0xfffffff0) + data[at + 28:]


def main(checkpoint):
    state = {"w": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(2, dtype=torch.int64)}
    plain = pickle.dumps({"a": [1, -2.5, True, None, "text"], "t": (1, (2, 3))}, protocol=2)
    small = archive({"data.pkl": plain, "data/0": bytes(1000)})
    files = {
        "checkpoint.pt": pathlib.Path(checkpoint).read_bytes(),
        "state_dict.pt": saved(state),
        "parameter.pt": saved(torch.nn.Parameter(torch.ones(2))),
        "evil.pt": saved({"w": Evil()}),
        "evil.pkl": pickle.dumps(Evil(), protocol=2),
        "evil4.pkl": pickle.dumps(Evil(), protocol=4),
        "inst.pkl": b"(X\x04\0\0\0trueiposix\nsystem\n.",
        "obj.pkl": b"(cposix\nsystem\nX\x04\0\0\0trueo.",
        "extension.pkl": b"\x82\x01\x83\x01\0\x84\x01\0\0\0.",
        "plain.pkl": plain,
        "plain4.pkl": pickle.dumps({"a": [1 << 40, -1, b"x"], "n": {"m": 0.5}}, protocol=4),
        "itself.pkl": b"]q\0h\0a.",
        "explosion.pkl": b"Nq\0" + b"h\0h\0\x86q\0" * 40 + b".",
        "tensor.pkl": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\n"
                      b"X\x01\0\0\0" b"0X\x03\0\0\0cpuK\x10tQK\0K\x02K\x02\x86K\x02K\x01\x86\x89"
                      b"ccollections\nOrderedDict\n)RtR.",
        "bomb.pt": archive({"data.pkl": plain, "data/0": bytes(1 << 22)}, zipfile.ZIP_DEFLATED),
        "overlap.pt": with_same_record_twice(small),
        "huge.pt": with_huge_size(small),
        "empty.pt": archive({}),
        "manifest.json": b'{"manifest_version":1,"pickle":{"bytes":3,"crc32":7},"tensors":[{"name":"w","dtype":"float32",'
                         b'"shape":[2,3],"record":"data/0","bytes":24,"crc32":%d}]' % zlib.crc32(b"w"),
    }
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (FOLDER / name).write_bytes(content)


if __name__ == "__main__":
    main(sys.argv[1])
