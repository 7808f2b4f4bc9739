"""An account with nothing special: three zones with a subnet each, a security group for EFA, quotas, request limits."""

from e2e.clouds.ec2.objects import Bucket, Change, Quota, SecurityGroup, Subnet, Zone

STATE = Change(
    zones=(
        Zone(name="us-east-1a", id="use1-az6"),  # names are aliases: their order says nothing about ids
        Zone(name="us-east-1b", id="use1-az1"),
        Zone(name="us-east-1c", id="use1-az2"),
    ),
    subnets=(
        Subnet(id="subnet-0a", zone="us-east-1a", cidr="10.0.0.0/20"),
        Subnet(id="subnet-0b", zone="us-east-1b", cidr="10.0.16.0/20"),
        Subnet(id="subnet-0c", zone="us-east-1c", cidr="10.0.32.0/20"),
    ),
    security_groups=(SecurityGroup(id="sg-0efa"),),
    quotas=(
        Quota(code="L-417A185B", value=200_000, name="Running On-Demand P instances"),
        Quota(code="L-DB2E81BA", value=200_000, name="Running On-Demand G and VT instances"),
        Quota(code="L-2C3B7624", value=200_000, name="Running On-Demand Trn instances"),
        Quota(code="L-1216C47A", value=200_000, name="Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
    ),
)

BUCKETS = {
    # By operation. RunInstances: cloud.md 1.9; the others: EC2 developer guide, "Request throttling for the Amazon EC2 API".
    "RunInstances": Bucket(size=5, refill=2),
    "RunInstances/resources": Bucket(size=1000, refill=2),
    "TerminateInstances": Bucket(size=100, refill=5),
    "TerminateInstances/resources": Bucket(size=1000, refill=20),
    "CreateTags": Bucket(size=100, refill=10),
    "DescribeInstanceTopology": Bucket(size=1, refill=1),
    "DescribeCapacityReservationTopology": Bucket(size=1, refill=1),
    # For the rest: reads, reads of everything (no ids, no filter, no page size), and writes.
    "reading": Bucket(size=100, refill=20),
    "reading everything": Bucket(size=50, refill=10),
    "writing": Bucket(size=50, refill=5),
}
