"""A chunk: one turn of an answer that was cut off, as it was said, with what it took.

Seams: the turns of an answer that was cut off, joined to the one text they are. Pure.

A model that goes on exactly where it stopped is joined exactly, wherever it was cut. Something is
left out only where it cannot well be the text's own:

    restart    the turn begins as the whole text begins
    overlap    the turn begins with the words the text ends with
    fence      the turn opens a code fence once more that is still open
    preamble   the turn begins with a line about going on

What is left out must be long and say something, for texts repeat themselves: rows of a table, boxes
of a checklist, the same heading twice. In doubt nothing is left out. What stays ambiguous: a line
that truly begins by saying the same three words or more twice in a row, 24 characters of them or
more, and was cut right between the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dialectic.core.models.messages import COUNT_MAX, FinishReason, Usage, UsageSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One turn that is saved."""

    turn: int
    text: str
    usage: Usage
    finish_reason: FinishReason
    raw_finish_reason: str | None
    request_id: str | None
    elapsed_ms: int
    flags: tuple[str, ...]
    path: str
    raw_path: str
    # The words of the first turn's prompt, as JSON: further turns ask the same.
    opening: dict[str, Any] | None = None
    # What its prompt was made of, as `core.documents.manifest` writes it down.
    manifest: dict[str, Any] | None = None


def sum_usage(chunks: Sequence[Chunk]) -> Usage:
    """Sum up what turns took together; a sum is only reported if every part of it was."""
    is_reported = all(chunk.usage.source is UsageSource.REPORTED for chunk in chunks)
    return Usage(
        min(COUNT_MAX, sum(chunk.usage.input_tokens for chunk in chunks)),
        min(COUNT_MAX, sum(chunk.usage.output_tokens for chunk in chunks)),
        UsageSource.REPORTED if is_reported else UsageSource.COUNTED,
    )


OVERLAP = "overlap_trimmed"
RESTART = "restart_trimmed"
FENCE = "fence_removed"
PREAMBLE = "preamble_removed"

# How much must be said twice before it counts. Whole lines are repeated by texts themselves, so
# where the second time could be a line of the text, or its beginning, it takes more.
ECHO_CHARS_MIN, ECHO_WORDS_MIN = 24, 3
LINES_CHARS_MIN, LINES_WORDS_MIN = 120, 8
# How far back a turn is expected to repeat what was said; a restart is found at any distance.
ECHO_CHARS_MAX = 8_000
SAME_LINE_CHARS_MIN, SAME_SHARE_MIN = 24, 0.9

_WORD = re.compile(r"[^\W\d_]{2,}")
_BLANKS_AT_LINE_END = re.compile(r"(?<![ \t])[ \t]++(?=\n)")
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)")
_BLOCK = re.compile(r"#{1,6} |[-*+] |\d{1,9}[.)] |>|```|~~~")
# A text that is JSON as a whole, and what opens and closes in it; an escaped sign does neither.
_JSON = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"])')
_JSON_MARK = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
# One short line about going on, and what separates it from the rest.
_PREAMBLE = re.compile(
    r"\s*(?:[*_(\[]*(?:(?:Sure|Certainly|Of course|Okay|Understood)[,.!:]? )?"
    r"(?:(?:I(?:'|’)ll|I will|Let me) (?:continue|resume)\b[^\n]{0,40}\b(?:where|from)\b[^\n]{0,60}"
    r"|(?:Continuing|Resuming|Picking up)\b[^\n]{0,40}\b(?:where|left off|stopped)\b[^\n]{0,60}"
    r"|(?:Here|here)(?:'s|’s| is) the (?:rest|remainder|continuation)\b[^\n]{0,60})"
    r"|[*_(\[]+[Cc]ontinu(?:ed|ation))"
    r"[:.…)\]*_-]+[ \t]*(\n+)"
)


@dataclass(frozen=True, slots=True)
class Joined:
    """The text of all turns, and what was done to join them."""

    text: str
    notes: tuple[str, ...] = ()
    # How many turns began all over again.
    restarts: int = 0


def join(turns: Sequence[str]) -> Joined:
    """Join what was said turn by turn."""
    text, notes = "", list[str]()
    for turn in turns:
        text, found = _attach(text, turn)
        notes += found
    return Joined(text, tuple(dict.fromkeys(notes)), notes.count(RESTART))


def says_the_same(before: str, turn: str) -> bool:
    """Tell whether a turn says nearly line by line what the turn before it said."""
    if turn.strip() == before.strip() and _is_telling(turn, ECHO_CHARS_MIN, ECHO_WORDS_MIN):
        return True
    known = {line.strip() for line in before.splitlines()}
    lines = [line.strip() for line in turn.splitlines() if line.strip()]
    same = {line for line in lines if line in known and len(line) >= SAME_LINE_CHARS_MIN}
    repeated = sum(len(line) for line in lines if line in same)
    is_much = len(same) >= ECHO_WORDS_MIN and repeated >= LINES_CHARS_MIN
    return is_much and repeated >= SAME_SHARE_MIN * sum(map(len, lines))


