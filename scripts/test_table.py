#!/usr/bin/env python3
"""Prints the outcomes of ctest's --output-junit file: a line a test, then the counts of passed, failed and skipped.

    test_table.py FILE      status 1 when a test failed, or none passed
"""
import re
import sys
import xml.etree.ElementTree as xml

SKIP_REASON = re.compile(r"needs \d+ GPUs?, \d+ visible|skipped: .*")


def outcome(case):
    """passed, skipped or failed, and why it was skipped. Whatever is neither run nor skipped has failed."""
    if case.find("skipped") is not None:
        reason = SKIP_REASON.search(case.findtext("system-out") or "")
        return "skipped", reason[0] if reason else case.find("skipped").get("message", "")
    if case.find("failure") is not None or case.get("status") != "run":
        return "failed", ""
    return "passed", ""


def main(path):
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in xml.parse(path).getroot().iter("testcase"):
        result, reason = outcome(case)
        counts[result] += 1
        name = case.get("name").split("  # ")[0]  # without GoogleTest's comment
        print(f"{name:<84} {float(case.get('time') or 0):7.1f} s  "
              f"{result.upper() if result == 'failed' else result}{'  ' + reason if reason else ''}")
    print(", ".join(f"{count} {name}" for name, count in counts.items()))
    return 0 if counts["failed"] == 0 and counts["passed"] > 0 else 1


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
