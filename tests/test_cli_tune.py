"""`hypermargin tune` and `predict`, as a person uses them."""

import csv
import io
import json
import os
import pty
import re
import signal
import sys

import numpy as np
import pytest
from sklearn.datasets import dump_svmlight_file, load_diabetes, load_iris
from sklearn.metrics import f1_score

from hypermargin.cli.main import main
from hypermargin.files import Mistake
from hypermargin.files.models import read_model
from hypermargin.search.log import Log

COMMAND = [sys.executable, "-m", "hypermargin"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Stand in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_rows(path, names, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([names, *rows])


@pytest.fixture
def iris(folder):
    """Write iris with the names of its species, every third row."""
    data = load_iris()
    rows = [[*x, data.target_names[k]] for x, k in zip(data.data[::3], data.target[::3])]
    write_rows("iris.csv", ["sl", "sw", "pl", "pw", "species"], rows)
    return folder / "iris.csv"


def tuned(capsys, *words):
    """Tune quietly; return what JSON says."""
    code = main(["tune", *words, "--json", "--jobs", "1"])
    said = capsys.readouterr()
    assert code == 0, said.err
    return json.loads(said.out)


def predicted(capsys, *words):
    assert main(["predict", *words, "--quiet"]) == 0
    return list(csv.DictReader(io.StringIO(capsys.readouterr().out)))


def test_a_table_is_tuned_written_and_predicted(iris, capsys):
    outputs = ["--out", "m.skops", "--history", "h.csv", "--report", "r.html"]
    assert main(["tune", "iris.csv", *outputs, "--jobs", "1"]) == 0
    report = (iris.parent / "r.html").read_text()
    assert "accuracy" in report
    assert "of the estimator as it was given" in report
    said = capsys.readouterr()
    assert re.search(r"^model +SVC, C = \S+, gamma = ", said.out)
    assert "score    accuracy " in said.out
    assert " on new data (" in said.out
    assert re.search(r"time .* evaluations on all rows, 0 on fewer, \d+ looks", said.out)
    for guess in ("the last column, 'species'", "classification", "commas", "accuracy", "5 folds"):
        assert guess in said.err
    rows = predicted(capsys, "m.skops", "iris.csv", "--probabilities", "--scores")
    assert np.mean([row["prediction"] == "setosa" for row in rows[:17]]) == 1
    shares = np.array([[float(v) for k, v in row.items() if "prob" in k] for row in rows])
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    history = list(csv.DictReader((iris.parent / "h.csv").read_text().splitlines()))
    assert {"svc__C", "svc__gamma", "objective", "score"} <= set(history[0])


def test_gaps_categories_and_dates_get_the_usual_pipeline(folder, capsys):
    rng = np.random.RandomState(0)
    names = ["id", "size", "city", "day", "dose", "y"]
    rows = []
    for k in range(80):
        city, size = rng.choice(["Rome", "Oslo", "Kyiv"]), rng.randn()
        y = size + 2 * (city == "Rome") + 0.1 * k / 10 + 0.1 * rng.randn()
        day = str(np.datetime64("2024-01-01") + k)
        rows.append(
            [f"w{k}", size, city if k % 9 else "", day, "" if k % 7 == 0 else 1.0 + k % 3, y]
        )
    write_rows("mixed.csv", names, rows)
    result = tuned(capsys, "mixed.csv", "--out", "m.skops", "--folds", "3")
    said = " | ".join(result["guessed"])
    assert "'id'" in said and "'day' (such as '2024-01-01'): dates" in said
    assert re.search(r"'city' \(such as '\w+'\): categories", said)
    assert "median" in said and "regression" in said
    assert result["features"] == 4
    assert result["score"]["mean"] > 0.8
    write_rows("new.csv", names[:-1], [[1, 0.5, "Paris", "2024-02-01", ""], [2, "", "", "", 1]])
    assert len(predicted(capsys, "m.skops", "new.csv")) == 2
    write_rows("bad.csv", names[:-1], [[1, "big", "Rome", "2024-02-01", ""]])
    assert main(["predict", "m.skops", "bad.csv"]) == 2
    assert "Column 'size' should have numbers; it has 'big'" in capsys.readouterr().err
    write_rows("less.csv", ["size", "city"], [[1, "Rome"]])
    assert main(["predict", "m.skops", "less.csv"]) == 2
    assert "lack the columns 'day', 'dose'" in capsys.readouterr().err


def test_long_text_gets_words_and_a_linear_model(folder, capsys):
    rng = np.random.RandomState(1)
    good, bad, rest = "good nice fine", "bad poor sad", "the a film of and in scene with"
    rows = []
    for k in range(80):
        words = [*rng.choice((good if k % 2 else bad).split(), 2), *rng.choice(rest.split(), 8)]
        rows.append([" ".join(rng.permutation(words)), "yes" if k % 2 else "no"])
    write_rows("text.csv", ["review", "label"], rows)
    result = tuned(capsys, "text.csv", "--out", "m.skops")
    assert result["model"] == "LinearSVC"
    assert result["score"]["mean"] > 0.95
    assert any("TF-IDF" in guess for guess in result["guessed"])
    write_rows("new.csv", ["review"], [["a good nice film and the scene"], ["poor, sad scene"]])
    rows = predicted(capsys, "m.skops", "new.csv", "--probabilities")
    assert [row["prediction"] for row in rows] == ["yes", "no"]


def test_groups_and_weights_reach_the_search(folder, capsys):
    rng = np.random.RandomState(0)
    rows = [[*rng.randn(2), f"g{k % 4}", 1 + k % 2, k % 3 % 2] for k in range(60)]
    write_rows("d.csv", ["a", "b", "who", "weight", "y"], rows)
    words = ("d.csv", "--model", "linear", "--groups", "who")
    plain = tuned(capsys, *words)
    assert plain["features"] == 3
    assert "4 folds" in plain["guessed"]
    weighted = tuned(capsys, *words, "--weights", "weight")
    assert weighted["features"] == 2
    assert weighted["score"] != plain["score"]


@pytest.mark.parametrize("what", ["libsvm", "liblinear"])
def test_exported_models_predict_as_ours(folder, capsys, what):
    X, y = load_diabetes(return_X_y=True)
    dump_svmlight_file(X[:90], (y[:90] > 120).astype(int), "d.libsvm", zero_based=False)
    model = "svm" if what == "libsvm" else "linear"
    result = tuned(
        capsys, "d.libsvm", "--model", model, f"--{what}", "their", "--out", "ours.skops",
        "--scale", "none",
    )  # fmt: skip
    assert result["written"] == {"model": "ours.skops", what: "their"}
    ours = [float(row["prediction"]) for row in predicted(capsys, "ours.skops", "d.libsvm")]
    rows = [{k + 1: v for k, v in enumerate(row)} for row in X[:90]]
    if what == "libsvm":
        from libsvm.svmutil import svm_load_model as load_model
        from libsvm.svmutil import svm_predict as predict
    else:
        from liblinear.liblinearutil import load_model, predict
    assert ours == predict([], rows, load_model("their"), "-q")[0]


def test_ranges_are_written_where_scaling_cannot_be_folded_in(iris, capsys):
    result = tuned(capsys, "iris.csv", "--libsvm", "iris.model")
    assert "svm-scale -r iris.model.range" in " ".join(result["notes"])
    assert "setosa = 0, versicolor = 1, virginica = 2" in " ".join(result["notes"])
    assert (iris.parent / "iris.model.range").read_text().startswith("x\n-1 1\n1 ")


def test_a_pickle_is_read_only_if_that_is_allowed(iris, capsys):
    result = tuned(capsys, "iris.csv", "--model", "linear", "--out", "m.joblib")
    assert "pickle" in result["notes"][-1]
    assert main(["predict", "m.joblib", "iris.csv"]) == 2
    assert "--allow-pickle" in capsys.readouterr().err
    assert len(predicted(capsys, "m.joblib", "iris.csv", "--allow-pickle")) == 50


def test_models_that_hold_other_types_are_not_read(folder, capsys):
    import skops.io
    from sklearn.svm import LinearSVC

    class Other(LinearSVC):
        pass

    Other.__module__ = "elsewhere"
    sys.modules["elsewhere"] = type(sys)("elsewhere")
    sys.modules["elsewhere"].Other = Other
    skops.io.dump({"format": "hypermargin model 1", "estimator": Other()}, "other.skops")
    (folder / "zip.skops").write_bytes(b"PK\5\6" + bytes(18))
    (folder / "d.csv").write_text("a,b\n1,2\n")
    assert main(["predict", "other.skops", "d.csv"]) == 2
    assert "elsewhere.Other" in capsys.readouterr().err
    assert main(["predict", "zip.skops", "d.csv", "--allow-pickle"]) == 2
    assert "no model that hypermargin tune has written" in capsys.readouterr().err
    del sys.modules["elsewhere"]


def test_models_of_sparse_rows_can_be_read_again(folder, capsys):
    rows = [[f"town {k % 30}", "uv"[k % 30 % 2]] for k in range(60)]  # many columns, mostly zeros
    write_rows("towns.csv", ["town", "y"], rows)
    tuned(capsys, "towns.csv", "--out", "m.skops", "--folds", "2")
    assert len(predicted(capsys, "m.skops", "towns.csv")) == 60


def test_rows_without_names_are_known_by_their_place(folder, capsys):
    rows = ["uv"[k % 7 // 4] + f",{k % 7},{k % 5}" for k in range(40)]
    (folder / "d.csv").write_text("\n".join(rows))
    tuned(capsys, "d.csv", "--target", "1", "--out", "m.skops", "--folds", "2")
    (folder / "new.csv").write_text("\n".join(row[2:] for row in rows))  # no target any more
    found = predicted(capsys, "m.skops", "new.csv")
    assert [row["prediction"] for row in found] == [row[0] for row in rows]
    (folder / "bad.csv").write_text("1,inf\n2,3\n")
    assert main(["predict", "m.skops", "bad.csv"]) == 2
    assert "Column '3' has inf" in capsys.readouterr().err


def test_what_was_found_is_shown_though_it_cannot_be_written(folder, capsys, monkeypatch):
    write_rows("d.csv", ["a", "y"], [[k % 7, "uv"[k % 7 // 4]] for k in range(40)])

    def full(*args):
        raise Mistake("m.skops cannot be written: No space left on device.")

    monkeypatch.setattr("hypermargin.cli.tune.write_model", full)
    assert main(["tune", "d.csv", "--out", "m.skops", "--folds", "2", "--quiet"]) == 2
    said = capsys.readouterr()
    assert "score    accuracy" in said.out
    assert said.err == "hypermargin: m.skops cannot be written: No space left on device.\n"


def score_said(capsys, *words):
    assert main(["predict", *words]) == 0
    said = capsys.readouterr().err
    assert "Warning" not in said
    return float(said.split()[-1])


def test_the_score_of_new_rows_is_of_those_whose_target_is_known(folder, capsys):
    rows = [[k % 7, k % 5, k % 7 // 4] for k in range(60)]
    write_rows("d.csv", ["a", "b", "y"], rows)
    tuned(capsys, "d.csv", "--out", "m.skops", "--folds", "2")
    write_rows("new.csv", ["a", "b", "y"], [*rows[:10], *([a, b, ""] for a, b, _ in rows[:30])])
    assert score_said(capsys, "m.skops", "new.csv") == 1
    write_rows("odd.csv", ["a", "b", "y"], [[1, 2, "who knows"]])  # no class at all: no score
    assert len(predicted(capsys, "m.skops", "odd.csv")) == 1


def test_labels_in_digits_stay_what_they_are(folder, capsys):
    names = ["9007199254740992", "9007199254740993", "x"]  # doubles do not tell the first two apart
    rows = [[k % 3 == 0, k % 3 == 1, k % 7, names[k % 3]] for k in range(60)]
    rows = [[*map(int, row[:3]), row[3]] for row in rows]
    for few in (rows, [row for row in rows if row[-1] != "x"]):  # with and without a word
        write_rows("d.csv", ["a", "b", "c", "y"], few)
        result = tuned(capsys, "d.csv", "--out", "m.skops", "--overwrite", "--model", "ridge")
        assert result["score"]["mean"] > 0.9
        write_rows("new.csv", ["a", "b", "c", "y"], [row for row in few[:6] if row[-1] != "x"])
        assert score_said(capsys, "m.skops", "new.csv") == 1
    regression = ("--target", "c", "--task", "regression", "--model", "ridge")
    said = tuned(capsys, "d.csv", "--groups", "y", *regression)
    assert "2 folds" in said["guessed"]


def test_a_search_without_time_has_one_evaluation(folder, capsys):
    write_rows("d.csv", ["a", "b", "y"], [[k % 7, k % 5, "uv"[k % 2]] for k in range(60)])
    found = tuned(capsys, "d.csv", "--time-budget", "1e-9", "--folds", "2")
    assert found["evaluations"] == 1
    assert found["evaluations_on_fewer_rows"] == 0


def test_names_of_rows_are_told(folder, capsys):
    write_rows("d.csv", ["id", "a", "y"], [[k, k % 7, "uv"[k % 7 // 4]] for k in range(40)])
    said = " | ".join(tuned(capsys, "d.csv", "--folds", "2")["guessed"])
    assert "'id' is a feature, though" in said and "--ignore 'id'" in said and "'a'" not in said


def test_models_of_our_own_kernels_can_be_stored(iris, capsys):
    tuned(capsys, "iris.csv", "--kernel", "laplacian", "--out", "m.skops", "--folds", "3")
    assert type(read_model("m.skops").estimator.steps[-1][1]).__name__ == "KernelSVC"
    assert len(predicted(capsys, "m.skops", "iris.csv", "--probabilities")) == 50


def test_features_are_counted_as_in_training(folder, capsys):
    rng = np.random.RandomState(0)
    X = rng.randn(40, 3)
    y = (X[:, 0] > 0).astype(int)
    dump_svmlight_file(X, y, "zero.txt", zero_based=True)
    (folder / "one.txt").write_text("1 1:5\n0 2:5\n")  # no feature 0 here, which changes nothing
    tuned(capsys, "zero.txt", "--model", "linear", "--out", "m.skops")
    ours = read_model("m.skops").estimator
    got = [int(row["prediction"]) for row in predicted(capsys, "m.skops", "one.txt")]
    assert got == list(ours.predict([[0, 5, 0], [0, 0, 5]]))
    (folder / "more.txt").write_text("1 1:5 9:1\n0 2:5\n")  # features that no row had in training
    assert main(["predict", "m.skops", "more.txt"]) == 0
    said = capsys.readouterr()
    assert "features after the first 3 are left out" in said.err
    assert list(map(int, said.out.split()[1:])) == got


# In a terminal
# -------------


def in_terminal(*words, keys=None):
    """Run a command in a pseudo-terminal; return the exit code and all that it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # whoever started the tests may ignore it
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        os.execv(sys.executable, [*COMMAND, *words])
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
        if keys is not None and keys[0] in shown:
            os.write(terminal, keys[1])
            keys = None
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    return os.waitstatus_to_exitcode(status), shown.decode()


def test_in_a_terminal_it_shows_guesses_and_a_table(iris):
    code, shown = in_terminal("tune", "iris.csv", "--jobs", "1", "--model", "ridge")
    assert code == 0, shown
    assert "guessed: the target is the last column, 'species'" in shown
    assert "model    RidgeClassifier, alpha = " in shown
    assert "Traceback" not in shown


def test_control_c_in_a_terminal_leaves_with_its_code(folder):
    rng = np.random.RandomState(0)
    X = rng.randn(2000, 20)
    np.savez("big.npz", X=X, y=(X[:, 0] * X[:, 1] + rng.randn(2000) > 0).astype(int))
    words = ("tune", "big.npz", "--jobs", "1", "--kernel", "rbf")
    code, shown = in_terminal(*words, keys=(b"5 folds", b"\x03"))
    assert code == 130, shown
    assert "Traceback" not in shown


def test_control_c_shows_and_writes_the_best_so_far(iris, capsys, monkeypatch):
    keep, scored = Log._append, []

    def press(log, record):
        keep(log, record)
        scored.append(record.folds is not None)
        if sum(scored) == 2:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Log, "_append", press)
    assert main(["tune", "iris.csv", "--out", "m.skops", "--jobs", "1"]) == 130
    said = capsys.readouterr()
    assert "2 evaluations on all rows" in said.out
    assert "interrupted" in said.out
    assert "was interrupted before it converged" in said.err
    assert len(predicted(capsys, "m.skops", "iris.csv")) == 50


def test_a_command_goes_on_from_its_checkpoint(iris, capsys, monkeypatch):
    words = ["iris.csv", "--model", "ridge", "--seed", "0"]
    whole = tuned(capsys, *words)
    with monkeypatch.context() as patched:
        keep, kept = Log._append, []

        def press(log, record):
            keep(log, record)
            kept.append(record)
            if len(kept) == 3:
                signal.raise_signal(signal.SIGINT)

        patched.setattr(Log, "_append", press)
        assert main(["tune", *words, "--checkpoint", "c.jsonl", "--jobs", "1", "--quiet"]) == 130
    capsys.readouterr()
    before = (iris.parent / "c.jsonl").read_bytes()
    again = tuned(capsys, *words, "--checkpoint", "c.jsonl")
    assert again["best_params"] == pytest.approx(whole["best_params"], rel=1e-6)
    assert (iris.parent / "c.jsonl").read_bytes().startswith(before)
    # and with other data not at all
    (iris.parent / "iris.csv").write_text(
        (iris.parent / "iris.csv").read_text().replace("5.1", "5")
    )
    assert main(["tune", *words, "--checkpoint", "c.jsonl", "--jobs", "1"]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "c.jsonl" in said and "give another path" in said


@pytest.mark.parametrize("all_lines", [True, False])
def test_query_ids_that_are_not_used_are_told(folder, capsys, all_lines):
    lines = [f"{k % 2} qid:{k // 10} 1:{k % 7} 2:{k % 2}" for k in range(40)]
    if not all_lines:
        lines[3] = "1 1:3 2:1"
    (folder / "d.libsvm").write_text("\n".join(lines))
    words = ("d.libsvm", "--model", "ridge", "--folds", "2")
    said = [guess for guess in tuned(capsys, *words)["guessed"] if "qid" in guess]
    assert said == [
        "qid is not used; --groups qid keeps the rows of a query in one fold"
        if all_lines
        else "qid is left out, as some lines have none"
    ]
    if all_lines:
        assert "qid" not in " ".join(tuned(capsys, *words, "--groups", "qid")["guessed"])


def test_scores_of_one_class_are_of_the_rarer_or_of_that_asked_for(folder, capsys):
    rng = np.random.RandomState(0)
    X = rng.randn(90, 2)
    y = np.where(X[:, 0] + rng.randn(90) > 0.8, "a", "b")
    write_rows("d.csv", ["u", "v", "y"], [[*x, one] for x, one in zip(X, y)])
    words = ("d.csv", "--score", "f1", "--model", "ridge", "--folds", "3", "--out", "m.skops")
    rare = tuned(capsys, *words)
    assert "f1 is of class 'a', the rarer one; --positive names it" in rare["guessed"]
    assert tuned(capsys, *words, "--overwrite", "--positive", "a")["score"] == rare["score"]
    assert main(["predict", "m.skops", "d.csv"]) == 0
    said = capsys.readouterr()
    told = f1_score(y, [line for line in said.out.split()[1:]], pos_label="a")
    assert f"f1 {told:.4f}" in said.err
    other = tuned(capsys, *words, "--overwrite", "--positive", "b")
    assert other["score"]["mean"] > rare["score"]["mean"]
