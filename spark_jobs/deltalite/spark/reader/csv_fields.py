"""The fields of a line of a CSV file, with the rules of Spark's parser (univocity) for quotes and escapes.

The rule for a quote that is not escaped is `STOP_AT_DELIMITER`, Spark's default for `unescapedQuoteHandling`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from deltalite.requests.csv_options import column_separator

_TRUE = "true"
_NO_CHARACTER = "\0"  # Spark's value for an empty option


class OpenQuoteError(ValueError):
    """A line ends inside quotes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvDialect:
    """The characters that have a meaning in a line.

    - `separator`: the text between two fields.
    - `quote`: the character around a field that may contain separators.
    - `escape`: the character before a quote that belongs to the field.
    - `escape_of_escape`: the character before an escape that belongs to the field; "" without one.
    - `skips_leading_blanks`: whether blanks before a field are ignored.
    """

    separator: str
    quote: str
    escape: str
    escape_of_escape: str
    skips_leading_blanks: bool

    @classmethod
    def of(cls, options: Mapping[str, str]) -> Self:
        """Return the dialect that valid options select. Their names have lower case."""
        quote = options.get("quote", '"') or _NO_CHARACTER
        escape = options.get("escape", "\\") or _NO_CHARACTER
        return cls(
            separator=column_separator(options) or ",",
            quote=quote,
            escape=escape,
            escape_of_escape=options.get("chartoescapequoteescaping", "" if escape == quote else escape),
            skips_leading_blanks=options.get("ignoreleadingwhitespace", "false").lower() == _TRUE,
        )

    def fields(self, line: str, *, may_end_in_quotes: bool = True) -> list[str]:
        """Return the fields of a line, without their quotes and escapes.

        Raises:
            OpenQuoteError: the line ends inside quotes, and `may_end_in_quotes` is False.
        """
        fields: list[str] = []
        start = 0
        while True:
            field, end = self._field(line, start, may_end_in_quotes=may_end_in_quotes)
            fields.append(field)
            if end == len(line):
                return fields
            start = end + len(self.separator)

    def _field(self, line: str, start: int, *, may_end_in_quotes: bool) -> tuple[str, int]:
        """Return the field that begins at `start`, and the position of its separator or of the end of the line."""
        if self.skips_leading_blanks:
            start = self._end_of_blanks(line, start)
        if line.startswith(self.quote, start) and start + 1 < len(line):
            return self._quoted_field(line, start + 1, may_end_in_quotes=may_end_in_quotes)
        end = self._end_of_field(line, start)
        return line[start:end], end

    def _quoted_field(self, line: str, position: int, *, may_end_in_quotes: bool) -> tuple[str, int]:
        """Do the same as `_field`, for a field in quotes. `position` is behind its first quote.

        A quote closes the field if only blanks follow it in the field. A field with any other quote that is not escaped
        keeps its quotes.
        """
        characters: list[str] = []
        while position < len(line):
            character, next_character = line[position], line[position + 1 : position + 2]
            if (character, next_character) in ((self.escape_of_escape, self.escape), (self.escape, self.quote)):
                characters.append(next_character)
                position += 2
            elif character != self.quote:
                characters.append(character)
                position += 1
            else:
                end = self._end_of_blanks(line, position + 1)
                if end == len(line) or line.startswith(self.separator, end):
                    return "".join(characters), end
                characters.append(self.quote)
                position += 1
                if next_character != self.quote:
                    end = self._end_of_field(line, position)
                    return self.quote + "".join(characters) + line[position:end], end
        if not may_end_in_quotes:
            raise OpenQuoteError
        return "".join(characters), position

    def _end_of_field(self, line: str, position: int) -> int:
        end = line.find(self.separator, position)
        return len(line) if end < 0 else end

    def _end_of_blanks(self, line: str, position: int) -> int:
        while position < len(line) and self._is_blank(line, position):
            position += 1
        return position

    def _is_blank(self, line: str, position: int) -> bool:
        return line[position] <= " " and line[position] != self.quote and not line.startswith(self.separator, position)
