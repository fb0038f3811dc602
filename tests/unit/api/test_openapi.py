"""The description of the API: what client generators need."""

from __future__ import annotations

from dialectic.api.app import build_api


def test_a_body_that_may_be_absent_is_an_object_and_not_null() -> None:
    optional = {
        operation["operationId"]: content["schema"]
        for path in build_api().openapi()["paths"].values()
        for operation in path.values()
        if (body := operation.get("requestBody")) is not None and not body.get("required")
        for content in body["content"].values()
    }
    assert {"submit_session", "resume_session", "resume_job"} <= set(optional)
    assert all(set(schema) == {"$ref"} for schema in optional.values()), optional
