# What a developer does, by name. All targets share one environment, `.venv` in the checkout; how it is made is written in
# scripts/setup_env.sh, and it is made again only when one of the files that say what is in it has changed.

SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
ARGS ?=

# spark-submit finds Spark through the first `python3` on the path; a Spark or Python named by the caller's own
# environment would be a different one from the one that is tested.
export PATH := $(CURDIR)/.venv/bin:$(PATH)
unexport SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON PYTHONPATH PYTHONHOME

STAMP := .venv/.setup-done

.PHONY: help setup java hadoop test lint format bench demo clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' Makefile

setup: java $(STAMP) ## Make the environment .venv (quick when nothing changed)

java: # Spark needs it; checked each time, because it is no part of .venv
	@scripts/ensure_java.sh

$(STAMP): pyproject.toml constraints.txt Makefile scripts/setup_env.sh
	@PYTHON=$(PYTHON) scripts/setup_env.sh
	@touch $@

hadoop: $(STAMP) # the tests on HDFS and S3A need parts of Hadoop that PySpark does not bring
	@scripts/fetch_hadoop.sh

test: setup hadoop ## Run all tests (ARGS="tests/unit -x" for some)
	.venv/bin/python -m pytest $(ARGS)

lint: $(STAMP) ## Check style, format and types
	@failed=0; for check in "ruff check ." "ruff format --check ." "mypy"; do \
	    echo "$$check"; .venv/bin/$$check || failed=1; \
	done; exit $$failed # all three speak, also after one has failed

format: $(STAMP) ## Format, and fix what ruff can fix
	.venv/bin/ruff check --fix .
	.venv/bin/ruff format .

bench: setup ## Run the benchmarks, side by side with their peers
	@for script in benchmarks/bench_*.py; do .venv/bin/python "$$script" $(ARGS) || exit 1; done

demo: setup ## Run the example DAGs on a real Airflow and show the table
	@.venv/bin/python demo/run_demo.py $(ARGS)

clean: ## Remove the environment, caches and whatever runs left behind
	rm -rf .venv .hadoop .airflow .demo* .benchmarks build dist spark-warehouse metastore_db derby.log artifacts
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
