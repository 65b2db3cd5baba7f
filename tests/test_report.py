"""The report of a search: one file that says it all, and says it safely."""

import json
import re
import shutil
import subprocess
import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from helpers import C_GAMMA, make_data, quick, svc, svr
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score, make_scorer
from sklearn.model_selection import GroupKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from hypermargin import GradientSearchCV, KernelSVC

pytestmark = pytest.mark.filterwarnings("ignore")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]


class Words(HTMLParser):
    """The text of a page, and its tags."""

    def __init__(self, text):
        super().__init__()
        self.words, self.tags = "", []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words += data


@pytest.fixture(scope="module")
def data():
    return make_data(2, n=120)


@pytest.fixture(scope="module")
def search(data):
    model = make_pipeline(StandardScaler(), SVC())
    return GradientSearchCV(model, cv=3, max_evals=8, random_state=0).fit(*data)


@pytest.fixture(scope="module")
def text(search, data, tmp_path_factory):
    path = search.report(tmp_path_factory.mktemp("report") / "report.html", *data)
    return path.read_text()


def test_a_report_says_what_was_found(text, search):
    page = Words(text).words
    for name, value in search.best_params_.items():
        assert f"{name} = {value:.4g}" in page
    assert f"{search.best_score_:.4g}" in page
    assert str(search.score_estimate_) in page
    assert "the estimator as it was given, with a standard error of" in page
    assert "scikit-learn" in page
    titles = ["The path", "Convergence", "Score", "Thresholds", "Probabilities", "Time"]
    assert all(f"{title}." in page for title in titles)


def test_a_report_needs_no_network(text):
    for _, attributes in Words(text).tags:
        for name in ("src", "href", "xlink:href", "action"):
            assert attributes.get(name, "#").startswith("#")
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_the_lines_of_a_report_repeat_the_search(text, search, data):
    code = re.search(r"<pre>(.*?)</pre>", text, flags=re.DOTALL)
    names = dict(zip("Xy", data))
    exec(Words(code[1]).words, names)
    assert names["search"].best_params_ == search.best_params_


def test_the_lines_of_a_report_name_all_that_the_fit_was_given(data, tmp_path):
    X, y = data
    # a chain that scikit-learn shows shortened, unless it is asked for all of it
    model = make_pipeline(
        *[StandardScaler(with_mean=k % 2 == 0) for k in range(20)], SVC(kernel="linear")
    )
    search = GradientSearchCV(model, {"svc__C": (0.1, 1)}, cv=GroupKFold(3), max_evals=2)
    groups, weight = np.arange(len(y)) % 3, np.ones(len(y))
    search.fit(X, y, groups=groups, svc__sample_weight=weight)
    lines = Words(search.report(tmp_path / "r.html").read_text()).words
    assert "X, y, groups and sample_weight are your data" in lines
    assert "search.fit(X, y, groups=groups, svc__sample_weight=sample_weight)" in lines
    assert "('standardscaler-20', StandardScaler(with_mean=False))" in lines


def test_the_first_of_the_best_points_is_the_one_that_was_taken(text, search):
    rows = re.search(r"The best points.*?</table>", text, re.S).group()
    first = re.findall(r"<td>(.*?)</td>", rows)[1:3]
    assert first == [f"{value:.4g}" for value in search.best_params_.values()]


def test_names_from_the_data_are_words_and_not_html(tmp_path):
    X, y = make_data(2, n=60)
    bad = "<script>alert('x')</script>"
    frame = pd.DataFrame(X, columns=[bad, "</script><b>", "a&b", "'\""])
    labels = np.array(["<i>no</i>", "</script>yes"])[y]
    model = KernelSVC()
    search = quick(model, {"C": None, "gamma": "always_per_feature"}).fit(frame, labels)
    text = search.report(tmp_path / "report.html").read_text()
    page = Words(text)
    assert bad in page.words
    assert bad not in text
    assert [tag for tag, _ in page.tags].count("script") == 2
    assert not {"b", "i"} & {tag for tag, _ in page.tags}


def test_warnings_are_told_even_where_they_are_not_shown(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = quick(svc(), C_GAMMA, scoring=make_scorer(cohen_kappa_score)).fit(*make_data(2))
    text = Words(search.report(tmp_path / "report.html").read_text()).words
    assert "cohen_kappa_score has no smooth form here" in text


@pytest.mark.parametrize(
    ("model", "classes", "options"),
    [
        (svr(), 0, {}),
        (svc(), 3, {"scoring": ["accuracy", "f1_macro"], "refit": "f1_macro"}),
        (LogisticRegression(), 2, {}),
        (svc(), 2, {"space": {"C": [1.0, 10.0], "kernel": ["rbf", "linear"]}}),
        (svc(), 2, {"space": C_GAMMA, "scoring": lambda m, X, y: m.score(X, y)}),
        (svc(), 2, {"space": C_GAMMA, "time_budget": 1e-6}),
        (svc(), 2, {"space": {"C": [1.0]}}),
    ],
    ids=["regression", "three classes", "curve", "listed", "function", "no time", "one point"],
)
def test_there_is_a_report_of_every_search(model, classes, options, tmp_path):
    search = quick(model, **options).fit(*make_data(classes))
    assert "<svg" in search.report(tmp_path / "report.html").read_text()


def test_nothing_of_others_is_overwritten(search, tmp_path):
    path = tmp_path / "report.html"
    path.write_text("my notes")
    with pytest.raises(FileExistsError, match="no report of ours"):
        search.report(path)
    assert path.read_text() == "my notes"
    search.report(path, overwrite=True)
    first = path.read_text()
    assert search.report(path).read_text() == first  # ours is replaced, by the same
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]
    with pytest.raises(FileNotFoundError, match="no folder"):
        search.report(tmp_path / "nowhere" / "report.html")
    with pytest.raises(IsADirectoryError, match="is a folder"):
        search.report(tmp_path)
    with pytest.raises(NotFittedError):
        quick(svc()).report(path)


def test_a_browser_shows_the_words_of_a_point_that_is_pointed_at(text, search, tmp_path):
    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    hover = """<script>
      const mark = document.querySelectorAll('#points-of-path use')[3];
      const box = mark.getBoundingClientRect();
      mark.dispatchEvent(new PointerEvent('pointerenter',
        {clientX: box.x + box.width / 2, clientY: box.y + box.height / 2}));
      const curve = document.querySelectorAll('#points-of-curve use').length;
      document.body.dataset.seen = JSON.stringify([tip.textContent, tip.style.display, curve,
        document.querySelectorAll('figure svg').length, document.body.scrollWidth <= innerWidth]);
    </script></body>"""
    page = tmp_path / "page.html"
    page.write_text(text.replace("</body>", hover))
    command = [CHROMIUM, *FLAGS, "--window-size=500,900", f"--user-data-dir={tmp_path / 'u'}"]
    done = subprocess.run(
        [*command, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120
    )
    seen = re.search(r'data-seen="(.*?)"', done.stdout)
    assert seen, done.stderr[-500:]
    said, display, on_curve, pictures, fits = json.loads(Words(seen[1]).words)
    assert re.match(r"look on \d+ rows: svc__C = .*; loss", said)
    assert (display, pictures, fits) == ("block", 6, True)
    assert on_curve == len(search.cv_results_["params"])
