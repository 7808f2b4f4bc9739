"""A service whose wall clock is wrong: `python -m e2e.chaos.clocked provisioner --config FILE`, as `corral` itself.

The file that CORRAL_CHAOS_CLOCK names holds the offset in seconds, read at every look at the clock. The monotonic clock, which
leases go by, stays right, as it does on a machine whose time is set.
"""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import admission.main
import provisioner.main
from corral.cli import main

CLOCK = "CORRAL_CHAOS_CLOCK"


def _now() -> datetime:
    return datetime.now(UTC) + timedelta(seconds=float(Path(os.environ[CLOCK]).read_text() or 0))


if __name__ == "__main__":
    for service in (admission.main, provisioner.main):
        vars(service)["_now"] = _now  # both take their time from here, and from nowhere else
    raise SystemExit(main())
