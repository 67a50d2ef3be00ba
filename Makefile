# Everything one does with this repository. Each recipe is a line that also works when typed by hand.

PYTHON ?= python3
INSTALLED := .venv/.installed
MODELS := .venv-models/.installed
LOCK := .venv/bin/uv pip compile --quiet --universal --fork-strategy fewest --all-extras --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock' --output-file requirements.lock pyproject.toml
LOCK_IMAGE := .venv/bin/uv pip compile --quiet --universal --fork-strategy fewest --extra loadgen --extra triton \
	--generate-hashes \
	--constraint requirements.lock --no-emit-index-url --custom-compile-command 'make lock' \
	--output-file deploy/requirements.lock pyproject.toml
LOCK_MODELS := .venv/bin/uv pip compile --quiet --no-deps --generate-hashes --python-version 3.11 \
	--no-emit-index-url --custom-compile-command 'make lock' --output-file invoker/triton/requirements-models.lock \
	invoker/triton/requirements-models.in

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install models demo demo-real test lint types unit format fuzz protos settings simulate docs-check bench peers soak chaos lock sbom audit clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' Makefile

install: $(INSTALLED)  ## make .venv with the pinned dependencies and this project in it

models: $(MODELS)  ## make .venv-models: a Triton server, and what models on CPU slices need

demo: $(INSTALLED)  ## see a whole mesh at work, for a minute
	.venv/bin/esg demo

demo-real: $(INSTALLED) $(MODELS)  ## take a photo through real models, on Triton servers without a GPU
	.venv/bin/esg demo --real

test: lint types unit  ## all that must pass: lint, types, unit

lint: $(INSTALLED)  ## check formatting and style
	.venv/bin/ruff format --check
	.venv/bin/ruff check

types: $(INSTALLED)  ## check types
	.venv/bin/mypy
	set -e; for folder in esg/functions/*/models/..; do .venv/bin/mypy $$folder/*.py; done

# One worker more than the smallest machine has cores: many tests wait for processes
unit: $(INSTALLED) $(MODELS)  ## run the tests and the examples in the docstrings
	.venv/bin/pytest -n 3

format: $(INSTALLED)  ## format the code and fix what can be fixed
	.venv/bin/ruff format
	.venv/bin/ruff check --fix

# Each target of tests/fuzz gets EXAMPLES; tests/property has numbers of its own, but new examples every time
fuzz: $(INSTALLED)  ## look for inputs that break something: make fuzz EXAMPLES=10000
	FUZZ_EXAMPLES=$(or $(EXAMPLES),2000) .venv/bin/pytest -n 2 tests/fuzz tests/property

protos: $(INSTALLED)  ## generate the code for the wire from protos/*.proto
	.venv/bin/python -m grpc_tools.protoc -I . --python_out=. --pyi_out=. --grpc_python_out=. esg/protos/*.proto

settings: $(INSTALLED)  ## write docs/settings.md from esg/runtime/settings.py
	.venv/bin/python -m tests.support.settings_doc > docs/settings.md

simulate: $(INSTALLED)  ## tell SEEDS=1000 stories from FIRST_SEED=0 in which everything goes wrong: are promises kept?
	.venv/bin/python -m tests.simulation --seeds $(or $(SEEDS),1000) --first-seed $(or $(FIRST_SEED),0)

docs-check: $(INSTALLED) $(MODELS)  ## run all that the pages of docs/ tell their readers to type; ten minutes
	.venv/bin/pytest -n 0 -m '' tests/docs

bench: $(INSTALLED) $(MODELS)  ## run the benchmarks
	.venv/bin/python -m benchmarks.startup
	.venv/bin/python -m benchmarks.search
	.venv/bin/python -m benchmarks.handle
	.venv/bin/python -m benchmarks.emulation
	.venv/bin/python -m benchmarks.overhead
	.venv/bin/python -m benchmarks.triton
	.venv/bin/python -m benchmarks.fidelity
	.venv/bin/python -m benchmarks.open_loop
	.venv/bin/python -m benchmarks.recovery
	.venv/bin/python -m benchmarks.overload
	.venv/bin/python -m benchmarks.hostile

peers: $(INSTALLED)  ## put the mesh beside Ray Serve, BentoML and MLServer, from PyPI; a quarter of an hour
	.venv/bin/python -m benchmarks.peers

soak: $(INSTALLED)  ## a mesh under the heavy rate for ten minutes: does anything grow?
	.venv/bin/python -m benchmarks.soak

chaos: $(INSTALLED)  ## break a mesh in every way, under load (REPEAT=10: as often in a row)
	for round in $$(seq $(or $(REPEAT),1)); do .venv/bin/pytest -n 2 -m '' tests/chaos || exit 1; done

lock: $(INSTALLED)  ## pin what pyproject.toml asks for (UPGRADE=1: newest versions, else keep pins that still fit)
	$(LOCK) $(if $(UPGRADE),--upgrade)
	$(LOCK_IMAGE) --upgrade
	$(LOCK_MODELS) $(if $(UPGRADE),--upgrade)

sbom: $(INSTALLED)  ## write sbom.json (CycloneDX): all that requirements.lock pins, with hashes; needs no network
	.venv/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-format JSON \
		--output-file sbom.json requirements.lock

# Strictly: what could not be looked up is a failure, not a pass
audit: $(INSTALLED)  ## look up known vulnerabilities of what requirements.lock pins; needs PyPI's own JSON API, no mirror
	.venv/bin/pip-audit --strict --progress-spinner off --disable-pip --require-hashes --requirement requirements.lock

clean:  ## remove everything that can be made again, .venv included
	rm -rf .venv .venv-models .peers .clients build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Done again only when what is to be installed changed.
$(INSTALLED): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo 'ESG needs Python 3.11 or newer, and there is no $(PYTHON) here. Name another one with: make install PYTHON=...' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "ESG needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another one with: make install PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo 'This Python cannot make virtual environments (no ensurepip). On Debian or Ubuntu: apt install python3-venv' >&2; exit 1; }
	@echo 'Making .venv'
	@$(PYTHON) -m venv .venv
	@echo 'Installing the pinned dependencies (180 MB to fetch)'
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes --requirement requirements.lock
	@echo 'Installing ESG itself, editable'
	@.venv/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(MODELS): invoker/triton/requirements-models.lock | $(INSTALLED)
	.venv/bin/esg models install --dir .venv-models
	@touch $@
