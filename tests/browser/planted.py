"""What two scripted models write in a whole dialectic, with points whose fate is known.

Of the first proposal one claim is kept, one is changed (25 becomes 40), one is refused with a
reason, and one is dropped. The proposals disagree about one figure.
"""

from __future__ import annotations

from typing import Any

SEATS = ("left", "right")
MODELS = [f"{name}/m" for name in SEATS]
KEPT = "Members without e-mail call a volunteer, who books the room for them within a minute."
DEPOSIT = "Each booking needs a deposit of 25 euros, paid to the caretaker before the event."
RAISED = "Each booking needs a deposit of 40 euros, paid to the caretaker before the event."
REFUSED = "Card payments are processed by the booking service itself during checkout."
REASON = "It needs a licence that a village hall cannot get."
DROPPED = "A printed calendar hangs beside the front door and is renewed every Monday."
SERVER = "Personal data stays on a server of the municipality inside the European Union."
EARLY = "The hall opens at 8 in the morning for those who set up tables."
LATE = "The hall opens at 10 in the morning for those who set up tables."
NEW = "The old piano is tuned by a music teacher every third winter."
BETTER = "name the sum after asking ten clubs."


def _thesis(business: str, features: str, technical: str, metrics: str) -> str:
    return (
        f"## Business case\n\n{business}\n\n## Feature specification\n\n{features}\n\n"
        f"## Technical approach\n\n{technical}\n\n## Success metrics\n\n{metrics}\n"
    )


THESES = {
    "left": _thesis(DEPOSIT, f"- {KEPT}\n- {REFUSED}", f"{DROPPED}", EARLY),
    "right": _thesis(SERVER, f"- {LATE}", "Every screen has a text size of its own.", "None yet."),
}
CRITIQUE = f"""## Critique

Keep it unchanged: “{KEPT}”

### O1: The sum is a guess

Claim: “{DEPOSIT}”
Verdict: unproven, because no club was asked.
Severity: major
Certainty: likely
Better: {BETTER}

### O2: Paper goes stale

Claim: “{DROPPED}”
Verdict: wrong, since nobody is there on Mondays.
Severity: minor
Certainty: certain

## Feasibility

It can be built by two people.

## Risks

Rain.

## Gaps

None.

## Recommendations

1. Ask ten clubs what they would pay.
"""


def _vary(step: str, text: str) -> str:
    """Give a point other words in each step: what all texts have word for word is a formula."""
    return f"{step}, {text[0].lower()}{text[1:]}"


def _merge(step: str, refused: str) -> str:
    return f"""## Product requirements

- {_vary(step, KEPT)}
- {_vary(step, RAISED)}

## Architecture

{_vary(step, SERVER)}

## Tech stack

Plain files.

## Points taken

None.

## {refused}

- “{REFUSED}” {REASON}
"""


PLAN = f"""## Technical requirements

- **R1** (must): {_vary("By plan", KEPT)}
- **R2** (must): {_vary("By plan", RAISED)}

## Master plan

{_vary("By plan", SERVER)}

## Milestones

One milestone.
"""
CHECKLIST = f"""## Actionable checklist

### Milestone 1: Telephone

- [ ] 1. {KEPT}
  - Covers: R1

## Updated master plan

{RAISED}

{SERVER}

{NEW}

## Advisor's recommendation

Begin with the telephone.
"""
# What each step's prompt begins with, and what is answered.
_ANSWERS = {
    "Criticise the one proposal": CRITIQUE,
    "Merge one thesis and one critique": _merge("At first", "Points refused"),
    "Reduce them to a\nsingle version": _merge("In short", "Points refused"),
    "Unify them into the one proposal": _merge("As agreed", "Rejected points"),
    "into one formal plan": PLAN,
    "into one ordered checklist": CHECKLIST,
}


def list_rules() -> list[dict[str, Any]]:
    """List what the endpoints of the seats answer, by the step that asks."""
    return [
        {"endpoint": name, "contains": asked, "text": text}
        for name in SEATS
        for asked, text in _ANSWERS.items()
    ]


def build_endpoints() -> dict[str, dict[str, Any]]:
    """Build the endpoints of the seats: without a rule, they write their proposal."""
    return {name: {"text": THESES[name]} for name in SEATS}
