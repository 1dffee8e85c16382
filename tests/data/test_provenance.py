import subprocess

import numpy as np
import pytest
from kedro.io import DatasetError

from conle.data.provenance import ProvenanceDataset, git_commit


def test_commit_and_versions(tmp_path):
    provenance = ProvenanceDataset(project_path=str(tmp_path)).load()
    assert provenance["git commit"] == "not in git"
    assert provenance["numpy"] == np.__version__


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
    dataset = ProvenanceDataset(project_path=str(tmp_path))
    assert dataset.exists()
    with pytest.raises(DatasetError):
        dataset.save({})
