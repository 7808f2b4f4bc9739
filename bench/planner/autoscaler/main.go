// Command autoscaler answers, for each problem on its standard input, what Cluster Autoscaler's check-capacity class would find.
//
// One JSON problem a line (bench/planner/problems.py says what it holds), one JSON answer a line. Gangs are checked one by one, each
// on what the ones before left, as a batch of ProvisioningRequests is: fork the cluster snapshot, let the simulator place all pods
// or stop at the first that fails, commit or revert. Settings are those of its command line by default.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"

	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/predicate"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/store"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/scheduling"
)

const predicateParallelism = 4

type problem struct {
	Nodes []node `json:"nodes"`
	Gangs []gang `json:"gangs"`
}

type node struct {
	Name        string              `json:"name"`
	Labels      map[string]string   `json:"labels"`
	Allocatable corev1.ResourceList `json:"allocatable"`
	Requested   corev1.ResourceList `json:"requested"`
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
	Gangs   []verdict `json:"gangs"`
	SetupNs int64     `json:"setupNs"` // objects and snapshot
}

type verdict struct {
	Feasible bool  `json:"feasible"`
	Placed   int   `json:"placed"`
	Ns       int64 `json:"ns"`
}

func main() {
	quiet()
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	decoder, encoder := json.NewDecoder(in), json.NewEncoder(os.Stdout)
	for decoder.More() {
		var asked problem
		check(decoder.Decode(&asked))
		solved, err := solve(asked)
		check(err)
		check(encoder.Encode(solved))
	}
}

func quiet() {
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	check(flags.Set("logtostderr", "false"))
	check(flags.Set("stderrthreshold", "FATAL"))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func solve(asked problem) (answer, error) {
	started := time.Now()
	snapshot, err := load(asked.Nodes)
	if err != nil {
		return answer{}, err
	}
	simulator := scheduling.NewHintingSimulator()
	found := answer{SetupNs: time.Since(started).Nanoseconds()}
	for _, each := range asked.Gangs {
		one, err := place(snapshot, simulator, pods(each))
		if err != nil {
			return found, err
		}
		found.Gangs = append(found.Gangs, one)
	}
	return found, nil
}

// place is one check of capacity; it leaves the snapshot with the pods placed if all could be.
func place(snapshot clustersnapshot.ClusterSnapshot, simulator *scheduling.HintingSimulator, pods []*corev1.Pod) (verdict, error) {
	started := time.Now()
	snapshot.Fork()
	result, err := simulator.TrySchedulePods(context.Background(), snapshot, pods, true, clustersnapshot.SchedulingOptions{})
	if err != nil {
		snapshot.Revert()
		return verdict{}, err
	}
	one := verdict{Feasible: len(result.Statuses) == len(pods), Placed: len(result.Statuses)}
	if one.Feasible {
		err = snapshot.Commit()
	} else {
		snapshot.Revert()
	}
	one.Ns = time.Since(started).Nanoseconds()
	return one, err
}

// load makes the snapshot, with one pod on each node that asks for all that is taken there.
func load(nodes []node) (clustersnapshot.ClusterSnapshot, error) {
	factory := informers.NewSharedInformerFactory(clientset.NewSimpleClientset(), 0)
	handle, err := framework.NewHandle(context.Background(), factory, nil, true, false)
	if err != nil {
		return nil, err
	}
	var there []*corev1.Node
	var running []*corev1.Pod
	for _, each := range nodes {
		there = append(there, nodeOf(each))
		if len(each.Requested) > 0 {
			pod := podOf("taken-"+each.Name, each.Requested, nil)
			pod.Spec.NodeName = each.Name
			running = append(running, pod)
		}
	}
	snapshot := predicate.NewPredicateSnapshot(store.NewDeltaSnapshotStore(), handle, true, predicateParallelism, false, 0)
	return snapshot, snapshot.SetClusterState(there, running, nil, nil)
}

func nodeOf(each node) *corev1.Node {
	labels := map[string]string{corev1.LabelHostname: each.Name}
	for key, value := range each.Labels {
		labels[key] = value
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: each.Name, UID: types.UID(each.Name), Labels: labels},
		Status: corev1.NodeStatus{
			Capacity: each.Allocatable, Allocatable: each.Allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
		},
	}
}

// pods of one gang have one controller, as those that are injected for a ProvisioningRequest do.
func pods(each gang) []*corev1.Pod {
	var all []*corev1.Pod
	controls := true
	for _, set := range each.PodSets {
		for i := range set.Count {
			pod := podOf(fmt.Sprintf("%s-%s-%d", each.Name, set.Name, i), set.Requests, set.NodeSelector)
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: "autoscaling.x-k8s.io/v1", Kind: "ProvisioningRequest", Name: each.Name, UID: types.UID(each.Name), Controller: &controls,
			}}
			all = append(all, pod)
		}
	}
	return all
}

func podOf(name string, requests corev1.ResourceList, selector map[string]string) *corev1.Pod {
	wanted := corev1.ResourceList{}
	for key, amount := range requests {
		if key != corev1.ResourcePods {
			wanted[key] = amount
		}
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)},
		Spec: corev1.PodSpec{
			SchedulerName: corev1.DefaultSchedulerName,
			NodeSelector:  selector,
			Containers:    []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: wanted}}},
		},
	}
}
