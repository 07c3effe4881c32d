"""Mutations of a table's files: bytes, lines, JSON values and Parquet columns. A `Random` makes every choice."""

from __future__ import annotations

import io
import json

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.raw_json import Raw, to_text

_NESTING_DEPTH = 100_000
_NESTED_ARRAY_TYPE = '{"type":"array","containsNull":true,"elementType":' * 300 + '"long"' + "}" * 300
# JSON texts that a careless parser accepts with a wrong meaning, or that exhaust its stack or its memory.
HOSTILE = tuple(
    map(
        Raw,
        [
            "null", "true", "false", "0", "-1", "5", "1.5", "7.0", "2147483648", "9223372036854775807",
            "9223372036854775808", "-9223372036854775809", "4611686018427387904", "1" + "0" * 400, "1" + "0" * 5000,
            "1e999", "-1e999", "NaN", "Infinity", "1e400000000", '""', '"x"', '"\\u0000"', '"\\ud800"', '"../../x"',
            '"%"', '"%zz%00%ff"', '"file:///etc/hostname"', '"file:/"', '"/"', '"s3://b/k"', '"a//b/./"',
            '"2026-13-45"',
            '"+99999999-01-01 00:00:00"', '"1e999999999"', '"nan"', '"-9999-01-01"', '"id"', '"name"', '"variant"',
            '"' + "a" * 100_000 + '"', "[]", "{}", "[[]]", "[null]", '[""]', '{"a":1}', '{"":null}', '["x",5]',
            '"decimal(99999,1)"', '"decimal(' + "9" * 5000 + ',1)"', "[" * _NESTING_DEPTH + "]" * _NESTING_DEPTH,
            '{"a":' * _NESTING_DEPTH + "1" + "}" * _NESTING_DEPTH,
            "[" * 400 + "]" * 400, '{"a":' * 900 + "1" + "}" * 900,
            _NESTED_ARRAY_TYPE, json.dumps(_NESTED_ARRAY_TYPE),
        ],
    )
)  # fmt: skip


def mutate_value(rnd, value):
    """Return a JSON value with one hostile change at any depth. In a text that is JSON itself, a part may change."""
    if isinstance(value, dict) and value and rnd.random() < 0.93:
        return _mutate_member(rnd, value)
    if isinstance(value, list) and value and rnd.random() < 0.7:
        index = rnd.randrange(len(value))
        return [*value[:index], mutate_value(rnd, value[index]), *value[index + 1 :]]
    if isinstance(value, str) and value[:1] in ("{", "[") and rnd.random() < 0.8:
        try:
            return to_text(mutate_value(rnd, json.loads(value)))
        except (ValueError, RecursionError):
            pass
    if isinstance(value, str) and value and rnd.random() < 0.3:
        index = rnd.randrange(len(value))
        return value[:index] + rnd.choice(["", "%", "\0", "é", "..", "/", " "]) + value[index + 1 :]
    if isinstance(value, int) and not isinstance(value, bool) and rnd.random() < 0.3:
        return rnd.choice([-value, value + 1, value * 2**40, value - 1, 2**62])
    return rnd.choice(HOSTILE)


def _mutate_member(rnd, value):
    key = rnd.choice(sorted(value))
    members = dict(value)
    match rnd.choice(["inside", "inside", "inside", "inside", "drop", "rename", "twice"]):
        case "inside":
            members[key] = mutate_value(rnd, value[key])
        case "drop":
            del members[key]
        case "rename":
            members[rnd.choice([key.upper(), key + " ", "x", ""])] = members.pop(key)
        case "twice":
            items = list(value.items())
            items.insert(rnd.randrange(len(items) + 1), (key, rnd.choice(HOSTILE)))
            return Raw("{" + ",".join(f"{json.dumps(k)}:{to_text(v)}" for k, v in items) + "}")
    return members


def mutate_json_lines(rnd, data):
    """Return a file of JSON lines with a hostile change in one line, or with an additional changed copy of a line."""
    lines = [line for line in data.split(b"\n") if line.strip()]
    if not lines:
        return data
    index = rnd.randrange(len(lines))
    try:
        changed_line = to_text(mutate_value(rnd, json.loads(lines[index]))).encode("utf-8", "surrogatepass")
    except (ValueError, RecursionError):
        return mutate_bytes(rnd, data)
    if rnd.random() < 0.15:
        lines.insert(rnd.randrange(len(lines) + 1), changed_line)  # The original action stays in the file.
    else:
        lines[index] = changed_line
    return b"\n".join(lines) + b"\n"


def mutate_lines(rnd, data):
    """Return a text file with one change of its lines.

    A line is missing, repeated, swapped with another, new, joined with the next, or in brackets. Or the file has other
    line ends, a byte order mark, or no newline at its end.
    """
    lines = data.split(b"\n")
    index, other_index = rnd.randrange(len(lines)), rnd.randrange(len(lines))
    match rnd.randrange(9):
        case 0:
            del lines[index]
        case 1:
            lines.insert(other_index, lines[index])
        case 2:
            lines[index], lines[other_index] = lines[other_index], lines[index]
        case 3:
            lines.insert(
                index,
                rnd.choice([b"", b" ", b"\t\r", b"\x0c", b"\xc2\xa0", b"\0", b"{}", b"[]", b"5", b'"x"', b"null"]),
            )
        case 4:
            lines[index : index + 2] = [b"".join(lines[index : index + 2])]
        case 5:
            lines[index] = b"[" + lines[index] + b"]"
        case 6:
            return b"\r\n".join(lines)
        case 7:
            return b"\xef\xbb\xbf" + data
        case 8:
            return data.rstrip(b"\n")
    return b"\n".join(lines)


