# `make setup` makes .venv. Targets update the virtual environments that they use: .venv, and for some another one.
PYTHON  ?= python3
VENV    ?= .venv
WORKERS ?= 2
ARGS    ?=
# A file of versions and hashes. With it, pip installs only these; .ci/run sets it.
LOCK    ?=

# The Spark releases of `make test-matrix`. The jar is compiled against the one in .venv.
MATRIX  ?= 4.0 4.1 4.2
# The tests that depend on how a release of Spark plans, reads and writes; options are checked by our own code on every
# release. All tests: make test-matrix MATRIX_TESTS=tests/jar
WRITES       := save_modes_equal_parquets partitions_and_compression_equal_parquets \
                dynamic_partition_overwrite_keeps_other_partitions table_options_apply_to_every_write
MATRIX_TESTS ?= $(patsubst %,tests/jar/test_%.py,plain_reuse plain_files short_reads) \
                $(patsubst %,tests/jar/test_writing.py::test_%,$(WRITES))
# The tests of Delta Lake and Iceberg, on 4.1 all of them. They run first: a JVM gets the connectors when it starts.
KINDS        := delta.py::test_each_kind_of_table_is_pruned delta.py::test_statements_look_for_their_files_pruned \
                iceberg_changes.py::test_a_statement_changes_its_rows_only
TABLE_TESTS  ?= $(if $(filter 4.1,$*),tests/connectors,$(patsubst %,tests/connectors/test_%,$(KINDS)))

BIN    := $(VENV)/bin
STAMP  := $(VENV)/.stamp
# PySpark has no wheel: pip makes one and unpacks it, and to compress it takes longer than both.
INSTALL := -m pip install --quiet --disable-pip-version-check --config-settings=--build-option=--compression=stored
PIP    := $(BIN)/python $(INSTALL)
JAVA   := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
JAR    := python/pyspark_bloomparquet/jars/bloomparquet.jar
ARCHIVE := $(VENV)/spark.jsa
PYTEST := -m pytest -n $(WORKERS) --dist loadscope --no-loadscope-reorder

# The jar and the wheel need only these, the extra `build` of pyproject.toml.
BUILD_STAMP := $(VENV)/.build-stamp
BUILD_TOOLS := $(shell sed -n 's/^build = \[\(.*\)\].*/\1/p' pyproject.toml | tr -d ,)

# The fuzzers need only these, the extra `fuzz`.
FUZZ_TOOLS := $(shell sed -n 's/^fuzz = \[\(.*\)\].*/\1/p' pyproject.toml | tr -d ,)

.DEFAULT_GOAL := help
.PHONY: help setup setup-matrix jar demo test test-core test-all test-matrix connectors switches faults fuzz mutants random-sql walk lint docs notebooks bench wheel packages verify-release release sbom lock clean java

help: ## Show this list
	@echo "make <target> [ARGS=\"…\"] [PYTHON=python3.12] [WORKERS=2]"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

