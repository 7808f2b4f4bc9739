"""What users read in `kubectl explain`: words for each field, by model ("" is the object itself, else the model's docstring)."""

from kube import autoscaling, core, meta, ours
from kube.booking_words import BOOKING, OBJECT, Words

_META: Words = {
    meta.Condition: {
        "": "One aspect of the object's present state.",
        "type": "Type of the condition, in CamelCase.",
        "status": "Whether the condition holds: True, False or Unknown.",
        "reason": "One CamelCase word for why, for programs.",
        "message": "Why, for people.",
        "last_transition_time": "When status changed last.",
        "observed_generation": "The metadata.generation that this condition was made from.",
    },
    meta.ObjectKey: {
        "namespace": "Namespace of the object.",
        "name": "Name of the object.",
        "uid": "UID of the object: one incarnation of the name.",
    },
}

_POOL: Words = {
    core.Taint: {
        "": "Keeps pods off a node that don't tolerate it.",
        "key": "Key of the taint.",
        "effect": "NoSchedule, PreferNoSchedule or NoExecute.",
        "value": "Value of the taint.",
        "time_added": "When it was added.",
    },
    ours.CapacityPool: {
        **OBJECT,
        "": "One place to get nodes from: a cloud account, or nodes that are there already.",
        "spec": "What the pool may use and buy.",
        "status": "What was found there; written by the provisioner.",
    },
    ours.CapacityPoolSpec: {
        "": "What the pool may use and buy.",
        "provider": "Where the nodes come from; exactly one is named, and its kind can't change.",
        "mode": "Observe plans and explains only; Active books and buys; Paused starts nothing new and harms nothing that runs.",
        "node_selector": "Nodes that are there already and belong to this pool: booked, never terminated.",
        "shapes": "Instance types that may be bought. None named means every type that the sources offer.",
        "node_labels": "Labels that nodes launched for the pool register with, such as those that a ResourceFlavor asks for.",
        "topology_keys": "Node label keys of the topology levels, from the widest to the narrowest, the host excluded.",
        "sources": "Ways to buy nodes; each is limited on its own.",
        "limits": "Upper limits of the whole pool.",
        "readiness": "When a node that joined counts as ready.",
    },
    ours.Provider: {
        "simulated": "The simulated cloud, for trials and tests.",
        "adopted": "Nodes that are there already, selected by nodeSelector; nothing is bought.",
    },
    ours.SimulatedProvider: {"endpoint": "HTTP address of the simulated cloud, such as http://127.0.0.1:8090."},
    ours.LabelSelector: {"": "Selects nodes by labels.", "match_labels": "Labels that a node must carry, all of them."},
    ours.Source: {
        "": "One way to buy nodes.",
        "name": "Name of the source, unique in the pool.",
        "capacity_type": "How the nodes are paid for. reserved and capacity-block are prepaid and add no cost to a plan.",
        "reservation_ids": "The cloud's ids of the reservations, for reserved and capacity-block.",
        "max_nodes": "The most nodes that this source may have at one time.",
        "spare_nodes": "How many nodes of the reservations stay unused, as spares for replacement.",
        "drain_before_end": "How long before the capacity ends its nodes must be empty.",
        "scale_in": "What becomes of nodes that hold no booking.",
    },
    ours.ScaleIn: {
        "": "What becomes of nodes that hold no booking.",
        "policy": "Never keeps them; WhenIdle terminates them once they have been idle for the time `after`.",
        "after": "How long a node must have been idle.",
    },
    ours.Limits: {
        "": "Upper limits of the whole pool.",
        "on_demand_nodes": "The most on-demand nodes at one time.",
        "on_demand_spend_per_day": "The most dollars committed to on-demand nodes in one UTC day.",
    },
    ours.Readiness: {
        "": "When a node that joined counts as ready.",
        "timeout": "How long a node may take from launch to ready before it is replaced.",
        "required_daemon_sets": "DaemonSets (namespace/name) that must have a running pod on the node.",
    },
    ours.CapacityPoolStatus: {
        "": "What was found; written by the provisioner.",
        "observed_generation": "The metadata.generation that this status was made from.",
        "shapes": "Instance types found.",
        "offerings": "What can be had: shape, zone, capacity type and reservation.",
        "reservations": "How the nodes of each reservation are used.",
        "backoffs": "Offerings that failed and wait for their next try.",
        "nodes": "Number of nodes by standing.",
        "spend": "Dollars committed to on-demand nodes today (UTC).",
        "conditions": "Ready, DaemonSetsBlocked, Overlaps, LabelsMissing, FlavorsUnfit.",
    },
    ours.ShapeStatus: {
        "": "One instance type as its nodes will look.",
        "name": "Name of the instance type.",
        "allocatable": "What one node offers to pods.",
        "labels": "Labels that every node of the type carries.",
        "taints": "Taints that every node of the type carries.",
        "on_demand_price_per_hour": "Dollars an hour on demand.",
    },
    ours.OfferingStatus: {
        "": "A shape that can be had in one place from one source.",
        "name": "Name of the offering, stable over time.",
        "source": "The source of the pool.",
        "shape": "Instance type.",
        "zone": "Zone.",
        "capacity_type": "How it is paid for.",
        "available": "Nodes that can be had now.",
        "total": "Nodes there would be if nothing else used them.",
        "reservation_id": "The cloud's id of the reservation.",
        "domain": "Topology labels that a node bought here is known to carry.",
        "price_per_hour": "Dollars an hour that one node adds to the bill.",
        "unavailable": "Why none can be had now.",
        "starts": "When the capacity begins.",
        "ends": "When it ends.",
    },
    ours.ReservationStatus: {
        "id": "The cloud's id of the reservation.",
        "source": "The source of the pool.",
        "shape": "Instance type.",
        "zone": "Zone.",
        "total": "Nodes reserved.",
        "booked": "Nodes that hold a booking.",
        "outside": "Nodes that others use.",
        "quarantined": "Nodes found bad.",
        "free": "Nodes that nobody uses.",
        "spare": "Free nodes that are kept back.",
        "starts": "When the reservation begins.",
        "ends": "When it ends.",
    },
    ours.Backoff: {
        "source": "The source of the pool.",
        "shape": "Instance type.",
        "zone": "Zone.",
        "reason": "Class of the failure.",
        "message": "The cloud's own words.",
        "since": "When it failed first.",
        "until": "When it is tried again.",
        "reservation_id": "The cloud's id of the reservation.",
        "failures": "Failures in a row.",
    },
    ours.NodeCounts: {
        "": "Number of nodes by standing.",
        "launched": "Launched for this pool.",
        "adopted": "There already.",
        "booked": "Holding a booking.",
        "idle": "Holding none.",
        "quarantined": "Found bad.",
    },
    ours.Spend: {"day": "The UTC day.", "on_demand": "Dollars committed."},
}

