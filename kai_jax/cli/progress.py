"""Names the running step on stderr, on a terminal only, and only of inputs that take longer than a second."""

import threading
from types import TracebackType

from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from kai_jax.cli.screen import markup

PATIENCE = 1.0  # seconds
SAY = {
    "read": "reading the objects",
    "parse": "building the cluster",
    "encode": "encoding",
    "compile": "compiling (once for this size; kept for later runs)",
    "core": "deciding",
    "decode": "decoding",
}


class StepProgress:
    """A context around a run of several inputs; `step` is the observer that the cycle calls."""

    def __init__(self, inputs: int, console: Console) -> None:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), MofNCompleteColumn(), TimeElapsedColumn())
        self._display = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task: TaskID = self._display.add_task("starting", total=inputs)
        self._timer: threading.Timer | None = None
        self._name = ""

    def __enter__(self) -> "StepProgress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._hide()

    def begin(self, name: str) -> None:
        """A new input: the display waits for a second before it shows."""
        self._name = markup(name)
        self._timer = threading.Timer(PATIENCE, self._display.start)
        self._timer.daemon = True
        self._timer.start()

    def step(self, step: str) -> None:
        self._display.update(self._task, description=f"{self._name}: {SAY[step]}")

    def end(self) -> None:
        """The input is done; the display leaves the terminal to what is printed about it."""
        self._display.advance(self._task)
        self._hide()

    def _hide(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer.join()
            self._timer = None
        self._display.stop()
