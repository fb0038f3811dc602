"""Chunks: the turns of a truncated answer, and how they are joined to one text. Pure.

If the model continues exactly where it stopped, the turns are joined exactly. Text is removed only
where it is very unlikely to belong to the document:

    restart    the turn begins like the whole text
    overlap    the turn begins with the words that end the text
    fence      the turn reopens a code fence that is still open
    preamble   the turn begins with a line such as "Continuing where I left off:"

A heading at the start of a turn begins a line of its own, also if the text stopped within a line.

Removed text must be long and have several words, because documents repeat themselves: rows of a
table, boxes of a checklist, equal headings. In doubt nothing is removed. One case stays ambiguous:
a line that really begins with the same words twice in a row (at least three words and 24
characters), truncated exactly between the two.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dialectic.core.models.messages import FinishReason, Usage, UsageSource
from dialectic.core.strict_json import COUNT_MAX, Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """One saved turn of an answer."""

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
    # The prompt of the first turn, as JSON; further turns send the same.
    opening: Json | None = None
    # The manifest of its prompt, see `core.documents.prompts`.
    manifest: Json | None = None
    # Who wrote it: the model of a seat may be replaced between two turns.
    model_name: str | None = None


def sum_usage(chunks: Sequence[Chunk]) -> Usage:
    """Sum the usage of turns; its source is `reported` only if that of every turn is."""
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
HEADING_SEAM = "heading_on_own_line"

# How long a repetition must be to count. Documents repeat whole lines themselves, so a repetition
# that could be a line of the document must be longer.
ECHO_CHARS_MIN, ECHO_WORDS_MIN = 24, 3
LINES_CHARS_MIN, LINES_WORDS_MIN = 120, 8
# How far back an overlap is searched; a restart is found at any distance.
ECHO_CHARS_MAX = 8_000
SAME_LINE_CHARS_MIN, SAME_SHARE_MIN = 24, 0.9

_WORD = re.compile(r"[^\W\d_]{2,}")
_BLANKS_AT_LINE_END = re.compile(r"(?<![ \t])[ \t]++(?=\n)")
_FENCE = re.compile(r" {0,3}(?:(`{3,})[^`]*|(~{3,}).*)")
_BLOCK = re.compile(r"#{1,6} |[-*+] |\d{1,9}[.)] |>|```|~~~")
# A whole heading line. A sentence that mentions a heading ends like a sentence.
_HEADING_LINE = re.compile(r"(#{1,6}) {1,3}[^\s#][^\n]{0,150}(?<![.,; ])\n")
# The start of a JSON text, and its brackets and quotes; escaped characters are skipped.
_JSON = re.compile(r'\s*(?:\{\s*"|\[\s*[\[{"])')
_JSON_MARK = re.compile(r'\\.|["\[\]{}]', re.DOTALL)
# One short line that announces the continuation, and the line breaks after it.
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
    """The joined text, and what was removed to join it."""

    text: str
    notes: tuple[str, ...] = ()
    # How many turns started again from the beginning.
    restarts: int = 0


def join(turns: Sequence[str]) -> Joined:
    """Join the turns of an answer."""
    text, notes = "", list[str]()
    for turn in turns:
        text, found = _attach(text, turn)
        notes += found
    return Joined(text, tuple(dict.fromkeys(notes)), notes.count(RESTART))


def says_the_same(before: str, turn: str) -> bool:
    """Tell whether a turn repeats nearly every line of the turn before it."""
    if turn.strip() == before.strip() and _is_telling(turn, ECHO_CHARS_MIN, ECHO_WORDS_MIN):
        return True
    known = {line.strip() for line in before.splitlines()}
    lines = [line.strip() for line in turn.splitlines() if line.strip()]
    same = {line for line in lines if line in known and len(line) >= SAME_LINE_CHARS_MIN}
    repeated = sum(len(line) for line in lines if line in same)
    is_much = len(same) >= ECHO_WORDS_MIN and repeated >= LINES_CHARS_MIN
    return is_much and repeated >= SAME_SHARE_MIN * sum(map(len, lines))


def seems_finished(text: str) -> bool:
    """Tell whether a text could end here: no open code fence, no unfinished word or list."""
    last = text.rstrip()[-1:]
    return (
        find_open_fence(f"{text}\n") is None
        and last != ""
        and not (last.isalnum() or last in ",;:-(")
    )


def is_unclosed(text: str) -> bool:
    """Tell whether a code fence, or the JSON that the text consists of, is not closed."""
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
            return False  # the object is complete
    return True


def describe_end(text: str) -> str:
    """Describe where a text stopped, for the prompt that continues it."""
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
    """Find the opening line of the code fence in which a text stops; None outside fences."""
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
    if notes and notes != [HEADING_SEAM]:
        return joined, [PREAMBLE, *notes]
    if not is_cut_in_line:
        return text + turn, []  # it may be a line of the document
    gap = blank if _begins_a_line(text, rest) else ""
    return text + gap + _drop_begun_line(text, rest), [PREAMBLE]


def _attach_rest(text: str, turn: str) -> tuple[str, list[str]]:
    """Join a turn without its repetitions; no notes if nothing was removed."""
    if restarted := _measure_restart(text, turn):
        return _continue_after(text, turn, restarted), [RESTART]
    if repeated := _measure_overlap(text, turn):
        is_all = turn[:repeated].strip() == text.strip()
        return text + turn[repeated:], [RESTART if is_all else OVERLAP]
    bare = turn.lstrip("\n")
    # The turn's first line break may complete the line that opens a fence.
    ended = text + turn[: len(turn) - len(bare)]
    fence = find_open_fence(ended) if bare.startswith(("`", "~")) else None
    if fence is not None and fence.strip().strip("`~") and _first_line(turn) == fence.strip():
        rest = bare.partition("\n")[2]
        if repeated := _measure_overlap(text, rest):
            return text + rest[repeated:], [FENCE, OVERLAP]
        return text + _drop_begun_line(text, rest), [FENCE]
    if _begins_heading(text, turn):
        return f"{text}\n\n{turn}", [HEADING_SEAM]
    return text + turn, []


def _begins_heading(text: str, turn: str) -> bool:
    """Tell whether a turn begins with a heading, although the text stopped within a line."""
    found = _HEADING_LINE.match(turn)
    line = text.rsplit("\n", 1)[-1]
    if found is None or not line.strip("# \t") or line.count("`") % 2 or line.startswith("|"):
        return False
    last = line.rstrip()[-1]
    # A single mark may belong to a word, as in "C#".
    is_clear = last in ".!?:;…)*" or (last.isalnum() and len(found[1]) > 1)
    return is_clear and find_open_fence(f"{text}\n") is None


def _first_line(turn: str) -> str:
    line, end, _ = turn.lstrip("\n").partition("\n")
    return line.strip() if end else ""


def _drop_begun_line(text: str, rest: str) -> str:
    """Drop the truncated line from the start of a turn that repeats it."""
    return rest.removeprefix(text.rsplit("\n", 1)[-1])


def _begins_a_line(text: str, rest: str) -> bool:
    """Tell whether a turn begins a new line instead of continuing the truncated one."""
    line = text.rsplit("\n", 1)[-1]
    if rest.startswith(line):
        return False
    if rest.startswith("|"):
        return line.rstrip().endswith("|")
    return _BLOCK.match(rest) is not None or (line.rstrip()[-1:] in ".!?…" and rest[:1].isupper())


# -- repetitions ----------------------------------------------------------------------------------


def _is_telling(echo: str, chars_min: int, words_min: int) -> bool:
    """Tell whether a repetition is long enough not to be a coincidence."""
    if len(echo.strip()) < chars_min:
        return False
    return len({word.casefold() for word in _WORD.findall(echo)}) >= words_min


def _measure_restart(text: str, turn: str) -> int:
    """Measure how many characters of a turn repeat the beginning of the text."""
    begin = len(turn) - len(turn.lstrip())
    if turn[begin : begin + ECHO_CHARS_MIN] != text.lstrip()[:ECHO_CHARS_MIN]:
        return 0
    length = _measure_common(text.lstrip(), turn[begin:])
    same = turn[begin : begin + length]
    return begin + length if _is_telling(same, LINES_CHARS_MIN, LINES_WORDS_MIN) else 0


def _measure_common(one: str, other: str) -> int:
    """Measure the common prefix of two texts."""
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
    # The turn diverges from the text: append whole lines, so that no half line remains.
    begin = turn.rfind("\n", 0, restarted) + 1
    return text + ("" if text.endswith("\n") else "\n") + turn[begin:]


def _measure_overlap(text: str, turn: str) -> int:
    """Measure how many characters of a turn repeat the end of the text."""
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
    """Find how long a prefix of `head` repeats the end of `tail`; 0 if in doubt."""
    starts = _list_echoes(tail, head)
    # Several candidates mean that the text repeats itself: do not remove anything.
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
    """Tell whether the text itself is unlikely to repeat what begins at `start`.

    A text may repeat lines and cells of a table. It does not restart a line inside a line, nor a
    sentence inside a sentence.
    """
    before, echo = tail[start - 1 : start], tail[start:]
    if before in ("", "\n"):
        return echo[0] != "\n" and not echo.endswith("\n")
    row = tail[tail.rfind("\n", 0, start) + 1 :]
    is_sentence = before.isspace() and echo[0].isalnum()
    return is_sentence and "\n" not in echo and not row.lstrip().startswith("|")


def _list_echoes(tail: str, head: str) -> list[int]:
    """List the offsets in `tail` from which it is a prefix of `head`; two at most."""
    found: list[int] = []
    probe = head[:ECHO_CHARS_MIN]
    start = tail.find(probe) if len(probe) == ECHO_CHARS_MIN else -1
    while start >= 0 and len(found) < 2:
        if head.startswith(tail[start:]):
            found.append(start)
        start = tail.find(probe, start + 1)
    return found


def _fold(text: str) -> str:
    """Drop trailing spaces of lines."""
    has_any = " \n" in text or "\t\n" in text
    return _BLANKS_AT_LINE_END.sub("", text) if has_any else text


def _unfold(head: str, length: int) -> int:
    """Convert an offset in the folded text to one in the original text."""
    position = 0
    for blanks in _BLANKS_AT_LINE_END.finditer(head):
        kept = blanks.start() - position
        if length <= kept:
            break
        position, length = blanks.end(), length - kept
    return position + length