_POLICY: Words = {
    ours.CapacityPolicy: {
        **OBJECT,
        "": "What a queue wants of capacity: order, place, time and cost.",
        "spec": "What is wanted.",
        "status": "Whether it can be had; written by the provisioner.",
    },
    ours.CapacityPolicyStatus: {
        "": "Whether what is wanted can be had.",
        "observed_generation": "The metadata.generation that this status was made from.",
        "conditions": "Ready.",
    },
    ours.CapacityPolicySpec: {
        "": "What is wanted.",
        "pools": "Pools that may be used. None named means all.",
        "capacity_order": "Capacity types that may be used; among plans of equal cost the earlier is taken.",
        "topology": "Topology for pod sets that ask for none of their own.",
        "cross_zone": "Whether a gang may span zones, and what that costs.",
        "price_ceiling_per_hour": "The most dollars an hour that one gang may add.",
        "timeouts": "How long each step may take.",
        "retry": "How often a workload is tried again, and when.",
        "run_duration": "How long gangs run.",
        "on_node_loss": "What happens when a node of a running gang is lost.",
        "bare_requests": "Requests that no Workload stands behind.",
        "user_overrides": "Fields that a request may override, within the bounds that the policy sets.",
        "by_priority_class": "Priority classes whose workloads are served on the terms of another policy.",
    },
    ours.ByPriorityClass: {
        "": "Priority classes whose workloads are served on the terms of another policy.",
        "policy": "Name of that CapacityPolicy, whose own byPriorityClass doesn't count.",
        "names": "Names of WorkloadPriorityClasses or PriorityClasses.",
    },
    ours.TopologyPolicy: {
        "": "Topology for pod sets that ask for none of their own.",
        "required": "Node label key: all pods of the gang must be in one domain of this level.",
        "preferred": "Node label key: one domain of this level if it can be had.",
    },
    ours.CrossZone: {
        "": "Whether a gang may span zones.",
        "policy": "Forbid: pod sets without a required level share one zone. Allow: they may span zones.",
        "cost_per_node_hour": "Dollars an hour that a node outside the gang's main zone counts for when plans are compared.",
    },
    ours.Timeouts: {
        "queued": "From acceptance to a plan.",
        "provision": "From the plan to Provisioned.",
        "booking": "From Provisioned to the first pod.",
    },
    ours.RetryPolicy: {
        "limit": "Retries after the first attempt.",
        "backoff": "Wait before the first retry; it doubles each time.",
        "max_backoff": "The longest wait.",
    },
    ours.RunDuration: {"default": "Assumed for gangs that declare none: Unknown, or a duration."},
    ours.BareRequests: {"": "Requests that no Workload stands behind.", "namespaces": "Namespaces that may make them."},
}

_REQUEST: Words = {
    autoscaling.ProvisioningRequest: {
        **OBJECT,
        "": "Asks for room for groups of pods ahead of time; the class decides how it is provided.",
        "spec": "What is asked for; can't change.",
        "status": "How far it is; written by whoever serves the class.",
    },
    autoscaling.ProvisioningRequestSpec: {
        "": "What is asked for; can't change.",
        "provisioning_class_name": "Who serves the request and how, such as gang.corral.dev.",
        "pod_sets": "Groups of pods to make room for.",
        "parameters": "What the class wants to know besides.",
    },
    autoscaling.RequestPodSet: {
        "pod_template_ref": "The PodTemplate, in the request's namespace, that the pods look like.",
        "count": "Number of pods.",
    },
    autoscaling.Reference: {"": "Names an object in the same namespace.", "name": "Name of the object."},
    autoscaling.ProvisioningRequestStatus: {
        "": "How far it is.",
        "conditions": "Accepted, Provisioned, Failed, BookingExpired, CapacityRevoked.",
        "provisioning_class_details": "What the class wants to tell its users besides.",
    },
}

DESCRIPTIONS: Words = {**_META, **_POOL, **_POLICY, **BOOKING, **_REQUEST}
