"""Agents without a language model that carry planted facts through the prompts of a process.

Each thesis states facts: some of its own, some from a pool, some of its own that are false. A
critique attacks a false fact often and a true one seldom. A pairwise merge drops most of what was
attacked. A later merge decides about a point that some of the versions it was shown have removed:
by the share of those that removed it (vote), never while one has it (union), or as soon as one has
removed it (any). Each merge forgets a fact now and then. What an agent knows, it has read in the
prompt that was sent, and it writes no more words than its prompt allows.

An obedient agent does what its prompt says about rejected points. Where a rejection holds unless
its reason is refuted, it judges that reason as well as a critic judges a fact. Where its prompt
wants the reason tested several times, each test is a judgement of its own.

    python -m tests.unit.processes.planted_facts [SEEDS]

compares the prompts of `standard` with those before lengths were floors (`standard_before`).
"""

from __future__ import annotations

import enum
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import fmean

from dialectic.core.process.definition import Process, Stage, Step
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.gather import Item, Words
from dialectic.pipeline.outline import DocumentKey, PlannedCall, list_calls
from dialectic.processes.loader import load_process

# The standard process as it was when its prompts still limited lengths, byte for byte.
BEFORE = Path(__file__).parent / "standard_before"
MODELS = 3
TRUE_OWN, POOL, FROM_POOL, FALSE_OWN = 11, 8, 5, 4
ATTACKS = {"t": 0.05, "p": 0.05, "f": 0.7}
REMEMBERS, DROPS = 0.97, 0.8
# With facts of this length, twenty of them are a thesis of 1,200 words.
FACT_WORDS = 60
_BLOCK = re.compile(r"<<<BEGIN ([^\n]+?) \[(\w+)\]>>>\n(.*?)\n<<<END \[\2\]>>>", re.DOTALL)
_WORDS_MAX = re.compile(r"About [\d,]+ to ([\d,]+) words")
_HOLDS = re.compile(r"(?i)\breject(?:ion|ed)\b[^.]*\b(?:holds|stays rejected) unless")
_TESTS_TWICE = re.compile(r"fails both tests\. [^.]*only if the reason passes both tests;")
_TESTS_ALONE = re.compile(r"passes both tests, and if one alone did, only if")
_LISTS_REMOVED = re.compile(r"`## (?:Points taken|Decisions|Rejected points)`")


class Rule(enum.StrEnum):
    """What a merge does with a point that some of its versions have removed."""

    VOTE = "vote"
    UNION = "union"
    ANY = "any"


class Burden(enum.Enum):
    """How often the reason of a rejection is tested before it holds."""

    ONE_TEST = 1
    # Once is enough if most versions share it; if not, it has to pass each time.
    TWO_TESTS = 2
    # The same, and once more if one version alone has it.
    THREE_IF_ALONE = 3

    @classmethod
    def read(cls, rules: str) -> Burden | None:
        """Read what a prompt's rules say; None if they leave it to its reader."""
        if _HOLDS.search(rules) is None:
            return None
        if _TESTS_TWICE.search(rules):
            return cls.TWO_TESTS
        return cls.THREE_IF_ALONE if _TESTS_ALONE.search(rules) else cls.ONE_TEST


@dataclass(frozen=True)
class Agents:
    """How the agents of one run behave."""

    rule: Rule = Rule.VOTE
    obeys: bool = False
    fact_words: int = FACT_WORDS
    # Whether a judge of a rejection tells true from false as well as a critic, or not at all.
    is_discerning: bool = True

    def refutes(self, fact: str, chance: Random) -> bool:
        """Judge the reason of a rejection: a judge who sees no fault in the fact refutes it."""
        sees_fault = ATTACKS[fact[0]] if self.is_discerning else 0.5
        return chance.random() >= sees_fault

    def upholds(
        self, fact: str, wanted: Burden, *, against: int, having: int, chance: Random
    ) -> bool:
        """Decide whether a rejection holds, as its prompt wants it decided."""
        looks = (not self.refutes(fact, chance) for _ in range(3))
        if wanted is Burden.ONE_TEST:
            return next(looks)
        if against > having:
            return next(looks) or next(looks)
        is_alone = wanted is Burden.THREE_IF_ALONE and against == 1 and having > 1
        return next(looks) and next(looks) and (not is_alone or next(looks))

    def drops(self, share: float, chance: Random) -> bool:
        """Decide about a point that this share of the versions has removed."""
        rate = {Rule.VOTE: share, Rule.UNION: float(share == 1), Rule.ANY: float(share > 0)}
        return chance.random() < DROPS * rate[self.rule]


@dataclass(frozen=True)
class Kept:
    """The share of true facts that are in the final syntheses, and of false ones that are not."""

    true_kept: float
    false_removed: float
    calls: int


@dataclass(frozen=True)
class Version:
    """A document: the facts it states, and those it says it has removed."""

    facts: frozenset[str]
    removed: frozenset[str]

    @classmethod
    def read(cls, text: str) -> Version:
        return cls(
            frozenset(re.findall(r"(?m)^- fact (\S+)", text)),
            frozenset(re.findall(r"(?m)^- (?:attack|removed) (\S+)", text)),
        )


