"""Random searches agree with scikit-learn: sixty small ones of the fuzzer's cases."""

from itertools import count, islice

import pytest

from benchmarks._fuzz.cases import draw
from benchmarks._fuzz.worker import Worker

pytest.importorskip("pandas")
pytest.importorskip("polars")

SMALL = 80  # rows
NUMBERS = list(islice((n for n in count(100_000) if draw(n).n_rows <= SMALL), 60))


@pytest.fixture(scope="module")
def worker():
    """Judge in another process, which is ended where a search hangs."""
    made = Worker()
    yield made
    made.end()


@pytest.mark.parametrize("number", NUMBERS)
def test_a_random_search(worker, number):
    assert worker.judge(number).findings == []
