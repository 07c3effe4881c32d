#!/usr/bin/env bash
# Makes .venv-reference, in which tests read our tables with the reference implementation, delta-spark: the Spark that it
# supports, which is another one than ours, and its jars. Where Maven or the downloads are missing, the script says so and
# does not fail: those tests are then skipped, or fail where DELTALITE_REQUIRE_ALL=1 says that they must run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=.venv-reference

wanted="$(cat scripts/reference/pom.xml constraints-reference.txt | cksum)"
if [[ "$(cat "$TARGET/.done" 2>/dev/null)" == "$wanted" ]]; then exit 0; fi

skip() {
    echo "$*: the tests with delta-spark cannot run." >&2
    exit 0
}
command -v mvn >/dev/null || skip "There is no Maven (on Debian or Ubuntu: 'sudo apt-get install maven')"
rm -rf "$TARGET"
.venv/bin/python -m venv --without-pip "$TARGET"
.venv/bin/uv pip install --quiet --python "$TARGET/bin/python" --constraints constraints-reference.txt pyspark ||
    skip "The Spark of the reference implementation could not be installed"
# Whatever else these need is part of Spark.
mvn --quiet --batch-mode --file scripts/reference/pom.xml dependency:copy-dependencies \
    -DincludeGroupIds=io.delta,io.unitycatalog "-DoutputDirectory=$PWD/$TARGET/jars" </dev/null ||
    skip "Maven could not get the jars of delta-spark"
echo "$wanted" >"$TARGET/.done"
