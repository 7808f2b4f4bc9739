"""A candidate for leadership as a process of its own, to be killed: `python -m e2e.elector KUBECONFIG NAMESPACE NAME`.

Writes "candidate", "start" and "stop" with the system-wide monotonic clock to stdout. Lease 3 s, renewal 2 s, retry 0.5 s.
"""

import asyncio
import sys
import time

from runtime import logging
from runtime.client import Client
from runtime.manager import Manager
from runtime.settings import Settings


def say(what: str) -> None:
    print(what, time.monotonic(), flush=True)


async def work() -> None:
    say("start")
    try:
        await asyncio.sleep(3600)
    finally:
        say("stop")


async def main(kubeconfig: str, namespace: str, name: str) -> None:
    settings = Settings.model_validate(
        {
            "health": {"bindAddress": "0"},
            "metrics": {"bindAddress": "0"},
            "clientConnection": {"kubeconfig": kubeconfig},
            "leaderElection": {
                "resourceName": name,
                "resourceNamespace": namespace,
                "leaseDuration": 3.0,
                "renewDeadline": 2.0,
                "retryPeriod": 0.5,
            },
        }
    )
    logging.setup("info", "json")
    manager = Manager(settings, await Client.connect(settings.client_connection), name)
    manager.background("work", work)
    asyncio.get_running_loop().call_later(0.5, say, "candidate")  # by then the handlers of signals are in place
    await manager.run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
