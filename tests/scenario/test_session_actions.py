"""A person in the loop: every command between two stages, as it is typed, and what comes of it."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from dialectic.core.documents.file_paths import build_path, parse_path
from dialectic.core.documents.front_matter import split_document
from tests.command_pool import CommandResult
from tests.problems import list_commands
from tests.scenario.documented_layout import STAGE_FOLDER, list_patterns, read_table
from tests.scenario.test_run import PROMPT, Home, copy_home, read_project, unique_name
from tests.scenario.whole_session import BLOCK, COUNTS

ORDER = ("thesis", "antithesis", "synthesis", "parenthesis", "paralysis")
MODELS = "offline/architect,offline/skeptic"
FEEDBACK = {
    "thesis": "Cheaper, and without a native app.",
    "antithesis": "The second risk matters most.",
    "paralysis": "Begin with the bakers next time.",
}
EDITED = """# Mine

## Summary

A market stall with a telephone.

## Business case

Stalls are cheap.
"""


@dataclass(frozen=True, slots=True)
class SteeredSession:
    """A session that a person steered from the prompt into its second iteration."""

    home: Home
    slug: str
    session: str
    result: dict[str, CommandResult]
    # What was listed and what stood in storage at the end of the first iteration.
    listed: list[dict[str, Any]]
    first: dict[str, bytes]
    files: dict[str, bytes]
    edited: dict[str, Any]

    def read_prompt(self, path: str) -> str:
        stage, name = path.rsplit("/", 1)
        raw = self.files[f"{stage}/raw_responses/{name.removesuffix('.md')}_raw.json"]
        (message,) = json.loads(raw)["request"]["messages"]
        return str(message["content"])

    def build_folder(self, stage: str, iteration: int = 1) -> str:
        short = self.session[:8]
        place = f"{ORDER.index(stage) + 1}_{stage}"
        return f"{self.slug}/session_{short}/iteration_{iteration}/{place}"

    def list_blocks(self, stage: str, iteration: int = 1) -> list[list[tuple[str, str]]]:
        """The foreign texts of each prompt of a stage, with their labels."""
        prompts = self.list_prompts(stage, iteration)
        return [[(label, text) for label, _, text in BLOCK.findall(p)] for p in prompts]

    def list_prompts(self, stage: str, iteration: int = 1) -> list[str]:
        folder = f"{self.build_folder(stage, iteration)}/raw_responses/"
        found = [data for path, data in self.files.items() if path.startswith(folder)]
        return [json.loads(data)["request"]["messages"][0]["content"] for data in found]


def list_rows(home: Home, session: str, *options: str) -> list[dict[str, Any]]:
    result = home.tell("list", session, "--json", *options)
    assert result.code == 0, result.stderr
    rows: list[dict[str, Any]] = json.loads(result.stdout)
    return rows


@pytest.fixture(scope="module")
def home(made_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with copy_home(made_home, tmp_path_factory.mktemp("steering") / "home") as opened:
        yield opened


@pytest.fixture(scope="module")
def steered_session(home: Home, tmp_path_factory: pytest.TempPathFactory) -> SteeredSession:
    slug, result = unique_name(), {}
    folder = tmp_path_factory.mktemp("texts")
    (folder / "mine.md").write_text(EDITED)
    (folder / "standards.md").write_text("Prices are shown with tax.")

    def tell(key: str, *words: str) -> CommandResult:
        result[key] = home.tell(*words)
        return result[key]

    given = f"domain_standards={folder / 'standards.md'}"
    run = tell(
        "run", "run", "--pause", "--name", slug, "--models", MODELS, "--resource", given, PROMPT
    )
    session = run.session
    rows = list_rows(home, session)
    mine, other = sorted(rows, key=lambda row: str(row["model_name"]))
    tell("feedback", "feedback", session[:8], "thesis", FEEDBACK["thesis"])
    tell("edit", "edit", mine["id"], "--file", str(folder / "mine.md"))
    tell("rate", "rate", other["id"], "4")
    tell("antithesis", "next", session)
    tell("feedback 2", "feedback", session, "antithesis", FEEDBACK["antithesis"])
    tell("synthesis", "next", session)
    tell("parenthesis", "next", session)
    tell("paralysis", "next", session)
    listed = list_rows(home, session, "--all")
    tell("feedback 3", "feedback", session, "paralysis", FEEDBACK["paralysis"])
    first = read_project(home, slug)
    tell("iterate", "iterate", session)
    tell("regenerate", "regenerate", list_rows(home, session)[-1]["id"])
    tell("export", "export", slug)
    files = read_project(home, slug)
    return SteeredSession(home, slug, session, result, listed, first, files, mine)


# -- stages that wait -----------------------------------------------------------------------------


def test_a_stage_that_waits_for_a_person_leaves_with_3_and_says_how_to_go_on(
    steered_session: SteeredSession,
) -> None:
    for stage, key in zip(ORDER[:4], ("run", *ORDER[1:4]), strict=True):
        result = steered_session.result[key]
        assert result.code == 3, result.stderr
        assert f"Stage {stage} is complete and waits for you" in result.stderr
        assert f"dialectic feedback {steered_session.session[:8]} {stage}" in result.stderr
        assert f"dialectic next {steered_session.session[:8]}" in result.stderr


def test_the_last_stage_leaves_with_0(steered_session: SteeredSession) -> None:
    assert steered_session.result["paralysis"].code == 0, steered_session.result["paralysis"].stderr


def test_each_command_names_the_documents_of_its_own_stage(steered_session: SteeredSession) -> None:
    counts = {"run": 2, "antithesis": 4, "synthesis": 2, "parenthesis": 2, "paralysis": 2}
    for (key, count), stage in zip(counts.items(), ORDER, strict=True):
        named = steered_session.result[key].stdout.splitlines()
        assert len(named) == count
        assert all(f"_{stage}/" in path for path in named)
        assert all(Path(path).is_file() for path in named)


def test_all_documents_are_there_at_the_end(steered_session: SteeredSession) -> None:
    kinds = [row["contribution_type"] for row in steered_session.listed]
    assert Counter(kinds) == COUNTS


# -- feedback -------------------------------------------------------------------------------------


def test_feedback_is_kept_with_its_stage(steered_session: SteeredSession) -> None:
    for stage in ("thesis", "antithesis", "paralysis"):
        kept = steered_session.files[
            f"{steered_session.build_folder(stage)}/user_feedback_{stage}.md"
        ].decode()
        assert FEEDBACK[stage] in kept
    assert (
        "rated 4 of 5"
        in steered_session.files[
            f"{steered_session.build_folder('thesis')}/user_feedback_thesis.md"
        ].decode()
    )


def test_every_later_prompt_holds_the_feedback_so_far_and_none_that_came_later(
    steered_session: SteeredSession,
) -> None:
    for stage in ORDER:
        for blocks in steered_session.list_blocks(stage):
            heard = [text for label, text in blocks if label.startswith("User feedback")]
            earlier = [about for about in FEEDBACK if ORDER.index(about) < ORDER.index(stage)]
            assert len(heard) == len(earlier)
            for about, text in zip(earlier, heard, strict=True):
                assert FEEDBACK[about] in text


def test_a_rating_is_told_to_later_prompts_under_a_neutral_label(
    steered_session: SteeredSession,
) -> None:
    for prompt in steered_session.list_prompts("antithesis"):
        found = re.search(r"On Thesis ([AB]): Rated 4 of 5\.", prompt)
        assert found is not None


def test_resources_of_the_project_are_in_every_prompt(
    steered_session: SteeredSession,
) -> None:
    for stage in ORDER:
        for blocks in steered_session.list_blocks(stage):
            assert ("Domain standards", "Prices are shown with tax.") in blocks
    path = f"{steered_session.slug}/general_resource/domain_standards/standards.md"
    assert steered_session.files[path].decode().strip() == "Prices are shown with tax."


# -- an edit --------------------------------------------------------------------------------------


def test_an_edit_is_a_file_of_its_own_and_the_old_one_stays(
    steered_session: SteeredSession,
) -> None:
    result = steered_session.result["edit"]
    assert result.code == 0, result.stderr
    assert "Version 2 is " in result.stderr
    old = steered_session.edited["storage_path"]
    new = old.replace(".md", "_edit_2.md")
    assert result.stdout.strip().endswith(new)
    assert EDITED in steered_session.files[new].decode()
    assert EDITED not in steered_session.files[old].decode()


def test_later_prompts_read_the_edit_and_never_the_old_text(
    steered_session: SteeredSession,
) -> None:
    result = steered_session.home.tell("show", steered_session.edited["id"])
    assert result.code == 0, result.stderr
    assert "a newer version exists" in result.stderr
    old = result.stdout.strip()
    assert old
    critiques = steered_session.list_prompts("antithesis")
    assert sum(EDITED.strip() in prompt for prompt in critiques) == 2
    assert not [prompt for prompt in critiques if old in prompt]
    assert any(EDITED.strip() in prompt for prompt in steered_session.list_prompts("synthesis"))


def test_the_documents_of_an_edit_are_cut_from_it_and_the_missing_ones_flagged(
    steered_session: SteeredSession,
) -> None:
    (row,) = [
        row
        for row in steered_session.listed
        if row["edit_version"] == 2 and row["contribution_type"] == "thesis"
    ]
    assert sorted(row["flags"]) == [
        "missing:feature_spec",
        "missing:success_metrics",
        "missing:technical_approach",
    ]
    documents = {path for path in steered_session.first if "thesis_edit_2_" in path}
    assert [path.rsplit("_", 1)[-1] for path in documents] == ["business-case.md"]


def test_the_difference_between_two_versions_is_shown(steered_session: SteeredSession) -> None:
    (row,) = [
        row
        for row in steered_session.listed
        if row["edit_version"] == 2 and row["contribution_type"] == "thesis"
    ]
    result = steered_session.home.tell("diff", steered_session.edited["id"], row["id"])
    assert result.code == 0, result.stderr
    assert "{+" in result.stdout
    assert "telephone" in result.stdout
    same = steered_session.home.tell("diff", row["id"], row["id"])
    assert (same.code, same.stdout) == (0, "")


# -- iterations -----------------------------------------------------------------------------------


def is_report(path: str) -> bool:
    """Whether a file is derived: it is written again when feedback or another version comes."""
    return "/provenance/" in path or path.endswith(
        ("/coverage.md", "/coverage.json", "/dissent.md")
    )


def test_a_second_iteration_leaves_every_byte_of_the_first(steered_session: SteeredSession) -> None:
    assert steered_session.result["iterate"].code == 3, steered_session.result["iterate"].stderr
    # The two files about the project as a whole speak of all its iterations.
    whole = {
        f"{steered_session.slug}/project_readme.md",
        f"{steered_session.slug}/project_settings.json",
    }
    first = {
        path: data
        for path, data in steered_session.first.items()
        if path not in whole and not is_report(path)
    }
    assert {path: steered_session.files[path] for path in first} == first
    new = (
        set(steered_session.files)
        - set(steered_session.first)
        - {f"{steered_session.slug}/{steered_session.slug}.zip"}
    )
    assert new
    assert all(f"/session_{steered_session.session[:8]}/iteration_2/" in path for path in new)


def test_a_second_iteration_begins_with_the_outcomes_and_the_feedback_of_the_first(
    steered_session: SteeredSession,
) -> None:
    prompts = steered_session.list_prompts("thesis", 2)
    assert len(prompts) == 3, "one of the two was written anew"
    outcomes = [
        steered_session.home.tell("show", row["id"]).stdout.strip()
        for row in steered_session.listed
        if row["contribution_type"] == "paralysis"
    ]
    for prompt in prompts:
        assert PROMPT in prompt
        assert all(outcome in prompt for outcome in outcomes)
        assert prompt.count("<<<BEGIN Outcome of iteration 1 ") == 2
        for said in FEEDBACK.values():
            assert said in prompt
        assert not [name for name in MODELS.split(",") if name in prompt]
    seed = steered_session.files[
        f"{steered_session.build_folder('thesis', 2)}/seed_prompt.md"
    ].decode()
    assert set(prompts) == {seed}


# -- reading --------------------------------------------------------------------------------------


def test_a_contribution_is_shown_with_what_it_read(steered_session: SteeredSession) -> None:
    row = next(row for row in steered_session.listed if row["contribution_type"] == "antithesis")
    result = steered_session.home.tell("show", row["id"][:13])
    assert result.code == 0, result.stderr
    assert "\n## Summary\n" in result.stdout
    assert re.search(r"^  read Thesis [AB]: [0-9a-f-]{36}( |$)", result.stderr, re.MULTILINE)
    assert re.search(r"^  about [0-9a-f-]{36}( |$)", result.stderr, re.MULTILINE)
    as_json = json.loads(steered_session.home.tell("show", row["id"], "--json").stdout)
    assert as_json["id"] == row["id"]
    prompt = steered_session.home.tell("show", row["id"], "--prompt")
    assert prompt.stdout.startswith("# System\n\n")
    assert PROMPT in prompt.stdout


def test_a_document_written_from_an_edit_names_the_edit_wherever_it_is_shown(
    steered_session: SteeredSession,
) -> None:
    home, first = steered_session.home, steered_session.edited["id"]
    edit = next(row for row in steered_session.listed if row["edit_version"] == 2)
    critiques = [
        row
        for row in steered_session.listed
        if row["contribution_type"] == "antithesis"
        and row["read_versions"][0]["contribution_id"] == first
    ]
    assert len(critiques) == 2
    named = {"version_id": edit["id"], "version": 2, "is_by_user": True}
    for row in critiques:
        assert row["read_versions"] == [{"contribution_id": first, **named}]
        shown = home.tell("show", row["id"])
        assert f"  about {edit['id']} (version 2, edited by a person)" in shown.stderr
        assert re.search(rf"  read Thesis [AB]: {edit['id']} \(version 2", shown.stderr)
        assert EDITED.strip() in home.tell("show", row["id"], "--prompt").stdout
        record = json.loads(home.tell("show", row["id"], "--json").stdout)
        assert record["read_version_ids"] == [record["target_version_id"]] == [edit["id"]]
        assert record["source_contribution_ids"] == [first]
        assert record["results"]["read"][0]["version_id"] == edit["id"]
        assert re.fullmatch("[0-9a-f]{64}", record["words_hash"])
        fields, _ = split_document(steered_session.files[row["storage_path"]].decode())
        assert fields["read_versions"] == [edit["id"]]
    listed = home.tell("list", steered_session.session).stdout
    assert listed.count(f"read edited {edit['id'][:8]}") == 2


def test_a_session_is_shown_by_its_id_and_listed_with_its_contributions(
    steered_session: SteeredSession,
) -> None:
    shown = steered_session.home.tell("show", steered_session.session[:8])
    assert shown.stdout.startswith("# Plan: ")
    status = steered_session.home.tell("status", steered_session.session[:8])
    assert f"Session   {steered_session.session}" in status.stdout
    listed = steered_session.home.tell("list", steered_session.session[:8])
    lines = listed.stdout.splitlines()
    assert len(lines) == 14
    assert (
        len(steered_session.home.tell("list", steered_session.session, "--all").stdout.splitlines())
        == 26
    )
    assert any("offline-architect_1_thesis_edit_2.md v2" in line for line in lines)
    assert steered_session.session[:8] in steered_session.home.tell("list").stdout


# -- versions after the fact ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def finished(home: Home) -> str:
    """A session that has come to its end by itself."""
    result = home.tell(
        "run", "--name", unique_name(), "--models", MODELS, "--until", "synthesis", "x"
    )
    assert result.code == 0, result.stderr
    return result.session


def test_a_regenerated_document_makes_stale_what_was_made_from_it(
    home: Home, finished: str
) -> None:
    before = {row["id"]: row for row in list_rows(home, finished, "--all")}
    critique = next(r for r in before.values() if r["contribution_type"] == "antithesis")
    result = home.tell("regenerate", critique["id"])
    assert result.code == 0, result.stderr
    after = {row["id"]: row for row in list_rows(home, finished, "--all")}
    (new,) = [row for row in after.values() if row["id"] not in before]
    assert new["edit_version"] == 2
    assert new["storage_path"] == critique["storage_path"].replace(".md", "_edit_2.md")
    assert critique["id"] not in after, "the newest version takes its place"
    stale = {row["contribution_type"] for row in after.values() if row["is_stale"]}
    assert stale == {"pairwise_synthesis_chunk", "reduced_synthesis", "synthesis"}
    counts = [row["contribution_type"] for row in after.values() if row["is_stale"]]
    assert counts.count("pairwise_synthesis_chunk") == 2
    assert counts.count("reduced_synthesis") == 2
    assert counts.count("synthesis") == 2
    status = home.read_status(finished)
    assert status["session"]["status"] == "synthesis_generation_complete"
    assert [run["finished_units"] for run in status["stages"]] == [2, 4, 14]


def test_until_ends_a_run_with_its_stage_and_next_goes_on(home: Home, finished: str) -> None:
    following = home.tell("next", finished)
    assert following.code == 0, following.stderr
    assert len(following.stdout.splitlines()) == 2
    status = home.read_status(finished)["session"]["status"]
    assert status == "parenthesis_generation_complete"


# -- wrong input ----------------------------------------------------------------------------------

NOTHING = "00000000-0000-4000-8000-000000000000"
WRONG: dict[str, tuple[list[str], int, list[str]]] = {
    "feedback on a stage that is none": (
        ["feedback", "{session}", "hypothesis", "x"],
        2,
        ["no stage 'hypothesis'", "thesis, antithesis"],
    ),
    "feedback on a stage to come": (
        ["feedback", "{session}", "paralysis", "x"],
        2,
        ["'paralysis' has not begun"],
    ),
    "empty feedback": (["feedback", "{session}", "thesis", " "], 2, ["feedback is empty"]),
    "no feedback": (["feedback", "{session}", "thesis"], 2, ["--file"]),
    "feedback on nothing": (["feedback", NOTHING, "thesis", "x"], 2, [NOTHING, "[not_found]"]),
    "feedback on another stage's document": (
        ["feedback", "{session}", "antithesis", "x", "--on", "{thesis}"],
        2,
        ["'thesis'", "'antithesis'", "[invalid_request]"],
    ),
    "an edit of nothing": (["edit", NOTHING, "--file", "{file}"], 2, [NOTHING, "[not_found]"]),
    "an edit without a text": (["edit", "{thesis}"], 2, ["--file"]),
    "an edit with an empty text": (["edit", "{thesis}", "--file", "{empty}"], 2, ["is empty"]),
    "an edit that changes nothing": (["edit", "{thesis}", "--file", "{same}"], 2, ["[conflict]"]),
    "a rating out of range": (["rate", "{thesis}", "6"], 2, ["6"]),
    "a rating of nothing": (["rate", NOTHING, "3"], 2, [NOTHING, "[not_found]"]),
    "an id that is none": (["rate", "abc%", "3"], 2, ["'abc%' is not the id"]),
    "an end by a slip": (["cancel", "{session:.3}"], 2, ["too short", "4 characters"]),
    "a next stage by a slip": (["next", "{session:.3}"], 2, ["too short", "4 characters"]),
    "a rating by a slip": (["rate", "{thesis:.3}", "3"], 2, ["too short", "4 characters"]),
    "nothing to retry": (["retry", "{session}"], 2, ["nothing failed"]),
    "nothing to show": (["show", NOTHING], 2, ["[not_found]"]),
    "nothing to show by that word": (["show", "latest"], 2, ["latest"]),
    "nothing to compare": (["diff", "{thesis}", NOTHING], 2, [NOTHING, "[not_found]"]),
    "nothing to list": (["list", NOTHING], 2, [NOTHING, "[not_found]"]),
    "an unknown stage": (["run", "--until", "end", "x"], 2, ["'end'", "paralysis"]),
    "an unknown domain": (["run", "--domain", "Law", "x"], 2, ["'Law'", "Software Development"]),
    "a lead that is not there": (
        ["run", "--models", "offline/skeptic", "--lead", "offline/architect", "x"],
        2,
        ["'offline/architect'", "not among"],
    ),
    "an unknown kind of resource": (
        ["run", "--resource", "wishes={file}", "x"],
        2,
        ["'wishes=", "domain_standards"],
    ),
    "a resource that is not there": (
        ["run", "--resource", "domain_standards=nothing.md", "x"],
        2,
        ["nothing.md", "No such file"],
    ),
    "an unknown process": (["run", "--process", "nothing", "x"], 2, ["nothing", "standard"]),
}


@pytest.fixture(scope="module")
def places(home: Home, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    result = home.tell(
        "run", "--pause", "--name", unique_name(), "--models", "offline/skeptic", PROMPT
    )
    (thesis,) = list_rows(home, result.session)
    assert home.tell("next", result.session).code == 3
    folder = tmp_path_factory.mktemp("files")
    (folder / "mine.md").write_text(EDITED)
    (folder / "empty.md").write_text("---\na: b\n---\n\n")
    (folder / "same.md").write_text(home.tell("show", thesis["id"]).stdout)
    return {
        "session": result.session,
        "thesis": thesis["id"],
        "file": str(folder / "mine.md"),
        "empty": str(folder / "empty.md"),
        "same": str(folder / "same.md"),
    }


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_refused_with_what_is_wrong(
    home: Home, places: dict[str, str], case: str
) -> None:
    words, code, keys = WRONG[case]
    result = home.tell(*(word.format(**places) for word in words))
    assert result.code == code, result.stderr
    for key in keys:
        assert key in result.stderr


def test_a_prefix_for_reading_may_be_of_any_length(home: Home, places: dict[str, str]) -> None:
    result = home.tell("list", places["session"][:3])
    assert result.code == 0
    assert places["thesis"][:4] in result.stdout


@pytest.fixture(scope="module")
def own_process(home: Home) -> tuple[str, CommandResult]:
    """A run of the example process: its project and what the command said."""
    example = Path(__file__).resolve().parents[2] / "examples" / "pros-and-cons"
    slug = unique_name()
    result = home.tell("run", "--process", str(example), "--name", slug, "--models", MODELS, "x")
    return slug, result


def test_a_process_of_ones_own_runs_to_its_end_and_again(
    home: Home, own_process: tuple[str, CommandResult]
) -> None:
    _, result = own_process
    assert result.code == 0, result.stderr
    assert home.read_status(result.session)["session"]["status"] == "iteration_complete"
    following = home.tell("next", result.session)
    assert following.code == 2
    assert list_commands(following.stderr) == [f"dialectic iterate {result.session[:8]}"]
    again = home.tell("iterate", result.session)
    assert again.code == 0, again.stderr
    stages = home.read_status(result.session)["stages"]
    assert [run["iteration_number"] for run in stages] == [1, 1, 2, 2]
    assert all(run["status"] == "complete" for run in stages)
    assert all(run["finished_units"] == run["planned_units"] for run in stages)


# -- the layout -----------------------------------------------------------------------------------

# Whoever works through the plan moves files there by hand.
BY_HAND = {"{project}/Current/{name}.md", "{project}/Complete/{name}.md"}
# Only models with a small window leave these: `test_combine` and `test_compression` hold them
# against runs of such models.
ELSEWHERE = {
    "{model}_combining_{id}_{n}_combined",
    "raw_responses/shortening_{id}_raw.json",
}


@pytest.fixture(scope="module")
def all_files(
    steered_session: SteeredSession, own_process: tuple[str, CommandResult], home: Home
) -> set[str]:
    """Where the files of all stories stand, one of them of answers that were cut off."""
    cut = unique_name()
    run = home.tell(
        *("run", "--until", "thesis", "--models", "offline/skeptic"),
        *("--max-output-tokens", "800", "--name", cut, PROMPT),
    )
    (row,) = list_rows(home, run.session)
    assert home.tell("regenerate", row["id"]).code == 0
    names = (own_process[0], cut)
    return {*steered_session.files, *(path for name in names for path in read_project(home, name))}


def test_every_file_stands_where_the_page_on_the_layout_says(all_files: set[str]) -> None:
    patterns = list_patterns()
    for path in all_files:
        named = [place for place, pattern in patterns.items() if pattern.fullmatch(path)]
        assert len(named) == 1, (path, named)
        assert build_path(parse_path(path)) == path


def test_every_place_that_the_page_on_the_layout_names_has_a_file(all_files: set[str]) -> None:
    used = {
        place
        for place, pattern in list_patterns().items()
        if any(map(pattern.fullmatch, all_files))
    }
    for heading in ("The project", "A stage", "Base names"):
        for line in read_table(heading):
            if line not in BY_HAND | ELSEWHERE and line != "{base}":
                parts = line.split("{base}")
                assert [place for place in used if is_made_of(place, parts)], line


def is_made_of(place: str, parts: list[str]) -> bool:
    """Whether a place is a line of the page with its base name spelled out."""
    name = place.removeprefix(STAGE_FOLDER)
    if len(parts) == 1:
        return parts[0] == name or f"{parts[0]}.md" in place.rsplit("/", 1)[-1]
    return name.startswith(parts[0]) and name.endswith(parts[1])
