#!/usr/bin/env bash
# Makes or updates the environment .venv: this project in editable form with its tools, at the versions of constraints.txt.
# With the argument `oldest` it is .venv-oldest, at the oldest versions that are supported: constraints-oldest.txt says which
# of the packages these are. May be run at any time: what is there already is kept. uv does the installing, since pip takes
# minutes for Spark and Airflow; it lives in the environment itself, so nothing outside the checkout is touched.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=".venv${1:+-$1}"
python="${PYTHON:-python3}"

# An environment of the caller's own must not leak into ours.
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON

fail() {
    echo "$*" >&2
    exit 1
}

constraints=constraints.txt
if (($# > 0)); then
    constraints="$(mktemp)"
    trap 'rm -f "$constraints"' EXIT
    # A package that both files pin has the version of the lane's own file, which comes first.
    awk -F '==' '!/^#/ && !seen[$1]++' "constraints-$1.txt" constraints.txt >"$constraints"
fi

pinned() { # the version of a package
    sed -n "s/^$1==\([^ ;]*\).*$/\1/p" "$constraints"
}

# 1. The interpreter.
if ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "Python 3.11 or later is needed and '$python' is $("$python" -V 2>&1 || true):" \
            "install one and name it, as in 'make setup PYTHON=python3.12'."
    # Debian packages venv apart; --clear also mends an environment whose interpreter has gone.
    "$python" -m venv --clear "$VENV" ||
        fail "'$python' cannot make a virtual environment: install its venv module" \
            "(on Debian or Ubuntu: 'sudo apt-get install python3-venv')."
fi

# 2. uv.
if [[ "$("$VENV/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$(pinned uv)" ]]; then
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$(pinned uv)"
fi
uv() { "$VENV/bin/uv" "$@"; }
export UV_PYTHON="$PWD/$VENV/bin/python" UV_PYTHON_DOWNLOADS=never

# 3. pyspark-client shares the folder pyspark/ with pyspark (see [tool.uv] in pyproject.toml, which keeps it out). Where
# another tool has put it into this environment, both go, so that the next step unpacks a whole pyspark.
if uv pip show --quiet pyspark-client 2>/dev/null; then
    uv pip uninstall --quiet pyspark-client pyspark
fi

# 4. Everything else, in one resolution.
uv pip install --quiet --constraints "$constraints" --editable '.[pyspark]' --group dev

# 5. What goes wrong unseen otherwise: with files of two packages in one folder, both the JVM and `import pyspark` still
# start. The JVM's version tells whether the jars are there, the module's whether the Python files beside them belong to them.
expected="$(pinned pyspark)"
jars="$(PATH="$PWD/$VENV/bin:$PATH" spark-submit --version 2>&1 | sed -n 's/^.*version \([0-9][0-9.]*\).*$/\1/p' | head -n 1 || true)"
module="$("$VENV/bin/python" -c 'import pyspark; print(pyspark.__version__)' 2>/dev/null || true)"
[[ "$jars" == "$expected" && "$module" == "$expected" ]] ||
    fail "The constraints pin pyspark $expected, but in $VENV spark-submit says '${jars:-nothing}' and the module" \
        "'${module:-nothing}': run 'make clean setup'."
echo "Environment ready: $("$VENV/bin/python" -V), Spark $expected, in $VENV."
