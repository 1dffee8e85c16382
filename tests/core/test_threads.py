from contextlib import suppress

import torch
from threadpoolctl import threadpool_info

from conle.core.threads import one_thread


def test_one_thread_of_every_library(two_threads):
    before = threadpool_info()
    with suppress(KeyboardInterrupt), one_thread():
        assert torch.get_num_threads() == 1
        assert {pool["num_threads"] for pool in threadpool_info()} == {1}
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 2
    assert threadpool_info() == before
