package pods

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/gpu/demand"
)

// TestAnnotated: a claim names the container and the device of the annotation.
func TestAnnotated(t *testing.T) {
	request := []string{"cpu", "nvidia.com/gpu"}
	p := &Pod{Namespace: "ns", Name: "p", Containers: []demand.Container{{Name: "main", Resources: request}, {Name: "side", Resources: request}, {Name: "init", Init: true, Resources: request}}, ended: []string{"init"}, Annotations: map[string]string{
		"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,30:;GPU-b,NVIDIA,1,1:x,y,z:", "hami.io/vgpu-devices-allocated": "GPU-c,NVIDIA,1,1:;;GPU-d,NVIDIA,1,1:;", // of init, main and side
		"hami.io/vgpu-mig-allocations": `[{"containerIndex":2,"deviceIndex":0,"migUUID":"MIG-d"}]`,
	}}
	claims, err := annotated(p)
	// A pod without a device claims another pod's GPU in its annotation.
	forged, _ := annotated(&Pod{Namespace: "evil", Name: "p", Containers: []demand.Container{{Name: "main", Resources: []string{"cpu"}}}, Annotations: map[string]string{"hami.io/vgpu-devices-allocated": "GPU-a,NVIDIA,4000,30:;"}})
	claims = append(claims, forged...)
	var got []string
	for _, c := range claims {
		got = append(got, strings.Join([]string{c.Allocation.Namespace, c.Allocation.Pod, c.Allocation.Container, c.DeviceID}, " "))
	}
	want := []string{"ns p side MIG-d", "ns p main GPU-a", "ns p side GPU-b"}
	if !slices.Equal(got, want) || err == nil {
		t.Errorf("%q, %v; want %q and an error", got, err, want)
	}
}

// The GPUs that are allocated to KAI's own pods belong to the pods that use them in parts.
func TestKAI(t *testing.T) {
	pod := func(namespace, name string, labels, annotations map[string]string) Pod {
		return Pod{Namespace: namespace, Name: name, Labels: labels, Annotations: annotations, Containers: []demand.Container{{Name: "main"}, {Name: "side"}}}
	}
	reserves := map[string]string{kaiReserves: "GPU-a"}
	ended := pod("ns", "ended", map[string]string{demand.KAIGroup: "g1"}, nil)
	ended.Over = true
	c, w := newCluster(Options{Annotations: true}), &world{}
	c.learnPods(w, []Pod{
		pod("kai", "reservation-1", map[string]string{demand.KAIGroup: "g1"}, reserves), pod("kai", "reservation-2", map[string]string{demand.KAIGroup: "g2"}, reserves),
		pod("kai", "unused", map[string]string{demand.KAIGroup: "g3"}, reserves), pod("ns", "whole", nil, nil), ended,
		pod("ns", "part", map[string]string{demand.KAIGroup: "g1"}, nil),
		pod("ns", "several", map[string]string{demand.KAIGroup + "/g1": "g1", demand.KAIGroup + "/g2": "g2"}, map[string]string{kaiContainer: "side"}),
	})
	var claims []Claim
	for name, id := range map[string]string{"kai reservation-1": "GPU-a", "kai reservation-2": "GPU-b", "kai unused": "GPU-c", "ns whole": "GPU-d"} {
		namespace, pod, _ := strings.Cut(name, " ")
		claims = append(claims, Claim{DeviceID: id, Allocation: collect.Allocation{Namespace: namespace, Pod: pod, Container: "main"}})
	}
	var got []string
	for _, c := range w.amend(claims) {
		got = append(got, c.DeviceID+" "+c.Allocation.Pod+" "+c.Allocation.Container)
	}
	want := []string{"GPU-a part main", "GPU-a several side", "GPU-b several side", "GPU-c unused main", "GPU-d whole main"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNodePods(t *testing.T) {
	var list corev1.PodList
	if err := json.Unmarshal([]byte(`{"items":[{"metadata":{"name":"p","namespace":"ns","uid":"u-1","labels":{"a":"b"}},
		"spec":{"containers":[{"name":"main","resources":{"limits":{"nvidia.com/gpu":"1"}}}],"initContainers":[{"name":"init"}]},
		"status":{"phase":"Running","initContainerStatuses":[{"name":"init","state":{"terminated":{"exitCode":0}}}],"containerStatuses":[{"name":"main","containerID":"containerd://abc"}]}},
		{"metadata":{"name":"static","namespace":"kube-system","uid":"u-2","annotations":{"kubernetes.io/config.hash":"0123"}},"status":{"phase":"Failed"}}]}`), &list); err != nil {
		t.Fatal(err)
	}
	pods := podsOf(&list)
	p, static := pods[0], pods[1]
	if p.UID != "u-1" || p.Labels["a"] != "b" || p.Over || len(p.Containers) != 2 ||
		p.names["abc"] != "main" || !slices.Equal(p.Containers[0].Resources, []string{"nvidia.com/gpu"}) || !p.Containers[1].Init || !slices.Equal(p.ended, []string{"init"}) {
		t.Errorf("%+v", p)
	}
	forged := Pod{Namespace: "evil", Name: "e", UID: "u-3", Annotations: map[string]string{cgroupHash: "u-1"}} // another's UID, and no hash
	w := &world{}
	newCluster(Options{}).learnPods(w, []Pod{p, static, forged})
	if !static.Over || w.byUID["0123"] == nil || w.byUID["0123"].Name != "static" || w.byUID["u-1"].Name != "p" {
		t.Errorf("%+v, %v", static, w.byUID)
	}
}