setup: $(STAMP) ## Make .venv and install the project into it, with Spark and the development tools

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' \
		|| { echo "error: Python 3.10 or newer is needed; name one with: make $(MAKECMDGOALS) PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
		|| { echo "error: $(PYTHON) has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@touch $@

$(BUILD_STAMP): $(VENV)/.made pyproject.toml
	@echo "installing into $(VENV)"
	@$(PIP) $(if $(LOCK),--require-hashes -r $(LOCK),$(BUILD_TOOLS))
	@touch $@

$(STAMP): $(BUILD_STAMP)
	@$(PIP) $(if $(LOCK),--no-deps --no-build-isolation) --editable '.[spark,dev]'
	@touch $@

java:
	@major=$$("$(JAVA)" -version 2>&1 | sed -n 's/.* version "\([0-9]*\).*/\1/p'); \
	if [ "$${major:-0}" -lt 17 ]; then \
		echo "error: Spark needs Java 17 or newer, found $${major:+version }$${major:-none} (looked for $(JAVA))." >&2; \
		echo "       Debian and Ubuntu: apt-get install openjdk-17-jdk-headless; or set JAVA_HOME to one you have." >&2; \
		exit 1; \
	fi

jar: $(JAR) ## Compile the jar for Spark

IF_POSSIBLE :=
# find also lists the directories, whose times change when a source is removed.
$(JAR): $(BUILD_STAMP) jvm-shim/build.py $(shell find jvm-shim/src)
	@$(BIN)/python jvm-shim/build.py $(IF_POSSIBLE)

demo: IF_POSSIBLE := --optional # without a JDK, the demo shows the Python data source
demo: $(STAMP) java $(JAR) ## Look up rows in two event logs, before and after attach(spark), and compare
	@$(BIN)/python examples/demo.py $(ARGS)

test: $(STAMP) java $(JAR) ## Run the tests that are not slow; ARGS go to pytest: make test ARGS="-k timestamp"
	@$(BIN)/python $(PYTEST) -m "not slow" $(ARGS)

test-core: $(STAMP) ## Run the tests that need no Java and are not slow
	@$(BIN)/python $(PYTEST) -m "not spark and not jar and not slow" $(ARGS)

# Pays from about ten JVMs: not for the other targets.
$(ARCHIVE): $(STAMP) tests/support/class_archive.py | java
	@echo "storing the classes of Spark in $@"
	@$(BIN)/python -m tests.support.class_archive

test-all: $(STAMP) java $(JAR) $(ARCHIVE) ## Run all tests
	@$(BIN)/python $(PYTEST) $(ARGS)

connectors: $(STAMP) ## Fetch the jars of Delta Lake, Iceberg, S3A, GCS and Comet that tests use, with Maven; the tests else fetch them
	@$(BIN)/python -m tests.support.connectors

setup-matrix: $(MATRIX:%=$(VENV)-%/.stamp) ## Install the other PySpark releases, for test-matrix

test-matrix: $(MATRIX:%=test-on-%) ## Run the jar's tests of plans and scans on PySpark 4.0, 4.1 and 4.2

# The tests run the one jar, which is compiled against .venv's Spark. link.py checks that every class, field and method
# that this jar uses exists in the other Spark, also where no test goes.
.PHONY: $(MATRIX:%=test-on-%)
$(MATRIX:%=test-on-%): test-on-%: $(STAMP) $(VENV)-%/.stamp java $(JAR)
	@$(VENV)-$*/bin/python jvm-shim/link.py
	@$(VENV)-$*/bin/python $(PYTEST) $(TABLE_TESTS) $(MATRIX_TESTS) $(ARGS)

# This venv has only PySpark. A .pth file appends the packages of .venv to its path.
PACKAGES := -c 'import sysconfig; print(sysconfig.get_path("purelib"))'
$(MATRIX:%=$(VENV)-%/.stamp): $(VENV)-%/.stamp: $(VENV)/.made
	@echo "installing PySpark $* into $(VENV)-$*"
	@$(BIN)/python -m venv --clear $(VENV)-$*
	@$(VENV)-$*/bin/python $(INSTALL) 'pyspark==$*.*'
	@echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES))')" > "$$($(VENV)-$*/bin/python $(PACKAGES))/venv.pth"
	@touch $@

# TARGET: one of tests/fuzz; all if empty. SECONDS and EXECUTIONS: the most for each target.
TARGET  ?=
SECONDS ?= 60
EXECUTIONS ?= -1
fuzz: $(VENV)-fuzz/.stamp ## Fuzz with coverage guidance: make fuzz TARGET=footer SECONDS=600
	@$(VENV)-fuzz/bin/python -m tests.fuzz $(TARGET) --seconds $(SECONDS) --executions $(EXECUTIONS)

$(VENV)-fuzz/.stamp: $(STAMP)
	@echo "installing the fuzzers into $(VENV)-fuzz"
	@$(BIN)/python -m venv --clear $(VENV)-fuzz
	@$(VENV)-fuzz/bin/python -m pip install --quiet --disable-pip-version-check $(FUZZ_TOOLS)
	@echo "import site; site.addsitedir('$$($(BIN)/python $(PACKAGES))')" > "$$($(VENV)-fuzz/bin/python $(PACKAGES))/venv.pth"
	@touch $@

SWITCHES     ?= partitions statistics bloom index caches planning
SWITCH_TESTS ?= tests/differential tests/indexing/test_differential.py tests/jar/test_plain_random.py tests/jar/test_orc_differential.py

switches: $(STAMP) java $(JAR) ## Run the comparisons with each kind of evidence, the caches and planning switched off
	@for each in $(SWITCHES); do \
		echo "without $$each"; \
		BLOOMPARQUET_WITHOUT=$$each PYTHONPATH="$(CURDIR)/tests/support/switched:$(CURDIR)" \
			$(BIN)/python $(PYTEST) $(SWITCH_TESTS) --ignore tests/differential/test_switches.py $(ARGS) || exit 1; \
	done

SEED   ?= 0
NUMBER ?= 10000

faults: $(STAMP) java $(JAR) ## Inject NUMBER faults into storage, frames and files that are replaced: make faults SEED=7 NUMBER=100
	@BLOOMPARQUET_SEED=$(SEED) BLOOMPARQUET_FAULTS=$(NUMBER) \
		$(BIN)/python -m pytest -q -s tests/faults tests/jar/test_planner_frames.py $(ARGS)

PAIRS  ?= 100000
FROM   ?= 0
FAULTS ?=
random-sql: $(STAMP) java $(JAR) ## Compare PAIRS=100000 random queries by every way in with plain Spark; FAULTS=1: find faults put in
	@$(BIN)/python -m tests.differential.$(if $(FAULTS),faults --seed $(SEED),random_run --pairs $(PAIRS) --seed $(SEED) --first $(FROM))

lint: $(STAMP) $(JAR) ## Check style and types: ruff, mypy --strict, and javac -Xlint when the jar is compiled
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict python hatch_build.py jvm-shim/build.py jvm-shim/link.py jvm-shim/release.py tests
	@$(BIN)/python -m tests.lines

