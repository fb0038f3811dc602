"""The limits of one endpoint: requests and tokens per minute, concurrent calls. Has no clock."""

from __future__ import annotations

import math

from dialectic_simulator.conversation import Allowance, Allowances, Refused, Trouble, TroubleKind
from dialectic_simulator.script import PER_MINUTE_S, Section


class Bucket:
    """A token bucket that refills at a constant rate. Taking more than it holds leaves a debt."""

    def __init__(self, per_minute: int, window_s: float) -> None:
        self.per_minute = per_minute
        self._per_s = per_minute / PER_MINUTE_S
        self._capacity = max(1.0, self._per_s * window_s)
        self._level = self._capacity
        self._at_s: float | None = None

    def fill(self, now_s: float) -> None:
        passed_s = 0.0 if self._at_s is None else max(0.0, now_s - self._at_s)
        self._level = min(self._capacity, self._level + passed_s * self._per_s)
        self._at_s = now_s

    def wait_s(self, amount: int) -> float:
        """Compute the wait until an amount is available; an oversized one needs a full bucket."""
        return max(0.0, min(float(amount), self._capacity) - self._level) / self._per_s

    def take(self, amount: int) -> None:
        self._level -= amount

    def describe(self) -> Allowance:
        missing = self._capacity - self._level
        return Allowance(self.per_minute, max(0, math.floor(self._level)), missing / self._per_s)


class Limits:
    """An endpoint's limits. Every admitted call must be released."""

    def __init__(self, section: Section) -> None:
        window_s = float(section.limit_window_s)
        per_minute = (section.requests_per_minute, section.tokens_per_minute)
        self._requests, self._tokens = (Bucket(n, window_s) if n else None for n in per_minute)
        self._concurrency_max = section.max_concurrency
        self.running = 0

    def enter(self, model: str, tokens: int, now_s: float) -> None:
        """Admit a call that may use this many tokens; raises `Refused` and takes nothing."""
        for bucket in (self._requests, self._tokens):
            if bucket is not None:
                bucket.fill(now_s)
        if self._concurrency_max is not None and self.running >= self._concurrency_max:
            raise _refuse(model, "Number of concurrent requests has exceeded your limit.", 1.0)
        if self._tokens is not None and tokens > self._tokens.per_minute:
            words = (
                f"Request too large for {model} on tokens per min (TPM): "
                f"Limit {self._tokens.per_minute}, Requested {tokens}."
            )
            raise _refuse(model, words, PER_MINUTE_S)
        for bucket, amount, what in (
            (self._requests, 1, "requests per min (RPM)"),
            (self._tokens, tokens, "tokens per min (TPM)"),
        ):
            if bucket is not None and (wait_s := bucket.wait_s(amount)) > 0:
                words = (
                    f"Rate limit reached for {model} on {what}: Limit {bucket.per_minute}, "
                    f"Requested {amount}. Please try again in {wait_s:.3f}s."
                )
                raise _refuse(model, words, wait_s)
        self._take(1, tokens)
        self.running += 1

    def leave(self, unused_tokens: int) -> None:
        """Release a call, and return its unused tokens."""
        self.running -= 1
        self._take(0, -unused_tokens)

    def _take(self, requests: int, tokens: int) -> None:
        if self._requests is not None:
            self._requests.take(requests)
        if self._tokens is not None:
            self._tokens.take(tokens)

    def describe(self) -> Allowances:
        return Allowances(
            requests=self._requests.describe() if self._requests else None,
            tokens=self._tokens.describe() if self._tokens else None,
        )


def _refuse(model: str, words: str, wait_s: float) -> Refused:
    retry_after = str(max(1, math.ceil(wait_s)))
    return Refused(Trouble(TroubleKind.RATE, model, words, retry_after))
