# Everything there is to do here. `make` alone prints the list.
# Needs make, Python 3.11 or newer and a network to the package registries; all else is installed
# into .venv, once, and again only when a lock or pyproject.toml changes.

# What `make run` is asked when it is given no PROMPT="...".
PROMPT ?= A web service that lets small bakeries publish what is left over at closing time, so that \
neighbours can reserve and collect it at a lower price. It should start in one town with twenty \
bakeries, work on any phone without an app, and cost the bakers no more than five minutes a day.

# PYTHON=... chooses the interpreter that .venv is made with.
PYTHON ?=
# More words for pytest, and for the benchmarks.
ARGS ?=
BENCH ?=
# Where collections with judgements are, for the measure of quality.
export BENCH_DATA ?=

SHELL := /bin/sh
.SUFFIXES:
.NOTPARALLEL:
.DEFAULT_GOAL := help
.PHONY: help setup run serve test check fmt lint types types-web unit browser golden demo bench bench-web fuzz chaos chaos-full docs lock clean \
	trial-local openapi-types openapi-check elsewhere

# Bytecode is written whatever the caller prefers: every command would compile the program again.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PYTHONDONTWRITEBYTECODE

# The prompt travels as it was typed: through the environment, read neither by make nor by a shell.
export RUN_PROMPT := $(value PROMPT)
unexport PROMPT

# An environment that has the development tools keeps them.
SET := $(if $(wildcard .venv/.stamp-dev),dev,run)
PYTEST := .venv/bin/python -m pytest -q $(ARGS)
CODE := $(wildcard src tests bench chaos trial requirements tools)

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: .venv/.stamp-dev ## Make .venv with all that development needs

run: .venv/.stamp-$(SET) ## Run one whole dialectic into out/; PROMPT="..." says on what
	@.venv/bin/dialectic run --process standard --yes --out out -- "$$RUN_PROMPT"

serve: .venv/.stamp-$(SET) ## Serve the web app and the API on this machine, and open the first page
	@DIALECTIC_OFFLINE_WORDS_PER_S=$${DIALECTIC_OFFLINE_WORDS_PER_S:-250} .venv/bin/dialectic serve --open

test: .venv/.stamp-dev ## Run all tests, properties with all their examples; ARGS="..." goes to pytest
	@.venv/bin/python -m tools.browser
	@HYPOTHESIS_PROFILE=thorough $(PYTEST) -n 3 tests

browser: .venv/.stamp-dev ## Find a Chromium for the browser tests; as root on Debian or Ubuntu, install it
	@.venv/bin/python -m tools.browser --install

check: lint types test ## Check the code, its form, its arrows and its types, then run all tests

fmt: .venv/.stamp-dev ## Put the code into its form
	@.venv/bin/ruff check --quiet --fix-only .
	@.venv/bin/ruff format .

lint: .venv/.stamp-dev ## Check the form of the code, its rules, and that imports point one way
	@.venv/bin/ruff format --check .
	@.venv/bin/ruff check .
	@.venv/bin/lint-imports --no-logo

types: .venv/.stamp-dev ## Check the types
	@.venv/bin/mypy $(CODE)

types-web: .venv/.stamp-dev ## Check the types of the web app's modules; fetches the compiler once, with npm
	@.venv/bin/python -m tools.types_web

# In one process: a second one would import and collect everything again, for half a minute of work.
unit: .venv/.stamp-dev ## Run the tests that need no database, no process and no long time
	@$(PYTEST) tests/unit

golden: .venv/.stamp-dev ## Record what the product does now in tests/golden; the diff shows what changed
	@GOLDEN=rewrite $(PYTEST) tests/golden
	@.venv/bin/python tools/openapi_types.py

demo: .venv/.stamp-$(SET) ## Show a whole dialectic between offline models, in a folder of its own
	@unset OPENAI_API_KEY ANTHROPIC_API_KEY GEMINI_API_KEY GOOGLE_API_KEY; \
	unset DIALECTIC_DATABASE_URL DIALECTIC_STORAGE_URL DIALECTIC_DEFAULT_MODELS; \
	folder=$$(mktemp -d) && export DIALECTIC_HOME="$$folder/home" && \
	printf 'The prompt:\n\n%s\n\n' "$$RUN_PROMPT" && \
	.venv/bin/dialectic run --yes --out "$$folder/out" -- "$$RUN_PROMPT" && \
	printf '\nThe documents, in %s:\n\n' "$$folder/out" && \
	cd "$$folder/out" && find . -type f | sort

bench: .venv-bench/.stamp-bench ## Measure against the peers; BENCH="..." goes to the benchmarks
	@.venv-bench/bin/python -m bench $(BENCH)

bench-web: .venv/.stamp-dev ## Measure the web app in a browser
	@.venv/bin/python -m tools.bench_web $(BENCH)

