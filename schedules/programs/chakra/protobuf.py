"""Chakra execution traces in protobuf's wire format (mlcommons/chakra, ``schema/protobuf/et_def.proto``).

A trace is a sequence of messages, each after its length as a varint: first a ``GlobalMetadata``, then the
``Node`` s. This module lists the fields that are used; their numbers are the schema's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum

_VERSION = "0.0.4"


class _Node(IntEnum):
    """Numbers of a node's fields."""

    ID = 1
    NAME = 2
    TYPE = 3
    DATA_DEPS = 5
    DURATION = 7
    ATTR = 10


class _Attribute(IntEnum):
    """Numbers of an attribute's fields."""

    NAME = 1
    INT32 = 7
    INT64 = 9
    BOOL = 27


class _Wire(IntEnum):
    """Types of the values that follow a field's number."""

    VARINT = 0
    BYTES = 2


class NodeType(IntEnum):
    """The kind of a node."""

    COMP = 4
    SEND = 5
    RECV = 6
    COLL = 7


class Int32(int):
    """A number for a field of 32 bits; other numbers have 64 bits."""


def metadata() -> bytes:
    """Return the first message of a trace."""
    return _framed(_text(1, _VERSION))


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
        The node's id, name and type.
    attributes
        Values by name: `bool`, `Int32`, or `int` for 64 bits.
    after
        The ids of the nodes that it waits for.
    microseconds
        Its duration; 0 is left out.
    """
    body = _number(_Node.ID, number) + _text(_Node.NAME, name) + _number(_Node.TYPE, kind)
    packed = b"".join(map(_varint, after))
    body += _bytes(_Node.DATA_DEPS, packed) if packed else b""
    body += _number(_Node.DURATION, microseconds) if microseconds else b""
    return _framed(body + b"".join(_bytes(_Node.ATTR, _attribute(*pair)) for pair in attributes.items()))


def _attribute(name: str, value: int) -> bytes:
    fields = {bool: _Attribute.BOOL, Int32: _Attribute.INT32}
    field = fields.get(type(value), _Attribute.INT64)
    return _text(_Attribute.NAME, name) + _number(field, value)


def _framed(message: bytes) -> bytes:
    return _varint(len(message)) + message


def _varint(value: int) -> bytes:
    """Return a nonnegative number as seven bits per byte, the least significant first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3 | _Wire.VARINT) + _varint(value)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | _Wire.BYTES) + _varint(len(value)) + value


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())
