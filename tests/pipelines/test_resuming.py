import logging

import numpy as np
import pandas as pd
import pytest
import threadpoolctl
import torch

from conle.data.atomic import JSONDataset, ParquetDataset
from conle.data.kept import KeptDataset
from conle.errors import ParameterError
from conle.pipelines.resuming import content_key, keep_or_make
from conle.pipelines.threads import in_threads, limited_threads

TABLE = pd.DataFrame({"a": [1.0, 2.0], "b": [3, 4]})


def double(table, factors, *, name="x"):
    return table * factors["by"], {"name": name}


def key(table=TABLE, factors=None, bound=None, threads=None, function=double):
    return content_key(function, [table, factors or {"by": 2}], bound or {"name": "x"}, threads)


def test_the_same_is_the_same():
    assert key() == key(TABLE.copy(), {"by": 2}, {"name": "x"})


@pytest.mark.parametrize(
    "other",
    [
        {"table": TABLE + 1e-15 * TABLE},
        {"table": TABLE[::-1]},
        {"table": TABLE.rename(columns={"a": "c"})},
        {"table": TABLE.astype(np.float32)},
        {"table": TABLE[["b", "a"]]},
        {"factors": {"by": 3}},
        {"bound": {"name": "y"}},
        {"threads": 17},
        {"function": key},
    ],
)
def test_anything_else_is_something_else(other):
    assert key(**other) != key()


def test_other_code_is_something_else(monkeypatch):
    before = key()
    monkeypatch.setattr("conle.pipelines.resuming._digest_of_code", lambda: "other")
    assert key() != before


@pytest.fixture(params=["folder", "object store"])
def kept(request, tmp_path):
    """Versions that were written of the outputs `table` and `facts`, and what finds them."""
    place = str(tmp_path)
    if request.param == "object store":
        place = f"{request.getfixturevalue('bucket')}/{tmp_path.name}"

    def write(version, table, facts, described):
        for name, data, kind in (
            ("table.parquet", table, ParquetDataset),
            ("facts.json", facts, JSONDataset),
            ("node_key.json", described, JSONDataset),
        ):
            if data is not None:
                kind(filepath=f"{place}/cell/{name}/{version}/{name}").save(data)

    found = KeptDataset(
        filepath=f"{place}/cell/node_key.json",
        folders={"no": {"path": f"{place}/nothing"}, "yes": {"path": f"{place}/cell"}},
    ).load()
    return write, found


def made(kept, resume, **options):
    return keep_or_make(
        TABLE,
        {"by": 2},
        None,
        resume,
        kept,
        function=options.pop("function", double),
        outputs=("table", "facts"),
        instead=options.pop("instead", None),
        **options,
    )


def test_what_was_made_is_taken(kept):
    write, found = kept
    table, facts, described = made(found, resume=True)
    pd.testing.assert_frame_equal(table, 2 * TABLE)
    assert facts == {"name": "x"}
    assert described["taken_from"] is None
    write("v1", table, {"name": "kept"}, described)
    assert made(found, resume=True)[1:] == ({"name": "kept"}, described | {"taken_from": "v1"})
    assert made(found, resume=False)[1] == {"name": "x"}
    assert made(found, resume=True, name="y")[1] == {"name": "y"}
    write("v2", table, {"name": "newer"}, described)
    assert made(found, resume=True)[1] == {"name": "newer"}


def test_what_was_not_finished_is_not_taken(kept):
    write, found = kept
    table, _, described = made(found, resume=True)
    write("v1", table, None, described)
    write("v2", table, {"name": "kept"}, None)
    assert made(found, resume=True)[2]["taken_from"] is None


def diverge(*_, **__):
    raise ValueError("no number")


def test_a_failure_ends_the_run_or_is_described(kept, caplog):
    _, found = kept
    with pytest.raises(ValueError, match="no number"):
        made(found, resume=True, function=diverge)

    def instead(table, factors, *, failure, name):
        return table[:0], {"failure": failure, "name": name}

    table, facts, described = made(found, resume=True, function=diverge, instead=instead, name="x")
    assert len(table) == 0
    assert facts == {"failure": "ValueError: no number", "name": "x"}
    assert described == {"key": None, "taken_from": None, "failure": "ValueError: no number"}
    assert "Traceback" in caplog.text


def test_a_users_mistake_has_no_traceback(kept, caplog):
    def refuse(*_, **__):
        raise ParameterError("too wide")

    with caplog.at_level(logging.ERROR):
        outputs = made(kept[1], True, function=refuse, instead=lambda *_, failure: (failure, {}))
    assert outputs[0] == "too wide"
    assert "Failed; the others go on. too wide" in caplog.text
    assert "Traceback" not in caplog.text


def test_threads_are_limited_and_set_back():
    def numbers():
        return {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}

    before = torch.get_num_threads(), numbers()
    with limited_threads(1):
        assert torch.get_num_threads() == 1
        assert numbers() == {1}
    assert (torch.get_num_threads(), numbers()) == before
    with limited_threads(None):
        assert torch.get_num_threads() == before[0]
    assert in_threads(2, 1, function=lambda x, *, y: (x, y, numbers()), y=3) == (2, 3, {1})
