package observe

import (
	"crypto/sha1" //nolint:gosec // as JobSet names a Job
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/plan"
)

// TestDatasets: a pod is expected where a dataset of its annotation, or of Fluid's claim, is cached.
// Labels are those of Fluid 1.0.8: fluid.io/s-<namespace>-<name>, and a claim of the dataset's name.
func TestDatasets(t *testing.T) {
	annotated := func(text string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{"gpuscale.io/datasets": text} }
	}
	mounting := func(claim string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		}
	}
	for what, c := range map[string]struct {
		label, value string
		pod          func(*corev1.Pod)
		has          bool
	}{
		"our label":                        {"dataset.gpuscale.io/books", "true", annotated("films, books"), true},
		"our label, false":                 {"dataset.gpuscale.io/books", "false", annotated("books"), false},
		"another dataset":                  {"dataset.gpuscale.io/books", "true", annotated("films"), false},
		"Fluid's label, by annotation":     {"fluid.io/s-chat-books", "true", annotated("books"), true},
		"Fluid's label, by claim":          {"fluid.io/s-chat-books", "true", mounting("books"), true},
		"Fluid's label, another namespace": {"fluid.io/s-search-books", "true", mounting("books"), false},
		"Fluid's amount":                   {"fluid.io/s-h-alluxio-m-chat-books", "20GiB", mounting("books"), false},
		"no annotation":                    {"dataset.gpuscale.io/books", "true", func(*corev1.Pod) {}, false},
	} {
		p := stuckPod("a", amount("nvidia.com/gpu", 1))
		c.pod(p)
		// n is free, and preferred where data decides: the other has less free capacity.
		n, tight := bare("n", amount("nvidia.com/gpu", 2)), bare("a-tight", amount("nvidia.com/gpu", 2))
		n.Labels[c.label] = c.value
		claim := &corev1.PersistentVolumeClaim{}
		claim.Namespace, claim.Name, claim.Spec.VolumeName = "chat", "books", "v"
		volume := &corev1.PersistentVolume{}
		volume.Name = "v"
		w := newWorld(t, poolOf("NVIDIA-L40S", 2), n, tight, pod("b", "a-tight", amount("nvidia.com/gpu", 1)), p, claim, volume)
		made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
		want := "fits on a-tight"
		if c.has {
			want = "fits on n, which has " + c.label
		}
		i := slices.IndexFunc(made.Verdicts, func(v plan.Verdict) bool { return v.Subject == "chat/a" })
		if i < 0 || made.Verdicts[i].Detail != want {
			t.Errorf("%s: want %q\n%s", what, want, made)
		}
	}
}

