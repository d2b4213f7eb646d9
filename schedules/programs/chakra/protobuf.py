"""Chakra execution traces in protobuf's wire format (mlcommons/chakra, ``schema/protobuf/et_def.proto``).

A trace is a sequence of messages, each behind its length as a varint: first a ``GlobalMetadata``, then the
``Node`` s. Of their fields these are used; the numbers are the schema's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

_VERSION = "0.0.4"

_METADATA_VERSION = 1
_ID, _NAME, _TYPE, _DATA_DEPS, _DURATION, _ATTR = 1, 2, 3, 5, 7, 10
_ATTR_NAME, _INT32, _INT64, _BOOL = 1, 7, 9, 27

_VARINT, _BYTES = 0, 2


class NodeType(IntEnum):
    """What a node does."""

    COMP = 4
    SEND = 5
    RECV = 6
    COLL = 7


class Int32(int):
    """A number for a field of 32 bits; others have 64."""


def metadata() -> bytes:
    """Return what a trace begins with."""
    return _framed(_text(_METADATA_VERSION, _VERSION))


def node(
    number: int,
    name: str,
    kind: NodeType,
    attributes: Mapping[str, int],
    after: Iterable[int] = (),
    microseconds: int = 0,
) -> bytes:
    """Return a node.

    Parameters
    ----------
    number, name, kind
        Its id, name and type.
    attributes
        By name: `bool`, `Int32` or, of 64 bits, `int`.
    after
        The ids that it waits for.
    microseconds
        How long it lasts.
    """
    body = _number(_ID, number) + _text(_NAME, name) + _number(_TYPE, kind)
    packed = b"".join(map(_varint, after))
    body += _bytes(_DATA_DEPS, packed) if packed else b""
    body += _number(_DURATION, microseconds) if microseconds else b""
    return _framed(body + b"".join(_bytes(_ATTR, _attribute(*pair)) for pair in attributes.items()))


def _attribute(name: str, value: int) -> bytes:
    field = _BOOL if isinstance(value, bool) else _INT32 if isinstance(value, Int32) else _INT64
    return _text(_ATTR_NAME, name) + _number(field, value)


def _framed(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _varint(value: int) -> bytes:
    """Return a number that is not negative, seven bits a byte, the least first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _VARINT) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
