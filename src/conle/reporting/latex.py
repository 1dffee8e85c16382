"""Tables as LaTeX for documents that use booktabs, longtable and graphicx."""

from collections.abc import Sequence

import pandas as pd

from conle.reporting.grids import Grid

SYMBOLS = {
    "±": r"$\pm$",
    "↓": r"$\downarrow$",
    "↑": r"$\uparrow$",
    "−": "$-$",
    "–": "--",
    "Σ": r"$\sum$",
    "√": r"$\surd$",
    "²": "$^2$",
    "·": r"$\cdot$",
    "λ": r"$\lambda$",
    "|": "$|$",
}
# A longer table runs over several pages; a wider one shrinks to the width of the text.
MOST_ROWS, MOST_COLUMNS = 40, 8


def latex_table(grids: Sequence[tuple[str, Grid]], caption: str, label: str) -> str:
    """A table environment with booktabs rules for each grid; a longtable where it is long.

    Args:
        grids: the tables, each with a text that is added to its caption.
        caption: the start of every caption.
        label: the label of the table; numbered where there are several.

    Returns:
        LaTeX source. Special characters are escaped, and the best entries are bold.
    """
    tables = []
    for number, (part, grid) in enumerate(grids, 1):
        rows = [*grid.rows, *grid.footer]
        text = pd.DataFrame(
            [[f"{entry.text} {entry.beside}".strip() for entry in row] for row in rows],
            columns=list(grid.headings),
        )
        style = text.style.hide(axis="index").format(escape="latex")
        style = style.format_index(escape="latex", axis=1)
        bold = [["textbf:--rwrap;" if entry.best else "" for entry in row] for row in rows]
        style = style.apply(
            lambda _, bold=bold, text=text: pd.DataFrame(
                bold, index=text.index, columns=text.columns
            ),
            axis=None,
        )
        long = len(rows) > MOST_ROWS
        table = style.to_latex(
            caption=_escaped(f"{caption}{': ' if part else ''}{part}"),
            label=label if len(grids) == 1 else f"{label}:{number}",
            hrules=True,
            environment="longtable" if long else None,
            position_float=None if long else "centering",
        )
        if not long and len(grid.headings) > MOST_COLUMNS:
            table = table.replace(
                r"\begin{tabular}", "\\resizebox{\\textwidth}{!}{%\n\\begin{tabular}"
            )
            table = table.replace(r"\end{tabular}", "\\end{tabular}}")
        tables.append(table)
    source = "\n".join(tables)
    for symbol, command in SYMBOLS.items():
        source = source.replace(symbol, command)
    return source


def _escaped(text: str) -> str:
    for character in "_%&#":
        text = text.replace(character, f"\\{character}")
    return text
