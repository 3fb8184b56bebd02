"""The recorded cases: one compressed file per family, and the comparison of a decision with the recorded one.

A file holds {"case": {"snapshot": document, "expected": decisions}}. Command line: python cases.py FOLDER OUT.json.xz
packs FOLDER/CASE.snapshot.json with FOLDER/CASE.expected.json.
"""

import json
import lzma
import math
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent / "data"
SUPPORTED = "allocate"
WHOLE_CYCLE = ("initial", "queues", "actions", "final", "bind_requests", "shared_devices", "reasons")
FIRST_ACTION = ("initial", "queues", "actions")

Document = dict[str, Any]


def families() -> list[str]:
    return sorted(path.name.removesuffix(".json.xz") for path in DATA.glob("*.json.xz"))


def load(family: str) -> dict[str, Document]:
    """Case name -> {"snapshot", "expected"}, without the cases that need a feature that is refused by name."""
    with lzma.open(DATA / f"{family}.json.xz", "rt", encoding="utf-8") as file:
        cases = json.load(file)
    return {name: case for name, case in cases.items() if not _needs_more(case["snapshot"])}


def differences(expected: Document, got: Document) -> Iterator[str]:
    """One line per decision that differs, "part: key: wanted -> got".

    Where actions follow that do not exist yet, only what precedes them is compared.
    """
    recorded = [step["action"] for step in expected["actions"]]
    parts = WHOLE_CYCLE if recorded == [SUPPORTED] else FIRST_ACTION
    for part in parts:
        if part in expected:
            wanted, given = _comparable(part, expected[part]), _comparable(part, got[part])
            for key in sorted(wanted.keys() | given.keys()):
                if not _equal(wanted.get(key), given.get(key)):
                    yield f"{part}: {key}: {wanted.get(key)} -> {given.get(key)}"


def _needs_more(snapshot: Document) -> bool:
    """Device claims and inter-pod affinity."""
    specs = [pod["spec"] for pod in snapshot["rawObjects"]["pods"] or ()]
    affinities = [spec.get("affinity") or {} for spec in specs]
    return any(spec.get("resourceClaims") for spec in specs) or any(
        affinity.get("podAffinity") or affinity.get("podAntiAffinity") for affinity in affinities
    )


def _comparable(part: str, value: Any) -> Document:
    """A part as a mapping of independent decisions."""
    if part == "actions":
        return {f"{step['action']} {pod}": change for step in value[:1] for pod, change in step["changed"].items()}
    if part == "shared_devices":
        return dict(Counter(f"device shared by {sorted(group)}" for group in value))
    if part == "queues":
        return {f"{queue}.{key}": amounts for queue, vectors in value.items() for key, amounts in vectors.items()}
    return dict(value)


def _equal(wanted: Any, given: Any) -> bool:
    """Equality; numbers of queues may differ in the last bits, since the recorded sums have no fixed order."""
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        return all(map(_equal, wanted, given))
    if isinstance(wanted, int | float) and isinstance(given, int | float):
        return math.isclose(wanted, given, rel_tol=1e-9, abs_tol=1e-9)
    return bool(wanted == given)


def pack(folder: Path, out: Path) -> None:
    cases = {}
    for path in sorted(folder.glob("*.snapshot.json")):
        name = path.name.removesuffix(".snapshot.json")
        expected = json.loads((folder / f"{name}.expected.json").read_text())
        cases[name] = {"snapshot": json.loads(path.read_text()), "expected": expected}
    out.write_bytes(lzma.compress(json.dumps(cases, separators=(",", ":")).encode(), preset=9))


if __name__ == "__main__":
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
