"""How a job runs: read `run.py` first, then one module per verb."""
