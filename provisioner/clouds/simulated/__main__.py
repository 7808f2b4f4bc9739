"""`python -m provisioner.clouds.simulated`."""

import sys

from provisioner.clouds.simulated.server import main

sys.exit(main())
