import pandas as pd
import pytest
from kedro.io import DatasetError
from kedro.io.core import Version

from conle.data.optional import OptionalCSVDataset, OptionalJSONDataset, OptionalParquetDataset

TABLE = pd.DataFrame({"a": [1, 2]})


@pytest.mark.parametrize(
    "dataset_class", [OptionalCSVDataset, OptionalJSONDataset, OptionalParquetDataset]
)
@pytest.mark.parametrize("versioned", [True, False])
def test_nothing_until_it_is_saved(tmp_path, dataset_class, versioned):
    version = Version(None, None) if versioned else None
    dataset = dataset_class(filepath=str(tmp_path / "artifact"), version=version)
    assert dataset.load() is None
    assert not dataset.exists()
    if dataset_class is OptionalJSONDataset:
        dataset.save({"a": 1})
        assert dataset.load() == {"a": 1}
    else:
        options = {"index": False} if dataset_class is OptionalCSVDataset else {}
        dataset = dataset_class(
            filepath=str(tmp_path / "artifact"), version=version, save_args=options
        )
        dataset.save(TABLE)
        pd.testing.assert_frame_equal(dataset.load(), TABLE)


def test_a_damaged_artifact_is_an_error(tmp_path):
    path = tmp_path / "artifact.parquet"
    path.write_bytes(b"PAR1 no more")
    with pytest.raises(DatasetError):
        OptionalParquetDataset(filepath=str(path)).load()
