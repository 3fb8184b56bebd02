"""What the documents say stands in the code."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from kai_jax.cli.main import main

ROOT = Path(__file__).parent.parent
TENSORS = ROOT / "kai_jax" / "tensors"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SHAPE = re.compile(r"#\s*([a-z]+\d*\[[^\]]*\])")


def _fields(module: str) -> Iterator[tuple[str, str]]:
    """Array fields and their shapes as the comments beside them say."""
    source = (TENSORS / f"{module}.py").read_text()
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation) == "Array":
            assert isinstance(node.target, ast.Name)
            shape = SHAPE.search(lines[node.lineno - 1])
            assert shape, f"{module}.{node.target.id} has no shape"
            yield node.target.id, shape[1]


@pytest.mark.parametrize("module", ["snapshot", "state"])
def test_the_tensor_reference_has_every_field_with_its_shape(module: str) -> None:
    reference = (ROOT / "docs" / "tensors.md").read_text()
    missing = [name for name, shape in _fields(module) if f"| `{name}` | `{shape}` |" not in reference]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    missing = [target for target in targets if not (document.parent / target).exists()]
    assert not missing


@pytest.mark.parametrize("arguments", ["", "--explain training/sweep"])
def test_the_readme_shows_what_the_command_prints(arguments: str) -> None:
    result = CliRunner().invoke(main, ["schedule", *arguments.split()])
    assert result.exit_code == 0, result.output
    first, *lines = (line.rstrip() for line in result.stdout.splitlines() if line.strip())
    shown = (ROOT / "README.md").read_text().splitlines()
    assert first.partition(";")[0] in "".join(shown)  # the times differ
    assert [line for line in lines if f"    {line}" not in shown] == []
