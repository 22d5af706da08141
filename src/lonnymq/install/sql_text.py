"""Quotes names, texts and blocks for plain SQL."""

from __future__ import annotations

from itertools import count

from lonnymq.statement import identifier


def literal(text: str) -> str:
    """The text as a string constant that is right for either setting of standard_conforming_strings."""
    quoted = "'" + text.replace("'", "''") + "'"
    return " E" + quoted.replace("\\", "\\\\") if "\\" in quoted else quoted


def text_array(texts: list[str]) -> str:
    """The texts as a TEXT[] constant."""
    return f"CAST(ARRAY[{', '.join(literal(text) for text in texts)}] AS TEXT[])"


def dollar_quoted(text: str, word: str) -> str:
    """The text in dollar quotes, with a tag that starts with the word and does not occur in the text."""
    tag = next(
        tag for n in count() if (tag := f"${word}{n or ''}$") not in text and not text.endswith(tag[:-1])
    )
    return f"{tag}{text}{tag}"


def namespace(schema: str) -> str:
    """The schema as a REGNAMESPACE constant."""
    return f"CAST({literal(identifier(schema))} AS REGNAMESPACE)"


def do_block(body: str) -> str:
    """The body as a DO statement."""
    return f"DO {dollar_quoted(body + chr(10), 'lonnymq')}"
