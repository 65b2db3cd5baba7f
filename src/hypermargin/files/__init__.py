"""Files that people have: tables, LIBSVM text, arrays and models, read and written."""

from .mistake import Mistake
from .reading import read
from .svmlight import read_svmlight
from .table import Matrix, Table

__all__ = ["Matrix", "Mistake", "Table", "read", "read_svmlight"]
