"""Many who ask share one question, and no answer is lost with the one who asked for it."""

from __future__ import annotations

import asyncio

import pytest

from dialectic.worker.claims import Batcher


class Oracle:
    """Answers when it is let, and takes answers back."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.returned: list[str] = []
        self.begun = asyncio.Event()
        self.opened = asyncio.Event()
        self.questions = Batcher(self.answer, give_back=self.take_back, batch_max=3)

    async def answer(self, keys: list[str]) -> dict[str, str]:
        self.asked.append(keys)
        self.begun.set()
        await self.opened.wait()
        return {key: key.upper() for key in keys if key != "unknown"}

    async def take_back(self, answer: str) -> None:
        self.returned.append(answer)

    def ask(self, *keys: str) -> list[asyncio.Task[str | None]]:
        return [asyncio.create_task(self.questions.ask(key)) for key in keys]


async def test_those_who_come_while_a_question_is_under_way_share_the_next_ones() -> None:
    oracle = Oracle()
    first = oracle.ask("a")
    await oracle.begun.wait()
    others = oracle.ask("b", "c", "d", "e")
    await asyncio.sleep(0)
    oracle.opened.set()
    assert await asyncio.gather(*first, *others) == ["A", "B", "C", "D", "E"]
    assert oracle.asked == [["a"], ["b", "c", "d"], ["e"]]
    await oracle.questions.settle()
    assert oracle.returned == []


async def test_an_answer_is_handed_out_once_and_what_has_none_is_none() -> None:
    oracle = Oracle()
    oracle.opened.set()
    assert await asyncio.gather(*oracle.ask("a", "a", "unknown")) == ["A", None, None]


async def test_an_answer_whose_asker_has_left_is_given_back() -> None:
    oracle = Oracle()
    stays, leaves = oracle.ask("a", "b")
    await oracle.begun.wait()
    leaves.cancel()
    await asyncio.wait({leaves})
    assert leaves.cancelled()
    oracle.opened.set()
    assert await stays == "A"
    await oracle.questions.settle()
    assert oracle.returned == ["B"]


async def test_an_answer_that_comes_in_the_moment_its_asker_leaves_is_given_back() -> None:
    oracle = Oracle()

    async def answer(keys: list[str]) -> dict[str, str]:
        # Comes after the answer is handed over, and before the asker wakes up to it.
        asyncio.get_running_loop().call_soon(asker.cancel)
        return dict.fromkeys(keys, "answer")

    questions = Batcher(answer, give_back=oracle.take_back, batch_max=3)
    asker = asyncio.create_task(questions.ask("a"))
    with pytest.raises(asyncio.CancelledError):
        await asker
    await questions.settle()
    assert oracle.returned == ["answer"]


async def test_what_goes_wrong_is_told_to_everyone_who_asked() -> None:
    async def fail(_keys: list[str]) -> dict[str, str]:
        raise ValueError

    questions = Batcher(fail, give_back=Oracle().take_back, batch_max=3)
    found = await asyncio.gather(*(questions.ask(key) for key in "ab"), return_exceptions=True)
    assert [type(error) for error in found] == [ValueError, ValueError]
