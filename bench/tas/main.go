// Command tas answers, for each JSON case on its standard input, where Kueue's own topology-aware scheduling puts the pods.
//
// A case is {"levels": [label keys], "nodes": [{"name", "labels", "allocatable"}], "podSets": [{"name", "count", "requests",
// "nodeSelector", "topologyRequest" (as in a Workload's spec.podSets)}]}; an answer is {"assigned": {pod set: {host: pods}},
// "failed": pod set, "reason": Kueue's words, "snapshotNs", "assignNs"}. One line in, one line out.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
)

const (
	flavor   = "flavor"
	queue    = "queue"
	topology = "topology"
	managed  = "tas-node"
)

type node struct {
	Name        string              `json:"name"`
	Labels      map[string]string   `json:"labels"`
	Allocatable corev1.ResourceList `json:"allocatable"`
}

type podSet struct {
	Name            kueue.PodSetReference        `json:"name"`
	Count           int32                        `json:"count"`
	Requests        corev1.ResourceList          `json:"requests"`
	NodeSelector    map[string]string            `json:"nodeSelector"`
	TopologyRequest *kueue.PodSetTopologyRequest `json:"topologyRequest"`
}

type problem struct {
	Levels  []string `json:"levels"`
	Nodes   []node   `json:"nodes"`
	PodSets []podSet `json:"podSets"`
}

type answer struct {
	Assigned   map[kueue.PodSetReference]map[string]int32 `json:"assigned"`
	Failed     kueue.PodSetReference                      `json:"failed,omitempty"`
	Reason     string                                     `json:"reason,omitempty"`
	SnapshotNs int64                                      `json:"snapshotNs"`
	AssignNs   int64                                      `json:"assignNs"`
}

// emptyCluster is the client of a cluster in which no workload runs yet.
type emptyCluster struct{ client.Client }

func (emptyCluster) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

func main() {
	log.SetLogger(logr.Discard())
	input := bufio.NewReaderSize(os.Stdin, 1<<20)
	output := bufio.NewWriter(os.Stdout)
	decoder, encoder := json.NewDecoder(input), json.NewEncoder(output)
	for decoder.More() {
		var given problem
		check(decoder.Decode(&given))
		check(encoder.Encode(solve(given)))
		check(output.Flush())
	}
}

func solve(given problem) answer {
	ctx := context.Background()
	cache := load(ctx, given)
	began := time.Now()
	snapshot, err := cache.Snapshot(ctx)
	check(err)
	took := time.Since(began)
	requests := asked(given.PodSets)
	began = time.Now()
	result := snapshot.ClusterQueue(queue).FindTopologyAssignmentsForWorkload(schdcache.WorkloadTASRequests{flavor: requests})
	found := answer{SnapshotNs: took.Nanoseconds(), AssignNs: time.Since(began).Nanoseconds()}
	if failure := result.Failure(); failure != nil {
		found.Failed, found.Reason = failure.PodSetName, failure.Reason
		return found
	}
	found.Assigned = make(map[kueue.PodSetReference]map[string]int32, len(result))
	for name, one := range result {
		found.Assigned[name] = make(map[string]int32)
		for _, domain := range one.TopologyAssignment.Domains {
			found.Assigned[name][domain.Values[len(domain.Values)-1]] += domain.Count
		}
	}
	return found
}

// load fills Kueue's scheduler cache with the case's nodes under one topology, flavor and queue.
func load(ctx context.Context, given problem) *schdcache.Cache {
	cache := schdcache.New(emptyCluster{})
	levels := make([]kueue.TopologyLevel, len(given.Levels))
	for i, key := range given.Levels {
		levels[i] = kueue.TopologyLevel{NodeLabel: key}
	}
	cache.AddOrUpdateTopology(logr.Discard(), &kueue.Topology{
		ObjectMeta: metav1.ObjectMeta{Name: topology}, Spec: kueue.TopologySpec{Levels: levels},
	})
	name := kueue.TopologyReference(topology)
	cache.AddOrUpdateResourceFlavor(logr.Discard(), &kueue.ResourceFlavor{
		ObjectMeta: metav1.ObjectMeta{Name: flavor},
		Spec:       kueue.ResourceFlavorSpec{NodeLabels: map[string]string{managed: "true"}, TopologyName: &name},
	})
	check(cache.AddClusterQueue(ctx, &kueue.ClusterQueue{
		ObjectMeta: metav1.ObjectMeta{Name: queue},
		Spec: kueue.ClusterQueueSpec{
			NamespaceSelector: &metav1.LabelSelector{},
			ResourceGroups: []kueue.ResourceGroup{{
				CoveredResources: []corev1.ResourceName{corev1.ResourceCPU},
				Flavors:          []kueue.FlavorQuotas{{Name: flavor, Resources: []kueue.ResourceQuota{{Name: corev1.ResourceCPU}}}},
			}},
		},
	}))
	for _, one := range given.Nodes {
		cache.TASCache().SyncNode(ready(one))
	}
	return cache
}

func ready(given node) *corev1.Node {
	labels := map[string]string{managed: "true"}
	for key, value := range given.Labels {
		labels[key] = value
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: given.Name, Labels: labels},
		Status: corev1.NodeStatus{
			Allocatable: given.Allocatable,
			Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// asked puts the pod sets as Kueue's flavor assigner does: implied (unconstrained) where no topology is requested.
func asked(podSets []podSet) schdcache.FlavorTASRequests {
	requests := make(schdcache.FlavorTASRequests, len(podSets))
	for i, one := range podSets {
		requests[i] = schdcache.TASPodSetRequests{
			PodSet: &kueue.PodSet{
				Name:            one.Name,
				Count:           one.Count,
				TopologyRequest: one.TopologyRequest,
				Template:        corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeSelector: one.NodeSelector}},
			},
			SinglePodRequests: resources.NewRequests(one.Requests),
			Count:             one.Count,
			Flavor:            flavor,
			Implied:           one.TopologyRequest == nil,
		}
		if one.TopologyRequest != nil {
			requests[i].PodSetGroupName = one.TopologyRequest.PodSetGroupName
		}
	}
	return requests
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
