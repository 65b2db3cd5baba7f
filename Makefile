PYTHON ?= python3
BIN := .venv/bin
# modules are compiled once, whatever the environment says: tests start many processes
export PYTHONDONTWRITEBYTECODE :=
READY := .venv/.ready
DOCS := .venv/.ready-docs
DEMO := .venv/.ready-demo

.PHONY: help venv demo test format docs bench clean

help:
	@echo "make demo    tune an SVM and compare with a grid search"
	@echo "make test    linter, format, types and tests"
	@echo "make format  repair what the linter and the format check find"
	@echo "make docs    build the documentation site in build/site"
	@echo "make bench   list the benchmarks and say how to run one"

venv: $(READY)

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check -e ".[test]"
	@touch $@

# neither needs the tests' tools, nor a compiler for them
$(DOCS): EXTRAS := docs
$(DEMO): EXTRAS := plot,progress
$(DOCS) $(DEMO): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[$(EXTRAS)]"
	@touch $@

demo: $(DEMO)
	@mkdir -p build
	@$(BIN)/hypermargin demo --report build/demo.html --overwrite

# two processes of tests have a core each, so BLAS gets one thread
test: venv
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	@export OPENBLAS_NUM_THREADS=1; $(BIN)/mypy & types=$$!; $(BIN)/pytest --quiet -n 2 --dist loadfile; tests=$$?; wait $$types && exit $$tests

format: venv
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

docs: $(DOCS)
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site
	@echo "The site is in build/site: open build/site/index.html"

bench: venv
	@$(BIN)/python -m benchmarks list
	@echo
	@echo "Run one:          $(BIN)/python -m benchmarks run NAME [--quick]"
	@echo "Figures need:     $(BIN)/python -m pip install -e '.[bench]'"

clean:
	rm -rf .venv build docs/gallery docs/sg_execution_times.rst .mypy_cache .pytest_cache .ruff_cache .hypothesis
