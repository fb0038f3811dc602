"""The life of a job: read `run.py` first, then one file per verb."""
