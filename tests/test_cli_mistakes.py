"""Mistakes of a user are told in one sentence, with exit code 2; nothing is overwritten."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from hypermargin.cli.main import main

GOOD = "a,b,y\n" + "".join(f"{k % 7},{k % 5},{'uv'[k % 2]}\n" for k in range(40))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text(GOOD)
    return tmp_path


def refused(capsys, *words):
    """Return the one sentence by which a command is refused."""
    assert main(list(words)) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("hypermargin")
    return said.err


FILES = {
    "empty": ("", "is empty"),
    "binary": (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "is binary"),
    "ragged": ("a,b\n1,2\n1,2,3\n", "line 3: 3 fields; the first line has 2"),
    "a comment": ("# made by hand\na,b\n1,2\n", "the first line has 1 and begins with #; lines of"),
    "three rows": ("a,y\n1,u\n2,v\n3,u\n", "There are 3 rows with 2 different targets, too few"),
    "three numbers": ("a,y\n1,1.5\n2,2.7\n3,9.1\n", "There are 3 rows only, too few to be split"),
    "only names": ("a,b,y\n", "no rows"),
    "one class": ("a,y\n" + "1,u\n2,u\n" * 9, "one class only, 'u'"),
    "one value": ("a,y\n" + "1,2.5\n2,2.5\n" * 9, "2.5 in all rows"),
    "dates": ("d,y\n" + "".join(f"{k + 1}/12/2024,{'uv'[k % 2]}\n" for k in range(9)), "dates"),
    "target of dates": ("a,d\n1,2024-01-01\n2,2024-01-02\n3,2024-01-01\n", "has dates"),
    "one column": ("alone\n" + "1\n2\n" * 9, "no column to learn from"),
    "no features": ("a,y\n" + ",u\n,v\n" * 5, "no column to learn from"),
    "words as target": ("a,y\n" + "".join(f"{k},w{k}\n" for k in range(20)), "no classes"),
    "a rare class": ("a,y\n" + "1,u\n2,v\n" * 5 + "3,w\n", "Class 'w' has one row only"),
    "counts as classes": ("a,y\n" + "1,3\n2,4\n" * 5 + "3,5\n", "--task regression takes them"),
    "infinite": ("a,y\n" + "1,u\n2,v\n" * 5 + "inf,u\n", "Column 'a' has inf; numbers should"),
    "no square": ("a,y\n" + "1,u\n2,v\n" * 5 + "1e200,u\n", "Column 'a' has 1e+200"),
    "an infinite target": ("a,y\n" + "1,2.5\n2,3.5\n" * 5 + "3,inf\n", "The target has inf"),
    "thousands": ("a,y\n" + "".join(f'"{k},000.5",{"uv"[k % 2]}\n' for k in range(9)), "'0,000.5'"),
    "nothing varies": ("a,y\n" + "1,u\n1,v\n" * 5, "the same or different in every row: 'a'"),
    "no target at all": ("a,y\n1,\n2,\n3,\n", "missing in all rows"),
    "malformed": ("1 1:2\n0 1:x\n", "line 2: '1:x'"),
}


@pytest.mark.parametrize("what", FILES)
def test_a_file_that_cannot_be_learned_from(folder, capsys, what):
    content, sentence = FILES[what]
    path = folder / ("data.libsvm" if what == "malformed" else "data.csv")
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert sentence in refused(capsys, "tune", path.name)
    assert sorted(os.listdir(folder)) == sorted([path.name, "good.csv"])


@pytest.mark.parametrize(
    "words, sentence",
    [
        (["tune", "nothing.csv"], "There is no file nothing.csv"),
        (["tune", "good.csv", "--target", "z"], "--target 'z' is no column; there are 'a', 'b'"),
        (["tune", "good.csv", "--target", "9"], "--target '9' is no column"),
        (["tune", "good.csv", "--groups", "z"], "--groups 'z'"),
        (["tune", "good.csv", "--weights", "y"], "should name different columns"),
        (["tune", "good.csv", "--target", "b", "--weights", "y"], "--weights should name a column"),
        (["tune", "good.csv", "--groups", "y"], "should name different columns"),
        (["tune", "good.csv", "--task", "regression"], "needs numbers; the target has 'u'"),
        (["tune", "good.csv", "--score", "best"], "--score 'best' is no score"),
        (["tune", "good.csv", "--score", "r2"], "--score r2 does not suit"),
        (["tune", "good.csv", "--folds", "30"], "--folds 30 is more than the 20 rows of class"),
        (["tune", "good.csv", "--score", "r2"], "a target of 2 classes; accuracy, balanced_"),
        (["tune", "good.csv", "--target", "b", "--score", "f1"], "a target of 5 classes; accuracy"),
        (
            ["tune", "good.csv", "--target", "b", "--task", "regression", "--score", "accuracy"],
            "--score accuracy does not suit a target of numbers; r2, ",
        ),
        (
            ["tune", "good.csv", "--score", "f1", "--positive", "w"],
            "is no class; there are 'u' and",
        ),
        (["tune", "good.csv", "--positive", "u"], "--positive 'u' is for two classes and a score"),
        (["tune", "good.csv", "--target", "a", "--score", "roc_auc"], "does not suit"),
        (["tune", "good.csv", "--folds", "x"], "--folds: 'x' should be a whole number of 2 or"),
        (["tune", "good.csv", "--seed", "-1"], "--seed: '-1' should be a whole number from 0 to"),
        (["tune", "good.csv", "--seed", "99999999999999"], "number from 0 to 4294967295"),
        (["tune", "good.csv", "--jobs", "0"], "--jobs: '0' should be a number of threads"),
        (["tune", "good.csv", "--jobs", "two"], "--jobs: 'two' should be a number of threads"),
        (["tune", "good.csv", "--time-budget", "-1"], "'-1' should be a number of seconds above 0"),
        (["tune", "good.csv", "--kernel", "round"], "'round'"),
        (["tune", "good.csv", "--model", "linear", "--kernel", "rbf"], "--kernel is for"),
        (["tune", "good.csv", "--model", "kernel-ridge"], "is for regression"),
        (["tune", "good.csv", "--out", "model.txt"], "should end in .skops"),
        (["tune", "good.csv", "--out", "no/where/m.skops"], "no folder"),
        (["tune", "good.csv", "--history", "good.csv", "--overwrite"], "good.csv is read, so"),
        (["tune", "good.csv", "--checkpoint", "./good.csv"], "good.csv is read, so"),
        (["predict", "good.csv", "x.csv", "--out", "good.csv", "--overwrite"], "good.csv is read"),
        (["predict", "m", "good.csv", "--out", "good.csv", "--overwrite"], "good.csv is read"),
        (["tune", "good.csv", "--liblinear", "m"], "--model linear"),
        (["tune", "good.csv", "--model", "linear", "--libsvm", "m"], "--model svm"),
        (["tune", "good.csv", "--kernel", "laplacian", "--libsvm", "m"], "no kernel 'laplacian'"),
        (["tune"], "DATA"),
        (["fly"], "'fly'"),
        (["predict", "good.csv", "good.csv"], "good.csv is no model that hypermargin tune"),
        (["predict", "good.csv", "good.csv", "--allow-pickle"], "no model that hypermargin"),
        (["compare", "good.csv", "--picture", "p.bmp"], "should end in .png"),
    ],
)
def test_an_option_that_cannot_be(folder, capsys, words, sentence):
    assert sentence in refused(capsys, *words)
    assert os.listdir(folder) == ["good.csv"]
    assert (folder / "good.csv").read_text() == GOOD


def test_a_folder_that_cannot_be_written_to(folder, capsys):
    if os.geteuid() == 0:
        target = "/proc/m.skops"  # root may write anywhere else
    else:
        (folder / "locked").mkdir(mode=0o500)
        target = "locked/m.skops"
    assert "cannot be written" in refused(capsys, "tune", "good.csv", "--out", target)


def test_a_million_columns_are_read_or_refused_in_words(folder, capsys):
    rng = np.random.RandomState(0)
    n = 50_000  # as many as a test has time for
    with open("wide.csv", "w") as file:
        for k in range(12):
            file.write(",".join(map(str, rng.randint(0, 9, n))) + f",{'uv'[k % 2]}\n")
    assert main(["tune", "wide.csv", "--quiet", "--jobs", "1", "--time-budget", "0.5"]) == 0
    assert "score    accuracy" in capsys.readouterr().out


def test_numbers_of_features_that_do_not_fit_into_memory(folder, capsys):
    (folder / "wide.libsvm").write_text("1 1:1 2147483000:1\n-1 1:2\n" * 9)
    assert "does not fit into memory" in refused(capsys, "tune", "wide.libsvm")


@pytest.mark.parametrize(
    "arrays, sentence",
    [
        ({"X": np.ones((4, 2)), "y": np.ones(3)}, "y in d.npz is of shape (3,); X has 4 rows"),
        ({"X": np.ones((0, 2)), "y": np.ones(0)}, "no rows"),
        ({"X": np.ones((4, 2)), "y": np.ones(4, complex)}, "of type complex128"),
        ({"X": np.full((4, 2), "a"), "y": np.ones(4)}, "type <U1"),
    ],
)
def test_arrays_that_cannot_be_learned_from(folder, capsys, arrays, sentence):
    np.savez("d.npz", **arrays)
    assert sentence in refused(capsys, "tune", "d.npz")


@pytest.mark.parametrize(
    "member, sentence",
    [("xl/workbook.xml", "is an Excel workbook"), ("good.csv", "is a zip archive, not .npz")],
)
def test_archives_are_told_from_arrays(folder, capsys, member, sentence):
    with zipfile.ZipFile("d.zip", "w") as file:
        file.writestr(member, GOOD)
    assert sentence in refused(capsys, "tune", "d.zip")


def test_help_is_quick_as_nothing_is_loaded_for_it():
    code = (
        "import sys; from hypermargin.cli.main import main; code = main(['--help']);"
        "print(code, [m for m in ('numpy', 'sklearn', 'numba') if m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert shown.endswith("0 []\n")
    for name in ("tune", "predict", "compare", "demo", "examples:"):
        assert name in shown


def test_the_first_gap_that_a_model_cannot_fill_is_named(folder, capsys):
    assert main(["tune", "good.csv", "--model", "ridge", "--out", "m.skops", "--quiet"]) == 0
    lines = Path("good.csv").read_text().splitlines()
    lines[3] = ",".join("" if k == 0 else value for k, value in enumerate(lines[3].split(",")))
    Path("gaps.csv").write_text("\n".join(lines))
    capsys.readouterr()
    assert "Row 3 has no value for feature 'a'" in refused(capsys, "predict", "m.skops", "gaps.csv")
