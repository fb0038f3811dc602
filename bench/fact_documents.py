"""Documents with planted facts, drawn by seed: what each says once, amid what it says often.

Four kinds of working paper are written from scratch; where test collections are at hand, abstracts
of one of them are the filler and sentences of the other the facts. Knows no compressor.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.fact_forms import FORMS, Form, Names

CHARS_PER_TOKEN = 4.6
FACT_EVERY_TOKENS = 330


@dataclass(frozen=True)
class Fact:
    """Something said once. It has survived where all of its keys stand in what is left."""

    text: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Document:
    """A text, what it is wanted for, and what must not be lost of it."""

    text: str
    purpose: str
    facts: tuple[Fact, ...]


def count_survivors(document: Document, text: str) -> int:
    """Count the facts of a document that a text still tells."""
    plain = " ".join(text.split())
    return sum(all(key in plain for key in fact.keys) for fact in document.facts)


# -- working papers -------------------------------------------------------------------------------

TOPICS = {
    "business case": (
        "a repair and rental scheme for garden tools run by the town library",
        "tools rentals borrowers workshop volunteers deposits repairs neighbours shelves seasons",
    ),
    "critique": (
        "a plan to move the clinic's appointment desk to an online calendar",
        "appointments patients calendar desk reminders doctors nurses cancellations rooms forms",
    ),
    "technical plan": (
        "a service that collects readings from water meters and bills households",
        "readings meters gateway storage invoices queues retries schema households operators",
    ),
    "meeting notes": (
        "opening a shared kitchen for small food producers",
        "kitchen producers ovens bookings cleaning storage deliveries inspections tenants "
        "suppliers",
    ),
}
SUBJECTS = (
    "the team|the proposal|our approach|the steering group|this section|the overall concept|"
    "the project|management|every stakeholder|the present plan|the working group|the programme|"
    "the delivery organisation|the analysis|the roadmap|the operating model"
).split("|")
VERBS = (
    "will focus on|continues to support|should take care of|is expected to improve|depends on|"
    "puts particular emphasis on|must be aligned with|creates lasting value through|addresses|"
    "provides a solid basis for|aims to strengthen|needs a clear view of|builds on|underlines|"
    "remains committed to|brings together"
).split("|")
OBJECTS = (
    "a sustainable way of working|clear responsibilities and open communication|"
    "the needs of all people involved|long-term quality and reliability|a step by step "
    "introduction|"
    "transparent decisions at every level|an efficient use of the means available|"
    "a common understanding of the goals|continuous improvement and learning|"
    "the right balance of effort and benefit|a robust and flexible foundation|"
    "early feedback from daily practice|a realistic schedule|measurable results over time|"
    "good cooperation between all sides|simple processes that everyone understands"
).split("|")
TAILS = (
    "|, as described above|, which is important for the overall success|, now and in the future|"
    " wherever this is possible|, and this will be reviewed regularly|, step by step|"
    " in order to reach the goals set out in this document|, without losing sight of the whole|"
    ", as all sides have agreed in principle|, taking into account what has been said before"
).split("|")
GENERALITIES = (
    (
        "Good communication is the key to success.",
        "Success depends above all on communicating well.",
        "Without good communication there will be no success.",
        "It cannot be stressed enough how much success depends on communication.",
    ),
    (
        "Risks should be identified early and managed actively.",
        "It is important to recognise risks early and to manage them actively.",
        "Early identification and active management of risks is essential.",
    ),
    (
        "Costs must be kept under control at all times.",
        "At all times, cost control is of great importance.",
        "Keeping the costs under control remains a priority throughout.",
    ),
    (
        "Further details will be worked out in the next phase.",
        "The next phase will be used to work out further details.",
        "Details are to be elaborated during the next phase.",
    ),
    (
        "All in all the direction is right and should be followed further.",
        "Overall, we consider the direction right and suggest following it further.",
        "On the whole this is the right direction, and it deserves to be followed.",
    ),
)
BOILERPLATE = (
    "This document is confidential and intended for internal use only. It must not be copied or "
    "passed on without the written consent of the authors.",
    "The figures in this section are preliminary. They will be updated as soon as better "
    "information "
    "is available and do not constitute a commitment.",
    "*Note: please refer to the appendix for definitions and to the list of abbreviations.*",
)
HEADINGS = (
    "Background|Objectives|Scope|Current situation|Approach|Organisation|Risks|Costs and benefits|"
    "Schedule|Quality|Communication|Dependencies|Alternatives considered|Operations|Next steps|"
    "Open points|Assumptions|Review|Implementation|Lessons learned|Stakeholders|Summary"
).split("|")
WORKSTREAMS = "Alpha Beta Gamma Delta Epsilon".split()


class _Writer:
    """One document, paragraph by paragraph."""

    def __init__(self, seed: str, kind: str, forms: Sequence[Form], tokens: int) -> None:
        self.chance = random.Random(seed)
        self.names = Names(self.chance)
        self.kind = kind
        self.topic, words = TOPICS[kind]
        self.words = words.split()
        self.forms = forms
        self.chars = int(tokens * CHARS_PER_TOKEN)
        self.due = [self._make_fact() for _ in range(max(8, tokens // FACT_EVERY_TOKENS))]
        self.facts = tuple(self.due)
        self.figure = f"{self.chance.randint(100, 900)},000"

    def write(self) -> Document:
        blocks = [f"# {self.kind.capitalize()}: {self.topic}"]
        size, page, planted, total = 0, 1, 0, len(self.facts)
        while size < self.chars or self.due:
            if self.chance.random() < 0.16:
                level = self.chance.choice(["##", "##", "###"])
                blocks.append(f"{level} {self.chance.choice(HEADINGS)} {page}.{len(blocks)}")
            if self.chance.random() < 0.05:
                page += 1
                blocks.append(f"Page {page} of 48, internal")
            is_due = planted < total and size >= self.chars * planted / total
            facts = [self.due.pop()] if is_due else []
            planted += len(facts)
            blocks.append(self._block(facts))
            size += len(blocks[-1])
        purpose = (
            f"Write the final plan for {self.topic}. Merge what holds, name costs, dates and "
            f"limits, and treat {self.words[0]}, {self.words[3]} and {self.words[6]} in depth."
        )
        return Document("\n\n".join(blocks) + "\n", purpose, self.facts)

    def _make_fact(self) -> Fact:
        text, keys = self.chance.choice(self.forms)(self.names)
        if self.chance.random() < 0.3:
            word = self.chance.choice(self.words)
            text = f"As to {word}: {text}"
        return Fact(text, keys)

    def _sentence(self) -> str:
        chance = self.chance
        if chance.random() < 0.2:
            return chance.choice(chance.choice(GENERALITIES))
        subject, verb, object_ = (chance.choice(pool) for pool in (SUBJECTS, VERBS, OBJECTS))
        topical = chance.choice(
            [f" for {chance.choice(self.words)}", "", f" around the {chance.choice(self.words)}"]
        )
        figure = chance.choice(
            [
                f" within the {self.figure} euros",
                " in 2026",
                " by the third quarter",
                "",
                "",
                "",
                "",
                "",
            ]
        )
        tail = f"{topical}{figure}{chance.choice(TAILS)}"
        return f"{subject[0].upper()}{subject[1:]} {verb} {object_}{tail}."

    def _block(self, facts: list[Fact]) -> str:
        forms = [self._paragraph] * 5 + [self._list, self._list, self._table, self._minutes]
        if self.kind == "technical plan":
            forms.append(self._code)
        if not facts and self.chance.random() < 0.08:
            return self.chance.choice(BOILERPLATE)
        return self.chance.choice(forms)(facts)

    def _mixed(self, facts: list[Fact], least: int, most: int) -> list[str]:
        texts = [self._sentence() for _ in range(self.chance.randint(least, most))]
        for fact in facts:
            texts.insert(self.chance.randint(0, len(texts)), fact.text)
        return texts

    def _paragraph(self, facts: list[Fact]) -> str:
        return " ".join(self._mixed(facts, 3, 7))

    def _list(self, facts: list[Fact]) -> str:
        mark = self.chance.choice(["- ", "* ", "1. "])
        return "\n".join(f"{mark}{text}" for text in self._mixed(facts, 2, 6))

    def _table(self, facts: list[Fact]) -> str:
        chance = self.chance
        rows = [
            f"| Week {chance.randint(1, 52)} | {chance.choice(WORKSTREAMS)} "
            f"| {chance.randint(80, 99)}.{chance.randint(0, 9)} | on track |"
            for _ in range(chance.randint(3, 9))
        ]
        for fact in facts:
            rows.insert(
                chance.randint(0, len(rows)),
                f"| {chance.choice(self.words)} | {chance.choice(WORKSTREAMS)} | – | {fact.text} |",
            )
        return "\n".join(["| what | stream | value | remark |", "|---|---|---|---|", *rows])

    def _minutes(self, facts: list[Fact]) -> str:
        chance = self.chance
        speakers = ["Chair", "Secretary", "Guest"]
        return "\n".join(
            f"- {chance.randint(9, 17)}:{chance.randint(10, 59)} {chance.choice(speakers)}: {text}"
            for text in self._mixed(facts, 2, 4)
        )

    def _code(self, facts: list[Fact]) -> str:
        word = self.chance.choice(self.words)
        lines = [
            f"def handle_{word}(batch):",
            f"    for one in batch:  # every {word}",
            "        check(one)",
            "        store(one)",
        ]
        lines += [f"    # {fact.text}" for fact in facts]
        return "\n".join(["```python", *lines, "    return len(batch)", "```"])


def write_papers(seed: str, *, is_for_report: bool, count: int = 4) -> Iterator[Document]:
    """Write papers of all kinds, from 5,000 to 20,000 tokens."""
    chance = random.Random(seed)
    for number in range(count):
        kind = list(TOPICS)[number % len(TOPICS)]
        tokens = chance.randint(5_000, 20_000)
        yield _Writer(f"{seed} {number}", kind, FORMS[is_for_report], tokens).write()


# -- abstracts ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Collection:
    """A test collection: abstracts and questions about them."""

    titles: tuple[str, ...]
    texts: tuple[str, ...]
    questions: tuple[str, ...]


def load_collection(folder: Path) -> Collection:
    """Load a collection, with its spelling made the same as that of the others."""
    entries = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    questions = [
        json.loads(line)["text"] for line in (folder / "queries.jsonl").read_text().splitlines()
    ]
    return Collection(
        tuple(_even_out(entry["title"]) for entry in entries if entry["text"]),
        tuple(_even_out(entry["text"]) for entry in entries if entry["text"]),
        tuple(map(_even_out, questions)),
    )


def _even_out(text: str) -> str:
    """One collection is all in small letters: spelling must not tell them apart."""
    return re.sub(r" +([.,;])", r"\1", " ".join(text.lower().split()))


def write_anthologies(
    filler: Collection, strange: Collection, seed: str, *, count: int = 4
) -> Iterator[Document]:
    """Concatenate abstracts of one collection and plant single sentences of the other in them."""
    chance = random.Random(seed)
    for _ in range(count):
        chars = int(chance.randint(5_000, 20_000) * CHARS_PER_TOKEN)
        facts = _draw_sentences(strange, chance, max(8, chars // 2_500))
        numbers = chance.sample(range(len(filler.texts)), len(filler.texts))
        blocks: list[str] = []
        size = planted = 0
        for number in numbers:
            if size >= chars:
                break
            sentences = re.split(r"(?<=\.) ", filler.texts[number])
            while planted < len(facts) and size >= chars * planted / len(facts):
                sentences.insert(chance.randint(0, len(sentences)), facts[planted].text)
                planted += 1
            blocks += [f"## {filler.titles[number]}", " ".join(sentences)]
            size += len(blocks[-1])
        # Half of the questions are about the filler, half about the strange matter.
        purpose = chance.choice(chance.choice([filler, strange]).questions)
        yield Document("\n\n".join(blocks) + "\n", purpose, tuple(facts[:planted]))


def _draw_sentences(source: Collection, chance: random.Random, count: int) -> list[Fact]:
    found: list[Fact] = []
    while len(found) < count:
        sentences = re.split(r"(?<=\.) ", chance.choice(source.texts))
        sentence = chance.choice(sentences)
        if 60 <= len(sentence) <= 260 and sentence.endswith("."):
            # Some splitters swallow the point.
            found.append(Fact(sentence, (sentence.rstrip("."),)))
    return found
