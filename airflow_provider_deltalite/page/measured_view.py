"""The parts of a table's page that need its measures, as values for the templates.

A table with very many files gets these parts after the rest of its page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_provider_deltalite.page.known_tables import KnownTable
from airflow_provider_deltalite.page.lake_view import Health, health_of, known_measures_of
from airflow_provider_deltalite.page.layout_view import (
    HeatMap,
    PartitionRow,
    SizeRow,
    heat_map,
    partition_rows,
    size_rows,
)
from airflow_provider_deltalite.page.reading import Result
from airflow_provider_deltalite.page.table_view import Advice, advice_of
from deltalite.inspection.file_layout import FileLayout
from deltalite.inspection.last_vacuum import LastVacuum
from deltalite.inspection.overview import TableMeasures, TableOverview


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredView:
    """The health of a table, the advice, and how its bytes lie in files.

    - `is_pending`: whether the read of the measures has not ended; then `advice` and `layout` are missing.
    - `layout`: None without measures.
    """

    health: Health
    reason: str
    is_pending: bool = False
    last_vacuum: LastVacuum | None = None
    advice: Sequence[Advice] = ()
    layout: FileLayout | None = None
    size_rows: Sequence[SizeRow] = ()
    partition_rows: Sequence[PartitionRow] = ()
    heat_map: HeatMap | None = None


def measured_view(
    table: KnownTable, result: Result[TableOverview], measures: Result[TableMeasures] | None
) -> MeasuredView:
    """Return the parts that are known so far. `measures` is the read of measures that the overview lacks."""
    health, reason = health_of(result, measures)
    known_measures = known_measures_of(result.value, measures)
    if known_measures is None:
        return MeasuredView(health=health, reason=reason, is_pending=measures is not None and measures.error is None)
    layout = known_measures.layout
    return MeasuredView(
        health=health,
        reason=reason,
        last_vacuum=known_measures.health.last_vacuum,
        advice=advice_of(table, known_measures.steps),
        layout=layout,
        size_rows=size_rows(layout),
        partition_rows=partition_rows(layout),
        heat_map=heat_map(layout),
    )
