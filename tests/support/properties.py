"""Table properties that many tests set."""

from __future__ import annotations

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
