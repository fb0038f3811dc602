"""Ways to make a text shorter, as contenders: ours, cuts, an embedding filter, and LangChain's.

All have the same embedder and the same counter, and none may come out above its budget.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.child import Options, serve
from bench.fact_documents import (
    Document,
    count_survivors,
    load_collection,
    write_anthologies,
    write_papers,
)
from dialectic.retrieval.built_in import StaticEmbedder, load_static_model
from dialectic.retrieval.extract import extract
from dialectic.retrieval.passages import split_passages
from dialectic.retrieval.pieces import build_reading, cut, cut_evenly
from dialectic.tokens.counting import get_batch_counter, get_counter

if TYPE_CHECKING:
    from dialectic.retrieval.embedders import Matrix
    from dialectic.retrieval.pieces import Piece

COUNT = get_counter("o200k_base")
COUNT_EACH = get_batch_counter("o200k_base")
EMBEDDER = StaticEmbedder()
ANGLES = (
    "{}",
    "What is new, specific or surprising about: {}",
    "What contradicts, limits or endangers: {}",
)
# As LangChain's own example of a compressor pipeline has it.
LANGCHAIN_CHUNK_CHARS = 300
BUDGETS_PERCENT = (10, 25, 50)

Shorten = Callable[[Document, int], str]


class Vectors:
    """Vectors by what they are of, made once, as the index keeps them; and how many were made.

    Pieces are kept with them, so ours are not cut again either.
    """

    def __init__(self, *, remembers: bool = True) -> None:
        self._known: dict[bytes, Any] = {}
        self._remembers = remembers
        self._pieces: dict[bytes, tuple[Piece, ...]] = {}
        self.made = 0

    def cut(self, text: str) -> tuple[Piece, ...]:
        key = hashlib.sha256(text.encode()).digest()
        if key not in self._pieces:
            self._pieces[key] = cut_evenly(text, EMBEDDER)
        return self._pieces[key]

    def embed(self, texts: Sequence[str]) -> Matrix:
        keys = [hashlib.sha256(text.encode()).digest() for text in texts]
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in self._known}
        if new:
            rows = load_static_model().embed(list(new.values())).rows
            self.made += len(new)
            self._known |= dict(zip(new, rows, strict=True))
        found = np.stack([self._known[key] for key in keys])
        if not self._remembers:
            self._known.clear()
        return found


def shorten_ours(document: Document, budget: int, *, vectors: Vectors) -> str:
    pieces = vectors.cut(document.text)
    rows = vectors.embed([build_reading(piece, EMBEDDER) for piece in pieces])
    purpose = vectors.embed([angle.format(document.purpose) for angle in ANGLES])
    found = extract(document.text, pieces, rows, purpose, budget, COUNT, count_each=COUNT_EACH)
    assert found is not None, "the budget is too small for this document"
    return found.text


def cut_head(document: Document, budget: int) -> str:
    """Keep as much as fits from the start."""
    return document.text[: _find_most(len(document.text), lambda n: document.text[:n], budget)]


def drop_middle(document: Document, budget: int) -> str:
    """Keep as much of the start as of the end."""

    def build(chars: int) -> str:
        return f"{document.text[:chars]}\n[…]\n{document.text[len(document.text) - chars :]}"

    return build(_find_most(len(document.text) // 2, build, budget))


def drop_oldest(document: Document, budget: int) -> str:
    """Drop paragraphs from the start until the rest fits."""
    blocks = document.text.split("\n\n")
    most = _find_most(len(blocks), lambda n: "\n\n".join(blocks[len(blocks) - n :]), budget)
    return "\n\n".join(blocks[len(blocks) - most :])


def filter_pieces(document: Document, budget: int, *, is_fine: bool = False) -> str:
    """Keep the pieces, or the single passages, that are nearest to the purpose; in their order."""
    if is_fine:
        spans = [(one.start, one.end) for one in split_passages(document.text).passages]
        texts = [document.text[start:end] for start, end in spans]
    else:
        texts = [piece.text for piece in cut(document.text, EMBEDDER)]
    model = load_static_model()
    near = model.embed(texts).rows @ model.embed([document.purpose]).rows[0]
    order = np.argsort(-near, kind="stable").tolist()

    def build(count: int) -> str:
        return "\n\n".join(texts[number] for number in sorted(order[:count]))

    return build(_find_most(len(texts), build, budget))


def compress_langchain(document: Document, budget: int, *, pipeline: Any) -> str:
    """Keep what LangChain's compressor ranks first, as much of it as fits."""
    from langchain_core.documents import Document as Page

    found = pipeline.compress_documents([Page(document.text)], document.purpose)
    kept: list[str] = []
    spent = 0
    for page in found:
        spent += COUNT(page.page_content) + 1
        if spent > budget:
            break
        kept.append(page.page_content)
    return "\n\n".join(kept)


