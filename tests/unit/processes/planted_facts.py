"""Agents without a language model that carry planted facts through the prompts of a process.

Each thesis states facts of its own and facts that all share; some of its own are false. A critique
attacks a false fact often and a true one seldom. A merge forgets a fact now and then, and decides
about a disputed one by what its prompt says: by the share of the versions that removed it, or, if
the prompt says that a rejection holds, by whether it can refute the reason. It writes no more than
the prompt allows. What an agent knows, it has read in the prompt that was sent.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from random import Random

from dialectic.core.process.definition import Process, Stage, Step
from dialectic.pipeline.assemble import compose_prompt
from dialectic.pipeline.gather import Item, Words
from dialectic.pipeline.outline import DocumentKey, PlannedCall, list_calls

TRUE_OWN, TRUE_SHARED, FALSE_OWN = 11, 5, 4
ATTACKS_FALSE, ATTACKS_TRUE = 0.7, 0.05
REMEMBERS, DROPS = 0.97, 0.8
# How often a groundless objection, and one that is right, is found to be refuted.
REFUTES_GROUNDLESS, REFUTES_RIGHT = 0.7, 0.05
_BLOCK = re.compile(r"<<<BEGIN ([^\n]+?) \[(\w+)\]>>>\n(.*?)\n<<<END \[\2\]>>>", re.DOTALL)
_WORDS_MAX = re.compile(r"About [\d,]+ to ([\d,]+) words")
_HOLDS = re.compile(r"(?i)\breject(?:ion|ed)\b[^.]*\b(?:holds|stays rejected) unless")


@dataclass(frozen=True)
class Kept:
    """The share of true facts that are in the final syntheses, and of false ones that are not."""

    true_kept: float
    false_removed: float
    calls: int


def play(process: Process, seed: int, *, models: int = 3, fact_words: int = 60) -> Kept:
    """Carry facts from the theses to the final syntheses."""
    chance = Random(seed)
    texts: dict[DocumentKey, str] = {}
    planned = list_calls(process, models=models, until="synthesis")
    for call in planned:
        texts[call.makes] = _answer(process, call, texts, chance, fact_words)
    finals = [text for key, text in texts.items() if key.output_type == "synthesis"]
    true = {f"t{m}.{n}" for m in range(1, models + 1) for n in range(TRUE_OWN)}
    true |= {f"t0.{n}" for n in range(TRUE_SHARED)}
    false = {f"f{m}.{n}" for m in range(1, models + 1) for n in range(FALSE_OWN)}
    held = [_read_facts(text) for text in finals]
    return Kept(
        sum(len(true & facts) for facts in held) / len(true) / len(held),
        sum(len(false - facts) for facts in held) / len(false) / len(held),
        len(planned),
    )


def _answer(
    process: Process,
    call: PlannedCall,
    texts: dict[DocumentKey, str],
    chance: Random,
    fact_words: int,
) -> str:
    stage = process.load_stage(call.makes.stage_slug)
    part = stage.load_step(call.step_name) if stage.steps else stage
    read = [texts[key] for key in call.reads]
    prompt = _compose(process, stage, part, call, read)
    given = [text for label, _, text in _BLOCK.findall(prompt) if label != "Original request"]
    author = call.makes.model_index
    if call.makes.output_type == "thesis":
        own = [f"t{author}.{n}" for n in range(TRUE_OWN)]
        own += [f"t0.{n}" for n in range(TRUE_SHARED)]
        return _write(prompt, own + [f"f{author}.{n}" for n in range(FALSE_OWN)], {}, fact_words)
    if call.makes.output_type == "antithesis":
        rates = {"f": ATTACKS_FALSE, "t": ATTACKS_TRUE}
        facts = sorted(_read_facts(given[0]))
        return "\n".join(f"- attack {fact}" for fact in facts if chance.random() < rates[fact[0]])
    return _merge(prompt, given, chance, fact_words)


def _merge(prompt: str, given: list[str], chance: Random, fact_words: int) -> str:
    holds = _HOLDS.search(prompt.partition("# How to write")[2]) is not None
    versions = [text for text in given if "- fact " in text]
    against: dict[str, int] = {}
    for text in given:
        for fact in {*re.findall(r"- (?:attack|rejected) (\S+)", text)}:
            against[fact] = against.get(fact, 0) + 1
    kept, rejected = [], {}
    for fact in sorted(set().union(*map(_read_facts, versions)) | against.keys()):
        having = sum(fact in _read_facts(text) for text in versions)
        if having and chance.random() > REMEMBERS:
            continue
        if fact not in against:
            # It is gone from some versions, and nothing says why.
            gone = 0 if len(versions) == 1 else _count_gone(fact, versions)
            if chance.random() >= DROPS * gone:
                kept.append(fact)
        elif holds and len(versions) > 1:
            refutes = REFUTES_GROUNDLESS if fact[0] == "t" else REFUTES_RIGHT
            if having and chance.random() < refutes:
                kept.append(fact)
            else:
                rejected[fact] = "its reason stands"
        elif having and chance.random() >= DROPS * against[fact] / max(1, len(given) - 1):
            kept.append(fact)
        else:
            rejected[fact] = "an objection was right"
    return _write(prompt, kept, rejected, fact_words)


def _count_gone(fact: str, versions: list[str]) -> float:
    """Compute the share of the versions of the same thesis that do not have a fact."""
    owner = fact[1:].partition(".")[0]
    alike = [text for text in versions if owner == "0" or f"thesis {owner}\n" in text]
    return sum(fact not in _read_facts(text) for text in alike) / max(1, len(alike))


def _write(prompt: str, facts: list[str], rejected: dict[str, str], fact_words: int) -> str:
    """Write as many facts as the prompt allows words, and what was rejected if it asks for that."""
    most = _WORDS_MAX.search(prompt)
    if most is not None:
        facts = facts[: int(most.group(1).replace(",", "")) // fact_words]
    owners = sorted({fact[1:].partition(".")[0] for fact in facts} - {"0"})
    lines = [f"thesis {owner}" for owner in owners]
    lines += [f"- fact {fact} {'word ' * (fact_words - 3)}".rstrip() for fact in facts]
    if "`## Rejected points`" in prompt:
        lines += [f"- rejected {fact} since {reason}" for fact, reason in rejected.items()]
    return "\n".join(lines)


def _read_facts(text: str) -> set[str]:
    return set(re.findall(r"- fact (\S+)", text))


def _compose(
    process: Process, stage: Stage, part: Stage | Step, call: PlannedCall, read: list[str]
) -> str:
    inputs = tuple(
        Item(f"Document {number} by {key.model_index}", text)
        for number, (key, text) in enumerate(zip(call.reads, read, strict=True), start=1)
    )
    name = part.prompt_template_name
    return compose_prompt(
        Words(
            template_name=name,
            template=process.prompts[name],
            domain="General",
            guidance=process.get_guidance("General", name),
            request=Item("Original request", f"Plan it: {stage.slug}."),
            inputs=inputs,
            length=part.length,
        )
    )
