"""The options of the JVMs that the tests start."""

from __future__ import annotations

# The optimizing compiler takes longer than the queries of the tests, which read a few rows. Without that compiler, the
# JVM reserves only 48 MB for compiled code. A Spark session that many tests share fills this space, and then discards
# compiled code and compiles it again.
QUICK_JVM_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

# A Spark session that many tests share loads many classes, and creates objects that live for one query. With the
# default sizes, the JVM collects garbage every second.
SESSION_MEMORY_OPTIONS = "-Xms1g -Xmn512m -XX:MetaspaceSize=256m"
