from conle.reporting.latex import latex_table
from conle.reporting.tables import Cell, Grid


def test_a_table_ready_to_paste():
    grid = Grid(
        ["dataset", "KL ↓"],
        [[Cell("Yeast_dtt"), Cell("0.1 ± 0.2", best=True)]],
        [[Cell("average rank"), Cell("1.00")]],
    )
    source = latex_table([("KL_x", grid)], "Recovery 100 %", "recovery")
    for line in (
        r"\begin{table}",
        r"\centering",
        r"\caption{Recovery 100 \%: KL\_x}",
        r"\label{recovery}",
        r"\toprule",
        r"dataset & KL $\downarrow$ \\",
        r"Yeast\_dtt & \textbf{0.1 $\pm$ 0.2} \\",
        r"average rank & 1.00 \\",
        r"\bottomrule",
    ):
        assert line in source


def test_several_tables_have_labels_of_their_own():
    grid = Grid(["a"], [[Cell("1")]])
    source = latex_table([("x", grid), ("y", grid)], "Both", "both")
    assert r"\label{both:1}" in source
    assert r"\label{both:2}" in source


def test_symbols_are_commands():
    source = latex_table([("", Grid(["f"], [[Cell("√ Σ (d − p)² · –")]]))], "", "f")
    assert source.isascii()
