"""Files that people have are read as they are meant, or refused in one sentence."""

import bz2
import gzip
import os
import random
import struct
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import (
    dump_svmlight_file,
    load_breast_cancer,
    load_diabetes,
    load_svmlight_file,
    load_wine,
)
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, LinearSVR
from threadpoolctl import threadpool_limits

from hypermargin.files import Mistake, read, read_svmlight
from hypermargin.files.machines import machine_file
from hypermargin.files.writing import beside, check_outputs


def written(tmp_path, text, name="data.txt"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# LIBSVM text
# -----------

LINES = """\
# a comment, and then an empty line

+1 1:0.5 3:-2e-3 # 4:5
-1 2:1 3:.25 \t7:12345678901234567890
2.5
0 1:0.1 2:-0.0 3:1e-320 4:1.7976931348623157e308 5:9007199254740993 6:0.30000000000000004\r
1e3 7:4.9e-324 8:00000000000000000000000000.1"""


def assert_as_scikit_learn_has_it(path, **options):
    ours = read_svmlight(path, **options)
    X, y = load_svmlight_file(str(path), **{k: v for k, v in options.items() if v is not None})
    assert ours.X.shape == X.shape
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(ours.X, name), getattr(X, name))
    assert_array_equal(ours.y, y)
    return ours


def test_libsvm_text_is_read_as_scikit_learn_reads_it(tmp_path):
    ours = assert_as_scikit_learn_has_it(written(tmp_path, LINES))
    assert ours.zero_based is False
    assert_as_scikit_learn_has_it(written(tmp_path, "1 0:3 2:1\n2 1:5\n"))
    assert_as_scikit_learn_has_it(written(tmp_path, "1 1:3 2:1\n"), zero_based=True)
    assert_as_scikit_learn_has_it(written(tmp_path, "nan 1:inf 2:-Infinity 3:NaN\n"))


@pytest.mark.parametrize("pack, ending", [(gzip.compress, ".gz"), (bz2.compress, ".bz2")])
def test_packed_text_is_unpacked_whatever_its_name(tmp_path, pack, ending):
    packed = pack(LINES.encode())
    named = assert_as_scikit_learn_has_it(written(tmp_path, packed, "data" + ending))
    other = read(written(tmp_path, packed, "data.svm"))
    assert_array_equal(named.X.toarray(), other.X.toarray())
    with pytest.raises(Mistake, match="truncated"):
        read(written(tmp_path, packed[:-20], "data.svm"))


def test_query_ids_are_kept(tmp_path):
    ours = assert_as_scikit_learn_has_it(written(tmp_path, "1 qid:7 1:3\n2 qid:8 2:1\n"))
    assert_array_equal(ours.others["qid"], [7, 8])


def test_every_double_is_read_as_python_reads_it(tmp_path):
    draw = random.Random(0)
    words = [repr(struct.unpack("d", draw.randbytes(8))[0]) for _ in range(3000)]
    words += [f"{draw.getrandbits(64)}e{draw.randint(-40, 40)}" for _ in range(3000)]
    words += [str(2 * draw.getrandbits(53) + 1) for _ in range(1000)]  # between two doubles
    words += [f"{draw.uniform(-10, 10):.{draw.randint(0, 18)}f}" for _ in range(3000)]
    path = written(tmp_path, "".join(f"0 1:{word}\n" for word in words))
    read_back = read_svmlight(path).X.data
    assert [struct.pack("d", v) for v in read_back] == [struct.pack("d", float(w)) for w in words]


@pytest.mark.parametrize(
    "line, what",
    [
        ("spam 1:2", "the label 'spam' is not one number"),
        ("1,2 1:2", "several labels"),
        ("1 2", "'2' is not of the form number:value"),
        ("1 a:2", "'a:2'"),
        ("1 1:2 5:", "'5:'"),
        ("1 1:x", "'1:x'"),
        ("1 -1:2", "'-1:2'"),
        ("1 1.5:2", "'1.5:2'"),
        ("1 3:1 2:1", "'2:1' does not come after"),
        ("1 3:1 3:1", "'3:1' does not come after"),
        ("1 99999999999:1", "larger than"),
        ("1 1:2 qid:3", "right after the label"),
        ("1 qid:x 1:2", "'qid:x'"),
    ],
)
def test_a_malformed_line_is_named(tmp_path, line, what):
    path = written(tmp_path, f"1 1:2\n# nothing\n{line}\n-1 1:1\n")
    with pytest.raises(Mistake, match="line 3: ") as caught:
        read_svmlight(path)
    assert what in str(caught.value)
    assert "\n" not in str(caught.value)


