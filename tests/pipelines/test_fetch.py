import hashlib
import logging
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pandas as pd
import pytest
from kedro.io import DataCatalog, MemoryDataset
from kedro.runner import SequentialRunner
from scipy.io import whosmat

from conle.data import fetching
from conle.errors import ParameterError, RawFileError
from conle.known_datasets import KNOWN_DATASETS, PAPER_DATASETS, PUBLIC_DATASETS, REGISTRY
from conle.pipelines.fetch import create_pipeline, nodes

ENTRIES = pd.read_csv(REGISTRY)
TABLE_1 = pd.read_csv(REGISTRY.parent / "table1_datasets.csv")


@pytest.fixture
def server(tmp_path, monkeypatch):
    """Serves a folder in the place of the public repositories."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
    server.folder = folder
    server.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(nodes, "REPOSITORIES", server.url)
    monkeypatch.setattr(fetching.pooch, "os_cache", lambda name: tmp_path / "cache")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def git_blob(content):
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def made_up(dataset):
    return f"the content of {dataset}".encode()


def with_made_up_content():
    """The registry with the checksums of made-up content, of the same kinds."""
    entries = ENTRIES.copy()
    contents = [made_up(dataset) for dataset in entries["dataset"]]
    sha256 = pd.Series([hashlib.sha256(content).hexdigest() for content in contents])
    entries["sha256"] = sha256.where(entries["sha256"].notna())
    entries["git_blob"] = [git_blob(content) for content in contents]
    return entries


def serve(server, entries):
    for entry in entries.itertuples():
        path = server.folder / entry.repository / entry.commit / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made_up(entry.dataset))


def fetched(datasets, entries, fetch_from=None, present=None):
    """What the pipeline writes, by dataset."""
    pipeline = create_pipeline(datasets)
    catalog = DataCatalog(
        {
            "known_datasets": MemoryDataset(entries),
            "params:fetch_from": MemoryDataset(fetch_from),
            "params:raw_dir": MemoryDataset("raw"),
            **{name: MemoryDataset(present) for name in pipeline.inputs() if ".present" in name},
        }
    )
    outputs = SequentialRunner().run(pipeline, catalog)
    return {name.removesuffix(".fetched"): data.load() for name, data in outputs.items()}


def test_every_entry_is_fetched_from_its_source(server):
    entries = with_made_up_content()
    for source, names in entries.groupby("group"):
        serve(server, names)
        expected = PAPER_DATASETS if source == "paper" else PUBLIC_DATASETS
        assert fetched(expected, entries) == {name: made_up(name) for name in expected}


def test_the_second_source_of_natural_scene(server, caplog):
    entries = with_made_up_content()
    assert (entries["dataset"] == "Natural_Scene").sum() == 2
    second = entries[(entries["dataset"] == "Natural_Scene") & (entries["group"] == "public")]
    with pytest.raises(RawFileError, match=r"PyLDL.*Natural_Scene\.mat: 404"):
        fetched(["Natural_Scene"], entries)
    serve(server, second)
    assert fetched(["Natural_Scene"], entries) == {"Natural_Scene": made_up("Natural_Scene")}
    assert "GLLE" in caplog.text
    assert "The next source is tried" in caplog.text
    # Its content is checked by its own id.
    entries.loc[second.index, "git_blob"] = git_blob(b"another")
    with pytest.raises(RawFileError, match=r"PyLDL.*its checksum differs"):
        fetched(["Natural_Scene"], entries)


def test_a_folder_or_an_address_of_the_users_own(server, tmp_path):
    (tmp_path / "own").mkdir()
    for folder in (tmp_path / "own", server.folder):
        (folder / "Music.mat").write_bytes(made_up("Music"))
    entries = with_made_up_content()
    for source in (str(tmp_path / "own"), server.url):
        assert fetched(["Music"], entries, source) == {"Music": made_up("Music")}
    # The registry's sources are not tried then.
    serve(server, entries[entries["dataset"] == "Natural_Scene"])
    with pytest.raises(RawFileError, match=r"Natural_Scene\.mat is missing"):
        fetched(["Natural_Scene"], entries, str(tmp_path / "own"))


def test_a_file_that_is_there(server):
    entries = with_made_up_content()
    assert fetched(["Flickr"], entries, present=made_up("Flickr"))["Flickr"] == made_up("Flickr")
    with pytest.raises(RawFileError, match=r"raw/Flickr\.mat is there and is not the known file"):
        fetched(["Flickr"], entries, present=b"another")


def test_which_datasets_are_fetched():
    def names(selected):
        pipeline = create_pipeline(selected)
        return {name.removesuffix(".fetched") for name in pipeline.outputs()}

    assert names(["Artificial"]) == set(PAPER_DATASETS)
    assert names(["Artificial", "Music", "FG-Net"]) == {"Music", "FG-Net"}


def test_a_dataset_that_nobody_knows(server):
    with pytest.raises(ParameterError, match="no known dataset 'Musik'; did you mean 'Music'"):
        fetched(["SJAFFE", "Musik"], ENTRIES)


def test_terms_and_citations(caplog):
    with caplog.at_level(logging.INFO):
        note = nodes.announce_terms(ENTRIES, datasets=["Music", "Flickr", "SJAFFE", "Yeast_spo"])
    assert note in caplog.text
    assert "academic use" in note
    cited = note.splitlines()[1:]
    assert cited[0].startswith('  SJAFFE, Yeast_spo: X. Geng, "Label distribution learning"')
    assert cited[1] == "  Music: not known"
    assert cited[2].startswith("  Flickr: J. Yang, M. Sun and X. Sun")
    assert len(cited) == 3


def test_entries_of_the_registry():
    assert len(PAPER_DATASETS) == len(PUBLIC_DATASETS) == 13
    assert set(PAPER_DATASETS) == set(TABLE_1["dataset"])
    assert set(KNOWN_DATASETS) == set(ENTRIES["dataset"])
    for column, pattern in (("commit", "[0-9a-f]{40}"), ("git_blob", "[0-9a-f]{40}")):
        assert ENTRIES[column].str.fullmatch(pattern).all()
    assert ENTRIES["sha256"].dropna().str.fullmatch("[0-9a-f]{64}").all()
    folders = ENTRIES["path"].str.split("/").str[0]
    assert (ENTRIES["path"] == folders + "/" + ENTRIES["dataset"] + ".mat").all()
    assert not ENTRIES.duplicated(["group", "dataset"]).any()


@pytest.mark.parametrize("dataset", ["M2B", "Music", "Yeast_spoem", "emotion6", *TABLE_1.dataset])
def test_entries_describe_the_real_files(request, dataset):
    folder = request.getfixturevalue("real_data" if dataset in PAPER_DATASETS else "public_data")
    path = folder / f"{dataset}.mat"
    if not path.is_file():
        pytest.skip(f"needs {dataset}.mat in {folder.name}")
    entry = ENTRIES[ENTRIES["dataset"] == dataset].iloc[0].dropna()
    content = path.read_bytes()
    found = {
        "git_blob": git_blob(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
    }
    for column in entry.index.intersection(list(found)):
        assert entry[column] == found[column], column
    variables = {name for name, *_ in whosmat(path)}
    keys = entry.index.intersection(["features_key", "distributions_key"])
    assert set(entry[keys]) <= variables


def test_the_command_fetches_the_datasets_that_it_names(project, public_data):
    given = f"--params=fetch_from={public_data}"
    run = project.kedro("run", "--pipelines=fetch", "--datasets=Music,emotion6", given)
    assert run.returncode == 0, run.stderr
    raw = project.folder / "data" / "01_raw"
    assert {path.name for path in raw.iterdir()} == {"Music.mat", "emotion6.mat"}
    for path in raw.iterdir():
        assert path.read_bytes() == (public_data / path.name).read_bytes()


def test_the_page_lists_the_registry(request):
    page = (request.config.rootpath / "docs" / "benchmark-data.md").read_text(encoding="utf-8")
    lines = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    rows = {line[0]: line[1:] for line in lines if line[0] != "dataset"}
    assert list(rows) == list(KNOWN_DATASETS)
    sizes = TABLE_1.set_index("dataset").astype(str).agg(" x ".join, axis=1)
    for entry in ENTRIES.drop_duplicates("dataset").itertuples():
        if entry.dataset in sizes:
            assert rows[entry.dataset][0] == sizes[entry.dataset]
        if not pd.isna(entry.degrees):
            assert entry.degrees in rows[entry.dataset]
        if not pd.isna(entry.citation):
            assert entry.citation in " ".join(page.split())
        if not pd.isna(entry.renormalised):
            assert f"- {entry.dataset}: {entry.renormalised}." in page
