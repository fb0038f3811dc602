"""Several language models argue until a plan holds."""

# Here, and not asked of the installed package: that takes as long as all else of a short command.
__version__ = "0.2.0"
