import dataclasses
import json
import math
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lonnymq import payload
from lonnymq.errors import BrokenContent, MissingExtra, NotEncodable, PayloadError, UnknownContentType
from lonnymq.payload import BYTES, JSON, MSGPACK, Payload, convert, decode, encode, simplify


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


class Colour(Enum):
    RED = "red"


class Number(IntEnum):
    ONE = 1


class Size(StrEnum):
    SMALL = "small"


class Half(float):
    pass


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


@attrs.define
class Parcel:
    id: int


class Wrapped(msgspec.Struct):
    person: Person
    weight: float = 1.0
    tags: set[str] = set()
    at: datetime | None = None
    scan: bytes = b""


@dataclasses.dataclass
class Measure:
    value: float


class Reading(pydantic.BaseModel):
    value: float


def outcome(call: Callable[[], Any]) -> tuple[type, Any]:
    """The result of the call, or the error with its text."""
    try:
        result = call()
    except PayloadError as error:
        return type(error), str(error)
    return type(result), result


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.dates()
    | st.uuids()
    | st.decimals()
    | st.binary()
    | st.frozensets(st.integers(), max_size=2)
    | st.sampled_from([Colour.RED, Number.ONE, Size.SMALL])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.floats() | st.booleans(), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(values)
def test_plain_values_do_not_depend_on_msgspec(value: Any) -> None:
    with_it = outcome(lambda: encode(value))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "msgspec", None)
        without = outcome(lambda: encode(value))
    assert with_it == without
    if with_it[0] is Payload and with_it[1].content_type == JSON:
        content = with_it[1].content
        assert json.loads(content) == json.loads(json.dumps(value, allow_nan=False))
        assert decode(content, JSON) == msgspec.json.decode(content)


@given(st.text(alphabet='0123456789eE+-."\\u[]{},:truefalsnN aI\ud800', max_size=12) | st.text(max_size=4))
def test_reading_plain_content_does_not_depend_on_msgspec(text: str) -> None:
    content = text.encode(errors="surrogatepass")
    with_it = outcome(lambda: decode(content, JSON))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(payload, "msgspec", None)
        assert outcome(lambda: decode(content, JSON)) == with_it
    assert with_it[0] is not float or math.isfinite(with_it[1])


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
def test_nan_and_infinities_are_refused_everywhere(number: float, content_type: str) -> None:
    for value in (
        number,
        [number],
        {"a": {"b": (number,)}},
        {number: 1},
        Wrapped(Person(name="a"), number),
        [Measure(number)],
        Reading(value=number),
        {"a": [Reading(value=number)]},
    ):
        with pytest.raises(NotEncodable, match="finite numbers"):
            encode(value, content_type)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        *((text, JSON) for text in (b"NaN", b"[Infinity]", b"-Infinity", b"1e999", b'{"a":-1e999}')),
        *((msgspec.msgpack.encode(each), MSGPACK) for each in ([math.nan], {math.inf: 1})),
    ],
)
def test_nan_and_infinities_are_not_read(content: bytes, content_type: str) -> None:
    for kind in (Any, list[float]):
        with pytest.raises(BrokenContent):
            decode(content, content_type, kind)


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
@pytest.mark.parametrize(
    "value", [{1}, frozenset(), UUID(int=1), date(2030, 1, 1), datetime.now(UTC), Decimal(1), Colour.RED]
)
def test_values_without_a_json_form_are_refused(value: Any, content_type: str) -> None:
    for each in (value, [value], {"a": {"b": value}}):
        with pytest.raises(NotEncodable, match=f"a value of type {type(value).__name__} is not a JSON value"):
            encode(each, content_type)


@pytest.mark.parametrize("content_type", [JSON, MSGPACK])
def test_typed_values_inside_plain_ones(content_type: str) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    wrapped = Wrapped(Person(name="Zoë"), 2.5, {"a"}, now, b"\0\xff")
    content, _ = encode({"list": [wrapped, Parcel(7)]}, content_type)
    found = decode(content, content_type, dict[str, tuple[Wrapped, Parcel]])
    assert found == {"list": (wrapped, Parcel(7))}
    assert decode(content, content_type)["list"][1] == {"id": 7}


def test_bytes_and_subclasses_in_messagepack() -> None:
    value = {"raw": b"\0\xff", Colour.RED.value: Size.SMALL, "one": Number.ONE, "half": Half(0.5)}
    assert decode(*encode(value, MSGPACK)) == {"raw": b"\0\xff", "red": "small", "one": 1, "half": 0.5}
    with pytest.raises(NotEncodable, match="bytes is not a JSON value"):
        encode(value, JSON)


def test_a_circular_reference_is_refused() -> None:
    circle: list[Any] = []
    circle.append({"a": circle})
    for content_type in (JSON, MSGPACK):
        with pytest.raises(NotEncodable, match="recursion"):
            encode(circle, content_type)


def test_plain_types_are_checked_without_msgspec() -> None:
    assert decode(b"7", JSON, float) == 7.0
    assert isinstance(decode(b"7", JSON, float), float)
    for content, kind in ((b'{"a":1}', list), (b"true", int), (b"1.0", int), (b"null", dict), (b'"1"', int)):
        with pytest.raises(BrokenContent, match=f"not {kind.__name__}"):
            decode(content, JSON, kind)


def test_without_msgspec(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "msgspec", None)
    assert encode({"a": [1, "ü"]}) == ('{"a":[1,"ü"]}'.encode(), JSON)
    assert decode(b'{"a":[1,"\\u00fc"]}', JSON) == {"a": [1, "ü"]}
    assert decode(*encode(Person(name="Zoë")), Person) == Person(name="Zoë")
    assert decode(*encode([Person(name="Zoë")])) == [{"name": "Zoë", "age": 0}]
    assert decode(b'{"a":1}', JSON, dict) == {"a": 1}
    assert simplify(Person(name="Zoë")) == {"name": "Zoë", "age": 0}
    for value in (Order(7, []), [Parcel(7)], {"a": Invoice(7, UUID(int=5))}):
        with pytest.raises(MissingExtra, match=r"not installed, which \w+ needs.*lonnymq\[typed\]"):
            encode(value)
    for call in (lambda: encode({}, MSGPACK), lambda: decode(b"{}", JSON, Order), lambda: convert(1, int)):
        with pytest.raises(MissingExtra, match=r"lonnymq\[typed\]"):
            call()


def test_convert_and_simplify() -> None:
    value = {"at": datetime(2030, 1, 1, tzinfo=UTC), "tags": {"a"}, "person": Person(name="Zoë")}
    plain = simplify(value)
    assert plain == {"at": "2030-01-01T00:00:00Z", "tags": ["a"], "person": {"name": "Zoë", "age": 0}}
    assert convert(plain["tags"], set[str]) == {"a"}
    assert convert(simplify({7: "a"}), dict[int, str]) == {7: "a"}  # the keys of JSON objects are strings
    assert convert([plain["person"]], list[Person]) == [Person(name="Zoë")]
    with pytest.raises(BrokenContent, match="is not of type int"):
        convert("7", int)
    with pytest.raises(NotEncodable, match="cannot encode a object"):
        simplify(object())
