"""Prompts as a contender: 200 kB of sources assembled and counted, cold, warm, and by LangChain."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from uuid import UUID

from bench.child import Options, serve
from dialectic.core.documents.file_paths import ContributionName, StageFolder
from dialectic.core.job import PlanPayload
from dialectic.core.models.model import ModelCard
from dialectic.core.process.definition import Length
from dialectic.db.tables.records import Owner
from dialectic.pipeline.assemble import assemble
from dialectic.pipeline.gather import Item, Material, Words
from dialectic.processes.loader import load_process
from dialectic.tokens.counting import get_counter
from dialectic.tokens.encodings import load_encoding

VOCABULARY = "o200k_base"
SOURCES = 10
SOURCE_BYTES = 20_000
MARKDOWN_BYTES = 1_000_000
SYSTEM = "You are one of several authors. Merge what holds."
CARD = ModelCard(
    name="bench/model",
    context_window_tokens=400_000,
    max_input_tokens=380_000,
    max_output_tokens=8_000,
    input_credits_per_token=Decimal(1),
    output_credits_per_token=Decimal(2),
    tokenizer=VOCABULARY,
)
PROMPTS = load_process("standard").prompts
# Real words: what nobody writes is cut into more tokens, and counted more slowly, than what is.
WORDS = sorted({word for text in PROMPTS.values() for word in text.split() if word.isalpha()})


def build_markdown(size_bytes: int, seed: str) -> str:
    """Build a document of headings, lists, a table and prose; another one for every seed."""
    chance = random.Random(seed)
    lines: list[str] = []
    size = 0
    while size < size_bytes:
        words = " ".join(chance.choices(WORDS, k=12))
        opening = chance.choice(["## ", "- ", "| a | b |\n|---|---|\n| ", "", "", "", "1. "])
        lines.append(f"{opening}{words.capitalize()}, {chance.randint(1, 9999)}.\n")
        size += len(lines[-1])
    return "\n".join(lines)[:size_bytes]


def build_sources(seed: str) -> list[str]:
    return [build_markdown(SOURCE_BYTES, f"{seed} {number}") for number in range(SOURCES)]


def build_material(sources: list[str]) -> Material:
    words = Words(
        template_name="synthesis_final",
        template=PROMPTS["synthesis_final"],
        domain="General",
        guidance="",
        request=Item("Original request", "A service for bakeries."),
        length=Length(words_min=2500, share_of_input=0.2),
        inputs=tuple(Item(f"Synthesis {n}", text) for n, text in enumerate(sources, start=1)),
    )
    return Material(
        payload=PlanPayload(
            model_id=UUID(int=1),
            model_name=CARD.name,
            model_index=1,
            ordinal=1,
            slot=1,
            output_type="synthesis",
        ),
        owner=Owner(UUID(int=2), UUID(int=3)),
        folder=StageFolder("bench", "0123abcd", 1, 3, "synthesis"),
        name=ContributionName("bench-model", 1, "synthesis"),
        system=SYSTEM,
        words=words,
        is_first_session=True,
        rank=1,
        origin=1,
    )


def time_ms(work: Callable[..., object], *given: object) -> float:
    started = time.perf_counter()
    work(*given)
    return (time.perf_counter() - started) * 1000


def assemble_prompts(options: Options) -> dict[str, list[float]]:
    """Assemble new sources each time with the vocabulary loaded, and then the same ones again."""
    load_encoding(VOCABULARY)
    cold_ms, warm_ms = [], []
    for number in range(options["repeats"]):
        material = build_material(build_sources(f"ours {number}"))
        cold_ms.append(time_ms(assemble, material, CARD))
        warm_ms.append(time_ms(assemble, material, CARD))
    return {"cold_ms": cold_ms, "warm_ms": warm_ms}


def trim(options: Options) -> dict[str, list[float]]:
    """Trim the same sources as messages to the same window, counted with the same vocabulary."""
    from langchain_core.messages import HumanMessage, SystemMessage, trim_messages

    encoding = load_encoding(VOCABULARY)

    def count(messages: list[object]) -> int:
        return sum(
            len(encoding.encode_ordinary(str(getattr(message, "content", "")))) + 3
            for message in messages
        )

    work = partial(
        trim_messages, max_tokens=CARD.max_input_tokens, token_counter=count, include_system=True
    )
    cold_ms, warm_ms = [], []
    for number in range(options["repeats"]):
        sources = build_sources(f"ours {number}")
        messages = [SystemMessage(SYSTEM), *(HumanMessage(text) for text in sources)]
        cold_ms.append(time_ms(work, messages))
        warm_ms.append(time_ms(work, messages))
    return {"cold_ms": cold_ms, "warm_ms": warm_ms}


def count_markdown(options: Options) -> dict[str, list[float]]:
    """Count a megabyte in a process that has counted nothing yet, vocabulary and all, and then
    others with the vocabulary at hand."""
    first = build_markdown(MARKDOWN_BYTES, "first")
    others = [build_markdown(MARKDOWN_BYTES, f"other {n}") for n in range(options["repeats"])]
    count = get_counter(VOCABULARY)
    started_s = time.process_time()
    count(first)
    first_cpu_ms = (time.process_time() - started_s) * 1000
    return {
        "megabyte_ms": [time_ms(count, text) for text in others],
        "first_cpu_ms": [first_cpu_ms],
    }


if __name__ == "__main__":
    serve({"assemble": assemble_prompts, "trim": trim, "count": count_markdown})
