"""The progress display: only on a terminal, only after a second, and gone at the end."""

import io

import pytest
from rich.console import Console

from kai_jax import cycle
from kai_jax.cli import progress
from kai_jax.cli.progress import SAY, StepProgress


def _run(console: Console, steps: tuple[str, ...]) -> StepProgress:
    with StepProgress(1, console) as shown:
        shown.begin("cluster.json")
        for step in steps:
            shown.step(step)
        if shown._timer:
            shown._timer.join()  # the moment at which a long step would start to be shown
        shown.end()
    return shown


def test_every_step_of_a_cycle_has_words() -> None:
    assert SAY.keys() == set(cycle.STEPS)


def test_a_long_step_is_named_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    screen = io.StringIO()
    _run(Console(file=screen, force_terminal=True, width=120), ("read", "compile"))
    assert "cluster.json: compiling" in screen.getvalue()


def test_the_name_of_an_input_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    file = io.StringIO()
    with StepProgress(1, Console(file=file, force_terminal=True, width=120)) as shown:
        shown.begin("[red]\x1b[2J.json")
        shown.step("core")
        assert shown._timer
        shown._timer.join()
        shown.end()
    assert "[red]\\x1b[2J.json: deciding" in file.getvalue()


def test_nothing_is_shown_before_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 3600.0)
    screen = io.StringIO()
    with StepProgress(1, Console(file=screen, force_terminal=True)) as shown:
        shown.begin("cluster.json")
        shown.step("core")
        shown.end()
    assert screen.getvalue() == ""


def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    file = io.StringIO()
    _run(Console(file=file, force_terminal=False), ("read", "compile"))
    assert file.getvalue() == ""
