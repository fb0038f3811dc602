"""A truncated document is continued: joined, it is the uncut one."""

from __future__ import annotations

from typing import Any

import pytest

from dialectic_simulator import WireName, open_simulator
from dialectic_simulator.text import count_tokens
from tests.conformance.raw_client import (
    ANTHROPIC,
    CONTINUE,
    GOOGLE,
    LENGTH,
    OLLAMA,
    OPENAI,
    STOP,
    Client,
    Heard,
    connect,
)

DOCUMENT = """# Plan – for the hall

Volunteers meet on Mondays; the naïve approach fails. 👩‍🌾 decides.

| part | owner | cost |
|---|---|---|
| calendar | Zoë | 1,200 € |

1. Ask twice.
   - then wait 日本語

```python
def book(hall: str) -> None:
    print(f"{hall}\\t✓")
```

```json
{"hall": "Dorfsaal", "free": [1, 2, 3], "note": "\\u00e9 \\"quoted\\""}
```

The end.
"""
TOKENS = count_tokens(DOCUMENT, "o200k_base")
three_wires = pytest.mark.parametrize("wire", [OPENAI, ANTHROPIC, GOOGLE])


async def go_on(client: Client, *turns: str, rounds: int = 400, **options: Any) -> list[Heard]:
    """Ask, and ask to continue for as long as answers are cut off."""
    said = list(turns or ("Write the plan.",))
    heard = [await client.ask(*said, **options)]
    while heard[-1].finish == LENGTH[client.wire] and len(heard) < rounds:
        said += [heard[-1].text, CONTINUE]
        heard.append(await client.ask(*said, **options))
    return heard


@three_wires
async def test_a_text_cut_at_every_token_boundary_is_completed_to_the_uncut_one(
    wire: WireName,
) -> None:
    async with (
        open_simulator({"default": {"text": DOCUMENT}}) as simulator,
        connect(simulator, wire) as client,
    ):
        for count in range(1, TOKENS):
            cut = await client.ask("Write the plan.", max_tokens=count, stream=count % 2 == 0)
            assert cut.finish == LENGTH[wire]
            assert DOCUMENT.startswith(cut.text)
            rest = await client.ask("Write the plan.", cut.text, CONTINUE)
            assert cut.text + rest.text == DOCUMENT, count
            assert rest.finish == STOP[wire]
        whole = await client.ask("Write the plan.", max_tokens=TOKENS)
    assert (whole.text, whole.finish) == (DOCUMENT, STOP[wire])
    assert TOKENS > 100


@pytest.mark.parametrize("tokenizer", ["o200k_base", "cl100k_base", "chars:3"])
@pytest.mark.parametrize("wire", WireName)
async def test_a_document_cut_in_each_turn_is_joined_to_the_uncut_one(
    wire: WireName, tokenizer: str
) -> None:
    script = {
        "models": {"*": {"tokenizer": tokenizer}},
        "default": {"text": DOCUMENT, "cut_after_tokens": 11, "cut_each_turn": True},
    }
    async with open_simulator(script) as simulator, connect(simulator, wire) as client:
        heard = await go_on(client, stream=True)
    assert len(heard) > 10
    assert "".join(one.text for one in heard) == DOCUMENT
    assert all(one.usage is not None and one.usage[1] <= 11 for one in heard)


async def test_a_document_of_a_model_is_joined_to_the_uncut_one_too() -> None:
    async with open_simulator() as simulator, connect(simulator, OPENAI) as client:
        whole = await client.ask()
        heard = await go_on(
            client, "".join(client.build()[1]["messages"][0]["content"]), max_tokens=99
        )
    assert len(heard) > 3
    assert "".join(one.text for one in heard) == whole.text


async def test_a_cut_once_per_document_leaves_the_second_turn_alone() -> None:
    script = {"default": {"text": DOCUMENT, "cut_after_tokens": 10}}
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        heard = await go_on(client)
    assert [one.finish for one in heard] == ["length", "stop"]


async def test_a_cut_never_falls_inside_a_character() -> None:
    text = "👩‍🌾" * 20
    async with (
        open_simulator({"default": {"text": text}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        for count in range(1, 30):
            cut = await client.ask(max_tokens=count, stream=True)
            assert text.startswith(cut.text)
            assert cut.usage is not None
            assert cut.usage[1] <= count
            assert b"\\ufffd" not in cut.raw
            assert "\ufffd" not in cut.text


async def test_what_was_trimmed_or_shortened_is_still_found() -> None:
    async with (
        open_simulator({"default": {"text": DOCUMENT}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        trimmed = await client.ask("Write.", DOCUMENT[:60].strip(), CONTINUE)
        assert DOCUMENT[:60].strip() + trimmed.text == DOCUMENT
        turns = ("Write.", DOCUMENT[:40].strip(), CONTINUE, DOCUMENT[40:90].strip(), CONTINUE)
        parted = await client.ask(*turns)
        assert DOCUMENT.endswith(parted.text)
        assert parted.text.split() == DOCUMENT[90:].split()
        shortened = await client.ask("Write.", "# Plan […] " + DOCUMENT[80:200], CONTINUE)
        assert shortened.text == DOCUMENT[200:]


async def test_a_finished_document_is_not_continued() -> None:
    async with (
        open_simulator({"default": {"text": DOCUMENT}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        heard = await client.ask("Write.", DOCUMENT, CONTINUE)
    assert (heard.text, heard.finish) == ("", "stop")


@pytest.mark.parametrize(
    ("manner", "expected"),
    [
        ({"overlap": 20}, DOCUMENT[80:]),
        ({"restart": True}, DOCUMENT),
        ({"fault": "continuation_restarts"}, DOCUMENT),
        ({"preamble": "Sure, continuing:\n"}, "Sure, continuing:\n" + DOCUMENT[100:]),
        ({"empty": True}, ""),
    ],
)
@pytest.mark.parametrize("wire", [OPENAI, OLLAMA])
async def test_a_script_spoils_the_continuation_alone(
    manner: dict[str, Any], expected: str, wire: WireName
) -> None:
    async with (
        open_simulator({"default": {"text": DOCUMENT, **manner}}) as simulator,
        connect(simulator, wire) as client,
    ):
        opening = await client.ask("Write.")
        heard = await client.ask("Write.", DOCUMENT[:100], CONTINUE)
    assert opening.text == DOCUMENT
    assert heard.text == expected


@pytest.mark.parametrize("manner", [{"always_length": True}, {"fault": "always_length"}])
async def test_an_endless_document_always_has_something_new_to_say(manner: dict[str, Any]) -> None:
    async with (
        open_simulator({"default": {"text": DOCUMENT, **manner}}) as simulator,
        connect(simulator, OPENAI) as client,
    ):
        heard = await go_on(client, rounds=6)
    assert [one.finish for one in heard] == ["length"] * 6
    assert len({one.text for one in heard}) == 6
    assert all(len(one.text) > 20 for one in heard)


async def test_a_conversation_opened_again_may_get_another_document() -> None:
    script = {"default": {"vary": True, "cut_after_tokens": 150}}
    async with open_simulator(script) as simulator, connect(simulator, OPENAI) as client:
        first, second = await client.ask("Plan a garden."), await client.ask("Plan a garden.")
        assert first.text != second.text
        # Each goes on with its own, in whatever order they are asked.
        ends = [await client.ask("Plan a garden.", one.text, CONTINUE) for one in (second, first)]
        simulator.reset()
        again = await client.ask("Plan a garden.")
    assert ends[0].text != ends[1].text
    assert again.text == first.text
