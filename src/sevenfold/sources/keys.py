"""A row's identity: 16 bytes from its content and declared id, nothing else.

The same row has the same key in any file, at any place, on any machine, with its JSON keys in any order. 1 and "1" are
two ids, since JSON writes them apart. Exact twins are told apart by how many came before.
"""

import hashlib

import msgspec

from sevenfold.sources.formats import Draft

SIZE = 16
"""Bytes: among 10 ** 9 rows the chance that any two share a key is below 10 ** -20."""

_encode = msgspec.json.Encoder(order="sorted").encode


def content_key(draft: Draft) -> bytes:
    canonical = _encode((draft.id, draft.turns, draft.tools, draft.sampling))
    return hashlib.blake2b(canonical, digest_size=SIZE).digest()


def twin_key(content: bytes, count: int) -> bytes:
    """The key of the row that follows `count` exact twins; the first keeps its content's."""
    if count == 0:
        return content
    return hashlib.blake2b(content + count.to_bytes(8, "big"), digest_size=SIZE).digest()
