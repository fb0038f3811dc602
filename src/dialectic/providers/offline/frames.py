"""Fills the frames of `vocabulary.toml` with items of the request and sentences of a voice.

A frame says line by line what goes under a heading; the comment above the frames in that file
explains the syntax. This module knows neither the items nor the prompt: a subclass lists the items
of a line in methods `each_…` and returns texts in `slots` and in methods `slot_…`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from string import Formatter
from typing import Any

from dialectic.providers.offline.reading import VOCABULARY, Brief, upper

Item = dict[str, str]  # what fills the slots of one line

# Tables of the voice whose rows fill several slots of a line.
ROWS = {
    "measures": ("measure", "today", "target", "origin"),
    "objections": ("objection", "better"),
    "questions": ("question", "assumed"),
    "risks": ("risk", "likelihood", "impact", "first_sign", "response"),
    "steps": ("step", "accepted"),
}
ROWS_MAX = 6  # in a table that the voice fills up
_LINE = re.compile(r"([-1>]) (\w+)((?: [\w,]+)*): (.+)")


class Nothing(Exception):
    """A slot has no value, so its line is left out."""


class Frames(Formatter):
    """Deals the sentences of one voice; repeats one only when all others are used."""

    def __init__(self, voice: Mapping[str, tuple[str, ...]], brief: Brief, rng: Random) -> None:
        self.voice, self.brief, self.rng = voice, brief, rng
        self.items = 4  # in a list of free length
        self.slots: dict[str, str] = {}
        self.said: set[str] = set()  # what the sources say already
        self.decks: dict[str, list[str]] = {}
        self.topics = rng.sample(brief.topics, len(brief.topics))
        self.next_topic = itertools.cycle(self.topics)

    def fill_frame(self, frame: str) -> list[str]:
        """Build the Markdown blocks of a frame; drop lines without content."""
        blocks: list[str] = []
        items: list[str] = []  # of the list that is being made
        lead = ""

        def close() -> None:
            blocks.extend([lead, "\n".join(items)] if items else [])
            items.clear()

        for line in frame.strip().splitlines():
            match = _LINE.fullmatch(line)
            if match is None or match[1] == ">":
                close()
                lead = ""
            if match:
                mark, name, args, text = match.groups()
                found = (self.fill(text, item) for item in self.list_items(name, args))
                texts = [text for text in found if text]
                if mark == ">":
                    blocks += texts
                elif mark == "-":
                    items += (f"- {text}" for text in texts)
                else:
                    items += (f"{n}. {text}" for n, text in enumerate(texts, len(items) + 1))
            elif line.endswith(":"):
                lead = line
            elif not line.startswith("? "):
                blocks.append(self.fill(line, {}))
            elif not any(blocks):
                blocks.append(self.fill(line[2:], {}))
        close()
        return list(filter(None, blocks))

    def list_items(self, name: str, args: str) -> Iterable[Item]:
        each: Callable[..., Iterable[Item]] = getattr(self, f"each_{name}")
        return each(*(int(arg) if arg.isdigit() else arg for arg in args.split()))

    def fill(self, text: str, item: Item) -> str:
        try:
            return upper(self.vformat(text.replace(r"\n", "\n"), (), item))
        except Nothing:
            return ""

    def get_value(self, key: int | str, _: Sequence[object], item: Mapping[str, str]) -> str:
        """Fill a slot: from the item, with a sentence of the voice, or from the request."""
        assert isinstance(item, dict), "a row is dealt once and kept for its other slots"
        name, *rest = str(key).split()
        table = next((table for table, names in ROWS.items() if name in names), None)
        if table and name not in item:
            cells = self.deal(table, item.get("p", "")).split(" | ")
            item.update(zip(ROWS[table], cells, strict=True))
        if name in item:
            return str(item[name])
        if name in self.voice:
            return self.deal(name, item.get("p", ""))
        found = self.slots[name] if name in self.slots else getattr(self, f"slot_{name}")(*rest)
        if not found:
            raise Nothing
        return str(found)

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        if conversion == "l":
            return value[:1].lower() + value[1:]
        return upper(value) if conversion == "u" else super().convert_field(value, conversion)

    def deal(self, key: str, about: str = "") -> str:
        """Take the next sentence of a shuffled table of the voice, with its slots filled."""
        deck = self.decks.setdefault(key, [])
        if not deck:
            deck.extend(self.rng.sample(self.voice[key], len(self.voice[key])))
        sentence = self.word(deck.pop(), about)
        while sentence in self.said and deck:
            sentence = self.word(deck.pop(), about)
        return sentence

    def word(self, sentence: str, about: str = "") -> str:
        topic = about or self.slot_p()
        other = next((str(t) for t in self.topics[::-1] if str(t) != topic), "the rest")
        return sentence.format(it=self.brief.short, p=topic, q=other, u=self.slot_u())

    def slot_table(self, key: str) -> str:
        columns, things, frame = VOCABULARY["tables"][key]
        columns = columns or self.voice["columns"][0]
        name, _, args = things.partition(" ")
        rows = [self.fill(frame, item) for item in self.list_items(name, args)]
        own = self.voice.get(key, ()) if key != "plan" else ()
        rows += [upper(self.deal(key)) for _ in own[: ROWS_MAX - len(rows)]]
        rule = re.sub(r"[^|]+", " --- ", columns).strip()
        return "\n".join(f"| {row} |" for row in [columns, rule, *rows]) if rows else ""

    def slot_p(self) -> str:
        return str(next(self.next_topic))

    def slot_u(self) -> str:
        return self.rng.choice(self.brief.people)


def join(items: Sequence[str]) -> str:
    """List items in a sentence."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
