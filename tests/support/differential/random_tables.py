"""Random tables over all features."""

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
"""The share of tables in which a property is true."""
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
_NOT_ICEBERG = {"array", "map", "variant"}


def random_table(rnd: Random) -> Table:
    """A table of four to eight columns."""
    properties = {name: "true" for name, chance in _CHANCES.items() if rnd.random() < chance}
    properties |= rnd.choice(_CHECKPOINTS)
    in_files = rnd.choice(_PARTITION_COLUMNS_IN_FILES)
    is_compatible = any("Iceberg" in name for name in in_files)
    properties |= in_files
    if is_compatible:
        properties.pop("delta.enableDeletionVectors", None)
    mode = rnd.choice(("name", "id") if is_compatible else (None, "name", "id"))
    if mode is not None:
        properties["delta.columnMapping.mode"] = mode
    if rnd.randrange(6) == 0:
        properties["delta.dataSkippingNumIndexedCols"] = "3"
    excluded = {"wide_decimal"} | (_NOT_ICEBERG if is_compatible else set())
    names = rnd.sample([name for name in KINDS if name not in excluded], rnd.randint(3, 6))
    columns = [KEY_COLUMN, *(_column(rnd, number, name, mapped=mode is not None) for number, name in enumerate(names))]
    if "variant" in names and rnd.randrange(2):
        properties["delta.enableVariantShredding"] = "true"
    if rnd.randrange(4) == 0:
        columns.append(Column(name="third", kind=KINDS["long"], rule="generated", rule_text="`k` % 3"))
    if rnd.randrange(6) == 0:
        columns.append(Column(name="number", kind=KINDS["long"], rule="identity"))
    if any(column.rule == "default" for column in columns):
        properties["delta.feature.allowColumnDefaults"] = "supported"  # delta-spark does not enable it by itself
    partition_by, cluster_by = _layout(rnd, columns)
    return Table(
        columns=tuple(columns),
        partition_by=partition_by,
        cluster_by=cluster_by,
        properties=properties,
        constraints={"small": f"k < {10**6}"} if rnd.randrange(4) == 0 else {},
    )


def _column(rnd: Random, number: int, kind_name: str, *, mapped: bool) -> Column:
    kind = KINDS[kind_name]
    name = f"c{number} {kind_name}" if mapped and rnd.randrange(3) == 0 else f"c{number}_{kind_name}"
    match rnd.randrange(8):
        case 0:
            return Column(name=name, kind=kind, rule="required")
        case 1 if kind.name != "variant":
            return Column(name=name, kind=kind, rule="default", rule_text=literal(rnd.choice(kind.values), kind))
        case _:
            return Column(name=name, kind=kind)


def _layout(rnd: Random, columns: list[Column]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Partition columns or clustering columns, or none of both."""
    match rnd.randrange(4):
        case 0 | 1:
            candidates = [c.name for c in columns[1:] if c.kind.partitions and c.rule != "identity"]
            return tuple(rnd.sample(candidates, min(len(candidates), rnd.randint(1, 2)))), ()
        case 2:
            candidates = [c.name for c in columns[:3] if c.kind.bounded]
            return (), tuple(rnd.sample(candidates, min(len(candidates), 2)))
        case _:
            return (), ()
