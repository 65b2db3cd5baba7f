"""`python -m hypermargin` is the command `hypermargin`."""

import sys

from .cli.main import main

if __name__ == "__main__":
    sys.exit(main())
