import os
import platform

from conle.process_identity import is_alive, this_process


def test_processes():
    assert is_alive(this_process())
    host, number, began = this_process().rsplit("_", 2)
    assert (host, int(number)) == (platform.node(), os.getpid())
    assert not is_alive(f"{host}_{number}_{float(began) - 100:.2f}")
    assert not is_alive(f"{host}_{2**22 + 1}_{began}")
    assert is_alive(f"elsewhere_{number}_{began}")
