"""Three theses that agree in other words, but for planted dissent: figures, negations, choices."""

from __future__ import annotations

from collections import Counter
from random import Random

from bench.fact_forms import Names
from bench.planted import SPACE, choose_forms, get_id, write_filler
from dialectic.provenance.align import Alignment
from dialectic.provenance.dissent import find_dissent
from dialectic.provenance.texts import Role, Text, build_lineage

FIGURES = 10
THESES = 3
SEEDS = 5
WEIGHTIEST = 10
OPPOSITES = (
    ("Guests may bring dogs into the main hall.", "Guests may not bring dogs into the main hall."),
    (
        "The kitchen is open to strangers at night.",
        "The kitchen is never open to strangers at night.",
    ),
    (
        "Volunteers are paid for their work in summer.",
        "Volunteers are not paid for their work in summer.",
    ),
    ("The calendar shows the names of the guests.", "The calendar shows no names of the guests."),
    ("Bookings can be moved on the same day.", "Bookings cannot be moved on the same day."),
)
CHOICES = (
    ("Storage of bookings", "PostgreSQL server", "shared spreadsheet"),
    ("Sending of messages", "letters by post", "automatic telephone calls"),
    ("Heating in winter", "wood pellets", "electric radiators"),
    ("Ticket sales", "cash desk", "mobile application"),
    ("Keys of the hall", "numbered locker", "caretaker at home"),
)
TABLE = "## Choices\n\n| what | how |\n|---|---|\n"


def plant_dissent(seed: str, half: int = 1) -> tuple[list[Text], list[str]]:
    """Write three theses; list the words by which each planted dissent is known."""
    chance = Random(seed)
    names = Names(chance)
    facts, ideas = choose_forms(["facts"], half), choose_forms(["ideas"], half)
    chance.shuffle(facts)
    said: list[list[str]] = [[] for _ in range(THESES)]
    rows: list[list[str]] = [[] for _ in range(THESES)]
    marks: list[str] = []
    for number, form in enumerate(facts):
        who, figure, odd = names.person(), chance.randint(11, 989), chance.randrange(THESES)
        other = chance.choice([int(figure * 1.4) + 3, int(figure * 0.6) + 1])
        marks += [who] if number < FIGURES else []
        for thesis in range(THESES):
            value = other if number < FIGURES and thesis == odd else figure
            said[thesis].append(form[thesis].format(n=value, who=who))
    for form in ideas:
        for thesis in range(THESES):
            said[thesis].append(form[thesis])
    for one, other_side in OPPOSITES:
        odd = chance.randrange(THESES)
        marks.append(" ".join(one.split()[-2:]))
        for thesis in range(THESES):
            said[thesis].append(other_side if thesis == odd else one)
    for name, chosen, another in CHOICES:
        odd = chance.randrange(THESES)
        marks.append(name)
        for thesis in range(THESES):
            rows[thesis].append(f"| {name} | {another if thesis == odd else chosen} |")
    texts = []
    for thesis in range(THESES):
        chance.shuffle(said[thesis])
        filler, _ = write_filler(THESES)[f"thesis/{thesis + 1}/1"]
        content = "\n\n".join([filler, *said[thesis], TABLE + "\n".join(rows[thesis])])
        text_id = get_id(f"{seed} {thesis}")
        texts.append(Text(id=text_id, content=content, role=Role.THESIS, model_index=thesis + 1))
    return texts, marks


def measure_dissent(half: int = 1) -> dict[str, list[float]]:
    """Measure precision and recall, and how many of the weightiest are planted."""
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        texts, marks = plant_dissent(f"dissent {half} {seed}", half)
        alignment = Alignment(build_lineage(texts))
        found = find_dissent(alignment, range(THESES), space=SPACE)
        named = [
            {mark for mark in marks if any(mark in one.says for one in dissent.positions)}
            for dissent in found
        ]
        counts["found"] += len(found)
        counts["right"] += sum(map(bool, named))
        counts["true"] += len(marks)
        counts["told"] += len(set[str]().union(*named))
        counts["weightiest"] += sum(map(bool, named[:WEIGHTIEST]))
    return {
        "dissent precision": [counts["right"] / max(counts["found"], 1)],
        "dissent recall": [counts["told"] / counts["true"]],
        "dissent weightiest": [counts["weightiest"] / (SEEDS * WEIGHTIEST)],
    }
