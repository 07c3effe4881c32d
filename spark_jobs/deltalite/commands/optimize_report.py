"""How an optimize looks in the table's history: Spark's parameters and metrics. Values in, values out.

The metrics of a commit are those of its files. The last commit of a run that made several has the run's sums too, under
names of our own, so that what a task returns says all that it has done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deltalite.protocol.actions import AddFile, RemoveFile
from deltalite.requests import OptimizeRequest

_SHARES = {"minFileSize": 0.0, "p25FileSize": 0.25, "p50FileSize": 0.5, "p75FileSize": 0.75, "maxFileSize": 1.0}
_SUMS = {
    "numAddedFiles": "totalNumAddedFiles",
    "numRemovedFiles": "totalNumRemovedFiles",
    "numAddedBytes": "totalNumAddedBytes",
    "numRemovedBytes": "totalNumRemovedBytes",
    "numDeletionVectorsRemoved": "totalNumDeletionVectorsRemoved",
}


@dataclass(slots=True)
class Totals:
    """What the commits of a run have done so far."""

    commits: int = 0
    sums: Mapping[str, int] | None = None

    def add(self, metrics: Mapping[str, int]) -> None:
        """Count one more commit."""
        self.commits += 1
        self.sums = {name: metrics[name] + (self.sums or {}).get(name, 0) for name in _SUMS}


def parameters(request: OptimizeRequest) -> dict[str, object]:
    """The request as history has it: lists as JSON text."""
    return {
        "predicate": json.dumps([] if request.where is None else [request.where]),
        "zOrderBy": json.dumps(list(request.z_order_by)),
        "clusterBy": json.dumps([]),
        "auto": False,
    }


def metrics(adds: Sequence[AddFile], removes: Sequence[RemoveFile], before: Totals, *, left: int) -> dict[str, int]:
    """The metrics of a commit; sizes are those of the new files, 0 where there are none.

    `before` is what the run had committed already, and `left` the files that it leaves to a later run, because others
    were at work on them.
    """
    sizes = sorted(add.size_bytes for add in adds)
    own = {
        "numAddedFiles": len(adds),
        "numRemovedFiles": len(removes),
        "numAddedBytes": sum(sizes),
        "numRemovedBytes": sum(remove.size_bytes or 0 for remove in removes),
        "numDeletionVectorsRemoved": sum(remove.deletion_vector is not None for remove in removes),
    }
    own |= {name: sizes[int(share * (len(sizes) - 1))] if sizes else 0 for name, share in _SHARES.items()}
    if left:
        own["numFilesLeft"] = left
    if before.sums is not None:
        own |= {total: own[name] + before.sums[name] for name, total in _SUMS.items()}
        own["totalNumCommits"] = before.commits + bool(adds or removes)
    return own