def seems_finished(text: str) -> bool:
    """Tell whether a text could end here: no code fence is open, no word or list hangs."""
    last = text.rstrip()[-1:]
    return (
        find_open_fence(f"{text}\n") is None
        and last != ""
        and not (last.isalnum() or last in ",;:-(")
    )


def is_unclosed(text: str) -> bool:
    """Tell whether something is open that must be closed: a code fence, or the JSON that it is."""
    return find_open_fence(f"{text}\n") is not None or _is_cut_json(text)


def _is_cut_json(text: str) -> bool:
    if _JSON.match(text) is None:
        return False
    depth, is_in_string = 0, False
    for found in _JSON_MARK.finditer(text):
        match found[0]:
            case '"':
                is_in_string = not is_in_string
            case "{" | "[" if not is_in_string:
                depth += 1
            case "}" | "]" if not is_in_string:
                depth -= 1
        if depth == 0 and not is_in_string:
            return False  # whatever follows, the object is whole
    return True


def describe_end(text: str) -> str:
    """Put into words where a text stopped, for the one who is to go on."""
    line = text.rsplit("\n", 1)[-1]
    if not line:
        place = "at the end of a line, after the line break"
    elif line[-1].isspace():
        place = "in the middle of a line, after a blank"
    elif line.lstrip().startswith("|"):
        place = "in the middle of a row of a table"
    elif line[-1].isalnum():
        place = "in the middle of a line, perhaps of a word"
    else:
        place = "in the middle of a line"
    is_in_fence = find_open_fence(text) is not None
    return f"{place}, inside a code block that is still open" if is_in_fence else place


def find_open_fence(text: str) -> str | None:
    """Find the line that opened the code fence in which a text stops; None outside of fences."""
    opening: str | None = None
    mark = ""
    for line in text.split("\n")[:-1]:
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        ticks = found[1] or found[2]
        if opening is None:
            opening, mark = line, ticks
        elif ticks.startswith(mark) and not line.strip().strip(mark[0]):
            opening = None
    return opening


# -- one seam -------------------------------------------------------------------------------------


def _attach(text: str, turn: str) -> tuple[str, list[str]]:
    if not text:
        return turn, []
    joined, notes = _attach_rest(text, turn)
    if notes:
        return joined, notes
    opening = _PREAMBLE.match(turn)
    if opening is None or opening.end() == len(turn):
        return joined, notes
    rest, blank = turn[opening.end() :], opening[1]
    is_cut_in_line = not text.endswith("\n")
    joined, notes = _attach_rest(text, rest)
    if notes:
        return joined, [PREAMBLE, *notes]
    if not is_cut_in_line:
        return text + turn, []  # it may well be a line of the text
    gap = blank if _begins_a_line(text, rest) else ""
    return text + gap + _drop_begun_line(text, rest), [PREAMBLE]


def _attach_rest(text: str, turn: str) -> tuple[str, list[str]]:
    """Join a turn without what it says twice; no notes if it is joined as it is."""
    if restarted := _measure_restart(text, turn):
        return _continue_after(text, turn, restarted), [RESTART]
    if repeated := _measure_overlap(text, turn):
        is_all = turn[:repeated].strip() == text.strip()
        return text + turn[repeated:], [RESTART if is_all else OVERLAP]
    bare = turn.lstrip("\n")
    # Its line ends may be what ends a fence.
    ended = text + turn[: len(turn) - len(bare)]
    fence = find_open_fence(ended) if bare.startswith(("`", "~")) else None
    if fence is not None and fence.strip().strip("`~") and _first_line(turn) == fence.strip():
        rest = bare.partition("\n")[2]
        if repeated := _measure_overlap(text, rest):
            return text + rest[repeated:], [FENCE, OVERLAP]
        return text + _drop_begun_line(text, rest), [FENCE]
    return text + turn, []


def _first_line(turn: str) -> str:
    line, end, _ = turn.lstrip("\n").partition("\n")
    return line.strip() if end else ""


def _drop_begun_line(text: str, rest: str) -> str:
    """Leave out the line that was begun, where the turn is known to have begun it once more."""
    return rest.removeprefix(text.rsplit("\n", 1)[-1])


def _begins_a_line(text: str, rest: str) -> bool:
    """Tell whether a turn does not go on with the line that was cut but begins another one."""
    line = text.rsplit("\n", 1)[-1]
    if rest.startswith(line):
        return False
    if rest.startswith("|"):
        return line.rstrip().endswith("|")
    return _BLOCK.match(rest) is not None or (line.rstrip()[-1:] in ".!?…" and rest[:1].isupper())


