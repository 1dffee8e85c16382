"""Contrastive label enhancement (ConLE) as a Kedro project.

Every method can be imported from here by its name:

>>> from conle import SoftmaxLabels
>>> SoftmaxLabels().fit_transform([[0.3], [0.1]], [[1, 0], [0, 1]]).round(3).tolist()
[[0.731, 0.269], [0.269, 0.731]]
"""

from typing import Any


def _classes() -> dict[str, Any]:
    from conle.methods.registry import METHODS

    return {method.class_name: method for method in METHODS.values()}


def __getattr__(name: str) -> Any:
    """The class of a method, imported when it is asked for: torch takes seconds to load."""
    if not name.startswith("_") and name in (classes := _classes()):
        return classes[name].enhancer_class
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_classes()]
