"""Calls to AWS: boto3 in threads of its own, bounded in number and time, counted by operation and outcome.

boto3 is imported and its clients are made in a thread at the first call, which costs 50 MB and a second or two, in no call's own
time. A client is made once and shared: clients are thread-safe, sessions are not (boto3 guide, "Multithreading"). Credentials are
found by the default chain of boto3 and go nowhere else.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from provisioner.clouds.aws import errors
from provisioner.clouds.aws.operations import Lane, Op
from provisioner.clouds.base import DEFAULT_TIMEOUTS, CloudError, ErrorKind, Timeouts
from runtime import metrics

Answer = Mapping[str, Any]
THREADS: Mapping[Lane, int] = {"read": 8, "launch": 8, "terminate": 4}
ATTEMPTS: Mapping[Lane, int] = {"read": 5, "launch": 1, "terminate": 8}
"""What the SDK sends at most. A launch is sent once: botocore takes HTTP 500 for a passing fault, and EC2 answers a lack of
capacity with it, so that repeats would only use up the account's rate of launches."""
LEAST_LAUNCH = 60.0
"""Seconds that a launch is waited for at least: an answer that comes late is worth more than a lookup."""
MOST_PAGES = 200
CONNECT_LIMIT = 60.0
"""Seconds that the import of boto3 and the making of a client may take."""
_BARE = "NoCredentialsError"
"""A client that found no credentials when it was made never looks again, so another is made (botocore, `create_client`)."""
_making = threading.Lock()
_sessions: list[Any] = []
"""One at most, for all clients: it keeps the parsed models of the services."""

MADE: Counter[tuple[str, str]] = Counter()
"""Calls since the start of the process by operation and outcome: "ok", or the kind of error."""
metrics.counter(
    "corral_aws_calls",
    "Calls to AWS, by operation and outcome",
    lambda: [(count, {"operation": name, "outcome": outcome}) for (name, outcome), count in MADE.items()],
)


class Calls:
    """One account in one region. `may_change` is asked in the thread right before each launch and termination, and raises if this
    process must not act any more.
    """

    def __init__(
        self,
        region: str = "",
        endpoint: str = "",
        timeouts: Timeouts = DEFAULT_TIMEOUTS,
        may_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._region, self._endpoint, self._timeouts = region or None, endpoint or None, timeouts
        self._may_change = may_change
        self._clients: dict[tuple[str, Lane], Any] = {}
        self._threads: dict[Lane, ThreadPoolExecutor] = {}

    async def call(self, op: Op, **parameters: Any) -> Answer:
        """One call. Raises CloudError; a call that ran out of time is UNKNOWN and may still have its effect."""
        lane = op.value.lane
        loop = asyncio.get_running_loop()
        threads = self._threads_of(lane)
        try:
            client = self._clients.get((op.value.service, lane))
            if client is None:
                async with asyncio.timeout(CONNECT_LIMIT):
                    client = await loop.run_in_executor(threads, self._client, op.value.service, lane)
            async with asyncio.timeout(self._patience(lane)):
                answer: Answer = await loop.run_in_executor(threads, self._send, client, op, parameters)
        except TimeoutError as error:
            MADE[op.name, ErrorKind.UNKNOWN] += 1
            raise CloudError(ErrorKind.UNKNOWN, f"{op.value.method}: no answer within {self._patience(lane):.0f} s") from error
        except CloudError as error:
            allowed = error.message.startswith(errors.DRY_RUN_ALLOWED)
            MADE[op.name, "ok" if allowed else error.kind] += 1
            raise
        MADE[op.name, "ok"] += 1
        return answer

    async def pages(self, op: Op, result: str, **parameters: Any) -> list[Answer]:
        """All items of a list that comes in pages. Raises CloudError as `call` does, and when the pages have no end."""
        found: list[Answer] = []
        token = ""
        for _ in range(MOST_PAGES):
            answer = await self.call(op, **parameters, **({"NextToken": token} if token else {}))
            found += answer.get(result) or []
            token = answer.get("NextToken") or ""
            if not token:
                return found
        raise CloudError(ErrorKind.UNKNOWN, f"{op.value.method}: more than {MOST_PAGES} pages")

    async def close(self) -> None:
        """Calls that run go on to their end in their threads; the next call starts new ones."""
        for threads in self._threads.values():
            threads.shutdown(wait=False, cancel_futures=True)
        self._threads.clear()

    def _patience(self, lane: Lane) -> float:
        return max(LEAST_LAUNCH, self._timeouts.launch) + 10 if lane != "read" else self._timeouts.read * 2.5

    def _threads_of(self, lane: Lane) -> ThreadPoolExecutor:
        if lane not in self._threads:
            self._threads[lane] = ThreadPoolExecutor(THREADS[lane], f"aws-{lane}")
        return self._threads[lane]

    # --- in the threads ---------------------------------------------------------------------------------------------------

    def _send(self, client: Any, op: Op, parameters: Mapping[str, Any]) -> Answer:
        if op.value.lane != "read" and not parameters.get("DryRun"):
            self._may_change()
        try:
            answer: Answer = getattr(client, op.value.method)(**parameters)
        except Exception as error:
            if type(error).__name__ == _BARE:
                self._clients.pop((op.value.service, op.value.lane), None)
            raise errors.of_exception(error) from error
        return answer

    def _client(self, service: str, lane: Lane) -> Any:
        key = service, lane
        if key not in self._clients:
            with _making:
                try:
                    self._clients[key] = self._clients.get(key) or self._connect(service, lane)
                except Exception as error:
                    raise errors.of_exception(error) from error
        return self._clients[key]

    def _connect(self, service: str, lane: Lane) -> Any:
        import boto3
        from botocore.config import Config

        if not _sessions:
            _sessions.append(boto3.session.Session())
        config = Config(
            connect_timeout=5,
            read_timeout=self._timeouts.read if lane == "read" else max(LEAST_LAUNCH, self._timeouts.launch),
            retries={"mode": "standard", "total_max_attempts": ATTEMPTS[lane]},
            max_pool_connections=THREADS[lane],
            user_agent_extra="corral",
        )
        return _sessions[0].client(service, region_name=self._region, endpoint_url=self._endpoint, config=config)
