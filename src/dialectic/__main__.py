"""`python -m dialectic` is the command."""

from dialectic.cli.main import main

main()
