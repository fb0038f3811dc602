"""The offline models beyond the standard dialectic: abstracts, merges, other processes."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

from dialectic.core.documents.prompts import build_block, render_template
from dialectic.core.models.messages import Message, Request, Role
from dialectic.processes.loader import load_process, load_shared_prompts
from dialectic.providers.offline.composer import VOICES, Composer
from dialectic.providers.offline.reading import VOCABULARY, read_brief
from tests.cases import each_case
from tests.unit.providers.standard_calls import FEEDBACK, ask, calls_of, render

EXAMPLE = load_process(str(Path(__file__).parents[3] / "examples" / "pros-and-cons"))
QUESTION = """Should our school buy tablets for every pupil? We have 300 pupils and a budget of
60,000 euros. Teachers must not spend more time on it than today."""
THESES = {f"Thesis {letter}": c.text for letter, c in zip("ABC", calls_of("thesis"), strict=True)}


def answer(prompt: str, *, model: int = 0, system: str = "") -> str:
    return ask(Request("any", system, (Message(Role.USER, prompt),), 8_000), model)


def headings_of(text: str) -> list[str]:
    return re.findall(r"^## .+$", text, re.MULTILINE)


def plain(text: str) -> str:
    return " ".join(re.sub("[*`“”\u2018\u2019]", "", text).split())


class TestAbstract:
    WORDS = 120

    def abstract(self, text: str) -> str:
        values = {
            "purpose": build_block("Task", "Criticise the proposal."),
            "text": build_block("Thesis A", text),
            "words": self.WORDS,
        }
        return answer(render_template("abstract", load_shared_prompts()["abstract"], values))

    def test_it_keeps_to_the_number_of_words(self) -> None:
        for text in THESES.values():
            short = self.abstract(text).partition("\n\n")[2]
            assert self.WORDS / 2 < len(short.split()) <= self.WORDS + 10

    def test_it_says_only_what_the_text_says_under_the_headings_of_the_text(self) -> None:
        text = THESES["Thesis B"]
        short = self.abstract(text)
        assert headings_of(short) == headings_of(text)[: len(headings_of(short))]
        said = re.findall(r"^- (.+)$", short, re.MULTILINE)
        assert said
        assert all(plain(statement) in plain(text) for statement in said)


class TestMerge:
    def test_it_quotes_every_document_by_its_label_and_adds_nothing(self) -> None:
        values = {
            "inputs": [build_block(label, text) for label, text in THESES.items()],
            "budget_words": 600,
        }
        prompt = render_template("merge", load_shared_prompts()["merge"], values)
        text = answer(prompt, model=1, system=load_shared_prompts()["merge_system"])
        quotes = re.findall(r"^- “([^“”]+)” \((Thesis [ABC])\)$", text, re.MULTILINE)
        assert len(quotes) == text.count("\n- ")
        assert {label for _, label in quotes} == set(THESES)
        assert all(plain(quoted) in plain(THESES[label]) for quoted, label in quotes)


class TestAnotherProcess:
    def render(self, name: str, inputs: dict[str, str]) -> str:
        values = {
            "domain": "General",
            "request": build_block("Original request", QUESTION),
            "context": [],
            "feedback": [build_block("User feedback", FEEDBACK)],
            "inputs": [build_block(label, text) for label, text in inputs.items()],
            "listing": list(inputs),
            "guidance": "",
        }
        return render_template(name, EXAMPLE.prompts[name], values)

    def test_every_heading_that_its_prompts_ask_for_is_written(self) -> None:
        documents: dict[str, str] = {}
        for model, name in enumerate(("list_arguments", "weigh_list", "judge")):
            text = answer(self.render(name, documents), model=model)
            asked = re.findall(r"^- `(## [^`]+)`", EXAMPLE.prompts[name], re.MULTILINE)
            assert headings_of(text) == asked
            documents[f"Document {model}"] = text
            assert all(f"({label})" in text for label in list(documents)[:-1])

    def test_each_argument_is_a_heading_that_others_weigh(self) -> None:
        listed = answer(self.render("list_arguments", {}))
        arguments = re.findall(r"^### (.+)$", listed, re.MULTILINE)
        assert len(arguments) == 8
        weighed = answer(self.render("weigh_list", {"List A": listed}), model=2)
        assert any(f"“{argument}” (List A)" in weighed for argument in arguments)


@each_case("voice", VOICES)
@each_case("frame", VOCABULARY["sections"])
def test_every_frame_can_be_filled_in_every_voice(frame: str, voice: str) -> None:
    answered = calls_of("synthesis_pairwise")[0]
    brief = read_brief("", render("synthesis_pairwise", answered.inputs, feedback=FEEDBACK))
    composer = Composer(VOICES[voice], brief, Random(1))
    composer.contested.append(("One way.", ["A1"], ["A2"], True))
    blocks = composer.fill_frame(VOCABULARY["sections"][frame])
    assert blocks
    assert not any("{" in block or "}" in block for block in blocks)


def test_the_voices_have_the_same_tables() -> None:
    assert len({frozenset(voice) for voice in VOICES.values()}) == 1
    for key in VOICES["architect"]:
        cells = {row.count(" | ") for voice in VOICES.values() for row in voice[key]}
        assert len(cells) == 1, key
