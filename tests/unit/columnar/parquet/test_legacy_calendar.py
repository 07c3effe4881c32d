"""Dates and times that old writers stored in the Julian calendar keep their year, month and day."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from deltalite.columnar.predicates.predicate import Comparison, Operator
from deltalite.errors import UnsupportedFeatureError
from deltalite.protocol.schema import PrimitiveType
from tests.support.lake import struct_of
from tests.unit.builders import schema_from_arrow


def writer_metadata(version, *keys, zone=None):
    metadata = {"org.apache.spark.version": version, **{f"org.apache.spark.{key}": "" for key in keys}}
    return {**metadata, **({"org.apache.spark.timeZone": zone} if zone else {})}


# The day number that old Spark wrote for a Julian date, and the number of the same date in today's calendar.
JULIAN_DAYS = [
    (-141_428, -141_438),  # 1582-10-04
    (-141_427, -141_427),  # 1582-10-15
    (-171_595, -171_605),  # 1500-03-01
    (-171_596, -171_605),  # 1500-02-29, which only the Julian calendar has
    (-719_164, -719_162),  # 0001-01-01
    (0, 0),
    (None, None),
]


@pytest.mark.parametrize("metadata", [writer_metadata("2.4.5"), writer_metadata("3.2.1", "legacyDateTime")], ids=str)
def test_dates_of_the_julian_calendar_keep_year_month_and_day(lake, metadata):
    stored_table = pa.table({"d": pa.array([day for day, _ in JULIAN_DAYS], pa.int32()).cast(pa.date32())})
    lake.add(stored_table.replace_schema_metadata(metadata))
    day_numbers = lake.read(struct_of(d=PrimitiveType("date")))["d"].cast(pa.int32()).to_pylist()
    assert day_numbers == [day for _, day in JULIAN_DAYS]
    is_last_julian_day = Comparison(column=("d",), operator=Operator.EQ, literal=date(1582, 10, 4))
    assert lake.rows_of(struct_of(d=PrimitiveType("date")), predicate=is_last_julian_day) == [{"d": date(1582, 10, 4)}]


@pytest.mark.parametrize(
    "metadata",
    [None, writer_metadata("3.2.1"), writer_metadata("4.0.0"), writer_metadata("odd", "legacyDateTime")],
    ids=str,
)
def test_dates_of_other_writers_are_not_converted(lake, metadata):
    lake.add(pa.table({"d": pa.array([-141_428], pa.int32()).cast(pa.date32())}).replace_schema_metadata(metadata))
    assert lake.read(struct_of(d=PrimitiveType("date")))["d"].cast(pa.int32()).to_pylist() == [-141_428]


DAY_US = 86_400_000_000
# The third instant is the last microsecond of 1500-02-29. One day later, the calendars differ by one more day.
OLD_INSTANTS = [-141_428 * DAY_US, -719_164 * DAY_US + 5, -171_595 * DAY_US - 1, 7]


@pytest.mark.parametrize(
    ("metadata", "options"),
    [
        (writer_metadata("3.2.1", "legacyDateTime", zone="Etc/UTC"), {}),
        (writer_metadata("3.0.1", zone="UTC"), {"use_deprecated_int96_timestamps": True}),
        (writer_metadata("3.2.1", "legacyINT96", zone="UTC"), {"use_deprecated_int96_timestamps": True}),
    ],
    ids=str,
)
def test_timestamps_of_the_julian_calendar_keep_date_and_time_in_utc(lake, metadata, options):
    kind = pa.timestamp("us") if options else pa.timestamp("us", "UTC")
    lake.add(pa.table({"t": pa.array(OLD_INSTANTS, kind)}).replace_schema_metadata(metadata), **options)
    microseconds = lake.read(struct_of(t=PrimitiveType("timestamp")))["t"].cast(pa.int64()).to_pylist()
    assert microseconds == [-141_438 * DAY_US, -719_162 * DAY_US + 5, -171_604 * DAY_US - 1, 7]


@pytest.mark.parametrize("zone", ["America/Los_Angeles", None])
def test_old_timestamps_of_another_zone_are_rejected_and_modern_ones_are_read(lake, zone):
    stored_table = pa.table(
        {
            "t": pa.array(OLD_INSTANTS, pa.timestamp("us", "UTC")),
            "u": pa.array([-DAY_US] * 4, pa.timestamp("us", "UTC")),
        }
    )
    lake.add(stored_table.replace_schema_metadata(writer_metadata("3.2.1", "legacyDateTime", zone=zone)))
    schema = schema_from_arrow(stored_table.schema)
    with pytest.raises(UnsupportedFeatureError, match=f"Column 't' .*before 1900.*{zone or 'does not name'}"):
        lake.read(schema)
    assert lake.rows_of(schema, columns=["u"])[0] == {"u": datetime(1969, 12, 31, tzinfo=UTC)}
