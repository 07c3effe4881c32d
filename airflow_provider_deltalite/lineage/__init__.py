"""What OpenLineage learns about a task: datasets, edges and facets.

The operators call it when OpenLineage's listener asks; it is not imported otherwise.
Begin with `edges.py` (what a request reads and writes), then `facets.py`.
"""