def measure(process: Process, agents: Agents, seeds: Collection[int]) -> Kept:
    """Play with each seed, and compute the means."""
    played = [play(process, agents, seed) for seed in seeds]
    return Kept(
        fmean(one.true_kept for one in played),
        fmean(one.false_removed for one in played),
        played[0].calls,
    )


def play(process: Process, agents: Agents, seed: int) -> Kept:
    """Carry facts from the theses to the final syntheses."""
    chance = Random(seed)
    texts: dict[DocumentKey, str] = {}
    planned = list_calls(process, models=MODELS, until="synthesis")
    for call in planned:
        texts[call.makes] = _answer(process, agents, call, texts, chance)
    theses = [Version.read(t).facts for k, t in texts.items() if k.output_type == "thesis"]
    finals = [Version.read(t).facts for k, t in texts.items() if k.output_type == "synthesis"]
    false = {fact for facts in theses for fact in facts if fact[0] == "f"}
    true = set().union(*theses) - false
    return Kept(
        fmean(len(true & facts) / len(true) for facts in finals),
        fmean(len(false - facts) / len(false) for facts in finals),
        len(planned),
    )


def _answer(
    process: Process,
    agents: Agents,
    call: PlannedCall,
    texts: dict[DocumentKey, str],
    chance: Random,
) -> str:
    stage = process.load_stage(call.makes.stage_slug)
    part = stage.load_step(call.step_name) if stage.steps else stage
    prompt = _compose(process, stage, part, [texts[key] for key in call.reads])
    given = [Version.read(text) for label, _, text in _BLOCK.findall(prompt) if label[:4] == "Docu"]
    match call.makes.output_type:
        case "thesis":
            author = call.makes.model_index
            facts = [f"t{author}.{n}" for n in range(TRUE_OWN)]
            facts += [f"p{n}" for n in chance.sample(range(POOL), FROM_POOL)]
            facts += [f"f{author}.{n}" for n in range(FALSE_OWN)]
            return _write(prompt, agents, facts, [], chance)
        case "antithesis":
            seen = sorted(given[0].facts)
            return "\n".join(f"- attack {f}" for f in seen if chance.random() < ATTACKS[f[0]])
        case _:
            kept, removed = _merge(prompt, agents, given, chance)
            return _write(prompt, agents, kept, removed, chance)


def _merge(
    prompt: str, agents: Agents, given: list[Version], chance: Random
) -> tuple[list[str], list[str]]:
    """Decide about each point that any version holds or has removed."""
    burden = Burden.read(prompt.partition("# How to write")[2]) if agents.obeys else None
    versions = [version for version in given if version.facts]
    kept, removed = [], []
    for fact in sorted(set().union(*(one.facts | one.removed for one in given))):
        having = sum(fact in one.facts for one in versions)
        against = sum(fact in one.removed for one in given)
        if len(versions) == 1:  # with a critique of it: most of what was attacked goes
            is_dropped = against > 0 and chance.random() < DROPS
        elif burden is not None and against:
            is_dropped = agents.upholds(fact, burden, against=against, having=having, chance=chance)
        else:
            is_dropped = agents.drops(against / (against + having), chance)
        if is_dropped or not having:
            removed.append(fact)
        elif chance.random() < REMEMBERS:
            kept.append(fact)
    return kept, removed


def _write(
    prompt: str, agents: Agents, facts: list[str], removed: list[str], chance: Random
) -> str:
    """Write as many facts as the prompt allows words, and what was removed if it asks for that."""
    most = _WORDS_MAX.search(prompt)
    room = len(facts) if most is None else int(most[1].replace(",", "")) // agents.fact_words
    if room < len(facts):
        facts = chance.sample(facts, room)
    lines = [f"- fact {fact}" for fact in facts]
    if _LISTS_REMOVED.search(prompt):
        lines += [f"- removed {fact}" for fact in removed]
    return "\n".join(lines)


def _compose(process: Process, stage: Stage, part: Stage | Step, read: list[str]) -> str:
    name = part.prompt_template_name
    return compose_prompt(
        Words(
            template_name=name,
            template=process.prompts[name],
            domain="General",
            guidance=process.get_guidance("General", name),
            request=Item("Original request", f"Plan it: {stage.slug}."),
            inputs=tuple(Item(f"Document {n}", text) for n, text in enumerate(read, 1)),
            length=part.length,
        )
    )


def main(seeds: int) -> None:
    """Print what is kept and removed with the prompts as they were and as they are."""
    processes = load_process(str(BEFORE)), load_process("standard")
    tried = {
        **{f"{rule}, obeys no rule": Agents(rule) for rule in Rule},
        "vote, twice the detail": Agents(fact_words=2 * FACT_WORDS),
        "obeys its prompt": Agents(obeys=True),
        "obeys, cannot judge reasons": Agents(obeys=True, is_discerning=False),
    }
    print(f"{seeds} seeds, {MODELS} models; true facts kept / false facts removed, final synthesis")
    for name, agents in tried.items():
        before, now = (measure(process, agents, range(seeds)) for process in processes)
        figures = [f"{one.true_kept:.3f} / {one.false_removed:.3f}" for one in (before, now)]
        print(f"{name:<28} {figures[0]} before, {figures[1]} now, {now.calls} calls")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400)
