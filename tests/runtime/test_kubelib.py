"""The library's generated part stays out, and is there for whoever imports it himself."""

import subprocess
import sys

import pytest

WHOLE, OURS = "import kubernetes_asyncio as whole;", "import sys, runtime.transport as ours;"


@pytest.mark.parametrize(
    "statements",
    [
        pytest.param(OURS + "assert sum(name.startswith('kubernetes_asyncio') for name in sys.modules) < 20", id="alone"),
        pytest.param(OURS + WHOLE + "assert whole.client.Configuration is ours.Configuration", id="then all"),
        pytest.param(WHOLE + OURS + "assert whole.client.Configuration is ours.Configuration", id="after all"),
    ],
)
def test_the_library_is_loaded_as_far_as_needed(statements: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", statements], check=True, timeout=60)
