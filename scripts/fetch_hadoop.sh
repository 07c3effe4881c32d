#!/usr/bin/env bash
# Downloads the jars for the tests on HDFS, S3, Azure and YARN into .hadoop/: the connectors S3A and ABFS, Hadoop's
# minicluster, and the servers of YARN and HDFS, in the Hadoop version of PySpark. Maven downloads them from its
# configured repositories. If Maven or a download fails, the script prints the reason and succeeds. The tests are then
# skipped, or fail if DELTALITE_REQUIRE_ALL=1 is set.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=.hadoop

version="$(ls .venv/lib/python3*/site-packages/pyspark/jars | sed -n 's/^hadoop-client-api-\(.*\)\.jar$/\1/p')"
stamp="$version $(cksum <scripts/hadoop/pom.xml)"
if [[ "$(cat "$TARGET/.done" 2>/dev/null)" == "$stamp" ]]; then exit 0; fi

if ! command -v mvn >/dev/null; then
    echo "The tests on HDFS, S3, Azure and YARN cannot run, because Maven is not installed (on Debian or Ubuntu:" \
        "'sudo apt-get install maven')." >&2
    exit 0
fi
rm -rf "$TARGET"
# Maven runs for seconds, so the optimizing compiler of the JVM is not worth its time.
export MAVEN_OPTS="${MAVEN_OPTS:-} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
for part in s3a abfs hdfs yarn; do
    mvn --quiet --batch-mode --file scripts/hadoop/pom.xml --activate-profiles "$part" "-Dhadoop.version=$version" \
        dependency:copy-dependencies "-DoutputDirectory=$PWD/$TARGET/$part" </dev/null || {
        echo "The tests on HDFS, S3, Azure and YARN cannot run, because Maven could not download the jars of Hadoop" \
            "$version." >&2
        exit 0
    }
done
echo "$stamp" >"$TARGET/.done"
