"""A table of cases in one test, where a case of its own in the report would only cost time."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

Ids = Iterable[str] | Callable[[Any], object] | None


@contextmanager
def naming(case: object) -> Iterator[None]:
    """Let an error name the case it belongs to."""
    try:
        yield
    except BaseException as error:  # pytest's own failures are no Exceptions
        error.add_note(f"case: {case}")
        raise


def each_case(
    names: str | Sequence[str], cases: Iterable[Any], ids: Ids = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Run a test with each case in turn; the error of the case that fails names it.

    Takes what `pytest.mark.parametrize` takes. Fixtures are made once, so a test that changes what
    a fixture gave it needs `parametrize`.
    """
    values = [_pair(names, case) for case in cases]
    rows = list(zip(_name(values, ids), values, strict=True))
    if not rows:
        raise ValueError("a test without cases tests nothing")

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        loop = _loop_async(test, rows) if inspect.iscoroutinefunction(test) else _loop(test, rows)
        signature = inspect.signature(test)
        given = rows[0][1]
        loop.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[each for name, each in signature.parameters.items() if name not in given]
        )
        return loop

    return decorate


def _pair(names: str | Sequence[str], case: Any) -> dict[str, Any]:
    return {names: case} if isinstance(names, str) else dict(zip(names, case, strict=True))


def _name(rows: list[dict[str, Any]], ids: Ids) -> list[str]:
    if callable(ids):
        return [" ".join(str(ids(value)) for value in row.values()) for row in rows]
    if ids is not None:
        return list(ids)
    return [
        ", ".join(f"{name}={reprlib.repr(value)}" for name, value in row.items()) for row in rows
    ]


def _loop(test: Callable[..., Any], rows: list[tuple[str, dict[str, Any]]]) -> Callable[..., Any]:
    @functools.wraps(test)
    def run(*args: Any, **fixtures: Any) -> None:
        for case, values in rows:
            with naming(case):
                test(*args, **values, **fixtures)

    return run


def _loop_async(
    test: Callable[..., Any], rows: list[tuple[str, dict[str, Any]]]
) -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(*args: Any, **fixtures: Any) -> None:
        for case, values in rows:
            with naming(case):
                await test(*args, **values, **fixtures)

    return run