# Tables
# ------


@pytest.mark.parametrize("separator", [",", "\t", ";", "|", " "])
@pytest.mark.parametrize("header", [True, False])
def test_separator_and_header_are_found(tmp_path, separator, header):
    rows = [["31", "f", "1.5"], ["", "m", "2"], ["40", '"a, b"', "-1e3"]]
    if separator == " ":
        rows[1][0] = "NA"
    lines = [["age", "sex", "dose"]] * header + rows
    path = written(tmp_path, "\n".join(separator.join(line) for line in lines))
    table = read(path)
    assert table.names == (["age", "sex", "dose"] if header else ["1", "2", "3"])
    assert_array_equal(table.columns[0], [31, np.nan, 40])
    assert_array_equal(table.columns[1], np.array(["f", "m", "a, b"], dtype=object))
    assert_array_equal(table.columns[2], [1.5, 2, -1000])
    assert any("names" in word for word in table.told)


def test_decimal_commas_and_marks_of_excel(tmp_path):
    path = written(tmp_path, "\ufeffx;y\r\n1,5;2\r\n-3,25;4\r\n", "excel.csv")
    table = read(path)
    assert table.names == ["x", "y"]
    assert_array_equal(table.columns[0], [1.5, -3.25])
    assert "decimal commas" in table.told


def test_a_column_that_becomes_text_late_keeps_its_first_words(tmp_path, monkeypatch):
    monkeypatch.setattr("hypermargin.files.delimited.CELLS", 10)
    rows = [f"{k:03d},{k}" for k in range(100)] + ["x1,7"]
    table = read(written(tmp_path, "code,size\n" + "\n".join(rows), "late.csv"))
    assert list(table.columns[0][:2]) == ["000", "001"]
    assert table.columns[1].dtype == float
    assert len(table.columns[1]) == 101


def test_quoted_lines_may_go_on_in_the_next_line(tmp_path):
    table = read(written(tmp_path, 'a,b\n"one\ntwo",2\n"say ""hi""",3\n', "quoted.csv"))
    assert list(table.columns[0]) == ["one\ntwo", 'say "hi"']


@pytest.mark.parametrize(
    "content, what",
    [
        ("", "empty"),
        ("\n\n", "empty"),
        (b"\x7fELF\0\0\0\1\0\0", "binary"),
        ("a,b\n1,2\n3\n4,5\n", "line 3: 1 field; the first line has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 fields; the first line has 2"),
        ("a,b,y\n1,2,u\n3,4,v\n".encode("utf-16"), "UTF-16"),
        ("a,b\n" + "1,x\n" * 20_000 + "1,\0\n", "binary"),
        (gzip.compress(b"a,b\n" + b"1,2\n" * 20_000)[:-8] + b"damaged!", "CRC"),
        ('[{"a": 1, "b": 2}]', "no proper CSV"),
        ("a,b\n1,2\n3,", "line 3: "),
        ("a,b\n", "no rows"),
        ("a,a\n1,2\n", "more than one column 'a'"),
        ('a,b\n1,"open\n2,3\n', "no proper CSV"),
        ("a,b\n1,\xe9\n".encode("latin-1"), "UTF-8"),
        (b"PK\3\4" + b"x" * 50, "npz"),
        (b"PAR1" + b"x" * 50, "Parquet"),
    ],
)
def test_a_file_that_is_no_table_is_refused_in_one_sentence(tmp_path, content, what):
    path = written(tmp_path, content, "data.csv")
    if what == "line 3: ":  # a last line that was cut off right after a comma
        assert np.isnan(read(path).columns[1][1])
        return
    with pytest.raises(Mistake, match=what) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_names_may_be_missing_and_lines_may_end_in_a_separator(tmp_path):
    table = read(written(tmp_path, ",,y,\n1,2,u,\n3,4,v,\n", "unnamed.csv"))
    assert table.names == ["column 1", "column 2", "y", "column 4"]
    assert list(table.columns[2]) == ["u", "v"]
    blank = read(written(tmp_path, "\n" * 200 + "a,b\n1,2\n", "late.csv"))
    assert blank.names == ["a", "b"]


