"""Encrypts the keys of tenants' own endpoints, with AES-256-GCM and a key from the settings.

A ciphertext is bound to its tenant and endpoint: in another row it does not decrypt. The first key
of the settings encrypts, and every one decrypts, so that the key can be changed.
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Sequence
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from dialectic.core.access import Secret
from dialectic.errors import KeyMissing, Remedy, RemedyAction

SETTING = "DIALECTIC_ENCRYPTION_KEY"
NONCE_BYTES = 12
_REMEDY = Remedy(RemedyAction.CONFIGURE, setting=SETTING)


def encrypt(keys: Sequence[Secret], secret: Secret, tenant_id: UUID, endpoint: str) -> bytes:
    """Encrypt the key of a tenant's endpoint; raise `KeyMissing` without an encryption key."""
    if not keys:
        raise KeyMissing(
            f"Keys of endpoints cannot be stored, because {SETTING} is not set: keys are only "
            "stored encrypted. Set it to 32 random bytes in base64.",
            reason="no_encryption_key",
            subject=SETTING,
            remedy=_REMEDY,
        )
    nonce = secrets.token_bytes(NONCE_BYTES)
    about = _name_place(tenant_id, endpoint)
    return nonce + _open(keys[0]).encrypt(nonce, secret.reveal().encode(), about)


def decrypt(keys: Sequence[Secret], ciphertext: bytes, tenant_id: UUID, endpoint: str) -> Secret:
    """Decrypt the key of a tenant's endpoint; raise `KeyMissing` if no encryption key fits."""
    nonce, sealed = ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:]
    for key in keys:
        try:
            found = _open(key).decrypt(nonce, sealed, _name_place(tenant_id, endpoint))
        except (InvalidTag, ValueError):  # ValueError: too short to hold a nonce
            continue
        return Secret(found.decode())
    raise KeyMissing(
        f"The key of endpoint {endpoint!r} cannot be decrypted with {SETTING} as it is set here. "
        "Set it to the value with which the endpoint was added, or add the endpoint again.",
        reason="wrong_encryption_key",
        subject=endpoint,
        remedy=_REMEDY,
    )


def _open(key: Secret) -> AESGCM:
    return AESGCM(base64.b64decode(key.reveal()))


def _name_place(tenant_id: UUID, endpoint: str) -> bytes:
    return f"{tenant_id}/{endpoint}".encode()
