"""The history entry of an optimize: delta-spark's parameters and metrics. Pure functions.

The metrics of a commit count its files. Each later commit of a run also has the sums so far, so that the result of a
task covers the whole run. The sums have names that delta-spark does not use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.requests import OptimizeRequest

_SIZE_QUANTILES = {"minFileSize": 0.0, "p25FileSize": 0.25, "p50FileSize": 0.5, "p75FileSize": 0.75, "maxFileSize": 1.0}
_NAMES_OF_SUMS = {
    "numAddedFiles": "totalNumAddedFiles",
    "numRemovedFiles": "totalNumRemovedFiles",
    "numAddedBytes": "totalNumAddedBytes",
    "numRemovedBytes": "totalNumRemovedBytes",
    "numDeletionVectorsRemoved": "totalNumDeletionVectorsRemoved",
}


@dataclass(slots=True)
class Totals:
    """The sums over the commits of a run so far."""

    commits: int = 0
    sums: Mapping[str, int] | None = None

    def add(self, metrics: Mapping[str, int]) -> None:
        """Add the metrics of one commit."""
        self.commits += 1
        self.sums = {name: metrics[name] + (self.sums or {}).get(name, 0) for name in _NAMES_OF_SUMS}


def parameters(request: OptimizeRequest, cluster_by: Sequence[str]) -> dict[str, object]:
    """Return the parameters of the request and the clustering columns of the table, with lists as JSON text."""
    return {
        "predicate": json.dumps([] if request.where is None else [request.where]),
        "zOrderBy": json.dumps(list(request.z_order_by)),
        "clusterBy": json.dumps(list(cluster_by)),
        "auto": False,
    } | ({"isFull": request.full} if cluster_by else {})


def metrics(
    adds: Sequence[AddFile], removes: Sequence[RemoveFile], earlier_totals: Totals, *, dropped_files: int
) -> dict[str, int]:
    """Return the metrics of a commit.

    `minFileSize` to `maxFileSize` are quantiles of the sizes of the new files, 0 without new files.
    `earlier_totals` has the sums of the run's earlier commits. `dropped_files` is the number of files that the run
    leaves to a later run, because other writers changed them.
    """
    sizes = sorted(add.size_bytes for add in adds)
    values = {
        "numAddedFiles": len(adds),
        "numRemovedFiles": len(removes),
        "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(remove.size_bytes or 0 for remove in removes),
        "numDeletionVectorsRemoved": sum(remove.deletion_vector is not None for remove in removes),
    }
    values |= {
        name: sizes[int(quantile * (len(sizes) - 1))] if sizes else 0 for name, quantile in _SIZE_QUANTILES.items()
    }
    if dropped_files:
        values["numFilesLeft"] = dropped_files
    if earlier_totals.sums is not None:
        sums = earlier_totals.sums
        values |= {sum_name: values[name] + sums[name] for name, sum_name in _NAMES_OF_SUMS.items()}
        values["totalNumCommits"] = earlier_totals.commits + bool(adds or removes)
    return values
