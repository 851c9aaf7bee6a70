# Everything runs in .venv, which `make setup` builds and every target keeps current.
PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2
ARGS    ?=

BIN   := $(VENV)/bin
STAMP := $(VENV)/.stamp
JAVA  := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
SHIM  := $(shell find jvm-shim/src -name '*.java' 2>/dev/null)

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint bench wheel verify-wheel clean java

help: ## Show this list
	@echo "make <target> [ARGS=\"…\"] [PYTHON=python3.12] [WORKERS=2]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## Make .venv and install the project into it, with Spark and the tools of development

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
		|| { echo "error: Python 3.10 to 3.13 is needed; name one with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@echo "installing into $(VENV)"
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "error: $(PYTHON) has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,dev]'
	@touch $@

java:
	@major=$$("$(JAVA)" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	if [ "$${major:-0}" -lt 17 ]; then \
		echo "error: Spark needs Java 17 or newer, found $${major:+version }$${major:-none} (looked for $(JAVA))." >&2; \
		echo "       Debian and Ubuntu: apt-get install openjdk-17-jre-headless; or set JAVA_HOME to one you have." >&2; \
		exit 1; \
	fi

demo: $(STAMP) java ## Write event logs with Spark and with pyarrow, look things up, compare with spark.read.parquet
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(STAMP) java ## Run the tests; ARGS go to pytest: make test ARGS="-k timestamp"
	@$(BIN)/python -m pytest -n $(WORKERS) --dist loadscope $(ARGS)

lint: $(STAMP) ## Check style and types: ruff, mypy --strict, and javac -Xlint where there is Java
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict python
ifneq ($(SHIM),)
	@mkdir -p build/lint
	$(JAVA)c -Xlint:all -Werror -proc:none -d build/lint \
		-cp "$$($(BIN)/python -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')/*" $(SHIM)
endif

bench: $(STAMP) java ## Measure: checks, hashes, plans, lookups against other engines
	@$(BIN)/python -m tests.bench $(ARGS)

wheel: $(STAMP) ## Build the wheel into dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t wheel

verify-wheel: wheel java ## Install the wheel into a fresh venv, and use it: import, command line, Spark
	@rm -rf build/wheel-venv
	@$(PYTHON) -m venv build/wheel-venv
	@build/wheel-venv/bin/python -m pip install --quiet --disable-pip-version-check "$$(echo dist/*.whl)[spark]"
	@cd build && wheel-venv/bin/python -I ../tests/support/verify_wheel.py

clean: ## Remove what the other targets made
	rm -rf $(VENV) .demo .bench build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache metastore_db spark-warehouse derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
