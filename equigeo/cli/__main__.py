"""``python -m equigeo.cli``."""

import sys

from equigeo.cli.main import main

if __name__ == "__main__":  # processes that training starts import this file
    sys.exit(main())
