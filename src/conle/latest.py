"""Links to what the last run has written, and the command that opens its page."""

import os
import webbrowser
from pathlib import Path

import click
from kedro.io import CatalogProtocol

from conle import kedro_internals

# Relative to the project.
FOLDER = Path("data", "latest")
MODELS = Path("data", "06_models", "enhance", "model")
LINKED = (
    "report",
    "results",
    "summary",
    "enhance.checks",
    "enhance.distributions_csv",
    "enhance.model",
)
PAGES = ("report.html", "checks.html")


def link_latest(outputs: set[str], catalog: CatalogProtocol, project: Path) -> None:
    """Let the links in `data/latest` lead to what a run has written.

    An entry that does not lie on a local disk has no link.

    Args:
        outputs: names of the catalog entries that the run has made.
        catalog: holds the entries.
        project: folder of the project.
    """
    from conle.data.atomic import partial_name

    for name in outputs.intersection(LINKED):
        entry = catalog.get(name)
        if not entry.exists():
            # A transductive method leaves no model.
            continue
        protocol, _ = kedro_internals.file_system(entry)
        if protocol != "file":
            continue
        path = project / Path(kedro_internals.load_path(entry))
        link = project / FOLDER / path.name
        link.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(partial_name(link))
        partial.symlink_to(os.path.relpath(path, link.parent))
        partial.replace(link)


def newest_model(project: Path) -> Path:
    """The newest fitted model of `--pipeline=enhance`.

    Raises:
        ClickException: no run has left one.
    """
    models = sorted((project / MODELS).glob("*/model"))
    if not models:
        raise click.ClickException(
            f"model=latest: there is no fitted model in {MODELS.as_posix()}; kedro run "
            "--pipeline=enhance without model= fits one, unless the method is FCM, KM, LP, GLLE or "
            "LESC, which leave none: then name another, such as method=conle"
        )
    return models[-1]


def newest_page(project: Path) -> Path:
    """The newest report or page of checks.

    Raises:
        ClickException: no run has written one.
    """
    pages = [page for name in PAGES if (page := project / FOLDER / name).exists()]
    if not pages:
        raise click.ClickException(
            "no run has written a page yet: kedro run --pipeline=report makes the report, and "
            "--pipeline=enhance a page of checks"
        )
    return max(pages, key=lambda page: page.stat().st_mtime).resolve()


def open_page(project: Path) -> None:
    """Open the newest page in the browser, and print its place.

    Raises:
        ClickException: no run has written one.
    """
    page = newest_page(project)
    click.echo(page)
    webbrowser.open(page.as_uri())
