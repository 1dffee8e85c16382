"""Read, encode, enhance with a method or a fitted model, check."""

from kedro.pipeline import Node, Pipeline

from conle.methods.registry import METHODS
from conle.pipelines import around, resource_tags
from conle.pipelines.enhance.nodes import (
    apply_model,
    encode_features,
    fit_and_enhance,
    hand_on,
    take_apart,
)
from conle.pipelines.threads import in_threads
from conle.reporting.checks import render_checks


def create_pipeline(method: str, apply: bool) -> Pipeline:
    """Enhance the logical labels of a table that has no distributions.

    Args:
        method: name of the method that is fitted to it.
        apply: instead, apply a fitted model to it.
    """
    read = Node(
        take_apart,
        inputs="enhance.input",
        outputs=["enhance.raw_features", "enhance.logical_labels"],
        name="enhance.take_apart",
    )
    if apply:
        work = [
            Node(
                apply_model,
                inputs=["enhance.fitted_model", "enhance.raw_features", "enhance.logical_labels"],
                outputs="enhance.distributions",
                name="enhance.apply_model",
            )
        ]
    else:
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
                around(in_threads, fit_and_enhance, method=method),
                inputs=[
                    "enhance.encoded_features",
                    "enhance.encoder",
                    "enhance.logical_labels",
                    f"params:{METHODS[method].parameters}",
                    "params:threshold",
                    "params:device",
                    "params:seed",
                    "params:threads",
                ],
                outputs=made if len(made) > 1 else made[0],
                name="enhance.fit_and_enhance",
                tags=["method", *resource_tags(method)],
            ),
        ]
    finish = [
        Node(
            hand_on,
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
