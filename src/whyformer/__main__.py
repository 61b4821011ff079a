"""``python -m whyformer``, and ``whyformer``: the command line as a process."""

import gc
from typing import NoReturn

from whyformer.cli import main
from whyformer.sharing import end


def run() -> NoReturn:
    """Run a command and end with its status.

    Python looks for garbage when it ends, among all that transformers made: half a second, unless
    it is told that all of that stays.
    """
    status = main()
    gc.freeze()
    end(status)


if __name__ == "__main__":
    run()
