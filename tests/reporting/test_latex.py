from conle.reporting.grids import Entry, Grid
from conle.reporting.latex import latex_table


def test_a_table_ready_to_paste():
    grid = Grid(
        ["dataset", "KL ↓"],
        [[Entry("Yeast_dtt"), Entry("0.1 ± 0.2", best=True)]],
        [[Entry("average rank"), Entry("1.00")]],
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
    grid = Grid(["a"], [[Entry("1")]])
    source = latex_table([("x", grid), ("y", grid)], "Both", "both")
    assert r"\label{both:1}" in source
    assert r"\label{both:2}" in source


def test_symbols_are_commands():
    source = latex_table([("", Grid(["f"], [[Entry("√ Σ (d − p)² · –")]]))], "", "f")
    assert source.isascii()


def test_a_long_table_goes_over_pages():
    grid = Grid(["a"], [[Entry(str(number), best=number == 3)] for number in range(50)])
    source = latex_table([("", grid)], "Long", "long")
    assert r"\begin{longtable}" in source
    assert r"\caption{Long}" in source
    assert r"\textbf{3}" in source
    assert r"\begin{table}" not in source


def test_a_wide_table_shrinks_to_the_width_of_the_text():
    source = latex_table(
        [("", Grid(["|d − p|", *"abcdefghij"], [[Entry("1")] * 11]))], "Wide", "wide"
    )
    assert "\\resizebox{\\textwidth}{!}{%\n\\begin{tabular}" in source
    assert r"\end{tabular}}" in source
    assert "$|$d $-$ p$|$" in source