def build_langchain(vectors: Vectors) -> Any:
    """Build the pipeline of LangChain's documentation: split, drop what is redundant, rank."""
    from langchain_classic.retrievers.document_compressors import (
        DocumentCompressorPipeline,
        EmbeddingsFilter,
    )
    from langchain_community.document_transformers import EmbeddingsRedundantFilter
    from langchain_core.embeddings import Embeddings
    from langchain_text_splitters import CharacterTextSplitter

    class Static(Embeddings):  # type: ignore[misc,unused-ignore]
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            found: list[list[float]] = vectors.embed(texts).tolist()
            return found

        def embed_query(self, text: str) -> list[float]:
            return self.embed_documents([text])[0]

    embeddings = Static()
    return DocumentCompressorPipeline(
        transformers=[
            CharacterTextSplitter(
                chunk_size=LANGCHAIN_CHUNK_CHARS, chunk_overlap=0, separator=". "
            ),
            EmbeddingsRedundantFilter(embeddings=embeddings),
            EmbeddingsFilter(embeddings=embeddings, k=1_000_000),
        ]
    )


def _find_most(most: int, build: Callable[[int], str], budget: int) -> int:
    """Find how many parts fit, by halving."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if COUNT(build(middle)) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def find_shortener(name: str, vectors: Vectors) -> Shorten:
    if name == "langchain":
        return partial(compress_langchain, pipeline=build_langchain(vectors))
    known: dict[str, Shorten] = {
        "ours": partial(shorten_ours, vectors=vectors),
        "head": cut_head,
        "middle": drop_middle,
        "oldest": drop_oldest,
        "filter": filter_pieces,
        "fine filter": partial(filter_pieces, is_fine=True),
    }
    return known[name]


def list_documents(corpus: str, seed: str, count: int, data: str | None) -> list[Document]:
    """List the documents that a corpus means; none where its collection is not at hand."""
    if corpus == "papers":
        return list(write_papers(seed, is_for_report=seed.startswith("report"), count=count))
    if data is None:
        return []
    filler, strange = (load_collection(Path(data) / name) for name in corpus.split("+"))
    return list(write_anthologies(filler, strange, seed, count=count))


def keep_facts(options: Options) -> dict[str, list[float]]:
    """Count the facts that survive, in percent of all, by corpus and budget."""
    found: dict[str, list[float]] = {}
    for corpus in options["corpora"]:
        documents = list_documents(corpus, options["seed"], options["count"], options["data"])
        if not documents:
            continue
        for percent in BUDGETS_PERCENT:
            shorten = find_shortener(options["shortener"], Vectors())
            kept = 0
            for document in documents:
                budget = COUNT(document.text) * percent // 100
                short = shorten(document, budget)
                assert COUNT(short) <= budget, f"{options['shortener']} is above its budget"
                kept += count_survivors(document, short)
            total = sum(len(document.facts) for document in documents)
            found[f"{corpus} {percent}"] = [100 * kept / total]
    return found


def compress_twice(options: Options) -> dict[str, list[float]]:
    """Shorten a text, and then the same text for the same purpose again."""
    papers = list_documents("papers", options["seed"], options["count"], None)
    text = "\n\n".join(paper.text for paper in papers)[: options["chars"]]
    assert len(text) == options["chars"], "too few papers for so long a text"
    document = Document(text, papers[0].purpose, ())
    budget = COUNT(text) * options["percent"] // 100
    vectors = Vectors(remembers=options["remembers"])
    shorten = find_shortener(options["shortener"], vectors)
    # What is loaded once in the life of a process is loaded before.
    shorten(Document(papers[-1].text[-20_000:], papers[-1].purpose, ()), 1_000)
    made_before = vectors.made
    found: dict[str, list[float]] = {}
    for run in ("first", "second"):
        started, started_cpu = time.perf_counter(), time.process_time()
        shorten(document, budget)
        found[f"{run}_ms"] = [(time.perf_counter() - started) * 1000]
        found[f"{run}_cpu_ms"] = [(time.process_time() - started_cpu) * 1000]
        found[f"{run}_embedded"] = [vectors.made - made_before]
        made_before = vectors.made
    return found


if __name__ == "__main__":
    serve({"facts": keep_facts, "twice": compress_twice})
