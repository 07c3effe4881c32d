"""The reason why Spark could not read a file, from the text of a Java exception with its causes.

Spark's first message names the file, but often not the reason: `[FAILED_READ_FILE.NO_HINT] Encountered error while
reading file file:///in/a.csv.` The innermost cause has the reason, such as `For input string: "abc"`.
"""

from __future__ import annotations

import re

_MISSING_FILE_PATTERN = re.compile(r"\[(?:FAILED_READ_FILE\.FILE_NOT_EXIST|PATH_NOT_FOUND)\] [^\n]*")
_UNREAD_FILE_PATTERN = re.compile(r"\[FAILED_READ_FILE\.([A-Z_]+)\] [^\n]*")
_PATH_PATTERN = re.compile(r"Encountered error while reading file (.+?)\. +(?:Could not read footer|SQLSTATE: )")
_WITHOUT_REASON = ("NO_HINT", "CANNOT_READ_FILE_FOOTER")
_CAUSE_PATTERN = re.compile(
    r"^Caused by: [\w.$]+: (.+?)(?=\n\s+at |\n\s*\n|\nCaused by: |\Z)", re.MULTILINE | re.DOTALL
)
_RECORD_PATTERN = re.compile(r"Malformed records are detected in record parsing: (.+?)\.? ?\n")
_CONDITION_PATTERN = re.compile(r"^\[[A-Z][A-Z0-9_.]+\] |\.? *SQLSTATE: \w{5}$")
_BAD_RECORD = "MALFORMED_RECORD_IN_PARSING"
# Hadoop compares a local file `x` with the checksums in `.x.crc`. On HDFS, another replica may have the right bytes.
_WRONG_CHECKSUM = r"ChecksumException:\ Checksum\ (?:error|CRC):?\ file:"
_WRONG_CHECKSUM_PATTERN = re.compile(_WRONG_CHECKSUM)
_AVRO_MISMATCH = r"IncompatibleSchemaException:\ Cannot\ convert\ Avro|AVRO_INCOMPATIBLE_READ_TYPE"
_TOO_LONG_LINE = "TextParsingException"
_MISMATCH_PATTERN = re.compile(
    r"(?:DATA_TYPE_MISMATCH\]|IncompatibleSchemaException:|AVRO_INCOMPATIBLE_READ_TYPE\]) ([^\n]+)"
)
# Reasons that no retry removes. A storage that does not answer is no such reason.
_PERMANENT_REASON_PATTERN = re.compile(
    rf"""FILE_NOT_EXIST | DATA_TYPE_MISMATCH | {_BAD_RECORD}
    | is\ not\ a\ Parquet\ file
    | doesn't\ contain\ any\ field\ Ids
    | TProtocolException:  # the metadata of a Parquet file
    | FileFormatException:\ Malformed\ ORC\ file
    | EOFException:\ Unexpected\ end\ of\ input\ stream  # of a compressed file
    | IOException:\ unexpected\ end\ of\ stream$  # of a bzip2 file; if more words follow, the error is transient
    | IOException:\ not\ a\ gzip\ file
    | {_WRONG_CHECKSUM}
    | {_AVRO_MISMATCH}
    | {_TOO_LONG_LINE}  # of a CSV file
    | URISyntaxException:\ Relative\ path\ in\ absolute\ URI  # the name of a local file has a colon
    | IOException:\ (?:invalid|incorrect)\ [a-z\ /]+$  # of zlib, such as `incorrect data check`
    """,
    re.MULTILINE | re.VERBOSE,
)
_MAX_REASON_LENGTH = 500
_FRAME_PATTERN = re.compile(r"^\s+at .*$", re.MULTILINE)
_ORC_FOOTER_FRAME = "datasources.orc.OrcUtils$.readSchema("  # some of its errors name neither the file nor the footer
_FOOTER_FAILURE, _EARLY_END = "Could not read footer", "EOFException"
# Classes and messages of exceptions that do not show damage of the file: faults of the storage, of the network and of
# the installation, missing permissions and keys, and types or encodings that this Spark cannot read.
_OTHER_FAULT_PATTERN = re.compile(
    r"""FILE_NOT_EXIST | DATA_TYPE_MISMATCH | PATH_NOT_FOUND
    | \b(?:java\.net|javax\.net|com\.(?:amazonaws|azure|microsoft)|com\.google\.(?:cloud|api)|software\.amazon)\.
    | \borg\.apache\.hadoop\.(?:fs|hdfs|ipc|net|security)\.[\w.$]*(?:Exception|Error)\b
    | (?:AccessControl|AccessDenied|FileNotFound|NoSuchFile|Interrupted|InterruptedIO|ClosedChannel|Timeout
       |UnsupportedOperation|ClassNotFound|SparkUpgrade|\w*Crypto\w*)Exception\b
    | \b(?:OutOfMemory|StackOverflow|NoClassDefFound|UnsatisfiedLink|NoSuchMethod|ExceptionInInitializer)Error\b
    | Filesystem\ closed | Stream\ is\ closed | Too\ many\ open\ files | No\ space\ left | Permission\ denied
    | Input/output\ error | Stale\ file\ handle | Connection\ reset | native\ \S+\ library
    """,
    re.VERBOSE,
)


