from contextlib import suppress

import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from conle.core.threads import blas_threads_for, one_thread


def test_one_thread_of_every_library(two_threads):
    before = threadpool_info()
    with suppress(KeyboardInterrupt), one_thread():
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
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
