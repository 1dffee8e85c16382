"""A progress bar on the terminal or in a notebook."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Timer

from conle.methods.contract import ProgressCallback, progress

# Seconds of work before a bar appears.
DELAY = 2.0


@contextmanager
def progress_bar(description: str) -> Iterator[ProgressCallback]:
    """Show a progress bar of work that takes more than two seconds.

    The bar is on stderr if that is a terminal, and in a notebook if ipywidgets is installed;
    elsewhere there is none. Every `fit` and `transform` inside moves the bar:

    >>> from conle import ConLE
    >>> with progress_bar("ConLE"):
    ...     D = ConLE(steps=10).fit_transform([[0.3], [0.1]], [[1, 0], [0, 1]])

    A method without steps, such as GLLE, has a bar that shows no share.

    Args:
        description: the text before the bar.

    Yields:
        A function that takes the finished work, all work, and the text after the bar.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    console = Console(stderr=True)
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=console,
        # In a notebook rich needs ipywidgets.
        disable=not (console.is_terminal or (console.is_jupyter and find_spec("ipywidgets"))),
        transient=True,
    )
    task = bar.add_task(description, total=None, status="")

    def show(done: int, total: int, status: str) -> None:
        bar.update(task, completed=done, total=total, status=status)

    # A timer, because a method may report nothing for a long time.
    start = Timer(DELAY, bar.start)
    start.daemon = True
    start.start()
    outer = progress.set(show)
    try:
        yield show
    finally:
        progress.reset(outer)
        start.cancel()
        start.join()
        bar.stop()
