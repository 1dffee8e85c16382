import pandas as pd

from conle.core.measures import MEASURES
from conle.reporting.console import checks_table, summary_table


def texts(table, column):
    return list(table.columns[column].cells)


def test_summary_has_the_best_in_bold_and_marks_fits_to_all_rows():
    summary = pd.DataFrame(
        [
            ("Toy", method, fitted_on, measure, mean, std)
            for method, fitted_on, mean, std in (
                ("conle", "training_folds", 0.25, 0.01),
                ("lp", "all", 0.5, None),
            )
            for measure in MEASURES
        ],
        columns=["dataset", "method", "fitted_on", "measure", "mean", "std"],
    )
    table = summary_table(summary)
    assert texts(table, 1) == ["ConLE", "LP*"]
    assert table.caption == "* fitted to all rows, the scored ones included"
    headings = [column.header for column in table.columns]
    assert texts(table, headings.index("Clark ↓")) == ["[bold]0.2500 ± 0.0100[/bold]", "0.5000"]
    assert texts(table, headings.index("Cosine ↑")) == ["0.2500 ± 0.0100", "[bold]0.5000[/bold]"]
    assert summary_table(summary[summary["method"] == "conle"]).caption is None


def test_checks_show_counts_without_decimals():
    checks = pd.DataFrame({"check": ["samples", "entropy"], "value": [3.0, 0.25]})
    assert texts(checks_table(checks), 1) == ["3", "0.2500"]