def missing_file(text: str) -> str | None:
    """Return Spark's message about a file that does not exist, or None for any other error."""
    match = _MISSING_FILE_PATTERN.search(text)
    return None if match is None else match[0]


def permanent_read_failure(text: str) -> str | None:
    """Return the file and the reason why no retry can read it, or None for any other error."""
    if _PERMANENT_REASON_PATTERN.search(text) is None and missing_file(text) is None:
        return None
    return read_failure(text) or missing_file(text)


def read_failure(text: str) -> str | None:
    """Return the file that Spark could not read and the reason, or None for an error that names no file."""
    match = _UNREAD_FILE_PATTERN.search(text)
    if match is None:
        return None
    path, reason = _PATH_PATTERN.search(match[0]), _innermost_reason(text)
    if match[1] not in _WITHOUT_REASON or path is None or reason is None:
        return match[0]
    record = _RECORD_PATTERN.search(text)
    in_record = "" if record is None else f", in the record {record[1]}"
    return f"{path[1]}: {reason}{in_record}."


def damage_reason(text: str) -> str | None:
    """Return why Spark could not read a perhaps damaged file, or None for any other error.

    The text does not prove the damage: a storage may deliver wrong bytes once.
    """
    reads_footer = _FOOTER_FAILURE in text or _ORC_FOOTER_FRAME in text
    text = _FRAME_PATTERN.sub("", text)
    names_failure = any(pattern.search(text) for pattern in (_UNREAD_FILE_PATTERN, _PERMANENT_REASON_PATTERN))
    if not names_failure and not reads_footer:
        return None
    if has_wrong_checksum(text):
        return "the content does not match its checksums, which Hadoop keeps in a hidden file with the ending .crc"
    if _OTHER_FAULT_PATTERN.search(text) is not None:
        return None
    return _innermost_reason(f"{text}\n") or (
        "unexpected end of the file" if _EARLY_END in text else "no reason is known"
    )


def unread_path(text: str) -> str | None:
    """Return the path of the file that Spark could not read, in Spark's spelling, or None if the error names none."""
    match = _UNREAD_FILE_PATTERN.search(text)
    path = None if match is None else _PATH_PATTERN.search(match[0])
    return None if path is None else path[1]


def has_wrong_checksum(text: str) -> bool:
    """Whether a local file does not match the checksums in the file beside it."""
    return _WRONG_CHECKSUM_PATTERN.search(text) is not None


def type_mismatch_problem(text: str) -> str | None:
    """Return Spark's message about a file with another type than the schema, or None for any other error."""
    messages = _MISMATCH_PATTERN.findall(text)
    return messages[-1].strip() if messages else None


def has_too_long_line(text: str) -> bool:
    """Whether a line of a CSV file has too many columns, or a value with too many characters."""
    return _TOO_LONG_LINE in text


def has_bad_record(text: str) -> bool:
    """Whether a record of a file does not fit the schema."""
    return _BAD_RECORD in text


def _innermost_reason(text: str) -> str | None:
    """Return the message of the innermost cause that has one, in one line."""
    for message in reversed(_CAUSE_PATTERN.findall(text)):
        reason = _CONDITION_PATTERN.sub("", " ".join(message.split())).removesuffix(".")
        if reason and not reason.startswith("Exception thrown in "):
            return reason if len(reason) <= _MAX_REASON_LENGTH else f"{reason[:_MAX_REASON_LENGTH]}..."
    return None
