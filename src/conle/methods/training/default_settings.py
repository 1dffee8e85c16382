"""The settings of torch and NumPy under which a method works, whatever its caller has set."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch

from conle.methods.contract import default_errstate


@contextmanager
def default_settings() -> Iterator[None]:
    """Work under the default settings; those of the caller return at the end.

    Some settings belong to the whole process. They change only where the caller has changed them.
    """
    with ExitStack() as stack:

        def set_default(get: Callable, set_to: Callable, *default: Any) -> None:
            before = get()
            if before not in default:
                stack.callback(set_to, before)
                set_to(default[0])

        set_default(torch.get_default_dtype, torch.set_default_dtype, torch.float32)
        set_default(torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, 0)
        # torch has one precision of matrix products per device since version 2.9; that of a GPU
        # is the hyperparameter `tf32`.
        products = getattr(torch.backends.mkldnn, "matmul", None)
        if products is not None:
            precision = (partial(use, products, "fp32_precision") for use in (getattr, setattr))
            set_default(*precision, "ieee", "none")
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for device in ("cpu", "cuda"):
            stack.enter_context(torch.autocast(device, enabled=False))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.enable_grad())
        stack.enter_context(default_errstate())
        yield
