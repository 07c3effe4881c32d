#!/usr/bin/env bash
# Brings what the tests on HDFS and S3 need into .hadoop/: the S3A connector, and Hadoop's own minicluster, both of the
# Hadoop version that PySpark ships. Maven gets them, from where it is set up to. Where it cannot, that is said and no
# failure: those tests are then skipped, or fail where DELTALITE_REQUIRE_ALL=1 says that they must run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly TARGET=.hadoop

version="$(ls .venv/lib/python3*/site-packages/pyspark/jars | sed -n 's/^hadoop-client-api-\(.*\)\.jar$/\1/p')"
wanted="$version $(cksum <scripts/hadoop/pom.xml)"
if [[ "$(cat "$TARGET/.done" 2>/dev/null)" == "$wanted" ]]; then exit 0; fi

if ! command -v mvn >/dev/null; then
    echo "There is no Maven: the tests on HDFS and S3A cannot run (on Debian or Ubuntu: 'sudo apt-get install maven')." >&2
    exit 0
fi
rm -rf "$TARGET"
for part in s3a hdfs; do
    mvn --quiet --batch-mode --file scripts/hadoop/pom.xml --activate-profiles "$part" "-Dhadoop.version=$version" \
        dependency:copy-dependencies "-DoutputDirectory=$PWD/$TARGET/$part" </dev/null || {
        echo "Maven could not get the jars of Hadoop $version: the tests on HDFS and S3A cannot run." >&2
        exit 0
    }
done
echo "$wanted" >"$TARGET/.done"
