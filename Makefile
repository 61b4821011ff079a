# make demo    a first look, offline            make test    lint, types, the tests
# make bench   what an explanation costs        make test-all  the slow ones and every environment
# make points  the pointing game                make images  the pages' pictures
# make docs    the site, in build/site             make notebooks  the tutorials as notebooks
# make results RUNS=runs  the tables of docs/results.md, from the runs of its own commands
# make dist    wheel and sdist of the last commit, in dist/
# make test-release       the wheel, installed into an empty environment
# make test-lowest        the lowest versions promised; LOWEST_TORCH=2.6.0 for the lowest torch too
# make test-pythons       every Python of 3.12 and 3.13 that is found here; not in test-all: torch
#                         may bring gigabytes of CUDA for them

PYTHON  ?= python3
MAIN    := .venv/main
VISION  := .venv/vision
INTEROP := .venv/interop
LOWEST  := .venv/lowest
RUNS    ?= runs
INSTALL := -m pip install --quiet --disable-pip-version-check
PIP     := $(INSTALL) --constraint constraints.txt

# The newest torch by default, because older ones bring gigabytes of CUDA.
LOWEST_TORCH ?= $(patsubst torch==%,%,$(filter torch==%,$(file < constraints.txt)))

# What needs an extra or a browser, or says what the repository itself is, is not run there.
EXTRAS_TESTED := app data docs finetune interop metadata notebooks report results runner sharing training

WITHOUT_EXTRAS := $(foreach part,$(EXTRAS_TESTED),--ignore-glob "tests/test_$(part)*")

# Another Python is tried on a part of everything: calls, files, pictures, words.
PYTHON_TESTED := cli golden images language methods models saving sounds texts towers videos
PYTHONS := $(strip $(foreach version,3.12 3.13,$(if $(shell python$(version) --version 2>/dev/null),$(version))))

OWN   := not vision and not interop and not release
QUICK := $(OWN) and not slow

.PHONY: demo test test-all lint types test-quick test-slow test-vision test-interop test-release
.PHONY: test-lowest test-pythons dist bench points images notebooks results docs format clean

demo: $(MAIN)/ready
	$(MAIN)/bin/whyformer demo

test: lint types test-quick

test-all: test test-slow test-vision test-interop test-release test-lowest

lint: $(MAIN)/ready
	$(MAIN)/bin/ruff check .
	$(MAIN)/bin/ruff format --check .

types: $(MAIN)/ready
	$(MAIN)/bin/mypy

test-quick: $(MAIN)/ready
	$(MAIN)/bin/python -m pytest -n 2 --dist worksteal -m "$(QUICK)"

test-slow: $(MAIN)/ready
	$(MAIN)/bin/python -m pytest -n 2 --dist worksteal -m "$(OWN) and slow"

test-vision: $(VISION)/ready
	$(VISION)/bin/python -m pytest -m vision

test-interop: $(INTEROP)/ready
	$(INTEROP)/bin/python -m pytest -m interop

# What is committed is what is built: no stray file can get in.
dist: $(MAIN)/ready
	rm -rf build/checkout dist
	mkdir -p build/checkout
	git archive HEAD | tar -x -C build/checkout
	$(MAIN)/bin/python -m build --no-isolation --outdir dist build/checkout

test-release: dist
	$(MAIN)/bin/python -m pytest -m release

test-lowest: $(LOWEST)/ready
	$(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m "$(QUICK) and not browser" \
		$(WITHOUT_EXTRAS)

test-pythons: $(PYTHONS:%=test-python-%)
	@echo "tested with Python: $(or $(PYTHONS),no other is found here)"

test-python-%: .venv/python-%/ready
	.venv/python-$*/bin/python -m pytest -n 2 --dist worksteal -m "$(QUICK) and not browser" \
		$(PYTHON_TESTED:%=tests/test_%.py)

bench: $(MAIN)/ready $(INTEROP)/ready
	$(INTEROP)/bin/python benchmarks/cost.py
	$(MAIN)/bin/python benchmarks/startup.py
	$(MAIN)/bin/python benchmarks/evaluation.py
	$(MAIN)/bin/python benchmarks/folder.py
	$(MAIN)/bin/python benchmarks/scale.py
	$(MAIN)/bin/python benchmarks/serve.py

points: $(MAIN)/ready
	$(MAIN)/bin/whyformer evaluate pointing --limit 200 --methods all

images: $(MAIN)/ready
	$(MAIN)/bin/python docs/images.py

notebooks: $(MAIN)/ready
	$(MAIN)/bin/python docs/notebooks.py

results: $(MAIN)/ready
	$(MAIN)/bin/python docs/results.py $(RUNS)

docs: $(MAIN)/ready
	NO_MKDOCS_2_WARNING=1 $(MAIN)/bin/python -m mkdocs build --strict
	@echo "open build/site/index.html, or for its search: $(MAIN)/bin/python -m http.server -d build/site"

format: $(MAIN)/ready
	$(MAIN)/bin/ruff check --fix .
	$(MAIN)/bin/ruff format .

# Three environments: torchvision, which timm and open_clip need, would break transformers in the
# first where its build does not match torch's; captum and quantus are what others compare with.
$(MAIN)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(MAIN)
	$(MAIN)/bin/python $(PIP) torch
	$(MAIN)/bin/python $(PIP) --editable ".[dev]"
	touch $@

$(VISION)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VISION)
	$(VISION)/bin/python $(PIP) torch
	$(VISION)/bin/python $(PIP) --editable ".[dev,vision]"
	touch $@

$(INTEROP)/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(INTEROP)
	$(INTEROP)/bin/python $(PIP) torch
	$(INTEROP)/bin/python $(PIP) --editable ".[dev,interop]"
	touch $@

$(LOWEST)/ready: pyproject.toml constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python $(INSTALL) torch==$(LOWEST_TORCH)
	$(LOWEST)/bin/python $(INSTALL) --constraint constraints-lowest.txt \
		torch==$(LOWEST_TORCH) --editable . hypothesis psutil pytest pytest-xdist
	touch $@

.PRECIOUS: .venv/python-%/ready
.venv/python-%/ready: pyproject.toml constraints.txt
	python$* -m venv .venv/python-$*
	.venv/python-$*/bin/python $(PIP) torch
	.venv/python-$*/bin/python $(PIP) --editable . hypothesis psutil pytest pytest-xdist
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis demo
