"""What a worker sends of its running calls: all that is new of watched ones, no text of others."""

from __future__ import annotations

from uuid import uuid4

from dialectic.live_calls import LiveCall, Phase
from dialectic.worker.drafts import Copies, make_storable
from tests.cases import each_case


def build_call() -> LiveCall:
    return LiveCall(
        tenant_id=uuid4(),
        session_id=uuid4(),
        job_id=uuid4(),
        attempt=1,
        stage_slug="thesis",
        output_type="thesis",
        model_name="play/m",
        seat=1,
    )


def test_the_text_of_a_call_is_sent_once_someone_watches_and_then_what_is_new() -> None:
    call, copies = build_call(), Copies()
    key = call.tenant_id, call.job_id
    call.add("Some text")
    (asked,) = copies.list_new([call])
    assert (asked.text, asked.words, asked.phase) == ("", 2, "writing")
    copies.note([asked], {})
    assert [new.text for new in copies.list_new([call])] == [""]

    copies.note([asked], {key: 0})
    (first,) = copies.list_new([call])
    assert (first.at, first.text) == (0, "Some text")
    copies.note([first], {key: 9})
    assert copies.list_new([call]) == []
    call.add(" and more")
    (second,) = copies.list_new([call])
    assert (second.at, second.text) == (9, " and more")
    # The row was lost: all of it is sent again.
    copies.note([second], {key: 0})
    (again,) = copies.list_new([call])
    assert (again.at, again.text) == (0, "Some text and more")


def test_a_new_phase_is_told_and_a_new_turn_begins_again() -> None:
    call, copies = build_call(), Copies()
    key = call.tenant_id, call.job_id
    copies.note(copies.list_new([call]), {key: 0})
    assert copies.list_new([call]) == []
    call.phase = Phase.CALLING
    (told,) = copies.list_new([call])
    assert told.phase == "calling"
    call.add("text")
    copies.note(copies.list_new([call]), {key: 4})
    call.turn = 1
    (turned,) = copies.list_new([call])
    assert (turned.turn, turned.at) == (1, 0)


def test_a_call_that_has_ended_is_forgotten() -> None:
    call, copies = build_call(), Copies()
    copies.note(copies.list_new([call]), {(call.tenant_id, call.job_id): 3})
    assert copies.list_new([]) == []
    (new,) = copies.list_new([call])
    assert new.at == 0


@each_case(
    ("text", "stored"),
    [("plain", "plain"), ("a\x00b", "a\ufffdb"), ("a\ud800b", "a\ufffdb"), ("漢字", "漢字")],
)
def test_what_cannot_be_stored_is_replaced_and_lengths_stay(text: str, stored: str) -> None:
    assert make_storable(text) == stored
    assert len(stored) == len(text)
