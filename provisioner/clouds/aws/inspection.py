"""Reads what the checks before a launch rest on. What can't be read is noted, and stops nothing."""

from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, TypeVar

from kube.providers import AwsProvider
from provisioner.clouds.aws import preflight
from provisioner.clouds.aws.account import Template
from provisioner.clouds.aws.calls import Calls
from provisioner.clouds.aws.operations import Op
from provisioner.clouds.aws.orders import Launch
from provisioner.clouds.aws.shapes import InstanceType
from provisioner.clouds.base import CloudError, ErrorKind, Instance

T = TypeVar("T")
_DENIED = ("UnauthorizedOperation", "AccessDenied")


class Inspection:
    """One look at the account around a pool. `unread` says what could not be read, and why."""

    def __init__(self, calls: Calls, provider: AwsProvider) -> None:
        self._calls, self._provider = calls, provider
        self.unread: dict[str, str] = {}

    async def groups(self, template: Template) -> tuple[Mapping[str, Any], ...]:
        """The launch template's security groups."""
        if not template.groups:
            return ()
        call = self._calls.pages(Op.SECURITY_GROUPS, "SecurityGroups", GroupIds=list(template.groups))
        return tuple(await self.maybe("security groups", call, []))

    async def quotas(self, types: Sequence[InstanceType]) -> dict[str, int]:
        """Virtual CPUs by quota code."""
        found = {}
        for code in sorted({preflight.quota_code(kind.name) for kind in types}):
            answer = await self.maybe("quotas", self._calls.call(Op.QUOTA, ServiceCode="ec2", QuotaCode=code), {})
            value = (answer.get("Quota") or {}).get("Value")
            if value is not None:
                found[code] = int(value)
        return found

    async def scaling(self) -> tuple[Mapping[str, Any], ...]:
        """The Auto Scaling groups of the cluster."""
        tag = {"Name": "tag-key", "Values": [f"kubernetes.io/cluster/{self._provider.cluster_name}"]}
        call = self._calls.pages(Op.GROUPS, "AutoScalingGroups", Filters=[tag], MaxRecords=100)
        return tuple(await self.maybe("Auto Scaling groups", call, []))

    async def strangers(self, types: Sequence[InstanceType]) -> tuple[str, ...]:
        """Ids of instances of these types in the cluster that Karpenter launched."""
        if not types:
            return ()
        filters = {
            "tag-key": [preflight.KARPENTER_TAG],
            f"tag:kubernetes.io/cluster/{self._provider.cluster_name}": ["owned"],
            "instance-type": [kind.name for kind in types],
            "instance-state-name": ["pending", "running"],
        }
        listed = [{"Name": name, "Values": values} for name, values in filters.items()]
        found = await self.maybe(
            "instances", self._calls.pages(Op.INSTANCES, "Reservations", Filters=listed, MaxResults=1000), []
        )
        return tuple(each["InstanceId"] for call in found for each in call.get("Instances") or ())

    async def denied(self, launch: Launch, ours: Sequence[Instance]) -> str:
        """What dry runs of this launch, and of ending one of our machines, are refused with for lack of permission, "" if they
        would be allowed."""
        found = [await self._refusal(launch.op, launch.parameters)]
        if ours:
            found.append(await self._refusal(Op.TERMINATE, {"InstanceIds": [ours[0].id]}))
        return "; ".join(filter(None, found))

    async def _refusal(self, op: Op, parameters: Mapping[str, Any]) -> str:
        """EC2 answers a dry run with an error always; what isn't about permissions is for the launch itself to meet."""
        try:
            await self._calls.call(op, **parameters, DryRun=True)
        except CloudError as error:
            return error.message if error.message.startswith(_DENIED) else ""
        return ""

    async def maybe(self, what: str, call: Awaitable[T], otherwise: T) -> T:
        """The answer; `otherwise` where it is refused for good. Raises CloudError for what may pass."""
        try:
            return await call
        except CloudError as error:
            if error.kind in (ErrorKind.UNKNOWN, ErrorKind.THROTTLED):
                raise
            self.unread[what] = error.message
            return otherwise
