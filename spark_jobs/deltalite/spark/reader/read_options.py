"""The options of a reader, under the names that Delta's own reader uses.

Names are case-insensitive. The constructor checks that the options fit together. It does not check that the table has
the version. Times are ISO 8601, and UTC without a time zone. This module does not import pyspark.
delta-spark: `DeltaOptions`, `DeltaDataSource`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Self

from deltalite.errors import InvalidRequestError
from deltalite.requests.moments import parse_moment_ms

_KNOWN = {
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
_FIELD_OF = {name.lower(): attribute for name, attribute in _KNOWN.items()}
_NAME_OF = {attribute: name for name, attribute in reversed(_KNOWN.items())}
_TRUTH = {"true": True, "false": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """The version or time of a table to read, or the inclusive range of its change data feed.

    `read_row_ids` adds the columns `_row_id` and `_row_commit_version`. It is the only option that Delta does not have.
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
                raise InvalidRequestError(
                    f"The options {_NAME_OF[first_name]} and {_NAME_OF[second_name]} exclude each other.",
                    remedy="Keep one of them.",
                )
        range_names = sorted(name for name in set_names if name.startswith(("starting_", "ending_")))
        if range_names and not self.read_change_feed:
            raise InvalidRequestError(
                f"The option {_NAME_OF[range_names[0]]} needs readChangeFeed.",
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
        """Parse the options of a user: names in any case, values as text or as Python values.

        Raises:
            InvalidRequestError: a name is unknown or given twice, a value is malformed, or two exclude each other.
        """
        values: dict[str, Any] = {}
        spellings: dict[str, str] = {}
        for name, value in options.items():
            attribute = _FIELD_OF.get(str(name).lower())
            if attribute is None:
                raise InvalidRequestError(
                    f"The option {name!r} is not known.", remedy=f"Known options are {', '.join(_KNOWN)}."
                )
            if attribute in values:
                raise InvalidRequestError(
                    f"The options {spellings[attribute]} and {name} mean the same.", remedy="Keep one of them."
                )
            spellings[attribute] = name
            values[attribute] = _value(name, attribute, value)
        return cls(**values)


def _value(name: str, attribute: str, value: Any) -> Any:
    if attribute in ("read_change_feed", "read_row_ids"):
        flag = value if isinstance(value, bool) else _TRUTH.get(str(value).strip().lower())
        if flag is None:
            raise InvalidRequestError(f"The option {name} is {value!r}.", remedy="Give true or false.")
        return flag
    if attribute.endswith("_version") or attribute == "version_as_of":
        return _version(name, value)
    try:
        parse_moment_ms(value)
    except InvalidRequestError as error:
        raise InvalidRequestError(f"The option {name} cannot be used. {error.problem}", remedy=error.remedy) from error
    return value


def _version(name: str, value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdecimal()):
        raise InvalidRequestError(f"The option {name} is {value!r}.", remedy="Give a version, 0 or more.")
    return int(text)
