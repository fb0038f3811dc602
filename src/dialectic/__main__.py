"""`python -m dialectic` and the script `dialectic`: the way into the command.

Importing the command takes a while, and nothing has begun by then: ^C ends the process at once,
without a traceback. `cli.terminal` takes over when there is something to finish.
"""

import atexit
import gc
import signal


def main() -> None:
    """Run the command."""
    # A shell that starts a command in the background lets it ignore ^C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The interpreter's last search for garbage takes as long as a query, and frees nothing.
    atexit.register(gc.freeze)
    from dialectic.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