def mutate_bytes(rnd, data):
    """Return a file with one change: it is cut off, one bit is flipped, or bytes are new, missing, repeated or zero."""
    if not data:
        return rnd.choice([b"\0", b"{", b"\xff\xfe"])
    index = rnd.randrange(len(data))
    end = min(len(data), index + rnd.choice([1, 2, 8, 100]))
    match rnd.randrange(7):
        case 0:
            return data[:index]
        case 1:
            return data[:index] + bytes([data[index] ^ (1 << rnd.randrange(8))]) + data[index + 1 :]
        case 2:
            return (
                data[:index]
                + rnd.choice([b"\0", b"\xff", b"\xc3\x28", b"\xed\xa0\x80", b"\r", b"\n", b'"'])
                + data[index:]
            )
        case 3:
            return data[:index] + data[end:]
        case 4:
            return data[:end] + data[index:]
        case 5:
            return data[:index] + bytes(end - index) + data[end:]
        case _:
            return data[index:]


def mutate_parquet(rnd, data):
    """Return a Parquet file with one change: of a column (missing, constant, or a changed member), or of the rows."""
    try:
        table = pq.read_table(io.BytesIO(data))
    except (pa.ArrowException, OSError):
        return mutate_bytes(rnd, data)
    column = rnd.choice(table.column_names)
    index = table.column_names.index(column)
    values = table.column(column)
    match rnd.randrange(7):
        case 0:
            table = table.drop_columns([column])
        case 1:
            constant = rnd.choice([0, "x", None, [1], {"path": 5, "version": "x"}, b"\xff"])
            nulls = pa.nulls(len(table), values.type)
            new_values = nulls if constant is None else pa.array([constant] * len(table))
            table = table.set_column(index, column, new_values)
        case 2:
            table = pa.concat_tables([table, table.slice(rnd.randrange(max(1, len(table))), 1)])
        case 3:
            dropped_row = rnd.randrange(max(1, len(table)))
            table = pa.concat_tables([table.slice(0, dropped_row), table.slice(dropped_row + 1)])
        case 4 | 5 if pa.types.is_struct(values.type) and values.type.num_fields:
            table = table.set_column(index, column, _mutate_struct(rnd, values.combine_chunks()))
        case _:
            table = table.take(pa.array(sorted(range(len(table)), key=lambda _: rnd.random()), pa.int64()))
    sink = pa.BufferOutputStream()
    try:
        pq.write_table(table, sink, compression=rnd.choice(["none", "snappy"]))
    except pa.ArrowException:  # For example, a column that is not nullable has nulls.
        return mutate_bytes(rnd, data)
    return sink.getvalue().to_pybytes()


def _mutate_struct(rnd, structs):
    """Return the structs without one member, or with one constant as the value of this member."""
    names, members = [f.name for f in structs.type], structs.flatten()
    index, count = rnd.randrange(len(names)), len(structs)
    replacement = rnd.choice([None, "drop", "x", 1.5, [None], b"\xff"])
    if replacement == "drop" and len(names) > 1:
        del names[index], members[index]
    else:
        kind = members[index].type
        members[index] = pa.nulls(count, kind) if replacement is None else pa.array([replacement] * count)
    return pa.StructArray.from_arrays(members, names=names, mask=structs.is_null())


def mutate_file(rnd, name, data):
    """Return the bytes of a file with one change that suits the format, which the ending of the name determines."""
    if name.endswith(".parquet"):
        return rnd.choice([mutate_bytes, mutate_bytes, mutate_parquet])(rnd, data)
    if name.endswith(".bin"):
        return mutate_bytes(rnd, data)
    return rnd.choice([mutate_bytes, mutate_lines, mutate_json_lines, mutate_json_lines, mutate_json_lines])(rnd, data)


def mutate_files(rnd, files, may_change=lambda _name: True, *, whole_files=True):
    """Make up to three changes to the content of files. With `whole_files`, a change may concern a file as a whole.

    Such a change removes the file, empties it, replaces it by a copy of another file, or swaps it with another file.
    Returns the changed files, and the list of changes as (change, file, other file).
    """
    files, changes = dict(files), []
    for _ in range(rnd.choice([1, 1, 1, 2, 3])):
        names = sorted(name for name in files if may_change(name))
        if not names:
            break
        name, other_name = rnd.choice(names), rnd.choice(names)
        change = rnd.choice(["inside"] * 9 + ["remove", "swap", "copy", "empty"]) if whole_files else "inside"
        match change:
            case "inside":
                files[name] = mutate_file(rnd, name, files[name])
            case "remove":
                del files[name]
            case "swap":
                files[name], files[other_name] = files[other_name], files[name]
            case "copy":
                files[name] = files[other_name]
            case "empty":
                files[name] = b""
        changes.append((change, name, other_name if change in ("swap", "copy") else ""))
    return files, changes
