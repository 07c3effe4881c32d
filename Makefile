# The tasks of a developer, as targets. The targets use the environment `.venv` in the checkout. scripts/setup_env.sh makes
# this environment, and runs again only after a change of a file that decides its content.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
ARGS ?=
# Where the demonstration runs its Spark jobs: local or standalone.
CLUSTER ?= local
# Processes that run tests, each with a separate Spark (up to 4 GB).
WORKERS ?= 2

# spark-submit finds Spark through the first `python3` on the path. The caller's environment must not name another Spark or
# Python, because the tests would then run with it.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
unexport SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH PYTHONHOME
# Container images often set this variable. Each of the hundreds of Python processes of the tests would then compile
# Airflow and PySpark again.
unexport PYTHONDONTWRITEBYTECODE

STAMP := .venv/.setup-done
OLDEST := .venv-oldest/.setup-done

# Another Airflow or Spark could break these parts: the provider, a DAG with real jobs, and each use of Spark's internals.
TESTS_ON_OLDEST := tests/airflow tests/examples/test_orders_ingest.py tests/storage/test_connections.py \
    tests/spark/scan/test_scan.py tests/spark/reader/test_deleted_rows.py tests/spark/layout/test_z_order.py tests/spark/write/test_modes.py \
    tests/spark/write/test_direct_write.py tests/spark/row_changes/test_known_positions.py \
    tests/spark/merge/test_rules.py tests/spark/expressions/test_predicates.py tests/spark/table/test_define_table.py

# These tests of the page use stand-ins for Airflow, or a browser. Their results do not depend on Airflow's version.
NOT_ON_OLDEST := $(patsubst %,--ignore=tests/airflow/page/test_%.py, \
    accessibility changed_rows columns freshness hostile_texts layout_view list_in_browser plots previews)

# All tests of these folders need Spark or a server, or are slow. Without them, pytest collects the quick tests faster.
NOT_QUICK := $(patsubst %,--ignore=tests/%,clusters faults interop packaging spark storage system)

# The factor by which a campaign multiplies the number of random examples.
FACTOR ?= 50
# The scale factor of TPC-DS for the standard benchmarks, and the suites that run; all if it is empty.
SCALE ?= 1
SUITES ?=
# The families of tests that a campaign runs, as scripts/campaign.sh names them; all if it is empty.
FAMILIES ?=

# All tests of a file run on one worker. So do all tests of a folder that shares a whole Airflow
# (tests/support/selection.py). The workers get the files in the order of their names. With xdist's default order, by the
# number of tests, the few long tests of a whole Airflow would come last, and one worker would wait for the other.
DISTRIBUTED := --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# The checks of lint, each as a target, so that make runs two of them at the same time.
CHECKS := check-types check-language check-style check-format

.PHONY: help setup environments java hadoop reference kubernetes object-stores helm classes quick smoke test test-oldest clusters campaign lint $(CHECKS) format pages pictures docs bench bench-suites timeline demo demo-ui clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: java $(STAMP) ## Make the environment .venv (quick when nothing changed)

java: # checks the Java that Spark needs, each time, because .venv does not contain Java
	@scripts/ensure_java.sh

environments: setup hadoop reference classes $(OLDEST) # makes all that a run of CI needs

# The installed package has metadata with the version.
$(STAMP): pyproject.toml constraints.txt Makefile scripts/setup_env.sh spark_jobs/deltalite/version.py | java
	@PYTHON=$(PYTHON) scripts/setup_env.sh
	@touch $@

$(OLDEST): pyproject.toml constraints.txt constraints-oldest.txt Makefile scripts/setup_env.sh | java
	@PYTHON=$(PYTHON) scripts/setup_env.sh oldest
	@touch $@

classes: $(STAMP) # makes an archive of Spark's classes, with which the tests run faster
	@scripts/share_classes.sh

hadoop: $(STAMP) # fetches parts of Hadoop that PySpark lacks, for the tests on HDFS, S3, Azure and YARN
	@scripts/fetch_hadoop.sh

reference: $(STAMP) # makes the environment of the tests with delta-spark: another Spark, and its jars
	@scripts/setup_reference.sh

quick: lint ## Check style and types, and run the tests that need neither Spark nor a server (4 minutes)
	.venv/bin/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m "not (spark or server or slow)" $(NOT_QUICK) $(ARGS)

