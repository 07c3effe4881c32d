"""Other engines for table features that this release does not support. The remedies of errors name these engines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

_CATALOG = "delta-spark 4.4, with the catalog of the table,"
_DATABRICKS = "Databricks Runtime 16.4 or later"
DELTA_SPARK_FEATURES = frozenset({
    "coordinatedCommits-preview", "geospatial", "geospatial-dev", "icebergCompatV3",
})  # fmt: skip
"""The features that delta-spark 4.4 supports, and that this release does not support or does not write."""
_OTHER_ENGINES = {
    "catalogManaged": _CATALOG,
    "catalogOwned": _CATALOG,
    "catalogOwned-preview": _CATALOG,
    "collations": _DATABRICKS,
    "collations-preview": _DATABRICKS,
}


def remedy_for(verb: str, features: Iterable[str]) -> str:
    """Return the remedy for a table with these features: which engine can read or write it.

    Args:
        verb: the action that failed: `Read` or `Write`.
        features: the unsupported features.
    """
    by_engine: dict[str | None, list[str]] = defaultdict(list)
    for name in sorted(features):
        by_engine["delta-spark 4.4" if name in DELTA_SPARK_FEATURES else _OTHER_ENGINES.get(name)].append(name)
    unknown_features = by_engine.pop(None, [])
    sentences = [f"{engine} supports {', '.join(names)}." for engine, names in by_engine.items()]
    if unknown_features:
        sentences.append(f"For {', '.join(unknown_features)}, use the engine that added the feature to the table.")
    return " ".join([f"{verb} the table with another engine.", *sentences])