# -- what is said twice ---------------------------------------------------------------------------


def _is_telling(echo: str, chars_min: int, words_min: int) -> bool:
    """Tell whether so much is said that nobody says it twice by chance."""
    if len(echo.strip()) < chars_min:
        return False
    return len({word.casefold() for word in _WORD.findall(echo)}) >= words_min


def _measure_restart(text: str, turn: str) -> int:
    """Measure how much of a turn repeats the beginning of the text; 0 if it does not."""
    begin = len(turn) - len(turn.lstrip())
    if turn[begin : begin + ECHO_CHARS_MIN] != text.lstrip()[:ECHO_CHARS_MIN]:
        return 0
    length = _measure_common(text.lstrip(), turn[begin:])
    same = turn[begin : begin + length]
    return begin + length if _is_telling(same, LINES_CHARS_MIN, LINES_WORDS_MIN) else 0


def _measure_common(one: str, other: str) -> int:
    """Measure the beginning that two texts have in common."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _continue_after(text: str, turn: str, restarted: int) -> str:
    rest = turn[restarted:]
    if not rest or text.strip() == turn[:restarted].strip():
        return text + rest
    # It goes another way than before: with whole lines, so that nothing half is left between.
    begin = turn.rfind("\n", 0, restarted) + 1
    return text + ("" if text.endswith("\n") else "\n") + turn[begin:]


def _measure_overlap(text: str, turn: str) -> int:
    """Measure how much of a turn repeats the end of the text; 0 if it does not."""
    tail, head = text[-ECHO_CHARS_MAX:], turn[:ECHO_CHARS_MAX]
    if found := _count_echo(tail, head):
        return found
    plain_tail, plain_head = _fold(tail), _fold(head)
    if (plain_tail, plain_head) != (tail, head) and (found := _count_echo(plain_tail, plain_head)):
        return _unfold(head, found)
    begin = len(plain_head) - len(plain_head.lstrip())
    if begin and (found := _count_echo(plain_tail, plain_head[begin:], as_lines=True)):
        return _unfold(head, begin + found)
    return 0


def _count_echo(tail: str, head: str, *, as_lines: bool = False) -> int:
    """Count the characters of `head` that repeat the end of `tail` and are not the text's own."""
    starts = _list_echoes(tail, head)
    # One that holds another one repeats itself, and so may the text: nothing is certain then.
    if len(starts) != 1:
        return 0
    start, echo = starts[0], tail[starts[0] :]
    if tail[:start].endswith(echo) or head.startswith(echo, len(echo)):
        return 0
    is_clear = not as_lines and _is_begun_again(tail, start)
    chars, words = (
        (ECHO_CHARS_MIN, ECHO_WORDS_MIN) if is_clear else (LINES_CHARS_MIN, LINES_WORDS_MIN)
    )
    return len(echo) if _is_telling(echo, chars, words) else 0


def _is_begun_again(tail: str, start: int) -> bool:
    """Tell whether what begins at `start` cannot well be said once more by the text itself.

    Lines may be alike, and cells of a row: but a line that begins anew within a line is no line of
    the text, and neither are words of a sentence that begin anew within it.
    """
    before, echo = tail[start - 1 : start], tail[start:]
    if before in ("", "\n"):
        return echo[0] != "\n" and not echo.endswith("\n")
    row = tail[tail.rfind("\n", 0, start) + 1 :]
    is_sentence = before.isspace() and echo[0].isalnum()
    return is_sentence and "\n" not in echo and not row.lstrip().startswith("|")


def _list_echoes(tail: str, head: str) -> list[int]:
    """List where in `tail` something begins that `head` begins with too; two of them at most."""
    found: list[int] = []
    probe = head[:ECHO_CHARS_MIN]
    start = tail.find(probe) if len(probe) == ECHO_CHARS_MIN else -1
    while start >= 0 and len(found) < 2:
        if head.startswith(tail[start:]):
            found.append(start)
        start = tail.find(probe, start + 1)
    return found


def _fold(text: str) -> str:
    """Leave out blanks at the ends of lines, which nobody sees."""
    has_any = " \n" in text or "\t\n" in text
    return _BLANKS_AT_LINE_END.sub("", text) if has_any else text


def _unfold(head: str, length: int) -> int:
    """Find the place in a text that has so many characters before it, line ends folded."""
    position = 0
    for blanks in _BLANKS_AT_LINE_END.finditer(head):
        kept = blanks.start() - position
        if length <= kept:
            break
        position, length = blanks.end(), length - kept
    return position + length