smoke: setup classes ## Run each operation once on Spark, and one DAG through Airflow (6 minutes)
	.venv/bin/python -m pytest $(DISTRIBUTED) -m smoke $(ARGS)

test: setup hadoop reference classes ## Run the tests that a release needs (ARGS="tests/unit -x" for some)
	.venv/bin/python -m pytest $(DISTRIBUTED) --durations=15 $(ARGS)

campaign: setup hadoop reference kubernetes object-stores helm classes $(OLDEST) ## Run every test, with FACTOR (50) times as many random examples (hours)
	scripts/campaign.sh $(FACTOR) $(WORKERS) $(FAMILIES)

kubernetes: $(STAMP) # builds the programs and images of the tests on Kubernetes
	@scripts/kubernetes/build.sh

object-stores: $(STAMP) # builds the servers of the tests on object stores
	@scripts/object_stores/build.sh

helm: # builds Helm and gets the chart, for the tests of the values for Airflow's chart
	@scripts/helm/build.sh

clusters: setup hadoop kubernetes helm ## Run all tests on real clusters: standalone, YARN with HDFS, Kubernetes (hours)
	.venv/bin/python -m pytest tests/clusters --campaign --durations=0 $(ARGS)

test-oldest: java $(OLDEST) ## Run some tests on the oldest Airflow and Spark that are supported
	PATH="$(CURDIR)/.venv-oldest/bin:$$PATH" .venv-oldest/bin/python -m pytest -W default --generated-code -m "not slow or smoke" \
	    $(DISTRIBUTED) --durations=15 $(NOT_ON_OLDEST) $(TESTS_ON_OLDEST) $(ARGS)

lint: $(STAMP) ## Check style, format and types
	@$(MAKE) --no-print-directory --jobs 2 --keep-going --output-sync $(CHECKS)

check-types: # the longest check is the first
	.venv/bin/mypy

check-language:
	.venv/bin/python scripts/check_language.py

check-style:
	.venv/bin/ruff check .

check-format:
	.venv/bin/ruff format --check .

format: $(STAMP) ## Format, and fix what ruff can fix
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

pages: $(STAMP) ## Refresh the generated parts of the pages in docs/
	.venv/bin/python docs/_generate/pages.py
	PYTHONPATH=. .venv/bin/python -m benchmarks.suites.page

pictures: setup ## Make the pictures in docs/ from a real run (needs Chromium)
	.venv/bin/python scripts/make_pictures.py

docs: pages ## Refresh the pages, and build the site into docs/_build/html
	.venv/bin/sphinx-build --fail-on-warning --keep-going --nitpicky --fresh-env --quiet docs docs/_build/html $(ARGS)
	@echo "docs/_build/html/index.html"

bench: setup ## Run the benchmarks, and say what became slower since the last release (ARGS="bench_scan bench_rows")
	@.venv/bin/python benchmarks/run.py $(ARGS)

timeline: setup ## Measure the steps of a small append, and draw them for the documentation
	PYTHONPATH=. .venv/bin/python benchmarks/task_timeline.py

bench-suites: setup reference ## Run the standard benchmarks, and make docs/benchmarks.md (SUITES="merge load" for some, SCALE=0.1)
	PYTHONPATH=".:$$(echo .venv-reference/lib/python*/site-packages)" .venv/bin/python -m benchmarks.suites --scale $(SCALE) $(ARGS) $(SUITES)
	PYTHONPATH=. .venv/bin/python -m benchmarks.suites.page

demo: setup ## Run the example DAGs on a real Airflow and show the table (CLUSTER=standalone: on a Spark cluster)
	@.venv/bin/python demo/run_demo.py --cluster $(CLUSTER) $(ARGS)

demo-ui: setup ## Show the tables of the demonstration in Airflow's UI until Ctrl-C (ARGS="--port 8081" for another port)
	@.venv/bin/python demo/run_ui.py $(ARGS)

clean: ## Remove the environments, the caches, and the files that runs left
	rm -rf .venv .venv-oldest .venv-reference .hadoop .helm .kubernetes .object_stores .airflow .demo* .benchmarks build dist spark-warehouse metastore_db derby.log artifacts
	rm -rf docs/_build .campaign .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
