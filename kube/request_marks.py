"""The marks by which admission and the provisioner understand each other on ProvisioningRequests and their PodTemplates."""

MANAGED = "kueue.x-k8s.io/managed"
"""Label of every request that is made for a Workload, as Kueue labels those of its own check, too."""

WORKLOAD_UID = "corral.dev/workload-uid"
"""Label of requests and templates: the Workload's UID."""

POD_SET = "corral.dev/pod-set"
"""Label of a template: the name of its pod set."""

WORKLOAD, CHECK = "corral.dev/workload", "corral.dev/admission-check"
"""Annotations of a request: the names of the Workload and of the admission check that it is for."""

ATTEMPT, FINGERPRINT = "corral.dev/attempt", "corral.dev/admission-hash"
"""Annotations of a request: the attempt's number, and what tells attempts under different reservations of quota apart."""

POD_SETS = "corral.dev/pod-sets"
"""Annotation of a request: the names of its pod sets, in the order of its own list, with commas between them."""

BOOKING_DETAIL = "Booking"
"""Class detail of a Provisioned request: the name of its booking."""

UNCOUNTED_DETAIL = "Uncounted"
"""Class detail of a Failed request: "true" where time alone may mend it, so that it should use up none of the retries."""
