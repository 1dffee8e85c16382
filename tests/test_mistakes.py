"""Every kind of mistake, through the command line: one message, status 1, nothing left behind."""

import re
import struct

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from broken_runs import statuses
from matlab_7_3 import write_hdf5
from projects import Project
from scipy.io import savemat

FEATURES = np.random.default_rng(0).normal(size=(20, 3))
DISTRIBUTIONS = np.random.default_rng(1).dirichlet(np.ones(4), 20)
CONLE = ("run", "--pipelines=conle")


def with_value(matrix, value, row=7):
    changed = matrix.copy()
    changed[row, 1] = value
    return changed


def big_endian(path, **variables):
    """MATLAB's v5 format as a big-endian machine writes it."""
    content = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(">H2s", 0x0100, b"MI")
    for name, matrix in variables.items():
        parts = [
            (6, struct.pack(">II", 6, 0)),
            (5, struct.pack(">ii", *matrix.shape)),
            (1, name.encode()),
            (9, matrix.T.astype(">f8").tobytes()),
        ]
        element = b"".join(
            struct.pack(">II", kind, len(part)) + part.ljust(-(-len(part) // 8) * 8, b"\0")
            for kind, part in parts
        )
        content += struct.pack(">II", 14, len(element)) + element
    path.write_bytes(content)


def matlab(path, **variables):
    savemat(path, variables, do_compression=True)


def spoiled(path, spoil, write=matlab):
    write(path, features=FEATURES, labels=DISTRIBUTIONS)
    path.write_bytes(spoil(bytearray(path.read_bytes())))


def flipped(content):
    content[len(content) // 2] ^= 16
    return content


def raw(features=FEATURES, labels=DISTRIBUTIONS, write=matlab, **more):
    return lambda path: write(path, features=features, labels=labels, **more)


# Functions that write the file of a dataset, by its name.
GOOD_FILES = {
    "v5": raw(),
    "v7_3": raw(write=write_hdf5),
    "big-endian": raw(write=big_endian),
    "features_turned": raw(FEATURES.T),
    "both_turned": raw(FEATURES.T, DISTRIBUTIONS.T),
    "v7_3_turned": raw(labels=DISTRIBUTIONS.T, write=write_hdf5),
    "sparse": raw(scipy.sparse.csc_matrix(FEATURES), scipy.sparse.csc_matrix(DISTRIBUTIONS)),
}
DAMAGED = "is not a MATLAB file, or is damaged or cut off"
BAD_FILES = {
    "cut": (lambda path: spoiled(path, lambda content: content[:-100]), DAMAGED),
    "cut_v7_3": (lambda path: spoiled(path, lambda content: content[:900], write_hdf5), DAMAGED),
    "flipped": (lambda path: spoiled(path, flipped), DAMAGED),
    "empty": (lambda path: path.write_bytes(b""), DAMAGED),
    "text": (lambda path: path.write_text("features, labels\n1, 2\n"), DAMAGED),
    "lfs": (
        lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\nsize 9\n"),
        "is a Git LFS pointer, not the file itself: git lfs pull",
    ),
    "keys": (
        lambda path: matlab(path, x1=FEATURES, y1=DISTRIBUTIONS),
        "keys (keys.mat): no features; they are looked for under features, feature, x, data",
    ),
    "cells": (raw(np.full((20, 2), "a", dtype=object)), "but 'features' is a cell array"),
    "complex": (raw(FEATURES + 1j), "but 'features' is complex128 (20, 3)"),
    "strings": (raw(labels=np.array(["high", "low"] * 10)), "label distributions must be a matrix"),
    "three_axes": (raw(np.zeros((20, 3, 2))), "but 'features' is float64 (20, 3, 2)"),
    "nan": (raw(with_value(FEATURES, np.nan)), "features must be finite; rows (from 0) 7"),
    "inf": (raw(labels=with_value(DISTRIBUTIONS, np.inf)), "label distributions must be finite"),
    "huge": (raw(with_value(FEATURES, 1e200)), "features must lie within 1e+100 of 0; rows"),
    "negative": (raw(labels=with_value(DISTRIBUTIONS, -0.1)), "negative degrees; rows (from 0) 7"),
    "sum_0": (raw(labels=0 * DISTRIBUTIONS), "must sum to 1; rows (from 0) 0 (sum 0), 1 (sum 0)"),
    "sum_100": (raw(labels=100 * DISTRIBUTIONS), "must sum to 1; rows (from 0) 0 (sum 100)"),
    "sum_1_01": (raw(labels=1.01 * DISTRIBUTIONS), "must sum to 1; rows (from 0) 0 (sum 1.01)"),
    "one_label": (raw(labels=np.ones((20, 1))), "need at least two labels, not 1"),
    "one_sample": (raw(FEATURES[:1], DISTRIBUTIONS[:1]), "1 samples cannot be split into 10 folds"),
    "few_samples": (raw(FEATURES[:9], DISTRIBUTIONS[:9]), "9 samples cannot be split into 10"),
    "lengths": (raw(FEATURES[:19]), "19 rows of features but 20 of label distributions"),
    "labels_of_2": (raw(L=np.full((20, 4), 2.0)), "logical labels must be 0 or 1; rows"),
}
WRONG = "These parameters cannot be used:"
SELECTIONS = {
    "pipeline": (("run", "--pipelines=konle"), "no pipeline 'konle'; did you mean 'conle'?"),
    "old_option": (("run", "--pipeline=konle"), "no pipeline 'konle'; did you mean 'conle'?"),
    "environment": ((*CONLE, "--env=papers"), "configuration cannot be read"),
    "version": (
        ("run", "--pipeline=report", "--load-versions=Artificial.conlee.scores:v"),
        "this run reads no 'Artificial.conlee.scores'; did you mean 'Artificial.conle.scores'?",
    ),
    "tag": ((*CONLE, "--tags=nothing"), "no nodes after applying all provided filters"),
    "node": ((*CONLE, "--nodes=nothing"), "does not contain nodes named ['nothing']"),
    "from_node": ((*CONLE, "--from-nodes=nothing"), "does not contain nodes named ['nothing']"),
    "output": ((*CONLE, "--to-outputs=nothing"), "not contain datasets named ['nothing']"),
    "runner": ((*CONLE, "--runner=ThreadRunner"), "take --runner=ParallelRunner"),
    "namespace": ((*CONLE, "--namespaces=nothing"), "following namespaces: ['nothing']"),
    "convergence": (
        ("run", "--pipelines=convergence", "--params=conle.stepss=3"),
        "conle has no hyperparameter 'stepss'; did you mean 'steps'?",
    ),
    "repeats": (
        ("run", "--pipelines=predictive", "--params=predictive.repeats=11"),
        "  predictive.repeats (11) must not exceed repeats (10)\n",
    ),
    "nothing_to_predict": (
        ("run", "--pipelines=predictive", "--params=predictive.without=Artificial"),
        "predictive.without leaves out every dataset of this run",
    ),
    "missing_files": ((*CONLE, "--env=paper"), "data/01_raw/Natural_Scene.mat"),
    "pipelines": (
        ("run", "--pipelines=conle,baselines"),
        "conle and baselines make the same artifacts",
    ),
    "inputs": (("run", "--pipelines=evaluation"), "no run has left in the catalog yet"),
}
PARAMETERS = {
    "datasets=SJAFE": "SJAFE is no known dataset; did you mean 'SJAFFE'?",
    "datasets=../SJAFFE": "'../SJAFFE' is not the name of a dataset",
    "datasets=a/b": "'a/b' is not the name of a dataset",
    "datasets=a b": "'a b' is not the name of a dataset",
    "datasets=Artificial+": "'' is not the name of a dataset",
    "datasets=A+A": "A is named more than once",
    "datasets=": "names of datasets are expected",
    "datasets=2024": "names of datasets are expected",
    "datasets=present,raw_dir=nowhere": "/nowhere",
    "repeat=3": "there is no parameter 'repeat'; did you mean 'repeats'?",
    "repeats=0": "repeats: Input should be greater than or equal to 1",
    "repeats=many": "repeats: Input should be a valid integer (given: 'many')",
    "folds=1": "folds: Input should be greater than or equal to 2",
    "seed=1.5": "seed: Input should be a valid integer",
    "seed=-1": "seed: Input should be greater than or equal to 0",
    "seed=4294967296": "seed: Input should be less than 4294967296",
    "degree_floors.SJAFE=1": "  degree_floors names SJAFE, which is no known dataset and none of",
    "predictive.without=Movi": "  predictive.without names Movi, which is no known dataset",
    "sensitivity.parameters=lambda1+steps": "which sensitivity.steps is",
    "sensitivity.grid=1+x": "sensitivity.grid",
    "registered_model=a/b": "registered_model: String should match pattern",
    "threshold=1": "threshold: Input should be less than 1",
    "protocol=holdout": "protocol: Input should be 'cross_validation' or 'transductive'",
    "device=tpu": "device 'tpu' cannot be used on this machine",
    "conle=3": "must be a block of hyperparameters",
    "conle_adaptive.reading=raw": "conle_adaptive has no block of its own: it sets reading and "
    "stopping itself, and takes its other hyperparameters from the block conle",
    "conle.step=3": "conle has no hyperparameter 'step'; did you mean 'steps'?",
    "conle.learning_rate=0": "ConLE: learning_rate must be greater than 0, not 0",
    "conle.hidden=wide": "ConLE: hidden must be a valid integer, not 'wide'",
    "fetch_from=https://me:secret@example.org/data": "an address must not hold a password",
}
OWN_DATA = {
    "input=none.csv": "none.csv is missing",
    "input=my.csv,labels_prefix=z_": "no column begins with 'z_'",
    "input=my.csv,labels_last=9": "labels_last must be a number from 1 to 3",
    "input=my.csv,labels=l_1+l_9": "has no column 'l_9'",
    "input=my.csv,labels_last=2,labels=l_1": "given in several ways",
    "input=my.csv,labels=l_1+l_1": "labels are named twice: l_1",
    "input=my.csv,labels=3": "has no column '3'",
    "input=my.arff,labels_xml=3": "3 is missing",
    "input=twice.csv,labels_last=2": "several columns are named 'a'",
    "input=huge.csv,labels_last=2": "feature 'a' is 1e+200 in row 1; it must lie within 1e+100",
    "input=my.csv": "which columns are labels?",
    "input=my.txt,labels_last=1": "files of this kind cannot be read",
    "input=cut.parquet,labels_last=1": "cannot be read as .parquet",
    "input=my.csv,labels_last=3": "labels must be 0 or 1, but column 'b'",
    "input=my.csv,labels_last=2,method=conl": "no method 'conl'; did you mean 'conle'?",
    "input=names.csv,labels_last=2,method=lp": "feature 'a' is text with 60 different values",
    "input=my.csv,labels_last=2,model=nowhere": "nowhere is missing",
    "input=my.csv,labels_last=2,model=empty": "empty is no fitted model: it has no model.json",
    "input=my.csv,labels_last=2,conle.steps=0": "steps",
}


COMMANDS = {name: (command, message) for name, (command, message) in SELECTIONS.items()}
COMMANDS |= {given: ((*CONLE, f"--params={given}"), text) for given, text in PARAMETERS.items()}
COMMANDS |= {
    given: (("run", "--pipelines=enhance", f"--params={given}"), text)
    for given, text in OWN_DATA.items()
}
COMMANDS |= {
    name: (("run", "--pipelines=ingestion", f"--params=datasets={name}"), text)
    for name, (_, text) in BAD_FILES.items()
}
# One mistake of each kind; others are found in the same way.
QUICK = {
    *("pipeline", "environment", "tag", "runner", "missing_files", "inputs"),
    *("datasets=SJAFE", "repeat=3", "seed=1.5", "conle.step=3", "conle.learning_rate=0"),
    *("input=none.csv", "input=my.csv", "input=my.csv,labels_last=3"),
    *("input=my.csv,labels_last=2,model=nowhere", "cut", "keys", "nan", "sum_0"),
}


@pytest.fixture(scope="module")
def mistaken(tmp_path_factory, commands):
    """A project with files that are wrong, in a folder whose name has blanks and an accent."""
    project = Project(tmp_path_factory.mktemp("of a user é"), commands)
    project.lay_out()
    raw_folder = project.folder / "data" / "01_raw"
    for name, write in GOOD_FILES.items():
        write(raw_folder / f"{name}.mat")
    for name, (write, _) in BAD_FILES.items():
        write(raw_folder / f"{name}.mat")
    (project.folder / "my.csv").write_text("a,b,l_1,l_2\n" + "0.5,2.5,0,1\n1.5,0.5,1,0\n" * 9)
    (project.folder / "my.txt").write_text("a b\n")
    (project.folder / "my.arff").write_text(
        "@relation r\n@attribute a real\n@attribute b {0,1}\n@data\n1,1\n"
    )
    (project.folder / "twice.csv").write_text("a,a,l_1,l_2\n1,2,0,1\n2,3,1,0\n")
    (project.folder / "huge.csv").write_text("a,l_1,l_2\n1,0,1\n1e200,1,0\n")
    rows = "".join(f"name{number},{number % 2},1\n" for number in range(60))
    (project.folder / "names.csv").write_text("a,l_1,l_2\n" + rows)
    (project.folder / "cut.parquet").write_bytes(b"PAR1\0\0")
    (project.folder / "empty").mkdir()
    return project


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in COMMANDS],
)
def test_a_mistake_ends_in_one_message_and_leaves_nothing_behind(mistaken, name):
    command, message = COMMANDS[name]
    outcome = mistaken.kedro(*command)
    assert outcome.returncode == 1
    assert message in outcome.stderr
    assert len(re.findall("^Error: ", outcome.stderr, re.MULTILINE)) == 1
    assert "Traceback" not in outcome.stdout + outcome.stderr
    # Kedro's advice would hide the message.
    assert not re.search("No nodes ran|have not run", outcome.stderr)
    # The run is recorded; a table that can be read is kept, whatever is wrong with the model.
    data = mistaken.folder / "data"
    kept = {"01_raw", "02_intermediate", "03_primary", "08_reporting"}
    assert {path.name for path in data.iterdir()} <= kept
    assert {path.name for path in data.glob("08_reporting/*")} <= {"run.json", "outcome.json"}
    assert set(statuses(mistaken)) <= {"FAILED", "FINISHED"}


def test_files_that_can_be_read(mistaken):
    names = "+".join(GOOD_FILES)
    outcome = mistaken.kedro("run", "--pipelines=ingestion", f"--params=datasets={names}")
    assert outcome.returncode == 0, outcome.stderr
    for name in GOOD_FILES:
        features = pd.read_parquet(mistaken.newest(f"02_intermediate/{name}/features.parquet"))
        true = pd.read_parquet(
            mistaken.newest(f"02_intermediate/{name}/label_distributions.parquet")
        )
        np.testing.assert_array_equal(features, FEATURES)
        np.testing.assert_allclose(true, DISTRIBUTIONS, rtol=0, atol=1e-15)


@pytest.mark.slow
def test_a_bad_dataset_is_found_before_the_others_are_worked_on(mistaken):
    outcome = mistaken.kedro(*CONLE, "--params=datasets=v5+nan+v7_3,conle.steps=20,repeats=1")
    assert outcome.returncode == 1
    assert "nan (nan.mat): features must be finite" in outcome.stderr
    assert not (mistaken.folder / "data" / "07_model_output").exists()