# mutmut needs many packages, so only this target installs it.
$(VENV)/.mutants-stamp: $(STAMP)
	@$(PIP) $$(sed -n 's/^mutants = \["\(.*\)"\].*/\1/p' pyproject.toml)
	@touch $@

mutants: $(VENV)/.mutants-stamp java ## Change the code that skips row groups, and list the changes that no test notices; takes hours: make mutants FILES=judge
	@$(BIN)/python -m tests.mutants $(FILES) $(ARGS)

walk: $(STAMP) ## Print the functions that one warm lookup enters, in order
	@$(BIN)/python -m tests.walk

docs: $(STAMP) ## Make the site in build/site from docs/ and the docstrings; a broken link is an error
	@$(BIN)/python -m sphinx -W --keep-going -q docs build/site/pages
	@echo '<meta http-equiv="refresh" content="0; url=pages/contents.html">' > build/site/index.html

notebooks: $(STAMP) java $(JAR) ## Run the notebooks in examples/ and store what they show
	@$(BIN)/python -m tests.support.notebooks

bench: $(STAMP) java $(JAR) ## Run the benchmarks: plans, lookups and reads, against other engines
	@$(BIN)/python -m tests.bench $(ARGS)

wheel: $(BUILD_STAMP) $(JAR) ## Build the wheel, with the jar in it, into dist/
	@rm -rf dist
	@$(BIN)/python -m hatchling build -t wheel

packages: wheel ## Build the wheel, the sdist and a Maven repository with the jar into dist/
	@$(BIN)/python -m hatchling build -t sdist
	@rm -rf build/sdist && mkdir -p build/sdist && tar -xzf dist/*.tar.gz -C build/sdist --strip-components=1
	@cd build/sdist && "$(abspath $(BIN))/python" -m hatchling build -t wheel >/dev/null
	@cmp dist/*.whl build/sdist/dist/*.whl # the sdist is complete
	@$(BIN)/python jvm-shim/release.py maven

# The PySpark releases to verify with. The licences and the SBOM are those of the last.
CLEAN ?= 4.0 4.1 4.2 4.3
verify-release: $(CLEAN:%=verify-on-%) ## Install dist/ on a clean machine with PySpark 4.0, 4.1, 4.2 and 4.3, and use it

.PHONY: $(CLEAN:%=verify-on-%)
$(CLEAN:%=verify-on-%): verify-on-%: packages java
	@rm -rf build/clean-$*
	@began=$$(date +%s) && $(PYTHON) -m venv build/clean-$* \
		&& build/clean-$*/bin/python $(INSTALL) "$$(echo dist/*.whl)[spark]" 'pyspark==$*.*' \
		&& (cd build && clean-$*/bin/python -I ../tests/support/verify_release.py ../dist) \
		&& echo "PySpark $*: installed and used in $$(($$(date +%s) - began)) s"

LAST := $(lastword $(CLEAN))
release: $(BUILD_STAMP) $(JAR) ## Build and check all that is published, from a clean tree, into dist/
	@$(BIN)/python jvm-shim/release.py check
	@$(MAKE) --no-print-directory verify-release sbom
	@$(BIN)/python jvm-shim/release.py sums

# What the wheel needs may have these licences.
LICENCES := 3-Clause BSD License;Apache-2.0;Apache-2.0 OR BSD-3-Clause;BSD-2-Clause;BSD-3-Clause;BSD-3-Clause AND 0BSD AND MIT AND Zlib AND CC0-1.0;BSD License;MIT;MIT License;MIT-0

build/tools/.stamp:
	@$(PYTHON) -m venv build/tools
	@build/tools/bin/python -m pip install --quiet --disable-pip-version-check cyclonedx-bom pip-licenses pip-tools
	@touch $@

sbom: verify-on-$(LAST) build/tools/.stamp ## Check the licences of what the wheel needs, and list it in dist/ (CycloneDX)
	@build/tools/bin/pip-licenses --python build/clean-$(LAST)/bin/python --from=mixed --allow-only='$(LICENCES)' >/dev/null
	@build/tools/bin/cyclonedx-py environment --output-reproducible --of JSON -o dist/bloomparquet.cdx.json build/clean-$(LAST)/bin/python
	@sed -i 's|"file://[^"]*/|"|' dist/bloomparquet.cdx.json # the wheel's path on this machine

lock: build/tools/.stamp ## Write the versions and hashes that CI installs into .ci/requirements.txt
	@build/tools/bin/pip-compile --quiet --generate-hashes --allow-unsafe --strip-extras --no-annotate --no-header \
		--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --extra spark --extra dev \
		--output-file .ci/requirements.txt pyproject.toml
	@sed -i '/^# WARNING/,/^bloomparquet @/d' .ci/requirements.txt

clean: ## Remove the files that the other targets make
	rm -rf $(VENV) $(VENV)-[0-9]* $(VENV)-fuzz $(dir $(JAR)) build dist .demo .bench
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache metastore_db spark-warehouse derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
