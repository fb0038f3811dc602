"""A person's look at the text of a job that is still being answered."""

from __future__ import annotations

from uuid import UUID

from dialectic.app.transaction import Transaction
from dialectic.contract.contributions import JobDraft
from dialectic.db.tables import drafts, jobs
from dialectic.errors import NotFound


async def get(tx: Transaction, job_id: UUID) -> JobDraft:
    """Load the draft of a running job, and ask its worker to go on reporting."""
    found = await drafts.find(tx.connection, job_id)
    if found is None:
        job = await jobs.find_job(tx.connection, job_id)
        is_known = job is not None
        raise NotFound(
            f"Job {job_id} is not running, so it has no draft. Read its document when it has ended."
            if is_known
            else f"Job {job_id} does not exist.",
            reason="no_draft" if is_known else "no_job",
            subject=str(job_id),
        )
    await drafts.watch_one(tx.connection, tx.account.tenant_id, found.session_id)
    return JobDraft.model_validate(found)
