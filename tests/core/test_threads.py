from contextlib import suppress

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from conle.core.threads import blas_threads_for, torch_threads


def test_torch_threads_return_when_the_work_is_interrupted(two_threads):
    before = threadpool_info()
    with suppress(KeyboardInterrupt), torch_threads(1):
        assert torch.get_num_threads() == 1
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 2
    assert threadpool_info() == before


@pytest.mark.parametrize(("rows", "threads"), [(2500, 1), (2501, 2)])
def test_the_linear_algebra_of_a_small_table_has_one_thread(rows, threads):
    def of_blas():
        return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}

    with threadpool_limits(2):
        with blas_threads_for(rows):
            assert of_blas() == {threads}
        assert of_blas() == {2}
