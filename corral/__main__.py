"""`python -m corral` is the same as `corral`."""

from corral.cli import main

raise SystemExit(main())
