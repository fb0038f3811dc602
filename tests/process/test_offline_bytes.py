"""The offline models write the same bytes in every process."""

from __future__ import annotations

import os
import subprocess
import sys

from dialectic.providers.offline.provider import CARDS
from tests.unit.providers.test_offline import THESIS_PROMPT, answer, critique_prompt

ARCHITECT, _, SKEPTIC = CARDS


def test_another_process_with_another_hash_seed_gives_the_same_bytes() -> None:
    code = (
        "import asyncio, sys\n"
        "from dialectic.core.models.messages import Message, Request, Role\n"
        "from dialectic.providers.offline.provider import CARDS, OfflineProvider\n"
        "request = Request('any', '', (Message(Role.USER, sys.argv[1]),), 8000)\n"
        "reply = asyncio.run(OfflineProvider().complete(CARDS[2], request, lambda _: None))\n"
        "sys.stdout.buffer.write((reply.text + str(reply.request_id)).encode())\n"
    )
    prompt = critique_prompt(answer(ARCHITECT, THESIS_PROMPT).text)
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code, prompt],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "4242")
    ]
    here = answer(SKEPTIC, prompt)
    assert outputs == [(here.text + str(here.request_id)).encode()] * 2
