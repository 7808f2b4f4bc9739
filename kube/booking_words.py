"""What users read in `kubectl explain booking`; see kube/descriptions.py."""

from collections.abc import Mapping

from kube import bookings

Words = Mapping[type, Mapping[str, str]]

OBJECT = {"api_version": "Group and version of this object's schema.", "kind": "Kind of this object."}

BOOKING: Words = {
    bookings.Booking: {
        **OBJECT,
        "": "Capacity that belongs to one request until it is released; the durable record of one attempt.",
        "spec": "The plan; never changes.",
        "status": "How far it is; written by the provisioner.",
    },
    bookings.BookingSpec: {
        "request": "The ProvisioningRequest.",
        "attempt": "Number of the attempt, from 1.",
        "installation": "The installation of Corral that made the booking.",
        "policy": "Name of the CapacityPolicy.",
        "pod_sets": "The gang.",
        "provision_deadline": "When all must be ready.",
        "booking_seconds": "Seconds from Provisioned to the first pod.",
        "launch_seconds": "Seconds until the cloud has answered all calls.",
        "join_seconds": "Seconds that a machine may take from launch to node.",
        "verify_seconds": "Seconds that a node may take from joining to ready.",
        "release_seconds": "Seconds from the end until all is given back.",
        "workload": "The Kueue Workload.",
        "nodes": "Nodes taken that are there already.",
        "purchases": "Nodes to be bought.",
        "cost_per_hour": "Dollars an hour that the plan adds.",
        "node_count": "Nodes taken and bought together.",
        "domains": "The value chosen for each required topology key.",
        "traceparent": "Trace context of the workload.",
    },
    bookings.BookedPodSet: {
        "name": "Name of the pod set.",
        "count": "Number of pods.",
        "label": "Node label key that steers its pods.",
        "requests": "What one pod asks for: milli-cores of cpu, base units of the rest.",
        "inherited": "Label keys of earlier bookings of the same job that its pods select as well.",
    },
    bookings.BookedNode: {
        "name": "Name of the node.",
        "pool": "Name of the pool.",
        "pods": "Pods that the node is to hold, by pod set.",
        "provider_id": "The node's spec.providerID.",
        "taken_over": "The booking that it is taken over from, whose marks it bears until then.",
    },
    bookings.BookedPurchase: {
        "name": "Name of the purchase, unique in the booking.",
        "pool": "Name of the pool.",
        "source": "The source of the pool.",
        "offering": "Name of the offering.",
        "shape": "Instance type.",
        "zone": "Zone.",
        "capacity_type": "How it is paid for.",
        "count": "Number of nodes.",
        "pods": "Pods that each node is to hold, by pod set.",
        "reservation_id": "The cloud's id of the reservation.",
        "domain": "Topology labels that the nodes must carry.",
        "labels": "Labels that the pool gives the nodes.",
        "price_per_hour": "Dollars an hour that one node adds.",
    },
    bookings.Launch: {
        "purchase": "Name of the purchase.",
        "token": "Token that makes the call idempotent.",
        "count": "Number of nodes.",
        "state": "Pending until the outcome is known.",
        "at": "When the call was written down.",
        "message": "The cloud's own words.",
        "reason": "Class of a failure.",
    },
    bookings.BookedInstance: {
        "id": "The cloud's id of the machine.",
        "purchase": "Name of the purchase.",
        "state": "How far the machine is.",
        "node": "Name of its node.",
        "provider_id": "The node's spec.providerID.",
        "message": "Why it is in this state.",
        "since": "Since when it is in this state.",
        "token": "Token of the launch.",
        "launched_at": "When it was launched.",
        "joined_at": "When its node was first seen.",
        "verdict": "What verification found.",
        "missing_since": "Since when the cloud doesn't show it.",
    },
    bookings.BookingStatus: {
        "phase": "Where the booking is on its way.",
        "reason": "One word for why.",
        "message": "Why, for people.",
        "phase_since": "When the phase began.",
        "marked_at": "When the free nodes bore their marks.",
        "provisioned_at": "When all was ready.",
        "first_pod_at": "When the first pod came.",
        "idle_since": "Since when no pod of the gang is there.",
        "launches": "Cloud calls, each written before it is made.",
        "instances": "Machines of this booking.",
        "conditions": "Aspects of the booking's present state.",
    },
}
