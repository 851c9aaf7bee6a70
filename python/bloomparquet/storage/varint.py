"""Variable-length integers of Thrift, protobuf and Snappy: seven bits in each byte, the lowest first."""

from __future__ import annotations


def read_varint(data: bytes | memoryview, position: int) -> tuple[int, int]:
    """The unsigned integer at `position`, and the position after it.

    Raises IndexError if `data` ends within it, OverflowError if it does not fit in 64 bits.
    """
    value = data[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for i in range(1, 10):
        byte = data[position + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, position + i + 1
    raise OverflowError
