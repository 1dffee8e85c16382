"""A progress bar on the terminal."""

from collections.abc import Iterator
from contextlib import contextmanager

from conle.methods.contract import ProgressCallback


@contextmanager
def progress_bar(description: str) -> Iterator[ProgressCallback]:
    """Show a progress bar on stderr, if that is a terminal.

    Args:
        description: the text before the bar.

    Yields:
        A function that takes the finished work, all work, and the text after the bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task(description, status="")
        yield lambda done, total, status: progress.update(
            task, completed=done, total=total, status=status
        )
