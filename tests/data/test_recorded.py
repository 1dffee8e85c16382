from kedro.io.core import Version

from conle.data.atomic import JSONDataset
from conle.data.recorded import RecordedDataset


def test_an_entry_that_no_run_has_made_is_none(tmp_path):
    recorded = RecordedDataset()
    recorded.entries = {
        name: JSONDataset(filepath=f"{tmp_path}/{name}", version=Version("v", "v"))
        for name in ("made", "missing")
    }
    recorded.entries["made"].save({"a": 1})
    loaders = recorded.load()
    assert loaders["made"]() == {"a": 1}
    assert loaders["missing"]() is None
