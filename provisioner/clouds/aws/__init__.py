"""AWS: EC2 instances from On-Demand Capacity Reservations, Capacity Blocks, and on demand, through boto3."""
