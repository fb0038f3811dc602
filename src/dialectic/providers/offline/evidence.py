"""What the sources of a prompt say: chosen, quoted, compared and ruled on, in one document.

Pure: only the random generator of the frames varies. Sources are quoted word for word with their
labels, so that a reader can follow a point through all stages. Knows no headings and no plans.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import NamedTuple

from dialectic.providers.offline.frames import Frames, Item, join
from dialectic.providers.offline.reading import Brief, Point, Source, clip, words_of

SUBSTANCE = ("needs", "features", "parts", "plan", "measures", "proposal", "pros", "cons")
# Statements of these kinds are about the text that holds them, not about the work.
UNQUOTED = frozenset("questions taken refused rejected decisions doubts claims".split())
OBJECTS = frozenset("claims gaps falls feasibility risks verdict".split())
HOLDS_BACK = re.compile(
    r"(?i)\b(?:until|unless|wait|missing|unclear|lacks?|cannot|no evidence|not (?:known|proven)"
    r"|before (?:money|anything)|belief)\b"
)
RULINGS_MAX = 8


class Ruling(NamedTuple):
    """One criticism, the statement it is about (if any), and the ruling on it."""

    critic: str
    objection: str
    author: str
    claim: str
    remedy: str  # what the statement says in addition, if it is changed
    effect: str = "changed"  # or "noted", "dropped", "refused"


class Evidence(Frames):
    """Lists what the sources say; repeats a quotation only when it has used all others."""

    growth = 1.0  # how much more of the sources is quoted than in a short document

    def __init__(self, voice: Mapping[str, tuple[str, ...]], brief: Brief, rng: Random) -> None:
        super().__init__(voice, brief, rng)
        self.used: set[str] = set()  # statements that were quoted
        self.goal = words_of(" ".join([*(t.said or t.name for t in brief.topics), *brief.limits]))
        self.cares = words_of(voice["cares"][0])
        texts = [point.text for source in brief.sources for point in source.points]
        self.asked = [text.rstrip(".!") for text in brief.feedback]
        self.said = {*texts, *(text.partition(": ")[2] for text in texts)}

    def topic_of(self, text: str) -> str:
        """Find the topic of a statement, if it has one."""
        words = words_of(text)
        near = [(len((own := words_of(t.name)) & words) / max(1, len(own)), t) for t in self.topics]
        share, topic = max(near, key=lambda pair: pair[0])
        return str(topic) if share > 0.4 else self.brief.short

    def weigh(self, words: frozenset[str]) -> float:
        """Score a statement: relevance to the request, then the voice's interests, then chance."""
        return len(words & self.goal) + 2 * len(words & self.cares) + 2 * self.rng.random()

    def rank(self, source: Source, kinds: Sequence[str], *, strictly: bool) -> list[Item]:
        fresh = [p for p in source.points if p.text not in self.used and p.kind not in UNQUOTED]
        if source.is_critique and self.brief.task == "merge":
            # Its objections were ruled on; its recommendations are points of their own.
            advises = any(point.kind == "verdict" for point in source.points)
            fresh = [point for point in fresh if point.kind == "verdict" or not advises]
        fitting = [p for p in fresh if p.kind in kinds] or ([] if strictly else fresh)
        fitting.sort(key=lambda point: -self.weigh(point.words))
        return [self.quote(source.label, point.text) for point in fitting]

    def quote(self, label: str, text: str) -> Item:
        sure = "possible" if re.search(r"\d", text) else "likely"
        item = {"label": label, "text": text, "quote": quote(label, text)}
        return item | {"sure": sure, "p": self.topic_of(text)}

    def each_take(self, kinds: str, count: int = 0, *, strictly: bool = False) -> list[Item]:
        """Choose unquoted statements, each source in turn, preferring these kinds."""
        liked = SUBSTANCE if kinds == "substance" else kinds.split(",")
        ranked = [self.rank(source, liked, strictly=strictly) for source in self.brief.sources]
        turns = itertools.chain.from_iterable(itertools.zip_longest(*ranked))
        most = max(self.grow(count or self.items), min(len(ranked), 6))
        taken = list(filter(None, turns))[:most]
        self.used.update(item["text"] for item in taken)
        return taken

    def each_objections(self, count: int) -> Iterator[Item]:
        for number, item in enumerate(self.each_few("substance", count), 1):
            severity = "major" if number == 1 else "minor"
            yield {**item, "n": str(number), "severity": severity}

    def each_few(self, kinds: str, count: int) -> list[Item]:
        return self.each_take(kinds, count)[: self.grow(count)]

    def grow(self, count: int) -> int:
        """Quote more where the prompt asks for a longer document; the only one stays the only."""
        return count if count < 2 else round(count * self.growth)

    def each_over(self, kinds: str, count: int = 0) -> list[Item]:
        """Adopt statements unchanged: first those that several sources share, then each in turn."""
        liked, most = {*kinds.split(",")}, self.grow(count or self.items)
        agreed = [t for t, by in self.agreed() if t not in self.used and {*by.values()} & liked]
        self.used.update(agreed[:most])
        critiques = {source.label for source in self.brief.sources if source.is_critique}
        taken = self.each_take(kinds, count, strictly=True) if len(agreed) < most else []
        found = [{"text": text} for text in agreed]
        return (found + [item for item in taken if item["label"] not in critiques])[:most]

    def each_evidence(self, kind: str, how: str = "") -> Iterator[Item]:
        """Quote what the sources say about a section, and say what becomes of it."""
        judges = self.brief.task == "critique"
        taken = self.each_take(kind, 3, strictly=judges or how == "strictly")
        for item in taken[: self.grow(3)]:
            comment = "{quote} {objection}" if judges else "{quote} {reason}"
            yield {"text": self.fill(comment, item)}

    def agreed(self) -> list[tuple[str, Mapping[str, str]]]:
        # A critique quotes what it objects to; that does not count as agreement.
        shared = [row for row in self.brief.shared.items() if not _is_critical(row[1])]
        return sorted(shared, key=lambda row: -len(row[1]))

    def each_agreed(self) -> list[Item]:
        found = self.agreed()[: self.grow(self.items)]
        return [{"text": clip(text, 200), "by": join(list(by)[:4])} for text, by in found]

    def each_differences(self) -> Iterator[Item]:
        """Pair a statement in favour with one that holds back, and choose."""
        found = 0
        for topic in self.topics:
            on = [
                (source.label, point.text)
                for source in self.brief.sources
                for point in source.points
                if words_of(topic.name) <= point.words
            ]
            ahead = sorted((q for q in on if not HOLDS_BACK.search(q[1])), key=_is_critical)[:1]
            back = [q for q in on if HOLDS_BACK.search(q[1]) and ahead and q[0] != ahead[0][0]]
            if back and found < self.grow(self.items):
                found += 1
                frame = "On {p}, {one} stands against {other}. Chosen: {verdict!l}"
                item = {"p": str(topic), "one": quote(*ahead[0]), "other": quote(*back[0])}
                yield {"text": self.fill(frame, item)}
        if not found:
            for item in self.each_take("any", 2):
                yield {"text": self.fill("{label} puts weight on this: {quote}", item)}
            yield {"text": self.fill("No open contradiction was found. {verdict}", {})}

    @functools.cached_property
    def rulings(self) -> list[Ruling]:
        """The ruling on each criticism: most are accepted, the lightest are refused.

        The last accepted criticism drops its statement, if the document can spare it.
        """
        sources = self.brief.sources
        claims = [(s.label, p) for s in sources if not s.is_critique for p in s.points]
        found = [
            Ruling(source.label, objection, *_find_claim(quoted, claims), remedy)
            for source in sources
            for quoted, objection, remedy in (source.remarks or _read_objections(source))
            if source.is_critique
        ]
        found.sort(key=lambda ruling: -self.weigh(words_of(f"{ruling.objection} {ruling.claim}")))
        found = found[:RULINGS_MAX]
        taken = len(found) - len(found) // 3
        spare = [ruling.claim for ruling in found[:taken] if ruling.claim][1:]
        for place, ruling in enumerate(found):
            effect = "changed" if ruling.claim else "noted"
            effect = "dropped" if ruling.claim in spare[-1:] else effect
            remedy = ruling.remedy or self.fill("{better}", {"p": self.topic_of(ruling.claim)})
            found[place] = ruling._replace(
                effect="refused" if place >= taken else effect, remedy=remedy
            )
        return found

    def each_rulings(self, effect: str) -> Iterator[Item]:
        for ruling in self.rulings:
            if ruling.effect == effect:
                self.used.add(ruling.objection)
                claim = quote(ruling.author, ruling.claim)
                yield {
                    "said": quote(ruling.critic, ruling.objection),
                    "claim": claim,
                    "claimed": end(ruling.claim),
                    "remedy": ruling.remedy,
                    "stays": f" It stays as it is: {claim}." if ruling.claim else "",
                }

    @functools.cached_property
    def contested(self) -> list[tuple[str, list[str], list[str], bool]]:
        """Points that some sources kept and others dropped, with labels and the decision."""
        found = []
        for text, kinds in self.brief.shared.items():
            kept = [label for label, kind in kinds.items() if kind in (*SUBSTANCE, "summary")]
            gave_up = [label for label, kind in kinds.items() if kind in ("taken", "rejected")]
            if kept and gave_up:
                stays = len(kept) > len(gave_up) or bool(words_of(text) & self.cares)
                # What was rejected stays rejected, however many sources still have it.
                stays = stays and "rejected" not in kinds.values()
                found.append((text, kept, gave_up, stays))
        return found

    @functools.cached_property
    def rejected(self) -> dict[str, Item]:
        """Points that any source rejected, with the reason it gives."""
        reasons: dict[str, str] = {}
        labels: dict[str, list[str]] = {}
        for source in self.brief.sources:
            for text, reason in source.rejected:
                reasons[text] = reasons.get(text) or reason
                labels.setdefault(text, []).append(source.label)
        return {
            text: {
                "quote": quote(join(labels[text][:3]), text),
                "because": end(reason or "Rejected by the source"),
            }
            for text, reason in reasons.items()
        }

    def each_rejected(self) -> list[Item]:
        return list(self.rejected.values())

    def each_contested(self) -> Iterator[Item]:
        for text, kept, gave_up, stays in self.contested[: self.items]:
            reason = self.fill("{praise}" if stays else "{drop}", {"p": self.topic_of(text)})
            yield {
                "text": clip(text, 200),
                "kept": join(kept),
                "gave_up": join(gave_up),
                "choice": "keep it" if stays else "leave it out",
                "because": reason[:1].lower() + reason[1:].rstrip("."),
            }

    def each_staying(self) -> list[Item]:
        stay = [text for text, *_, stays in self.contested if stays and text not in self.used]
        self.used.update(stay)
        return [{"text": text} for text in stay[: self.items]]

    @functools.cached_property
    def missing(self) -> dict[str, list[str]]:
        """Demands of request and feedback, with the labels of the sources that ignore them."""
        demands = [*(limit.rstrip(".!") for limit in self.brief.limits), *self.asked]
        sources = self.brief.sources
        found = {d: [s.label for s in sources if not covers(s, d)] for d in demands}
        return {demand: labels for demand, labels in found.items() if labels}

    def each_gaps(self, count: int = 9) -> list[Item]:
        found = list(self.missing.items())[:count]
        return [{"demand": d, "by": join(by[:3]), "mark": self.mark(d)} for d, by in found]

    def each_halves(self) -> list[Item]:
        known = dict.fromkeys((*self.asked, *self.brief.limits))
        found = [d for d in known if d not in self.missing][: max(self.items, len(self.asked))]
        return [{"demand": d, "mark": self.mark(d), "p": self.topic_of(d)} for d in found]

    def mark(self, demand: str) -> str:
        return " (feedback)" if demand in self.asked else ""

    def each_faults(self) -> list[Item]:
        faults = [{"text": f"nothing in it goes into “{demand}”."} for demand in self.missing]
        weak = self.each_few("summary,needs", 1)
        return (faults + [{"text": self.fill("{quote} {objection}", item)} for item in weak])[:1]


def end(text: str) -> str:
    """End a text with a full stop, if it has no end of a sentence."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def quote(label: str, text: str) -> str:
    """Quote a text with the label of its source."""
    inner = text.replace("“", "\u2018").replace("”", "\u2019")
    return f"“{inner}” ({label})"


def covers(source: Source, demand: str) -> bool:
    """Tell whether a source has at least half of the words of a demand."""
    words = words_of(demand)
    return 2 * len(words & source.words) >= len(words)


def _is_critical(labels: Iterable[str]) -> bool:
    return any("critique" in label.lower() for label in labels)


def _find_claim(quoted: str, claims: list[tuple[str, Point]]) -> tuple[str, str]:
    """Find the quoted statement: the one with the most words in common."""
    words = words_of(quoted)
    best, share = ("", ""), 0.3
    for label, point in claims:
        common = len(words & point.words) / max(1, len(words | point.words))
        if common > share:
            best, share = (label, point.text), common
    return best


def _read_objections(critique: Source) -> list[tuple[str, str, str]]:
    """Read the objections of a critique that quotes no statement."""
    return [(p.text, p.text, "") for p in critique.points if p.kind in OBJECTS]
