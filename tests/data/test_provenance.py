import subprocess

import numpy as np
import pytest
from kedro.io import DatasetError

from conle.data.provenance import EnvironmentDataset, git_commit


def test_commit_and_versions(tmp_path):
    environment = EnvironmentDataset(project_path=str(tmp_path)).load()
    assert environment["git commit"] == "not in git"
    assert environment["numpy"] == np.__version__


def test_commit_says_whether_files_differ_from_it(tmp_path):
    def git(*arguments):
        author = ["-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run(
            ["git", *author, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "--quiet")
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "--quiet", "-m", "one")
    commit = git("rev-parse", "HEAD")
    assert git_commit(str(tmp_path)) == commit
    (tmp_path / "file").write_text("2")
    assert git_commit(str(tmp_path)) == f"{commit}-dirty"


def test_it_cannot_be_saved(tmp_path):
    dataset = EnvironmentDataset(project_path=str(tmp_path))
    assert dataset.exists()
    with pytest.raises(DatasetError):
        dataset.save({})
