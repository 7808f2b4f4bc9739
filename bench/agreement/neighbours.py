"""What a pod can ask of its neighbours: inter-pod affinity, anti-affinity both ways, exclusive domains, and topology spread."""

from bench.agreement.cases import HOSTNAME, ID, Json, template
from bench.agreement.draft import RACK, ZONE, Draft

_APPS = (f"a-{ID}", f"b-{ID}")


def run_apps(draft: Draft, percent: int = 50, **spec: Json) -> None:
    """Small pods of two apps here and there, some in the case's other namespace."""
    for name in draft.nodes:
        for app in _APPS:
            if draft.chance(percent // 2):
                namespace = draft.second_namespace() if draft.chance(25) else ID
                draft.run(name, {}, of=template(labels={"app": app}, **spec), namespace=namespace)


def _selector(draft: Draft) -> Json | None:
    """On the case's own label values, so that other cases' pods don't count."""
    rng = draft.rng
    app = rng.choice(_APPS)
    own = {"key": "case", "operator": "In", "values": [ID]}
    options: tuple[Json | None, ...] = (
        {"matchLabels": {"app": app}},
        {"matchLabels": {"app": app}},
        {"matchLabels": {"role": f"worker-{ID}"}},
        {"matchExpressions": [{"key": "app", "operator": "In", "values": list(_APPS)}]},
        {"matchExpressions": [own, {"key": "app", "operator": "NotIn", "values": [app]}]},
        {"matchExpressions": [own, {"key": "app", "operator": "Exists"}]},
        {"matchExpressions": [own, {"key": "app", "operator": "DoesNotExist"}]},
        None,
    )
    return rng.choice(options)


def _term(draft: Draft, *, key: str = "") -> Json:
    rng = draft.rng
    term: Json = {"topologyKey": key or rng.choice((ZONE, RACK, HOSTNAME))}
    selector = _selector(draft)
    if selector is not None:
        term["labelSelector"] = selector
    where = rng.randrange(10)
    if where == 0:
        term["namespaces"] = [draft.second_namespace()]
    elif where == 1:
        term["namespaceSelector"] = {"matchLabels": {"team": f"b-{ID}"}}
        draft.second_namespace()
    elif where == 2:
        term["namespaceSelector"] = {}
    elif where == 3:
        term["namespaces"] = [ID, draft.second_namespace()]
    if selector is not None and "role" not in str(selector) and draft.chance(10):
        term[rng.choice(("matchLabelKeys", "mismatchLabelKeys"))] = ["role"]
    return term


def _require(spec: Json, kind: str, *terms: Json) -> None:
    part = spec.setdefault("affinity", {}).setdefault(kind, {})
    part.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).extend(terms)


def _label(draft: Draft, form: Json, percent: int = 50) -> None:
    if draft.chance(percent):
        form["metadata"]["labels"]["app"] = draft.rng.choice(_APPS)


def _drop_places(draft: Draft) -> None:
    """A node that bears no label of a level."""
    if draft.chance(30):
        draft.labels(draft.name_of_node()).pop(draft.rng.choice((ZONE, RACK)), None)


def pod_affinity(draft: Draft) -> None:
    run_apps(draft)
    _drop_places(draft)
    for pod_set in draft.sets:
        _label(draft, pod_set.template)
    pod_set = draft.rng.choice(draft.sets)
    terms = [_term(draft) for _ in range(draft.rng.choice((1, 1, 1, 2)))]
    if draft.chance(40):  # the gang follows its own first pod
        terms = [{"topologyKey": terms[0]["topologyKey"], "labelSelector": {"matchLabels": {"role": f"worker-{ID}"}}}]
        pod_set = draft.sets[0]
    _require(pod_set.template["spec"], "podAffinity", *terms)


def pod_anti_affinity(draft: Draft) -> None:
    run_apps(draft, 40)
    _drop_places(draft)
    for pod_set in draft.sets:
        _label(draft, pod_set.template)
    pod_set = draft.rng.choice(draft.sets)
    terms = [_term(draft) for _ in range(draft.rng.choice((1, 1, 1, 2)))]
    if draft.chance(40):  # one pod of the set in each domain
        pod_set = draft.sets[0]
        key = draft.rng.choice((HOSTNAME, HOSTNAME, RACK))
        terms = [{"topologyKey": key, "labelSelector": {"matchLabels": {"role": f"worker-{ID}"}}}]
    _require(pod_set.template["spec"], "podAntiAffinity", *terms)


