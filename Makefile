# The front desk: every command that a person or CI needs. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.outlast-installed

# More processes than cores: tests also wait for time to pass.
TEST_WORKERS ?= 4
# Of `make soak`: what is called and broken, and for how long.
SEED ?= 1
MINUTES ?= 2
# Handed on to the command: make test ARGS="tests/unit -k ports", make up ARGS="--api-port 9000".
ARGS ?=

LOCKS := requirements.lock $(wildcard deploy/images/*.lock)
# The images install parts of the same lock, in the same versions.
LOCK_PART := --quiet --universal --generate-hashes --no-header --constraint requirements.lock

# A bar and names of packages on a terminal; elsewhere, and in CI, one line per step.
QUIET := $(shell [ -t 2 ] && [ -z "$$CI" ] || echo --quiet)
PIP_INSTALL = $(BIN)/python -m pip install --quiet $(QUIET) --disable-pip-version-check --no-compile

export UV_PYTHON_DOWNLOADS := never
# Tests start hundreds of processes; without bytecode on the disk, each of them compiles what it imports anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo up test test-all thorough soak bench histories snapshots lint style types format client docs vendor dashboards pictures figures release bundle lock clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv and install everything from requirements.lock, checked by hash (once)

demo: $(INSTALLED) ## Kill a worker in the middle of a tool call, and show that it completes (ARGS=crawl: run a real Actor)
	@$(BIN)/outlast demo $(ARGS)

up: $(INSTALLED) ## Start the embedded stack and leave it running until Ctrl-C
	@exec $(BIN)/outlast up $(ARGS)

test: $(INSTALLED) ## Install what tests need of the system, and run the fast tier (or the tests that ARGS names)
	@$(BIN)/python -m tests.support.needs --programs
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) $(or $(ARGS),-m "fast and not thorough")

test-all: $(INSTALLED) ## Run all tests except those marked `thorough`
	@$(BIN)/python -m tests.support.needs --programs
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) $(or $(ARGS),tests)

thorough: $(INSTALLED) ## Run what `make test-all` leaves out: further variants, and what takes longest (hosted CI: every night)
	@$(BIN)/python -m tests.support.needs --thorough
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) -m thorough $(or $(ARGS),tests)

soak: $(INSTALLED) ## Mixed load while everything is killed at random (SEED=1 MINUTES=2, ARGS="--table FILE")
	@$(BIN)/python -m tests.support.needs
	@$(BIN)/python -m tests.soak --seed $(SEED) --minutes $(MINUTES) $(ARGS)

bench: $(INSTALLED) ## Measure, and print a table (ARGS="latency --json FILE"; ARGS="--check": no ratio has become worse)
	@$(BIN)/python -m tests.benchmarks $(ARGS)

histories: $(INSTALLED) ## Record what replay tests replay, and list what workflows do, for the next release
	@$(BIN)/python -m tests.histories.record

snapshots: $(INSTALLED) ## Write tests/snapshots: what REST, MCP, the command line and the Python client offer
	@$(BIN)/python -m pytest --write-snapshots tests/integration/core/test_public_surfaces.py

lint: style types ## Check style, formatting, types and the direction of imports

# In two, for CI: the second takes a minute of a core.
style: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry --no-ansi .

types: $(INSTALLED)
	$(BIN)/pyright

format: $(INSTALLED) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

client: $(INSTALLED) ## Write the blocking client (outlast/client/blocking) from the asynchronous one
	@$(BIN)/python .ci/blocking_client.py

docs: $(INSTALLED) ## Draw the pictures of docs/ that are made from text, and write the tables and programs that are made from other files
	$(BIN)/python docs/pictures/draw.py
	$(BIN)/python -m tests.benchmarks.peers.table
	$(BIN)/python -m tests.support.option_tables
	$(BIN)/python -m tests.support.compared

HTMX := htmx.org@4.0.1
vendor: ## Fetch the JavaScript libraries of the console again (needs npm); a test holds their digests
	@folder=$$(mktemp -d) && npm pack --silent --pack-destination $$folder $(HTMX) && tar -xzf $$folder/*.tgz -C $$folder && cd $$folder/package && \
		cp dist/htmx.min.js dist/ext/hx-sse.min.js $(CURDIR)/api/console/static/ && cp LICENSE $(CURDIR)/api/console/static/htmx-LICENSE.txt && \
		rm -r $$folder && cd $(CURDIR)/api/console/static && sha256sum htmx* hx-sse*

dashboards: $(INSTALLED) ## Write the Grafana dashboards that deploy/grafana/boards describes
	@$(BIN)/python -m outlast.deploy.grafana

pictures: $(INSTALLED) ## Draw docs/pictures/outlast-*.svg: each dashboard with the data of a real stack under load (6 minutes)
	@$(BIN)/python -m tests.support.needs
	@$(BIN)/python -m tests.pictures $(ARGS)

figures: $(INSTALLED) ## Print the size of the product code beside the sizes to reach
	@$(BIN)/python .ci/figures.py

release: $(INSTALLED) ## Set VERSION=1.2.3, close the changelog's section, build and check dist/; publish nothing
	@$(BIN)/python .ci/release.py "$(VERSION)"

bundle: $(INSTALLED) ## Make an MCP bundle for desktop clients, and server.json for the MCP registry, in dist/ (ARGS="--name ...")
	@$(BIN)/python .ci/bundle.py $(ARGS)

lock: ## Resolve pyproject.toml again into the lock files (needs uv; ARGS="--upgrade" for newer versions)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile --quiet --universal --generate-hashes --no-header --all-extras --group dev --group build \
		--output-file requirements.lock $(ARGS) pyproject.toml
	uv pip compile $(LOCK_PART) --extra server --extra models --extra programs --output-file deploy/images/outlast.lock pyproject.toml
	uv pip compile $(LOCK_PART) --all-extras --output-file deploy/images/embedded.lock pyproject.toml
	uv pip compile $(LOCK_PART) --group image --output-file deploy/images/build.lock
	@! grep -nE 'https?://' $(LOCKS) || { echo "lock files must not hold addresses" >&2; exit 1; }

clean: ## Remove .venv, caches and the state of the embedded stack in .outlast
	rm -rf $(VENV) .outlast .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Outlast needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Name another: make install PYTHON=python3.12" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "This Python cannot create environments. On Debian and Ubuntu: apt-get install python3-venv (as root), then run make again." >&2; exit 1; }
	@echo "[1/4] Creating $(VENV)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip --upgrade >/dev/null
	@# Without --no-deps, a resolver takes newer releases of what an extra asks for (pydantic[email]), which no hash covers.
	@# uv takes a tenth of pip's time, but knows nothing of an index that only pip's settings name.
	@echo "[2/4] Installing uv, which installs the other packages"
	@awk '/^uv==/, !/\\$$/' requirements.lock > $(VENV)/uv.txt
	@$(PIP_INSTALL) --no-deps --require-hashes -r $(VENV)/uv.txt
	@echo "[3/4] Installing $$(grep -c '^[a-z].*==' requirements.lock) packages from requirements.lock, verified by hash"
	@$(BIN)/uv pip install $(QUIET) --system-certs --python $(BIN)/python --no-deps --require-hashes -r requirements.lock \
		|| { echo "uv cannot install them; installing with pip (a minute or two)"; $(PIP_INSTALL) --no-deps --require-hashes -r requirements.lock; }
	@echo "[4/4] Installing Outlast"
	@$(PIP_INSTALL) --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m pip check --disable-pip-version-check >/dev/null || { $(BIN)/python -m pip check; exit 1; }
	@touch $@
