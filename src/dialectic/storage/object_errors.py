"""What a store of objects says when it refuses or fails, in words that tell what to do. Pure.

The library gives one text for everything: in it stand the code and the status that the server
answered with, which the protocol defines, or what went wrong on the way there. Only those are taken
from it; the rest may name a key. Whatever the words are, the error is one that may pass, for a
bucket can be made and a right be given while files wait.
"""

from __future__ import annotations

import re

_CODE = re.compile(r"<Code>\s*(\w{1,80})\s*</Code>")
_STATUS = re.compile(r"status code: (\d{3})\b")

NO_BUCKET = "NoSuchBucket"
NOT_IMPLEMENTED = "NotImplemented"
_KEY = (
    "Correct DIALECTIC_STORAGE_ACCESS_KEY_ID and DIALECTIC_STORAGE_SECRET_ACCESS_KEY, or make the"
    " key anew."
)
_RIGHTS = (
    "Give the key the rights to list the bucket and to get, put and delete what is in it; without"
    " the first, a server may say this of what is not there."
)
_REGION = "Set DIALECTIC_STORAGE_REGION to the bucket's own."
_LATER = "The server says so for a while, as a rule; what waits is tried again."
_SESSION = "Set DIALECTIC_STORAGE_SESSION_TOKEN and the keys it came with anew."

# By the codes of the protocol.
_REMEDIES = {
    NO_BUCKET: "Create the bucket, or correct DIALECTIC_STORAGE_URL.",
    "InvalidBucketName": "Correct DIALECTIC_STORAGE_URL.",
    "InvalidAccessKeyId": _KEY,
    "SignatureDoesNotMatch": _KEY,
    "InvalidToken": _SESSION,
    "ExpiredToken": _SESSION,
    "AccessDenied": _RIGHTS,
    "AllAccessDisabled": _RIGHTS,
    "AuthorizationHeaderMalformed": _REGION,
    "PermanentRedirect": _REGION,
    "IllegalLocationConstraintException": _REGION,
    "RequestTimeTooSkewed": "Put the clock of this machine right.",
    "EntityTooLarge": "Let the server take larger objects.",
    "QuotaExceeded": "Raise the quota, or free some space.",
    "XMinioStorageFull": "Free some space on the server.",
    "SlowDown": _LATER,
    "ServiceUnavailable": _LATER,
    "InternalError": _LATER,
}
_BY_STATUS = {
    301: _REGION,
    401: _KEY,
    403: f"{_KEY} {_RIGHTS}",
    404: _REMEDIES[NO_BUCKET],
    429: _LATER,
    507: "Free some space on the server.",
}

# Words of the library for what went wrong before there was an answer, the clearer ones first.
_ON_THE_WAY = (
    ("dns error", "its name is not known"),
    ("CertificateExpired", "its certificate has expired"),
    ("Expired", "its certificate has expired"),
    ("UnknownIssuer", "its certificate is signed by nobody this machine trusts"),
    ("NotValidForName", "its certificate is for another name"),
    ("InvalidCertificate", "its certificate is not valid"),
    ("InvalidContentType", "it does not speak https, but http perhaps"),
    ("Connection refused", "nobody listens there"),
    ("unreachable", "no way leads there"),
    ("kind: Timeout", "it did not answer in time"),
    ("TimedOut", "it did not answer in time"),
)
_AT_ENDPOINT = "Look whether the server runs; DIALECTIC_STORAGE_ENDPOINT says where it is."


def find_code(text: str) -> str | None:
    """Find the code that the server gave, if it gave one."""
    found = _CODE.search(text)
    return found[1] if found else None


def describe_trouble(text: str) -> str:
    """Say what went wrong and what to do about it, from the library's words."""
    code, status = find_code(text), _STATUS.search(text)
    if code is not None:
        remedy = _REMEDIES.get(code, "Look at the server's log.")
        return f"the server says {code}. {remedy}"
    if status is not None:
        number = int(status[1])
        remedy = _BY_STATUS.get(number, _LATER if number >= 500 else "Look at the server's log.")
        return f"the server answers with status {number}. {remedy}"
    reason = next((words for sign, words in _ON_THE_WAY if sign in text), "or not in words of S3")
    return f"the server does not answer: {reason}. {_AT_ENDPOINT}"
