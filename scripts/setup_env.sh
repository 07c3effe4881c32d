#!/usr/bin/env bash
# Creates or updates the environment .venv: this project in editable form and its tools, in the versions of constraints.txt.
# With the argument `oldest` it creates .venv-oldest, with the oldest supported versions of the packages in
# constraints-oldest.txt. A second run changes nothing if the environment is up to date. The script installs packages with uv,
# because pip takes minutes for Spark and Airflow. uv is in the environment too, so nothing changes outside the checkout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=".venv${1:+-$1}"
python="${PYTHON:-python3}"

# Another environment of the caller must not affect this one.
unset VIRTUAL_ENV PYTHONHOME PYTHONPATH SPARK_HOME PYSPARK_PYTHON PYSPARK_DRIVER_PYTHON

fail() {
    echo "$*" >&2
    exit 1
}

constraints=constraints.txt
if (($# > 0)); then
    constraints="$(mktemp)"
    trap 'rm -f "$constraints"' EXIT
    # If both files pin a package, the version of the first file, constraints-$1.txt, applies.
    awk -F '==' '!/^#/ && !seen[$1]++' "constraints-$1.txt" constraints.txt >"$constraints"
fi

pinned() { # prints the pinned version of a package
    sed -n "s/^$1==\([^ ;]*\).*$/\1/p" "$constraints"
}

# 1. The interpreter.
if ! "$VENV/bin/python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "'$python' is $("$python" -V 2>&1 || true), but Python 3.11 or later is needed." \
            "Install it and name it, as in 'make setup PYTHON=python3.12'."
    # Debian has venv in a separate package; --clear also repairs an environment whose interpreter is gone.
    "$python" -m venv --clear "$VENV" ||
        fail "'$python' cannot create a virtual environment. Install its venv module" \
            "(on Debian or Ubuntu: 'sudo apt-get install python3-venv')."
fi

# 2. uv.
if [[ "$("$VENV/bin/uv" --version 2>/dev/null | cut -d' ' -f2)" != "$(pinned uv)" ]]; then
    "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "uv==$(pinned uv)"
fi
uv() { "$VENV/bin/uv" "$@"; }
export UV_PYTHON="$PWD/$VENV/bin/python" UV_PYTHON_DOWNLOADS=never

# 3. pyspark-client installs the same folder pyspark/ as pyspark, so [tool.uv] in pyproject.toml excludes pyspark-client. If
# another tool has installed it here, the script removes both packages. The next step then installs a complete pyspark.
if uv pip show --quiet pyspark-client 2>/dev/null; then
    uv pip uninstall --quiet pyspark-client pyspark
fi

# 4. Everything else, in one resolution.
export DIST_EXTRA_CONFIG="$PWD/scripts/build_pyspark.cfg"
uv pip install --quiet --constraints "$constraints" --editable '.[pyspark]' --group dev

# 5. Check that the jars and the Python files of PySpark have the same version, because a mixture starts without an error.
# spark-submit prints the version of the jars, and the module `pyspark` has the version of the Python files.
expected="$(pinned pyspark)"
jars="$(PATH="$PWD/$VENV/bin:$PATH" spark-submit --version 2>&1 | sed -n 's/^.*version \([0-9][0-9.]*\).*$/\1/p' | head -n 1 || true)"
module="$("$VENV/bin/python" -c 'import pyspark; print(pyspark.__version__)' 2>/dev/null || true)"
[[ "$jars" == "$expected" && "$module" == "$expected" ]] ||
    fail "The constraints pin pyspark $expected, but $VENV has the jars of '${jars:-no version}' and the Python files of" \
        "'${module:-no version}'. Run 'make clean setup'."
echo "Environment ready: $("$VENV/bin/python" -V), Spark $expected, in $VENV."