fuzz: .venv/.stamp-dev ## Send the API thousands of requests made from its description; try every property at length
	@API_EXAMPLES=100 $(PYTEST) tests/scenario/test_api_schema.py
	@HYPOTHESIS_PROFILE=thorough $(PYTEST) -n 2 tests/unit tests/thorough

chaos: .venv/.stamp-dev ## Kill, starve and cut off a running engine, for some minutes
	@.venv/bin/python -m chaos

chaos-full: .venv/.stamp-dev ## The same, with every fault
	@.venv/bin/python -m chaos --full

trial-local: .venv-trial/.stamp-trial ## Argue with a real small model, served by llama.cpp, until antithesis
	@.venv-trial/bin/python -m trial

openapi-types: .venv/.stamp-dev ## Write the types of the API for the pages of the web app
	@.venv/bin/python tools/openapi_types.py

openapi-check: .venv/.stamp-dev .venv-openapi/.stamp-openapi ## Make a client of the API's description, and call every operation with it
	@.venv/bin/python -m trial.openapi .venv-openapi/bin/python

docs: .venv/.stamp-dev ## Write docs/modules.md, check what the documents name, run their examples
	@.venv/bin/python -m tests.tidy.module_list
	@$(PYTEST) tests/tidy tests/scenario/test_pages.py tests/scenario/test_walks.py

# Locks hold versions and hashes for every platform, and no address. UPGRADE=1 takes newer versions.
COMPILE = env -u UV_INDEX -u UV_EXTRA_INDEX_URL -u UV_FIND_LINKS -u UV_CONSTRAINT -u UV_OVERRIDE \
	-u UV_EXCLUDE_NEWER -u UV_PRERELEASE -u UV_RESOLUTION .venv/bin/uv pip compile --no-config \
	--quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url \
	--no-emit-find-links $(if $(UPGRADE),--upgrade)
PROJECT := pyproject.toml requirements/build.in

lock: .venv/.stamp-$(SET) ## Rewrite requirements/*.lock from pyproject.toml; UPGRADE=1 for newer versions
	@$(COMPILE) requirements/installer.in -o requirements/installer.lock
	@$(COMPILE) $(PROJECT) -o requirements/run.lock
	@$(COMPILE) $(PROJECT) --extra dev -c requirements/run.lock -o requirements/dev.lock
	@$(COMPILE) $(PROJECT) --extra bench -c requirements/run.lock -o requirements/bench.lock
	@$(COMPILE) --no-deps requirements/run.lock requirements/trial.in -o requirements/trial.lock
	@$(COMPILE) requirements/build.in requirements/openapi.in -o requirements/openapi.lock

clean: ## Remove what was installed and cached; out/ stays
	@rm -rf .venv .venv.busy .venv-bench .venv-bench.busy .venv-trial .venv-trial.busy .venv-openapi .types-web .browser \
	  .venv-openapi.busy build dist
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find src tests $(wildcard bench chaos trial) requirements -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp names the folder it was written in. Where that is another one, the environment was copied
# or moved, its scripts point elsewhere, and it is created again.
moved = $(if $(shell test -x $(1)/bin/python && test "$$(cat $(1)/.stamp-$(2) 2>&1)" = "$$(pwd -P)" \
	&& echo here),,elsewhere)

define install
	@if [ -n "$(PYTHON)" ]; then set -- "$(PYTHON)"; \
	else set -- python3 python3.11 python3.12 python3.13 python3.14; fi; \
	for python in "$$@"; do \
	  if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	    >/dev/null 2>&1; then exec "$$python" requirements/install.py $(1) $(2); fi; \
	done; \
	echo "Python 3.11 or newer with its venv module is needed, and none of these is: $$*." >&2; \
	echo "Install one, or name it: make PYTHON=path/to/python3 ..." >&2; \
	exit 1
endef

# The version is in the sources, and an installed package remembers the one it was installed with.
SOURCES := requirements/installer.lock requirements/install.py pyproject.toml src/dialectic/__init__.py

.venv/.stamp-run: requirements/run.lock $(SOURCES) $(call moved,.venv,run)
	$(call install,.venv,run)

.venv/.stamp-dev: requirements/dev.lock $(SOURCES) $(call moved,.venv,dev)
	$(call install,.venv,dev)

.venv-bench/.stamp-bench: requirements/bench.lock $(SOURCES) $(call moved,.venv-bench,bench)
	$(call install,.venv-bench,bench)

.venv-trial/.stamp-trial: requirements/trial.lock $(SOURCES) $(call moved,.venv-trial,trial)
	$(call install,.venv-trial,trial)

.venv-openapi/.stamp-openapi: requirements/openapi.lock $(SOURCES) $(call moved,.venv-openapi,openapi)
	$(call install,.venv-openapi,openapi)
