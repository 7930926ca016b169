# Everything runs in ./.venv, which the first target that needs it sets up; where the command line names another Python
# (make test PYTHON=python3.12), in an environment of that one.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv$(if $(filter command line,$(origin PYTHON)),-$(notdir $(PYTHON)))
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready
EXTRAS := .venv-extras
PEERS := .venv-bench
WORKERS ?= 2
# Hundreds of processes of tests import the package: its compiled modules are kept.
unexport PYTHONDONTWRITEBYTECODE
CASES ?= 100000
PACKAGE ?= polymap/checker
MUTANTS ?= 100
SEED ?= 1

.PHONY: help venv demo quick test extras soak mutants lint format notebooks docs bench bench-code clean

help:
	@echo "make demo       explore a ResNet-50 layer, write its C program to ./out and run it"
	@echo "make quick      the quick tests, about a minute"
	@echo "make test       every test; with PYTHON=python3.12 under that Python"
	@echo "make extras     the tests that need torch and onnx, in an environment of their own (./.venv-extras)"
	@echo "make soak       the long tallies: 100,000 random cases through every counter; interrupted, it goes on where it was"
	@echo "make mutants    how many of 100 deliberate mistakes in a package its tests notice; PACKAGE=polymap/search/dividing,"
	@echo "                MUTANTS=50 and SEED=2 ask for others; interrupted, it goes on where it was"
	@echo "make lint       ruff and pyright"
	@echo "make notebooks  execute the notebooks and compare what they show"
	@echo "make docs       build the documentation into out/docs, warnings are errors"
	@echo "make bench      the scripts behind the numbers in the README"
	@echo "make bench-code  generated C against oneDNN, OpenBLAS and plain loops; torch in an environment of its own (./.venv-bench)"
	@echo "make venv       only set up ./.venv"

venv: $(READY)

# Two steps: what polymap itself needs, which is all that the demo waits for, then what develops it.
$(CORE): requirements-dev.txt pyproject.toml
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt hatchling
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements-dev.txt --no-build-isolation -e .
	@touch $@

$(READY): $(CORE)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

demo: $(CORE)
	@$(BIN)/python -m polymap.demo

quick: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not soak"

test: $(READY)
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal

extras: $(EXTRAS)/.ready
	$(EXTRAS)/bin/python -m pytest -q tests/extras

$(EXTRAS)/.ready: tests/extras/requirements.txt pyproject.toml
	@$(PYTHON) -m venv $(EXTRAS)
	@$(EXTRAS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/extras/requirements.txt
	@$(EXTRAS)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

soak: $(READY) $(EXTRAS)/.ready
	$(BIN)/python -m tests.soak --workers $(WORKERS) --cases $(CASES) --sets-every 10 --tally out
	$(BIN)/python -m tests.fused_tally 100000 120000
	$(BIN)/python -m tests.c_tally 2000 --first 20000 --state out/c_tally.json
	$(BIN)/python -m tests.search_tally 2000 --first 20000 --state out/search_tally.json
	$(BIN)/python -m tests.any_size_tally --cases 2000 --first 20000 --state out/any_size_tally.json
	$(BIN)/python -m tests.c_to_c
	$(BIN)/python -m tests.limits_tally 100
	$(BIN)/python -m tests.busy_tally
	$(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal -m "soak or hypothesis" --hypothesis-profile=soak
	$(EXTRAS)/bin/python -m pytest -q tests/extras -m soak

mutants: $(READY)
	$(BIN)/python -m tests.mutants $(PACKAGE) --mutants $(MUTANTS) --seed $(SEED)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

notebooks: $(READY)
	$(BIN)/python notebooks/execute.py

docs: $(READY)
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs out/docs -d out/doctrees
	@echo "out/docs/index.html"

# What needs torch runs in environments of its own: make bench-code, and the scripts' own words.
NEED_TORCH := $(addprefix benchmarks/,code.py drawn_shapes.py imported_models.py)

bench: $(READY)
	@set -e; for script in $(filter-out $(NEED_TORCH),$(wildcard benchmarks/*.py)); do echo "== $$script"; $(BIN)/python $$script; done

bench-code: $(READY) $(PEERS)/.ready
	$(BIN)/python benchmarks/code.py --torch $(PEERS)/bin/python

$(PEERS)/.ready: benchmarks/contestants/requirements.txt
	@$(PYTHON) -m venv $(PEERS)
	@$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/contestants/requirements.txt
	@touch $@

clean:
	rm -rf .venv .venv-* out dist build .pytest_cache .ruff_cache .hypothesis
