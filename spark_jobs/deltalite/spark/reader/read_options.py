"""The options of a reader, under the names that Delta's own reader uses.

Names are case-insensitive. The constructor checks that the options fit together, but not that the table has the
version. Times are ISO 8601. A time without a time zone is read as UTC. This module does not import pyspark.
delta-spark: `DeltaOptions`, `DeltaDataSource`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from deltalite.errors import InvalidRequestError
from deltalite.requests.moments import parse_moment_ms

_FIELDS_BY_OPTION = {
    "versionAsOf": "version_as_of",
    "timestampAsOf": "timestamp_as_of",
    "readChangeFeed": "read_change_feed",
    "readChangeData": "read_change_feed",
    "readRowIds": "read_row_ids",
    "startingVersion": "starting_version",
    "startingTimestamp": "starting_timestamp",
    "endingVersion": "ending_version",
    "endingTimestamp": "ending_timestamp",
}
_FIELDS_BY_LOWER_OPTION = {name.lower(): field_name for name, field_name in _FIELDS_BY_OPTION.items()}
_OPTIONS_BY_FIELD = {field_name: name for name, field_name in reversed(_FIELDS_BY_OPTION.items())}
_BOOLEANS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The version or time of a table to read, or the inclusive range of its change data feed.

    `read_row_ids` adds the columns `_row_id` and `_row_commit_version`. Delta's own reader has no such option.
    """

    version_as_of: int | None = None
    timestamp_as_of: str | datetime | None = None
    read_change_feed: bool = False
    read_row_ids: bool = False
    starting_version: int | None = None
    starting_timestamp: str | datetime | None = None
    ending_version: int | None = None
    ending_timestamp: str | datetime | None = None

    def __post_init__(self) -> None:
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        set_names = {name for name, value in values.items() if value is not None and value is not False}
        for first_name, second_name in (
            ("version_as_of", "timestamp_as_of"),
            ("starting_version", "starting_timestamp"),
            ("ending_version", "ending_timestamp"),
            ("version_as_of", "read_change_feed"),
            ("timestamp_as_of", "read_change_feed"),
            ("read_row_ids", "read_change_feed"),
        ):
            if {first_name, second_name} <= set_names:
                first_option, second_option = _OPTIONS_BY_FIELD[first_name], _OPTIONS_BY_FIELD[second_name]
                raise InvalidRequestError(
                    f"The options {first_option} and {second_option} exclude each other.", remedy="Keep one of them."
                )
        range_names = sorted(name for name in set_names if name.startswith(("starting_", "ending_")))
        if range_names and not self.read_change_feed:
            raise InvalidRequestError(
                f"The option {_OPTIONS_BY_FIELD[range_names[0]]} needs readChangeFeed.",
                remedy="Add readChangeFeed=true to read changes, or leave the option out.",
            )
        if self.read_change_feed and not {"starting_version", "starting_timestamp"} & set_names:
            raise InvalidRequestError(
                "The option readChangeFeed needs the start of the range.",
                remedy="Give startingVersion or startingTimestamp.",
            )
        first, last = self.starting_version, self.ending_version
        if first is not None and last is not None and first > last:
            raise InvalidRequestError(
                f"startingVersion {first} is later than endingVersion {last}.", remedy="Give the versions in order."
            )

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> Self:
        """Return the options that a user gives. Names are case-insensitive. Values are texts or Python values.

        Raises:
            InvalidRequestError: an option is unknown, given twice or malformed, or the options do not fit together.
        """
        values: dict[str, Any] = {}
        spellings: dict[str, str] = {}
        for name, value in options.items():
            field_name = _FIELDS_BY_LOWER_OPTION.get(str(name).lower())
            if field_name is None:
                raise InvalidRequestError(
                    f"The option {name!r} is not known.", remedy=f"Known options are {', '.join(_FIELDS_BY_OPTION)}."
                )
            if field_name in values:
                raise InvalidRequestError(
                    f"The options {spellings[field_name]} and {name} mean the same.", remedy="Keep one of them."
                )
            spellings[field_name] = name
            values[field_name] = _parse_value(name, field_name, value)
        return cls(**values)


def _parse_value(name: str, field_name: str, value: Any) -> Any:
    if field_name in ("read_change_feed", "read_row_ids"):
        flag = value if isinstance(value, bool) else _BOOLEANS.get(str(value).strip().lower())
        if flag is None:
            raise InvalidRequestError(
                f"The option {name} is {value!r}, which is not a boolean.", remedy="Give true or false."
            )
        return flag
    if field_name.endswith("_version") or field_name == "version_as_of":
        return _parse_version(name, value)
    try:
        parse_moment_ms(value)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"The option {name} cannot be used. {error.problem}", remedy=error.remedy) from error
    return value


def _parse_version(name: str, value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal()):
        raise InvalidRequestError(
            f"The option {name} is {value!r}, which is not a version.", remedy="Give a version, 0 or more."
        )
    return int(text)