def symmetric_anti_affinity(draft: Draft) -> None:
    """Running pods that keep the gang's pods out of their domains."""
    _drop_places(draft)
    for pod_set in draft.sets:
        _label(draft, pod_set.template, 70)
    for name in draft.nodes:
        if draft.chance(40):
            form = template(labels={"app": draft.rng.choice(_APPS)})
            _require(form["spec"], "podAntiAffinity", _term(draft))
            draft.run(name, {}, of=form, namespace=draft.second_namespace() if draft.chance(25) else ID)


def exclusive(draft: Draft) -> None:
    """A job that follows its first pod into one domain and keeps out of those of other jobs, as JobSet and LWS write it."""
    key = draft.rng.choice((RACK, ZONE, HOSTNAME))
    label = draft.rng.choice(("jobset.sigs.k8s.io/job-key", "leaderworkerset.sigs.k8s.io/group-key"))
    for name in draft.nodes:
        if draft.chance(25):
            rival = template(labels={label: f"rival-{ID}"})
            if draft.chance(50):
                _require(rival["spec"], "podAntiAffinity", *_exclusive_terms(key, label, f"rival-{ID}")[1:])
            draft.run(name, {}, of=rival)
    for pod_set in draft.sets[: draft.rng.choice((1, 3))]:
        pod_set.template["metadata"]["labels"][label] = f"mine-{ID}"
        near, apart = _exclusive_terms(key, label, f"mine-{ID}")
        _require(pod_set.template["spec"], "podAffinity", near)
        _require(pod_set.template["spec"], "podAntiAffinity", apart)


def _exclusive_terms(key: str, label: str, value: str) -> tuple[Json, Json]:
    mine = {"key": label, "operator": "In", "values": [value]}
    others = [{"key": label, "operator": "Exists"}, {"key": label, "operator": "NotIn", "values": [value]}]
    case = {"key": "case", "operator": "In", "values": [ID]}
    everywhere: Json = {"topologyKey": key, "namespaceSelector": {}}
    near = {**everywhere, "labelSelector": {"matchExpressions": [case, mine]}}
    apart = {**everywhere, "labelSelector": {"matchExpressions": [case, *others]}}
    return near, apart


def spread(draft: Draft) -> None:
    """Hard constraints over a zone, rack or host; others' pods count."""
    rng = draft.rng
    run_apps(draft)
    _drop_places(draft)
    for pod_set in draft.sets:
        _label(draft, pod_set.template)
    pod_set = draft.sets[0]
    constraints = [_constraint(draft) for _ in range(rng.choice((1, 1, 1, 2)))]
    unique = {constraint["topologyKey"]: constraint for constraint in constraints}
    pod_set.template["spec"]["topologySpreadConstraints"] = list(unique.values())
    if draft.chance(40):
        draft.taint(draft.name_of_node(), {"key": "dedicated", "effect": rng.choice(("NoSchedule", "NoExecute"))})
    if draft.chance(25):
        pod_set.template["spec"]["nodeSelector"][ZONE] = f"z{rng.randrange(2)}"


def _constraint(draft: Draft) -> Json:
    rng = draft.rng
    own = {"matchLabels": {"role": f"worker-{ID}"}}
    constraint: Json = {
        "maxSkew": rng.choice((1, 1, 2)),
        "topologyKey": rng.choice((ZONE, RACK, HOSTNAME)),
        "whenUnsatisfiable": "DoNotSchedule",
    }
    selector = rng.choice((*[own] * 7, _selector(draft), _selector(draft), {}))
    if selector is not None:
        constraint["labelSelector"] = selector
    if draft.chance(20):
        constraint["minDomains"] = rng.randrange(1, 4)
    if draft.chance(30) and constraint["topologyKey"] != HOSTNAME:  # hosts of all cases would be domains
        constraint["nodeAffinityPolicy"] = "Ignore"
    if draft.chance(30):
        constraint["nodeTaintsPolicy"] = "Honor"
    if selector is not None and "role" not in str(selector) and draft.chance(20):
        constraint["matchLabelKeys"] = ["role"]
    return constraint
