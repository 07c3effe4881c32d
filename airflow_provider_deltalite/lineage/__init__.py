"""OpenLineage metadata of a task: datasets, edges and facets.

The operators and the sensor import this package if OpenLineage's listener asks for lineage; otherwise nothing imports
it.
Begin with `edges.py` (the inputs and outputs of a request), then `facets.py`.
"""
