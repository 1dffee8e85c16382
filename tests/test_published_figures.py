"""The deterministic baselines against the paper's Table 3, whose figures are transductive."""

import pandas as pd
import pytest

from conle.core.binarisation import binarise
from conle.core.measures import MEASURES, score
from conle.methods.registry import make_enhancer
from conle.reporting.scores import PUBLISHED_REVERSED

QUICK = ("SJAFFE", "Yeast_spo5")
ALL = ("SJAFFE", "SBU_3DFE", "Yeast_alpha", "Yeast_heat", "Yeast_spo5")


@pytest.fixture(scope="module", params=[QUICK, pytest.param(ALL, marks=pytest.mark.slow)])
def table(load_real, request):
    """Published and measured values of every cell that is not suspect."""
    datasets = request.param
    folder = request.config.rootpath / "src" / "conle" / "published"
    published = pd.read_csv(folder / "table3_recovery.csv")
    rows = []
    for dataset in datasets:
        features, distributions = load_real(dataset)
        logical_labels = binarise(distributions)
        for method in ("lp", "km", "glle"):
            recovered = make_enhancer(method, seed=0).fit_transform(features, logical_labels)
            measured = score(distributions, recovered)
            cells = published[(published["dataset"] == dataset) & (published["method"] == method)]
            for cell in cells[cells["suspect"].isna()].itertuples():
                compared_with = cell.measure
                if cell.measure == "kl_divergence" and method in PUBLISHED_REVERSED:
                    compared_with = "kl_divergence_reversed"
                rows.append(
                    {
                        "dataset": dataset,
                        "method": method,
                        "measure": cell.measure,
                        "published": cell.value,
                        "off": abs(measured[compared_with] - cell.value),
                    }
                )
    return pd.DataFrame(rows).set_index("method")


def cells_of(table, method, expected):
    """The cells of a method; suspect ones are not among them."""
    cells = table.loc[method]
    quick = set(cells["dataset"]) == set(QUICK)
    assert len(cells) == expected[not quick]
    return cells


def test_lp(table):
    """All cells agree but the suspect ones."""
    cells = cells_of(table, "lp", (11, 28))
    allowed = cells["measure"].map(lambda name: 0.004 if name == "kl_divergence" else 0.003)
    assert cells[cells["off"] > allowed].empty


def test_km(table):
    cells = cells_of(table, "km", (12, 29))
    share = cells["measure"].map(lambda name: 0.05 if name == "kl_divergence" else 0.02)
    share = share.where(cells["dataset"] != "SJAFFE", 0.08)
    allowed = (share * cells["published"]).clip(lower=0.002)
    assert cells[cells["off"] > allowed].empty


def test_glle(table):
    """All cells agree but some of SJAFFE, and SBU-3DFE's divergence (the reversed one agrees)."""
    cells = cells_of(table, "glle", (12, 29))
    # GLLE stops before it converges: features that differ by 1e-13 move Canberra on Yeast-heat by
    # more than 1 %.
    allowed = (0.04 * cells["published"]).clip(lower=0.004)
    off = cells[cells["off"] > allowed]
    assert set(zip(off["dataset"], off["measure"], strict=True)) <= {
        ("SBU_3DFE", "kl_divergence"),
        *(("SJAFFE", measure) for measure in MEASURES),
    }
    assert len(off) <= 6
