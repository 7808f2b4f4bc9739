"""What the kinds of group `corral.dev/v1alpha1` share: group, version, and fields with their limits.

Durations are Go duration strings ("20m"), money is a decimal string of dollars ("32.77"), instants are RFC 3339 in
whole seconds.
"""

from typing import Annotated, Literal

from msgspec import Meta

GROUP = "corral.dev"
VERSION = "v1alpha1"

Duration = Annotated[str, Meta(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$", max_length=32)]
Money = Annotated[str, Meta(pattern=r"^[0-9]{1,9}(\.[0-9]{1,6})?$", max_length=16)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Name = Annotated[str, Meta(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
LabelKey = Annotated[str, Meta(min_length=1, max_length=316)]
LabelValue = Annotated[str, Meta(pattern=r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$", max_length=63)]
Text = Annotated[str, Meta(max_length=32768)]
SourceType = Literal["reserved", "capacity-block", "on-demand"]
CapacityTypeName = Literal["reserved", "capacity-block", "on-demand", "queued"]
