"""The progress bar of commands that take long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def file_progress(*, hidden: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on stderr, if it is a terminal.

    Call the yielded function with the number of files that are done, and the number of all files.
    """
    from bloomparquet.cli import render

    console = render.console(stderr=True)
    if hidden or not console.is_terminal:
        yield lambda done, total: None
        return
    from rich import progress

    bar = progress.Progress(
        progress.TextColumn("{task.completed:,} of {task.total:,} files"),
        progress.BarColumn(),
        progress.TimeRemainingColumn(),
        console=console,
        transient=True,
        redirect_stdout=False,  # it would go to stderr
    )
    with bar:
        task = bar.add_task("", total=None, visible=False)
        yield lambda done, total: bar.update(task, completed=done, total=total, visible=True)