// TestOtherResourcesFromZero: what a template states beside GPUs starts a pool from zero nodes, huge pages
// too; a pod that requests what no template states gets none.
func TestOtherResourcesFromZero(t *testing.T) {
	requests := amount("nvidia.com/gpu", 1)
	requests["rdma/hca"], requests["hugepages-2Mi"] = resource.MustParse("2"), resource.MustParse("1Gi")
	for what, c := range map[string]struct {
		template corev1.ResourceList
		scaledUp int
		want     plan.Reason
		lacks    string
	}{
		"stated":        {corev1.ResourceList{"rdma/hca": resource.MustParse("4"), "hugepages-2Mi": resource.MustParse("16Gi")}, 1, plan.WaitUpcomingNode, ""},
		"no huge pages": {corev1.ResourceList{"rdma/hca": resource.MustParse("4")}, 0, plan.NoPoolFits, "its nodes offer no hugepages-2Mi"},
		"too few":       {corev1.ResourceList{"rdma/hca": resource.MustParse("1"), "hugepages-2Mi": resource.MustParse("16Gi")}, 0, plan.NoPoolFits, "too few rdma/hca"},
		"none":          {nil, 0, plan.NoPoolFits, "its nodes offer no hugepages-2Mi"},
	} {
		p := poolOf("NVIDIA-L40S", 2)
		p.Spec.Template.Resources = c.template
		w := newWorld(t, []client.Object{p, stuckPod("a", requests)}...)
		if got := w.verdictOn("a", 0, c.scaledUp); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
		if text := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy()).String(); !strings.Contains(text, c.lacks) {
			t.Errorf("%s: want %q\n%s", what, c.lacks, text)
		}
	}
	for name, want := range map[corev1.ResourceName]string{
		"nvidia.com/gpu": "nvidia.com/gpu is stated by the template's other fields", "aliyun.com/gpu-mem": "aliyun.com/gpu-mem is stated by",
		"cpu": "cpu is stated by", "amd.com/cpx_nps4": "amd.com/cpx_nps4 is stated by",
	} {
		p := poolOf("NVIDIA-L40S", 2)
		p.Spec.Template.Resources = corev1.ResourceList{name: resource.MustParse("1")}
		if err := newWorld(t, p).at(0).Invalid["p"]; err == nil || !strings.Contains(err.Error(), "spec.template.resources: "+want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	negative := poolOf("NVIDIA-L40S", 2)
	negative.Spec.Template.Resources = corev1.ResourceList{"rdma/hca": resource.MustParse("-1")}
	if err := newWorld(t, negative).at(0).Invalid["p"]; err == nil || !strings.Contains(err.Error(), "no node has -1 of rdma/hca") {
		t.Errorf("negative: %v", err)
	}
}

// TestExclusiveJobs: the pods of a Job that JobSet (0.12) has not created yet belong to the same place as its
// first pod, to which its webhook has given this affinity: the rack that holds both is used, not the tighter one.
func TestExclusiveJobs(t *testing.T) {
	text := `apiVersion: v1
kind: Namespace
metadata: {name: chat}
---
apiVersion: v1
kind: Pod
metadata:
  name: train-workers-0-0
  labels: {jobset.sigs.k8s.io/jobset-name: train, jobset.sigs.k8s.io/replicatedjob-name: workers, jobset.sigs.k8s.io/job-index: "0", jobset.sigs.k8s.io/job-key: KEY}
spec:
  tolerations: [{operator: Exists}]
  containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: rack, namespaceSelector: {}, labelSelector: {matchExpressions: [{key: jobset.sigs.k8s.io/job-key, operator: In, values: [KEY]}]}}
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: rack
        namespaceSelector: {}
        labelSelector: {matchExpressions: [{key: jobset.sigs.k8s.io/job-key, operator: Exists}, {key: jobset.sigs.k8s.io/job-key, operator: NotIn, values: [KEY]}]}`
	sum := sha1.Sum([]byte("chat/train-workers-0")) //nolint:gosec // as JobSet names a Job
	objects := manifests(t, strings.ReplaceAll(text, "KEY", hex.EncodeToString(sum[:])))
	objects[1].SetNamespace("chat")
	for _, name := range []string{"a-1", "b-1", "b-2"} {
		n := bare(name, amount("nvidia.com/gpu", 2))
		n.Labels["rack"] = name[:1]
		objects = append(objects, n)
	}
	w := newWorld(t, append(objects, poolOf("NVIDIA-L40S", 2))...)
	w.neighbour(foreign.JobSet, `
metadata: {namespace: chat, name: train, annotations: {alpha.jobset.sigs.k8s.io/exclusive-topology: rack}}
spec:
  replicatedJobs:
  - name: workers
    replicas: 1
    template: {spec: {parallelism: 2, completions: 2, template: {spec: {tolerations: [{operator: Exists}], containers: [{name: c, resources: {limits: {nvidia.com/gpu: 2}}}]}}}}`)
	made := plan.Make(w.at(0).Snapshot, plan.DefaultPolicy())
	i := slices.IndexFunc(made.Verdicts, func(v plan.Verdict) bool { return v.Kind == plan.KindGang })
	if i < 0 || made.Verdicts[i].Detail != "2 of 2: 2 WaitScheduler; in rack=b" || slices.ContainsFunc(made.Actions, func(a plan.Action) bool { return a.Verb == plan.ScaleUp }) {
		t.Errorf("want both in rack b\n%s", made)
	}
}
