"""Python's readers on the files of a run: metrics.py PROGRAM."""

import base64
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

import numpy
import PIL.Image
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

PROGRAM = sys.argv[1]


class MetricsTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        subprocess.run([PROGRAM, cls.folder.name], check=True, timeout=60)

    def read(self, name):
        with open(os.path.join(self.folder.name, name), encoding="utf-8") as file:
            return file.read()

    def test_each_line_is_a_json_object(self):
        records = [json.loads(line) for line in self.read("metrics.jsonl").splitlines()]
        train = [record for record in records if record["kind"] == "train"]
        self.assertEqual([(r["update"], r["loss"]) for r in train],
                         [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0), (6, 2.0)])
        self.assertIsNone(train[0]["robust_loss"])
        self.assertEqual([r["what"] for r in records if r["kind"] == "event"], ["started", "resumed", "finished"])
        self.assertEqual(records[-1]["note"], 'a <b> & "c" \u00e9')

    def test_epochs(self):
        rows = list(csv.DictReader(io.StringIO(self.read("epochs.csv"))))
        self.assertEqual([(row["epoch"], float(row["loss"])) for row in rows], [("1", 1.0), ("2", 2.0)])
        self.assertAlmostEqual(float(rows[1]["robust_accuracy"]), 219 / 360)
        self.assertEqual(rows[0]["robust_loss"], "")

    def test_status(self):
        status = json.loads(self.read("status.json"))
        self.assertEqual((status["state"], status["update"], status["epochs"]), ("finished", 6, 2))

    def test_tensorboard_shows_one_run(self):
        events = EventAccumulator(os.path.join(self.folder.name, "tensorboard")).Reload()
        loss = events.Scalars("train/loss")
        self.assertEqual([(point.step, point.value) for point in loss],
                         [(1, 1.0), (2, 1.0), (3, 1.0), (4, 2.0), (5, 2.0), (6, 2.0)])
        self.assertGreater(loss[0].wall_time, 1e9)
        accuracy = events.Scalars("validation/robust_accuracy")
        self.assertEqual([point.step for point in accuracy], [3, 6])
        self.assertAlmostEqual(accuracy[0].value, 219 / 360, places=6)
        self.assertNotIn("train/robust_loss", events.Tags()["scalars"])

    def test_page_is_well_formed(self):
        page = xml.etree.ElementTree.fromstring(self.read("report.html").replace("<!DOCTYPE html>", ""))
        self.assertEqual(page.find("body/h1").text, "digits & <friends>")
        self.assertEqual(page.find("body/pre").text, "method: {name: trades} # <&>\"'\n")
        self.assertEqual(len(page.findall(".//svg")), 4)
        for element in page.iter():
            for name, value in element.attrib.items():
                if name in ("src", "href"):
                    self.assertTrue(value.startswith("data:"))

    def test_images_of_the_page(self):
        page = xml.etree.ElementTree.fromstring(self.read("report.html").replace("<!DOCTYPE html>", ""))
        images = []
        for image in page.iter("img"):
            data = base64.b64decode(image.attrib["src"].split(",")[1], validate=True)
            images.append(numpy.asarray(PIL.Image.open(io.BytesIO(data))).astype(int))
        self.assertEqual([image.shape for image in images], [(2, 4)] * 3 + [(2, 4, 3)] * 3)
        for clean, adversarial, difference in (images[:3], images[3:]):
            self.assertEqual(clean.ravel().tolist(), [10 * i for i in range(clean.size)])
            numpy.testing.assert_array_equal(difference, 128 + 31 * (adversarial - clean))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
