import dataclasses
from typing import Any
from uuid import UUID

import msgspec
import pydantic
import pytest

from lonnymq import payload
from lonnymq.errors import BrokenContent, MissingExtra, NotEncodable, PayloadError, UnknownContentType
from lonnymq.payload import BYTES, JSON, MSGPACK, decode, encode


class Order(msgspec.Struct):
    id: int
    items: list[str]


@dataclasses.dataclass
class Invoice:
    id: int
    order: UUID


class Person(pydantic.BaseModel):
    name: str
    age: int = 0


VALUES = [
    Order(7, ["tea", "ü"]),
    Invoice(7, UUID(int=5)),
    Person(name="Zoë", age=7),
]


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_typed_values_survive_a_round_trip(value: Any, content_type: str) -> None:
    content, header = encode(value, content_type)
    assert header == content_type
    assert decode(content, header, type(value)) == value


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
@pytest.mark.parametrize("value", [None, True, 0, -1.5, "", "ü\0", [], {"a": [1, {"b": None}]}, 2**53])
def test_plain_values_survive_a_round_trip(value: Any, content_type: str) -> None:
    assert decode(*encode(value, content_type)) == value


@pytest.mark.parametrize("value", [b"", b"\x00\xff", bytearray(b"x"), memoryview(b"x")])
def test_bytes_are_not_encoded(value: Any) -> None:
    content, content_type = encode(value)
    assert (content, content_type) == (bytes(value), None)
    assert encode(value, "image/png") == (bytes(value), "image/png")
    assert decode(content, content_type) == decode(content, BYTES, bytes) == bytes(value)


def test_parameters_of_a_content_type_are_ignored() -> None:
    assert decode(b'"\xc3\xbc"', "Application/JSON; charset=utf-8") == "ü"


@pytest.mark.parametrize(
    ("content", "content_type", "kind"),
    [
        (b"{", JSON, Any),
        (b"\xff", JSON, Any),
        (b"\xc1", MSGPACK, Any),
        (b'{"id":"seven","items":[]}', JSON, Order),
        (b'{"id":7}', JSON, Order),
        (b'{"age":"old"}', JSON, Person),
        (b"[" * 100_000, JSON, Any),
    ],
)
def test_broken_content_is_an_error(content: bytes, content_type: str, kind: Any) -> None:
    with pytest.raises(BrokenContent) as caught:
        decode(content, content_type, kind)
    assert isinstance(caught.value, PayloadError)
    assert content_type in str(caught.value)


def test_an_unknown_content_type_is_an_error() -> None:
    with pytest.raises(UnknownContentType, match="application/x-pickle"):
        decode(b"", "application/x-pickle")
    with pytest.raises(UnknownContentType, match="use 'application/json'"):
        encode({}, "text/yaml")
    with pytest.raises(UnknownContentType, match="cannot be decoded as Order"):
        decode(b"{}", None, Order)


@pytest.mark.parametrize("value", [object(), {1: object()}, open, {"k": 2**80}])
def test_a_value_that_cannot_be_encoded_is_an_error(value: Any) -> None:
    with pytest.raises(NotEncodable, match=type(value).__name__):
        encode(value, MSGPACK)


def test_plain_values_need_no_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "msgspec", None)
    assert encode({"a": [1, "ü"]}) == (b'{"a":[1,"\\u00fc"]}', JSON)
    assert decode(b'{"a":[1,"\\u00fc"]}', JSON) == {"a": [1, "ü"]}
    assert decode(*encode(Person(name="Zoë")), Person) == Person(name="Zoë")
    assert decode(b'{"a":1}', JSON, dict) == {"a": 1}
    with pytest.raises(BrokenContent, match="not list"):
        decode(b'{"a":1}', JSON, list)
    with pytest.raises(NotEncodable, match=r"lonnymq\[typed\]"):
        encode(Order(7, []))
    with pytest.raises(NotEncodable):
        encode(float("nan"))
    for call in (lambda: encode({}, MSGPACK), lambda: decode(b"{}", JSON, Order)):
        with pytest.raises(MissingExtra, match=r"lonnymq\[typed\]"):
            call()
