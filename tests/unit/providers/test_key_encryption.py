"""A stored key is opened by the settings that closed it, in its own row, and by nothing else."""

from __future__ import annotations

import base64
from uuid import UUID, uuid4

import pytest

from dialectic.core.access import Secret
from dialectic.errors import KeyMissing, RemedyAction
from dialectic.providers.key_encryption import decrypt, encrypt
from tests.problems import refusing

OLD, NEW = (Secret(base64.b64encode(bytes([n]) * 32).decode()) for n in (1, 2))
KEY = Secret("sk-of-a-tenant")
TENANT, NAME = UUID(int=7), "acme"


def test_a_key_is_found_again_and_its_ciphertext_shows_nothing_of_it() -> None:
    sealed = encrypt([NEW], KEY, TENANT, NAME)
    assert KEY.reveal().encode() not in sealed
    assert decrypt([NEW], sealed, TENANT, NAME).reveal() == KEY.reveal()
    assert encrypt([NEW], KEY, TENANT, NAME) != sealed


def test_an_older_encryption_key_still_opens_and_the_first_one_closes() -> None:
    before = encrypt([OLD], KEY, TENANT, NAME)
    assert decrypt([NEW, OLD], before, TENANT, NAME).reveal() == KEY.reveal()
    after = encrypt([NEW, OLD], KEY, TENANT, NAME)
    assert decrypt([NEW], after, TENANT, NAME).reveal() == KEY.reveal()


def test_without_an_encryption_key_nothing_is_stored() -> None:
    with refusing(KeyMissing, reason="no_encryption_key", action=RemedyAction.CONFIGURE) as caught:
        encrypt([], KEY, TENANT, NAME)
    assert caught.value.remedy is not None
    assert caught.value.remedy.setting == "DIALECTIC_ENCRYPTION_KEY"


@pytest.mark.parametrize(
    ("keys", "tenant_id", "name"),
    [([OLD], TENANT, NAME), ([], TENANT, NAME), ([NEW], uuid4(), NAME), ([NEW], TENANT, "other")],
    ids=["other key", "no key", "other tenant", "other endpoint"],
)
def test_a_ciphertext_opens_only_in_its_place(
    keys: list[Secret], tenant_id: UUID, name: str
) -> None:
    sealed = encrypt([NEW], KEY, TENANT, NAME)
    with refusing(KeyMissing, reason="wrong_encryption_key", subject=name):
        decrypt(keys, sealed, tenant_id, name)


def test_a_ciphertext_that_was_changed_does_not_open() -> None:
    sealed = bytearray(encrypt([NEW], KEY, TENANT, NAME))
    sealed[-1] ^= 1
    with refusing(KeyMissing, reason="wrong_encryption_key"):
        decrypt([NEW], bytes(sealed), TENANT, NAME)
    with refusing(KeyMissing, reason="wrong_encryption_key"):
        decrypt([NEW], b"", TENANT, NAME)
