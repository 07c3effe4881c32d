"""Random tables with combinations of all table features."""

from __future__ import annotations

from random import Random

from tests.support.differential.kinds import KINDS, literal
from tests.support.differential.tables import KEY_COLUMN, Column, Table

_CHANCES = {
    "delta.enableDeletionVectors": 0.6,
    "delta.enableChangeDataFeed": 0.6,
    "delta.enableRowTracking": 0.4,
    "delta.enableTypeWidening": 0.4,
    "delta.enableInCommitTimestamps": 0.3,
}
"""The probability that a table enables a property."""
_CHECKPOINTS = (
    {},
    {"delta.checkpointInterval": "3"},
    {"delta.checkpointInterval": "3", "delta.checkpointPolicy": "v2"},
    {"delta.checkpointInterval": "2", "delta.checkpoint.writeStatsAsJson": "false"},
    {"delta.checkpointInterval": "2", "delta.checkpoint.writeStatsAsStruct": "false"},
)
_PARTITION_COLUMNS_IN_FILES = (
    {},
    {},
    {},
    {"delta.enableMaterializePartitionColumnsFeature": "true"},
    {"delta.enableIcebergCompatV1": "true"},
    {"delta.enableIcebergCompatV2": "true"},
)
_KINDS_WITHOUT_ICEBERG = {"array", "map", "variant"}
"""The kinds that random tables with Iceberg compatibility do not have."""


def random_table(rnd: Random) -> Table:
    """A table of four to eight columns."""
    properties = {name: "true" for name, chance in _CHANCES.items() if rnd.random() < chance}
    properties |= rnd.choice(_CHECKPOINTS)
    partition_column_property = rnd.choice(_PARTITION_COLUMNS_IN_FILES)
    is_iceberg_compatible = any("Iceberg" in name for name in partition_column_property)
    properties |= partition_column_property
    if is_iceberg_compatible:
        properties.pop("delta.enableDeletionVectors", None)
    mapping_mode = rnd.choice(("name", "id") if is_iceberg_compatible else (None, "name", "id"))
    if mapping_mode is not None:
        properties["delta.columnMapping.mode"] = mapping_mode
    if rnd.randrange(6) == 0:
        properties["delta.dataSkippingNumIndexedCols"] = "3"
    excluded_kinds = {"wide_decimal"} | (_KINDS_WITHOUT_ICEBERG if is_iceberg_compatible else set())
    kind_names = rnd.sample([name for name in KINDS if name not in excluded_kinds], rnd.randint(3, 6))
    has_mapping = mapping_mode is not None
    columns = [
        KEY_COLUMN,
        *(_column(rnd, number, name, is_mapped=has_mapping) for number, name in enumerate(kind_names)),
    ]
    if "variant" in kind_names and rnd.randrange(2):
        properties["delta.enableVariantShredding"] = "true"
    if rnd.randrange(4) == 0:
        columns.append(Column(name="third", kind=KINDS["long"], rule="generated", rule_text="`k` % 3"))
    if rnd.randrange(6) == 0:
        columns.append(Column(name="number", kind=KINDS["long"], rule="identity"))
    if any(column.rule == "default" for column in columns):
        # delta-spark does not enable this feature by itself.
        properties["delta.feature.allowColumnDefaults"] = "supported"
    partition_by, cluster_by = _layout(rnd, columns)
    return Table(
        columns=tuple(columns),
        partition_by=partition_by,
        cluster_by=cluster_by,
        supports_clustering=bool(cluster_by),
        properties=properties,
        constraints={"small": f"k < {10**6}"} if rnd.randrange(4) == 0 else {},
    )


def _column(rnd: Random, number: int, kind_name: str, *, is_mapped: bool) -> Column:
    """A random column of a kind. Its name may contain a blank if column mapping is enabled (`is_mapped`)."""
    kind = KINDS[kind_name]
    name = f"c{number} {kind_name}" if is_mapped and rnd.randrange(3) == 0 else f"c{number}_{kind_name}"
    match rnd.randrange(8):
        case 0:
            return Column(name=name, kind=kind, rule="required")
        case 1 if kind.name != "variant":
            return Column(name=name, kind=kind, rule="default", rule_text=literal(rnd.choice(kind.values), kind))
        case _:
            return Column(name=name, kind=kind)


def _layout(rnd: Random, columns: list[Column]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of the partition columns, and of the clustering columns. At least one of the two tuples is empty."""
    match rnd.randrange(4):
        case 0 | 1:
            candidates = [c.name for c in columns[1:] if c.kind.can_partition and c.rule != "identity"]
            return tuple(rnd.sample(candidates, min(len(candidates), rnd.randint(1, 2)))), ()
        case 2:
            candidates = [c.name for c in columns[:3] if c.kind.bounded]
            return (), tuple(rnd.sample(candidates, min(len(candidates), 2)))
        case _:
            return (), ()
