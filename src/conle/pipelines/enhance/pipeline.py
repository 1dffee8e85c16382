"""Enhancement of a user's table: read, encode, enhance, check."""

from collections.abc import Mapping
from typing import Any

from kedro.pipeline import Node, Pipeline

from conle.cells import bind, make_cell
from conle.methods.registry import METHODS
from conle.pipelines.enhance.nodes import (
    apply_model,
    encode_features,
    fit_and_enhance,
    identity,
    split_table,
)
from conle.reporting.checks import render_checks


def create_pipeline(parameters: Mapping[str, Any]) -> Pipeline:
    """Enhance the logical labels of a table that has no distributions.

    A method is fitted to the table, or the fitted model of the parameter `model` is applied to it.
    """
    method = parameters["method"]
    read = Node(
        split_table,
        inputs="enhance.input",
        outputs=["enhance.raw_features", "enhance.logical_labels"],
        name="enhance.split_table",
    )
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
        cell = make_cell(parameters, "enhance", method)
        made = ["enhance.distributions"]
        if not METHODS[method].transductive:
            made.append("enhance.model")
        work = [
            Node(
                encode_features,
                inputs="enhance.raw_features",
                outputs=["enhance.encoded_features", "enhance.encoder"],
                name="enhance.encode_features",
            ),
            Node(
                bind(fit_and_enhance, cell=cell),
                inputs=["enhance.encoded_features", "enhance.encoder", "enhance.logical_labels"],
                outputs=made if len(made) > 1 else made[0],
                name="enhance.fit_and_enhance",
                tags=cell.tags,
            ),
        ]
    finish = [
        Node(
            identity,
            inputs="enhance.distributions",
            outputs="enhance.distributions_csv",
            name="enhance.write_csv",
        ),
        Node(
            render_checks,
            inputs=["enhance.distributions", "enhance.logical_labels", "params:threshold"],
            outputs=["enhance.checks", "enhance.check_table"],
            name="enhance.check",
        ),
    ]
    return Pipeline([read, *work, *finish], tags="enhance")
