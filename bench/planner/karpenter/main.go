// Command karpenter answers, for each problem on its standard input, what Karpenter's own provisioning scheduler would launch.
//
// One JSON problem a line (bench/planner/problems.py says what it holds), one JSON answer a line. The pods of all gangs are one
// batch, as pending pods are to Karpenter. What a loop of its scheduler launches takes the cheapest offering that is left to the
// claim; while reserved capacity alone held pods back, another loop follows, as its controller would run one.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/cloudprovider/fake"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	reqs "sigs.k8s.io/karpenter/pkg/scheduling"
)

const (
	pool           = "pool"
	reservationKey = "corral.dev/reservation"
	offeringKey    = "corral.dev/offering"
	microDollars   = 1e6
	// The limit that Karpenter's provisioner sets on one Solve.
	solveLimit = time.Minute
)

type problem struct {
	Nodes  []node     `json:"nodes"`
	Shapes []shape    `json:"shapes"`
	Offers []offering `json:"offerings"`
	Gangs  []gang     `json:"gangs"`
}

type node struct {
	Name        string              `json:"name"`
	Labels      map[string]string   `json:"labels"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	Requested   corev1.ResourceList `json:"requested"`
}

type shape struct {
	Name        string              `json:"name"`
	Labels      map[string]string   `json:"labels"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

type offering struct {
	Name         string `json:"name"`
	Shape        string `json:"shape"`
	Zone         string `json:"zone"`
	CapacityType string `json:"capacityType"`
	Available    int    `json:"available"`
	Price        int64  `json:"price"`
}

type gang struct {
	Name    string   `json:"name"`
	PodSets []podSet `json:"podSets"`
}

type podSet struct {
	Name         string              `json:"name"`
	Count        int                 `json:"count"`
	Requests     corev1.ResourceList `json:"requests"`
	NodeSelector map[string]string   `json:"nodeSelector"`
}

type answer struct {
	Feasible bool           `json:"feasible"`
	Reason   string         `json:"reason,omitempty"`
	Unplaced map[string]int `json:"unplaced"` // by gang
	New      map[string]int `json:"new"`      // nodes by offering
	Used     int            `json:"used"`     // nodes that are there and got a pod
	Cost     int64          `json:"cost"`     // micro-dollars an hour
	Loops    int            `json:"loops"`
	SetupNs  int64          `json:"setupNs"`
	Ns       int64          `json:"ns"`
}

func main() {
	log.SetLogger(logr.Discard())
	v1.WellKnownLabels.Insert(reservationKey, offeringKey)
	cloudprovider.ReservationIDLabel = reservationKey
	ctx := options.ToContext(context.Background(), defaults())
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(os.Stdout)
	for decoder.More() {
		var asked problem
		if err := decoder.Decode(&asked); err != nil {
			fail(err)
		}
		solved, err := solve(ctx, asked)
		if err != nil {
			fail(err)
		}
		if err := encoder.Encode(solved); err != nil {
			fail(err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func defaults() *options.Options {
	return &options.Options{
		CPURequests:       2000,
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true},
	}
}

// run is one problem on its way: what is left of the offerings and which pods still wait.
type run struct {
	problem problem
	left    map[string]int
	waiting map[types.UID]*corev1.Pod
	order   []types.UID
	placed  map[types.UID]string // pod to node that is there
	answer  answer
}

func solve(ctx context.Context, asked problem) (answer, error) {
	r := &run{problem: asked, left: map[string]int{}, waiting: map[types.UID]*corev1.Pod{}, placed: map[types.UID]string{}}
	r.answer = answer{New: map[string]int{}, Unplaced: map[string]int{}}
	for _, each := range asked.Offers {
		r.left[each.Name] = each.Available
	}
	for _, pod := range pods(asked.Gangs) {
		r.waiting[pod.UID] = pod
		r.order = append(r.order, pod.UID)
	}
	for progress := true; progress && len(r.waiting) > 0; {
		var err error
		if progress, err = r.loop(ctx); err != nil {
			return r.answer, err
		}
	}
	for _, pod := range r.waiting {
		r.answer.Unplaced[pod.Labels["gang"]]++
	}
	r.answer.Feasible = len(r.waiting) == 0
	return r.answer, nil
}

// loop runs Karpenter's scheduler once; it tells whether another loop could place more.
func (r *run) loop(ctx context.Context) (bool, error) {
	started := time.Now()
	clk, kube, provider := clock.RealClock{}, emptyCluster(), fake.NewCloudProvider()
	cluster := state.NewCluster(clk, kube, provider)
	if err := r.fill(ctx, cluster); err != nil {
		return false, err
	}
	kinds := r.instanceTypes()
	claims := nodePool()
	batch := r.batch()
	r.answer.SetupNs += time.Since(started).Nanoseconds()

	started = time.Now()
	nodes := cluster.DeepCopyNodes()
	byPool := map[string][]*cloudprovider.InstanceType{pool: kinds}
	settings := []scheduling.Options{
		scheduling.DisableReservedCapacityFallback,
		scheduling.NumConcurrentReconciles(2),
		scheduling.MinValuesPolicy(options.MinValuesPolicyStrict),
	}
	topology, err := scheduling.NewTopology(ctx, kube, cluster, nodes, []*v1.NodePool{claims}, byPool, batch, settings...)
	if err != nil {
		return false, err
	}
	recorder := events.NewRecorder(&record.FakeRecorder{})
	scheduler := scheduling.NewScheduler(ctx, kube, []*v1.NodePool{claims}, cluster, nodes, topology, byPool, nil, recorder, clk, nil, nil, settings...)
	limited, cancel := context.WithTimeout(ctx, solveLimit)
	defer cancel()
	results, err := scheduler.Solve(limited, batch)
	r.answer.Ns += time.Since(started).Nanoseconds()
	r.answer.Loops++
	if err != nil {
		r.answer.Reason = err.Error()
		return false, nil
	}
	return r.apply(results)
}

// apply launches what the scheduler decided and keeps what is still waiting.
func (r *run) apply(results scheduling.Results) (bool, error) {
	before, held := len(r.waiting), false
	for _, existing := range results.ExistingNodes {
		for _, pod := range existing.Pods {
			r.placed[pod.UID] = existing.Name()
			delete(r.waiting, pod.UID)
		}
		if len(existing.Pods) > 0 {
			r.answer.Used++
		}
	}
	for _, claim := range results.NewNodeClaims {
		r.launch(claim)
	}
	for _, err := range results.PodErrors {
		held = held || scheduling.IsReservedOfferingError(err)
		r.answer.Reason = err.Error()
	}
	if len(r.waiting) == 0 {
		r.answer.Reason = ""
	}
	return len(r.waiting) < before && (held || len(results.PodErrors) == 0), nil
}

// launch takes the cheapest offering left that suits the claim, as a cloud provider does; without one the pods keep waiting.
func (r *run) launch(claim *scheduling.NodeClaim) {
	best, cheapest := "", int64(math.MaxInt64)
	for _, kind := range claim.InstanceTypeOptions {
		for _, offered := range kind.Offerings.Available().Compatible(claim.Requirements) {
			name := offered.Requirements.Get(offeringKey).Any()
			price := int64(math.Round(offered.Price * microDollars))
			if r.left[name] > 0 && (price < cheapest || price == cheapest && name < best) {
				best, cheapest = name, price
			}
		}
	}
	if best == "" {
		return
	}
	r.left[best]--
	r.answer.New[best]++
	r.answer.Cost += cheapest
	for _, pod := range claim.Pods {
		delete(r.waiting, pod.UID)
	}
}

// emptyCluster is the client of a cluster without objects, with the index that Karpenter's operator makes.
func emptyCluster() client.Client {
	byNode := func(object client.Object) []string { return []string{object.(*corev1.Pod).Spec.NodeName} }
	return fakeclient.NewClientBuilder().WithIndex(&corev1.Pod{}, "spec.nodeName", byNode).Build()
}

func (r *run) batch() []*corev1.Pod {
	var batch []*corev1.Pod
	for _, uid := range r.order {
		if pod := r.waiting[uid]; pod != nil {
			batch = append(batch, pod)
		}
	}
	return batch
}

// fill tells the cluster state of the nodes, of one pod each that asks for all that is taken, and of those placed so far.
func (r *run) fill(ctx context.Context, cluster *state.Cluster) error {
	for _, each := range r.problem.Nodes {
		labels := with(each.Labels, corev1.LabelHostname, each.Name)
		there := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: each.Name, Labels: labels},
			Spec:       corev1.NodeSpec{ProviderID: "bench:///" + each.Name},
			Status: corev1.NodeStatus{
				Capacity: each.Allocatable, Allocatable: each.Allocatable,
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			},
		}
		if err := cluster.UpdateNode(ctx, there); err != nil {
			return err
		}
		if len(each.Requested) > 0 {
			if err := cluster.UpdatePod(ctx, running("taken-"+each.Name, each.Name, each.Requested)); err != nil {
				return err
			}
		}
	}
	for _, pod := range pods(r.problem.Gangs) {
		if host := r.placed[pod.UID]; host != "" {
			if err := cluster.UpdatePod(ctx, running(pod.Name, host, pod.Spec.Containers[0].Resources.Requests)); err != nil {
				return err
			}
		}
	}
	return nil
}

func running(name, host string, requests corev1.ResourceList) *corev1.Pod {
	pod := podOf(name, "taken", requests, nil)
	pod.Spec.NodeName = host
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func (r *run) instanceTypes() []*cloudprovider.InstanceType {
	byShape := map[string]cloudprovider.Offerings{}
	for _, each := range r.problem.Offers {
		labels := map[string]string{
			corev1.LabelTopologyZone: each.Zone, v1.CapacityTypeLabelKey: each.CapacityType, offeringKey: each.Name,
		}
		if each.CapacityType == v1.CapacityTypeReserved {
			labels[reservationKey] = each.Name
		}
		byShape[each.Shape] = append(byShape[each.Shape], &cloudprovider.Offering{
			Requirements:        reqs.NewLabelRequirements(labels),
			Price:               float64(each.Price) / microDollars,
			Available:           r.left[each.Name] > 0,
			ReservationCapacity: r.left[each.Name],
		})
	}
	var kinds []*cloudprovider.InstanceType
	for _, each := range r.problem.Shapes {
		kinds = append(kinds, instanceType(each, byShape[each.Name]))
	}
	return kinds
}

func instanceType(kind shape, offers cloudprovider.Offerings) *cloudprovider.InstanceType {
	var zones, capacityTypes []string
	for _, each := range offers {
		zones, capacityTypes = append(zones, each.Zone()), append(capacityTypes, each.CapacityType())
	}
	requirements := reqs.NewRequirements(
		reqs.NewRequirement(corev1.LabelInstanceTypeStable, corev1.NodeSelectorOpIn, kind.Name),
		reqs.NewRequirement(corev1.LabelArchStable, corev1.NodeSelectorOpIn, "amd64"),
		reqs.NewRequirement(corev1.LabelOSStable, corev1.NodeSelectorOpIn, string(corev1.Linux)),
		reqs.NewRequirement(corev1.LabelTopologyZone, corev1.NodeSelectorOpIn, zones...),
		reqs.NewRequirement(v1.CapacityTypeLabelKey, corev1.NodeSelectorOpIn, capacityTypes...),
	)
	for key, value := range kind.Labels {
		v1.WellKnownLabels.Insert(key)
		requirements.Add(reqs.NewRequirement(key, corev1.NodeSelectorOpIn, value))
	}
	return &cloudprovider.InstanceType{
		Name: kind.Name, Requirements: requirements, Offerings: offers, Capacity: kind.Allocatable,
		Overhead: &cloudprovider.InstanceTypeOverhead{},
	}
}

func nodePool() *v1.NodePool {
	return &v1.NodePool{
		ObjectMeta: metav1.ObjectMeta{Name: pool, UID: pool},
		Spec: v1.NodePoolSpec{Template: v1.NodeClaimTemplate{Spec: v1.NodeClaimTemplateSpec{
			NodeClassRef: &v1.NodeClassReference{Group: "karpenter.test.sh", Kind: "TestNodeClass", Name: "default"},
		}}},
	}
}

func pods(gangs []gang) []*corev1.Pod {
	var all []*corev1.Pod
	for _, each := range gangs {
		for _, set := range each.PodSets {
			for i := range set.Count {
				pod := podOf(fmt.Sprintf("%s-%s-%d", each.Name, set.Name, i), each.Name, set.Requests, set.NodeSelector)
				all = append(all, pod)
			}
		}
	}
	return all
}

func podOf(name, gang string, requests corev1.ResourceList, selector map[string]string) *corev1.Pod {
	wanted := corev1.ResourceList{}
	for key, amount := range requests {
		if key != corev1.ResourcePods {
			wanted[key] = amount
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{"gang": gang},
			CreationTimestamp: metav1.Unix(0, 0),
		},
		Spec: corev1.PodSpec{
			NodeSelector: selector,
			Containers:   []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: wanted}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
}

func with(labels map[string]string, key, value string) map[string]string {
	merged := map[string]string{key: value}
	for name, text := range labels {
		merged[name] = text
	}
	return merged
}
