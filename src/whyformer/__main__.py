"""``python -m whyformer``: the command line, also for ``torchrun``."""

from whyformer.cli import main
from whyformer.sharing import end

if __name__ == "__main__":
    end(main())
