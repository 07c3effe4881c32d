"""The options of the JVMs that the tests start."""

from __future__ import annotations

# The optimizing compiler takes longer than the queries of the tests, which read a few rows. Without that compiler, the
# JVM reserves only 48 MB for compiled code. A Spark session of many tests fills this space, and then discards compiled
# code and compiles it again.
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"

# A Spark session of many tests loads many classes, and creates objects that live for one query. With the default sizes,
# the JVM collects garbage every second.
ROOM_FOR_A_SESSION = "-Xms1g -Xmn512m -XX:MetaspaceSize=256m"