def test_libsvm_text_is_known_by_its_lines_whatever_its_name(tmp_path):
    assert read(written(tmp_path, "1 1:0.5 3:2\n-1 2:1.5\n", "data.csv")).X.shape == (2, 3)
    times = read(written(tmp_path, "when,y\n1 at 10:30,u\n2 at 11:45,v\n", "times.csv"))
    assert list(times.columns[1]) == ["u", "v"]


def test_a_pipe_is_refused_as_files_are_read_twice(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Mistake, match="is a pipe"):
        read(tmp_path / "pipe")


def test_there_is_no_such_file(tmp_path):
    with pytest.raises(Mistake, match="There is no file"):
        read(tmp_path / "nothing.csv")
    with pytest.raises(Mistake, match="folder"):
        read(tmp_path)


def test_parquet_has_numbers_text_and_dates(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = {
        "n": [1, None, 3],
        "x": [0.5, 1.5, None],
        "word": ["a", None, "b"],
        "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
        "yes": [True, False, None],
        "day": pa.array([0, 1, None], pa.date32()),
    }
    parquet.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    by_name = dict(zip(table.names, table.columns))
    assert_array_equal(by_name["n"], [1, np.nan, 3])
    assert_array_equal(by_name["yes"], [1, 0, np.nan])
    assert list(by_name["word"]) == ["a", None, "b"]
    assert list(by_name["kind"]) == ["u", "v", "u"]
    assert by_name["day"][1] == np.datetime64("1970-01-02")


def test_parquet_has_awkward_columns(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "awkward.parquet"
    pq.write_table(pa.table({"account": [2**62, 2**62 + 1], "empty": pa.nulls(2)}), path)
    table = read(path, text=["account"])
    assert list(table.columns[0]) == [str(2**62), str(2**62 + 1)]  # doubles do not tell them apart
    assert np.isnan(table.columns[1]).all()
    twice = pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    pq.write_table(twice, path)
    with pytest.raises(Mistake, match="more than one column 'a'"):
        read(path)


def test_sparse_arrays_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "sparse.npz"
    for indices in ([0, 10**6], [0, -1]):
        np.savez(path, data=np.ones(2), indices=indices, indptr=[0, 1, 2], shape=[2, 3])
        with pytest.raises(Mistake, match="is damaged"):
            read(path)


def test_arrays_of_numpy_never_of_python_objects(tmp_path):
    X, y = np.arange(6.0).reshape(3, 2), np.array([0, 1, 1])
    np.savez(tmp_path / "a.npz", X=X, y=y, group=[1, 1, 2], other=[1.0])
    matrix = read(tmp_path / "a.npz")
    assert_array_equal(matrix.X, X)
    assert_array_equal(matrix.y, y)
    assert list(matrix.others) == ["group"]
    np.savez(tmp_path / "b.npz", X=np.array([[{}]], dtype=object))
    with pytest.raises(Mistake, match="Python objects"):
        read(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", Z=X)
    with pytest.raises(Mistake, match="no array X"):
        read(tmp_path / "c.npz")


# Models for LIBSVM and LIBLINEAR
# -------------------------------

DATA = {"two": load_breast_cancer, "many": load_wine, "regression": load_diabetes}
SCALERS = [None, StandardScaler(), MaxAbsScaler(), MinMaxScaler(), RobustScaler()]
MACHINES = {
    True: [SVR(), SVR(kernel="linear"), SVR(kernel="poly"), SVR(kernel="sigmoid"), Ridge(),
           LinearSVR()],
    False: [SVC(), SVC(kernel="linear"), SVC(kernel="poly"), SVC(kernel="sigmoid"), LinearSVC(),
            LogisticRegression(), RidgeClassifier()],
}  # fmt: skip


def their_predictions(file, path, X):
    """Ask the libraries that the two programs are made of."""
    path.write_text(file.text)
    rows = [{k + 1: v for k, v in enumerate(row) if v != 0.0} for row in X]
    if file.program == "libsvm":
        from libsvm.svmutil import svm_load_model as load_model
        from libsvm.svmutil import svm_predict as predict
    else:
        from liblinear.liblinearutil import load_model, predict
    with threadpool_limits(1):  # its threads would wait for each other
        return np.array(predict([], rows, load_model(str(path)), "-q")[0])


def scaled_by(ranges, X):
    """Do what svm-scale does with a file of ranges."""
    head, limits, *lines = ranges.splitlines()
    assert (head, limits) == ("x", "-1 1")
    low, high = np.array([line.split()[1:] for line in lines], dtype=float).T
    return -1 + 2 * (X - low) / (high - low)


@pytest.mark.parametrize("kind", DATA)
@pytest.mark.parametrize("scaler", SCALERS, ids=lambda s: type(s).__name__)
def test_exported_machines_predict_as_ours_do(tmp_path, kind, scaler):
    X, y = DATA[kind](return_X_y=True)
    X, y = X[::4] + 1.0, y[::4]
    train = np.arange(len(y)) % 3 > 0
    for machine in MACHINES[kind == "regression"]:
        if scaler is None and getattr(machine, "kernel", "") in ("linear", "poly"):
            continue  # libsvm would take minutes
        model = machine if scaler is None else make_pipeline(scaler, machine)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[train], y[train])
        program = "libsvm" if hasattr(machine, "kernel") else "liblinear"
        file = machine_file(model, X.shape[1], program)
        raw = X[~train]
        theirs = their_predictions(
            file, tmp_path / "m", raw if file.ranges is None else scaled_by(file.ranges, raw)
        )
        folds_in = program == "liblinear" or machine.kernel == "linear" or scaler is None
        assert file.ranges is None or not folds_in
        assert_allclose(theirs, model.predict(raw), rtol=1e-6, err_msg=str(model))


def test_classes_that_are_no_numbers_are_numbered(tmp_path):
    X, y = load_wine(return_X_y=True)
    names = np.array(["red", "rosé", "white"])
    model = make_pipeline(StandardScaler(), LinearSVC()).fit(X, names[y])
    file = machine_file(model, X.shape[1], "liblinear")
    assert file.labels == {"red": 0, "rosé": 1, "white": 2}
    theirs = their_predictions(file, tmp_path / "m", X)
    assert_array_equal(names[theirs.astype(int)], model.predict(X))


def test_sparse_rows_are_exported_sparse(tmp_path):
    X, y = load_wine(return_X_y=True)
    dump_svmlight_file(X, y, str(tmp_path / "wine"), zero_based=False)
    sparse = read_svmlight(tmp_path / "wine")
    model = make_pipeline(MaxAbsScaler(), SVC(kernel="linear")).fit(sparse.X, sparse.y)
    file = machine_file(model, X.shape[1], "libsvm")
    assert file.ranges is None
    assert_array_equal(their_predictions(file, tmp_path / "m", X), model.predict(sparse.X))


def test_what_the_formats_cannot_hold_is_refused():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(Mistake, match="'laplacian'"):
        machine_file(KernelRidge(kernel="laplacian").fit(X, y), 13, "libsvm")
    with pytest.raises(Mistake, match="no linear model"):
        machine_file(SVC().fit(X, y), 13, "liblinear")


# Writing
# -------


def test_nothing_is_half_written_and_nothing_overwritten(tmp_path):
    goal = written(tmp_path, "old", "goal.txt")
    with pytest.raises(ZeroDivisionError), beside(goal) as place:
        place.write_text("half")
        1 / 0  # noqa: B018
    assert goal.read_text() == "old"
    assert list(tmp_path.iterdir()) == [goal]
    with pytest.raises(Mistake, match="exists already"):
        check_outputs([goal], overwrite=False)
    check_outputs([goal, None], overwrite=True)
    with pytest.raises(Mistake, match="no folder"):
        check_outputs([tmp_path / "none" / "x"], overwrite=False)
    with pytest.raises(Mistake, match="two different files"):
        check_outputs([tmp_path / "x", tmp_path / "x"], overwrite=False)
    with pytest.raises(Mistake, match="two different files"):
        check_outputs([tmp_path / "x"], overwrite=False, goes_on=tmp_path / "x")


def test_what_is_read_is_not_written_by_any_of_its_names(tmp_path):
    read = written(tmp_path, "data", "data.csv")
    (tmp_path / "link").symlink_to(read)
    (tmp_path / "folder").mkdir()
    for name in ("data.csv", "link", "folder/../data.csv"):
        with pytest.raises(Mistake, match="is read, so nothing can be written there"):
            check_outputs([tmp_path / name], overwrite=True, reads=[read])
        with pytest.raises(Mistake, match="is read, so nothing can be written there"):
            check_outputs([], overwrite=True, reads=[read], goes_on=tmp_path / name)
    check_outputs([tmp_path / "other"], overwrite=True, reads=[read, None], goes_on=None)
