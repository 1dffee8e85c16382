"""Seconds of one fit with one thread, with two, and with the number that the method chooses.

    python benchmarks/threads.py [--methods conle levi_mlp] [--repetitions 3]

Every fit is measured on idle cores and beside two busy processes, the threads in turns. It is a
process of its own, so that no threads of another fit wait beside it. `cpu` is processor time, and
`others` the cores that other processes used in the idle fits: the figures count only if it is near
0. Prints a table of the fastest repetitions and writes benchmarks/threads.csv.
"""

import argparse
import multiprocessing
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import torch

from conle.core.artificial import make_artificial
from conle.core.binarisation import binarise
from conle.methods.registry import make_enhancer
from conle.methods.training import scheduling

# Threads of the caller, and the smallest shared step; None leaves the choice to the method.
THREADS = {"one": (1, None), "two": (2, 0), "chosen": (2, None)}
# Rows, features and labels of Movie, and of a table with as many features as text has.
MADE = {"as Movie": (2500, 1869, 5), "wide": (2500, 20_000, 5)}


def made(rows, features, labels):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(rows, features))
    w = np.exp(0.3 * X[:, :20] @ generator.normal(size=(20, labels)))
    return X, w / w.sum(axis=1, keepdims=True)


def one_fit(method, problem, threads, connection):
    X, D = made(*MADE[problem]) if problem in MADE else make_artificial()
    number, smallest = THREADS[threads]
    torch.set_num_threads(number)
    if smallest is not None:
        scheduling.SHARED_STEP = smallest
    L = binarise(D)
    make_enhancer(method, device="cpu").fit(X[:300, :3], L[:300])
    before, start, cpu = used(), time.perf_counter(), time.process_time()
    make_enhancer(method, device="cpu").fit(X, L)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    connection.send({"s": seconds, "cpu": cpu, "others": (used() - before - cpu) / seconds})


def used():
    """Processor seconds of all processes so far."""
    times = psutil.cpu_times()
    return times.user + times.nice + times.system


def measured(context, *arguments):
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=one_fit, args=(*arguments, sender))
    process.start()
    sender.close()
    found = receiver.recv()
    process.join()
    return found


def spin():
    while True:
        pass


@contextmanager
def busy_processes(context, number):
    processes = [context.Process(target=spin, daemon=True) for _ in range(number)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.terminate()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--methods", nargs="+", default=["conle"])
    parser.add_argument("--problems", nargs="+", default=["Artificial", *MADE])
    parser.add_argument("--repetitions", type=int, default=3)
    arguments = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    rows = []
    for method in arguments.methods:
        for problem in arguments.problems:
            found = {}
            for place, number in (("idle", 0), ("busy", 2)):
                with busy_processes(context, number):
                    for _ in range(arguments.repetitions):
                        for threads in THREADS:
                            own = measured(context, method, problem, threads)
                            found.setdefault((threads, place), []).append(own)
            for threads in THREADS:
                row = {"method": method, "problem": problem, "threads": threads}
                for place in ("idle", "busy"):
                    best = min(found[threads, place], key=lambda own: own["s"])
                    row |= {f"{place} {name}": value for name, value in best.items()}
                rows.append(row)
    table = pd.DataFrame(rows).drop(columns="busy others")
    print(f"{psutil.cpu_count()} cores, torch {torch.__version__}")
    print(table.round(2).to_string(index=False))
    table.to_csv(Path(__file__).with_suffix(".csv"), index=False)


if __name__ == "__main__":
    main()
