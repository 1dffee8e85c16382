"""Enhancement of a user's table: read, encode, choose a method, enhance, check."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import Cell, bind, make_cell
from conle.methods.registry import METHODS
from conle.options import AUTO, EnhanceOptions
from conle.pipelines.enhance.nodes import (
    apply_model,
    compare_methods,
    encode_features,
    fit_and_enhance,
    identity,
    split_table,
)
from conle.reporting.checks import render_checks


def create_pipeline(options: EnhanceOptions, parameters: Mapping[str, Any]) -> Pipeline:
    """Enhance the logical labels of a table that has no distributions.

    A method is fitted to the table, or the fitted model of the parameter `model` is applied to it.

    Args:
        options: what `method: auto` compares.
        parameters: all parameters of the run.
    """
    read = Node(
        split_table,
        inputs="enhance.input",
        outputs=["enhance.raw_features", "enhance.logical_labels"],
        name="enhance.split_table",
    )
    comparison = []
    if parameters["model"] is not None:
        work = [
            Node(
                apply_model,
                inputs=["enhance.fitted_model", "enhance.raw_features", "enhance.logical_labels"],
                outputs="enhance.distributions",
                name="enhance.apply_model",
            )
        ]
    else:
        work = [
            Node(
                encode_features,
                inputs="enhance.raw_features",
                outputs=["enhance.encoded_features", "enhance.encoder"],
                name="enhance.encode_features",
            )
        ]
        if parameters["method"] == AUTO:
            candidates = tuple(_candidate(parameters, **own) for own in options.candidates)
            # The comparison replaces this cell by one of the candidates.
            cell, bound = replace(candidates[0], name=AUTO), {"candidates": candidates}
            resources = {METHODS[candidate.method].resource for candidate in candidates}
            tags = sorted({*cell.tags, *resources} - {None})
            comparison = ["enhance.comparison"]
            work.append(
                Node(
                    bind(compare_methods, cell=cell, **bound),
                    inputs=[
                        "enhance.encoded_features",
                        "enhance.logical_labels",
                        "params:enhance.folds",
                        "params:enhance.rows",
                        "params:seed",
                        "params:threshold",
                        "params:enhance.degrees",
                    ],
                    outputs="enhance.comparison",
                    name="enhance.compare_methods",
                    tags=tags,
                )
            )
        else:
            cell = make_cell(parameters, "enhance", parameters["method"])
            bound, tags = {}, cell.tags
        work.append(
            Node(
                bind(fit_and_enhance, cell=cell, **bound),
                inputs=[
                    "enhance.encoded_features",
                    "enhance.encoder",
                    "enhance.logical_labels",
                    *comparison,
                ],
                outputs=["enhance.distributions", "enhance.model"],
                name="enhance.fit_and_enhance",
                tags=tags,
            )
        )
    finish = [
        Node(
            identity,
            inputs="enhance.distributions",
            outputs="enhance.distributions_csv",
            name="enhance.write_csv",
        ),
        Node(
            render_checks,
            inputs=[
                "enhance.distributions",
                "enhance.logical_labels",
                "params:threshold",
                *comparison,
            ],
            outputs=["enhance.checks", "enhance.check_table"],
            name="enhance.check",
        ),
    ]
    return Pipeline([read, *work, *finish], tags="enhance")


def _candidate(parameters: Mapping[str, Any], method: str, **own: Any) -> Cell:
    """The cell of a candidate; its name has the hyperparameters that the candidate sets."""
    # A boolean is written as --params takes it.
    given = [f"{key}={str(own[key]).lower()}" for key in own]
    return make_cell(parameters, "enhance", method, " ".join([method, *given]), own)
