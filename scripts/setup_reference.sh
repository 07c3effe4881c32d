#!/usr/bin/env bash
# Creates .venv-reference: delta-spark, the reference implementation, and the version of Spark that it supports. Tests use it
# to read the tables of this project. Spark's reader of Avro files is there too, in the folder `avro`. If Maven or a download
# is not available, the script prints the reason and succeeds. The tests are then skipped, or fail if
# DELTALITE_REQUIRE_ALL=1 is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=.venv-reference

stamp="$(cat scripts/reference/pom.xml constraints-reference.txt | cksum)"
if [[ "$(cat "$TARGET/.done" 2>/dev/null)" == "$stamp" ]]; then exit 0; fi

skip() {
    echo "The tests with delta-spark cannot run, because $*." >&2
    exit 0
}
command -v mvn >/dev/null || skip "Maven is not installed (on Debian or Ubuntu: 'sudo apt-get install maven')"
rm -rf "$TARGET"
.venv/bin/python -m venv --without-pip "$TARGET"
export DIST_EXTRA_CONFIG="$PWD/scripts/build_pyspark.cfg"
.venv/bin/uv pip install --quiet --python "$TARGET/bin/python" --constraints constraints-reference.txt pyspark ||
    skip "the Spark of the reference implementation could not be installed"
# Spark contains all other dependencies. Maven runs for seconds, so the optimizing compiler of the JVM is not worth its time.
export MAVEN_OPTS="${MAVEN_OPTS:-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
mvn --quiet --batch-mode --file scripts/reference/pom.xml dependency:copy-dependencies \
    -DincludeGroupIds=io.delta,io.unitycatalog "-DoutputDirectory=$PWD/$TARGET/jars" </dev/null ||
    skip "Maven could not download the jars of delta-spark"
mvn --quiet --batch-mode --file scripts/reference/pom.xml --activate-profiles avro dependency:copy-dependencies \
    -DincludeArtifactIds=spark-avro_2.13 "-DoutputDirectory=$PWD/$TARGET/avro" </dev/null ||
    skip "Maven could not download Spark's reader of Avro files"
echo "$stamp" >"$TARGET/.done"
