"""Forks while another thread searches, and interrupts at random moments: what is left behind.

A child that is forked while a thread searches runs a search of its own; it hangs if that takes
longer than a minute.  An interrupt (SIGINT) comes at a random moment of a search, which then ends
with the best point so far, or with KeyboardInterrupt before there is one; afterwards BLAS has as
many threads as before, and the next search ends as ever.

Data are made before: a fork while NumPy itself multiplies matrices in several threads hangs in
OpenBLAS, whoever asked for the product.  Within a search every product has one thread.
"""

import faulthandler
import os
import random
import signal
import threading
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from sklearn.datasets import make_classification
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_info

from benchmarks._common import Skip, table, timed, write_results
from hypermargin import GradientSearchCV

FORKS, INTERRUPTS = 100, 551
PATIENCE = 60  # seconds after which a child hangs
MODELS = {"SVC": (SVC(), 300), "SVC, 1,500 rows": (SVC(), 1500), "LinearSVC": (LinearSVC(), 3000)}


def run(quick: bool) -> dict[str, Any]:
    if not hasattr(os, "fork"):
        raise Skip("this system has no fork")
    if max(blas_threads()) == 1:
        raise Skip("BLAS has one thread anyway (OPENBLAS_NUM_THREADS?): nothing could change")
    warnings.simplefilter("ignore")
    share = 20 if quick else 1
    faulthandler.dump_traceback_later(20 * PATIENCE, exit=True)  # a fork may hang here, too
    results: dict[str, Any] = {"forks": forks(FORKS // share)}
    faulthandler.cancel_dump_traceback_later()
    for label in MODELS:
        results[label] = interrupts(label, INTERRUPTS // len(MODELS) // share + 1)
    write_results("interrupts", results, quick)
    return results


@lru_cache
def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    return make_classification(n, 8, flip_y=0.1, random_state=0)


def search(label: str) -> GradientSearchCV:
    model, n = MODELS[label]
    return GradientSearchCV(model, cv=3, n_jobs=2, random_state=0).fit(*rows(n))


def forks(number: int) -> dict[str, int]:
    """Fork while a thread searches, so many times, and count children that do not end."""
    over, hung, failed = threading.Event(), 0, 0

    def keep_searching() -> None:
        while not over.is_set():
            search("SVC")

    search("SVC")
    thread = threading.Thread(target=keep_searching)
    thread.start()
    for number_of_fork in range(number):
        threading.Event().wait(random.Random(number_of_fork).uniform(0.0, 0.3))
        status = child(lambda: search("SVC"))
        hung += os.WIFSIGNALED(status)
        failed += os.WIFEXITED(status) and os.WEXITSTATUS(status) != 0
    over.set()
    thread.join()
    return {"times": number, "hung": hung, "failed": failed}


def child(work: Any) -> int:
    """Return how a forked process ends that does some work, or that is stopped by its alarm."""
    process = os.fork()
    if process == 0:
        code = 1
        signal.alarm(PATIENCE)
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(process, 0)[1]


def blas_threads() -> list[int]:
    """Return how many threads every BLAS library has."""
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def interrupts(label: str, number: int) -> dict[str, int]:
    """Interrupt searches at random moments; count what ends otherwise than it should."""
    usual, whole = search(label).best_params_, timed(lambda: search(label))[0]
    before, found = blas_threads(), {"times": 0, "best so far": 0, "none yet": 0}
    found |= {"ended before": 0, "other errors": 0, "threads changed": 0, "next search differs": 0}
    rng = random.Random(0)
    for turn in range(number):
        timer = threading.Timer(rng.uniform(0.0, whole), os.kill, (os.getpid(), signal.SIGINT))
        found["times"] += 1
        try:
            timer.start()
            kept = search(label).best_params_
            timer.join()
            found["ended before" if kept == usual else "best so far"] += 1
        except KeyboardInterrupt:
            found["none yet"] += 1
        except Exception:
            found["other errors"] += 1
        timer.cancel()
        timer.join()
        found["threads changed"] += blas_threads() != before
        if turn % 20 == 0:
            found["next search differs"] += not same(search(label).best_params_, usual)
    return found


def same(one: dict[str, float], other: dict[str, float]) -> bool:
    """Whether points agree; sums of several threads may differ by rounding."""
    return all(np.isclose(one[name], other[name], rtol=1e-6) for name in other)


def report(results: dict[str, Any]) -> str:
    header = "times|best so far|none yet|ended before|other errors|threads changed|next differs"
    forked = results["forks"]
    lines = [
        [f"interrupts: {label}", *found.values()]
        for label, found in results.items()
        if label != "forks"
    ]
    told = f"{forked['times']} forks: {forked['hung']} hung, {forked['failed']} failed.\n\n"
    return told + table(["search", *header.split("|")], lines)
