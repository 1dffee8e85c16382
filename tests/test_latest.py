import os
from pathlib import Path

import click
import pandas as pd
import pytest
from click.testing import CliRunner
from kedro.io import DataCatalog
from kedro.io.core import Version

from conle import cli, latest
from conle.data.atomic import CSVDataset, TextDataset


def run(project, version, *, of="report"):
    """Write and link what a run of a version makes."""
    kinds = {
        "report": (TextDataset, "report.html", "page"),
        "enhance.checks": (TextDataset, "checks.html", "page"),
    }
    kind, name, content = kinds[of]
    entry = kind(filepath=str(project / "data" / name), version=Version(version, version))
    entry.save(content)
    catalog = DataCatalog({of: entry, "summary": CSVDataset(filepath="memory://summary.csv")})
    catalog.save("summary", pd.DataFrame({"a": [1]}))
    latest.link_latest({of, "summary", "other"}, catalog, project)
    return project / "data" / name / version / name


@pytest.fixture
def opened(monkeypatch):
    addresses = []
    monkeypatch.setattr(latest.webbrowser, "open", addresses.append)
    return addresses


def test_links_lead_to_the_last_run(tmp_path):
    for version in ("v1", "v2"):
        page = run(tmp_path, version)
        link = tmp_path / "data" / "latest" / "report.html"
        assert link.is_symlink()
        assert link.resolve() == page
    # The link holds when the project moves.
    assert not Path(os.readlink(link)).is_absolute()
    # An entry that is not on this disk has no link, and nothing half-made is left.
    assert [path.name for path in link.parent.iterdir()] == ["report.html"]


def test_the_newest_page_is_opened(tmp_path, opened, monkeypatch):
    run(tmp_path, "v1")
    checks = run(tmp_path, "v2", of="enhance.checks")
    os.utime(tmp_path / "data" / "report.html" / "v1" / "report.html", (0, 0))
    monkeypatch.setattr(cli, "project_folder", lambda: tmp_path)
    result = CliRunner().invoke(cli.cli, ["open"])
    assert result.exit_code == 0
    assert result.output == f"{checks}\n"
    assert opened == [checks.as_uri()]


def test_without_any_page_the_command_says_what_makes_one(tmp_path, opened):
    with pytest.raises(click.ClickException, match="no run has written a page yet: kedro run"):
        latest.open_page(tmp_path)
    assert opened == []


def test_the_newest_model(tmp_path):
    message = r"model=latest: there is no fitted model in data.* such as method=conle"
    with pytest.raises(click.ClickException, match=message):
        latest.newest_model(tmp_path)
    for version in ("2026-02-01T10.00.00.000Z-aaaa", "2026-01-31T10.00.00.000Z-bbbb"):
        (tmp_path / latest.MODELS / version / "model").mkdir(parents=True)
    # A folder that an interrupted run has left.
    (tmp_path / latest.MODELS / "2026-03-01T10.00.00.000Z-cccc").mkdir()
    newest = latest.newest_model(tmp_path)
    assert newest.parent.name == "2026-02-01T10.00.00.000Z-aaaa"
