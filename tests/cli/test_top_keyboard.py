"""What a terminal sends, as keys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq.cli.top.keyboard import Decoder

KEYS = {
    b"q": "q",
    b"/": "/",
    b"\r": "enter",
    b"\n": "enter",
    b"\x7f": "backspace",
    b"\x1b[A": "up",
    b"\x1bOA": "up",
    b"\x1b[B": "down",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1bOF": "end",
    "é".encode(): "é",
    "語".encode(): "語",
}
MEANINGLESS = [b"\x00", b"\x0c", b"\t", b"\x1b[24~", b"\x1b[1;5A", b"\x1bOP", b"\xff"]


@pytest.mark.parametrize("sent", KEYS, ids=repr)
def test_keys(sent: bytes) -> None:
    assert Decoder().feed(sent) == [KEYS[sent]]


@pytest.mark.parametrize("sent", MEANINGLESS, ids=repr)
def test_other_keys_mean_nothing(sent: bytes) -> None:
    decoder = Decoder()
    assert decoder.feed(sent) == []
    assert decoder.feed(b"q") == ["q"]


def test_an_escape_alone_is_a_key_once_nothing_follows() -> None:
    decoder = Decoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.flush() == ["escape"]
    assert decoder.flush() == []
    assert decoder.feed(b"\x1bq") == ["escape", "q"]


@given(st.lists(st.sampled_from(sorted(KEYS)), max_size=20), st.data())
def test_in_whatever_parts_they_come(sent: list[bytes], data: st.DataObject) -> None:
    decoder, rest, keys = Decoder(), b"".join(sent), []
    while rest:
        length = data.draw(st.integers(1, len(rest)))
        keys += decoder.feed(rest[:length])
        rest = rest[length:]
    assert keys + decoder.flush() == [KEYS[key] for key in sent]


@given(st.binary(max_size=60))
def test_nothing_that_is_sent_breaks_it(sent: bytes) -> None:
    decoder = Decoder()
    assert all(keys for keys in (*decoder.feed(sent), *decoder.flush()))
    assert decoder.feed(b"") == []
