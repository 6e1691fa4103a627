package world

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/sandbox/build"
	"github.com/gpuscale/gpuscale/sandbox/cluster"
	"github.com/gpuscale/gpuscale/sandbox/e2e"
	"github.com/gpuscale/gpuscale/sandbox/story"
	"github.com/gpuscale/gpuscale/sandbox/world/model"
	"github.com/gpuscale/gpuscale/sandbox/world/node"
	"github.com/gpuscale/gpuscale/sandbox/world/trace"
)

func demo(t *testing.T) story.Story {
	t.Helper()
	s, err := story.Parse(e2e.Demo())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestNodesLayoutIsThatOfTheirMIGConfig(t *testing.T) {
	s := demo(t)
	l := migLayout(s.Pools[0].GPUs, s.Nodes[0].Layout)
	want := map[string]int64{"nvidia.com/mig-3g.40gb": 2, "nvidia.com/mig-1g.10gb": 7}
	for r, n := range want {
		if got := l.Resources()[r]; got != n {
			t.Errorf("%s: %d, want %d", r, got, n)
		}
	}
	n := nodeObject("a", s.Pools[0], l.Name())
	if n.Labels[contract.ConfigLabel] != l.Name() || len(n.Annotations) != 0 {
		t.Errorf("labels %v, annotations %v: the machine adds KWOK's itself", n.Labels, n.Annotations)
	}
	for r := range n.Status.Allocatable {
		if r == "nvidia.com/gpu" {
			t.Error("a node has devices before its plugin has looked")
		}
	}
}

func TestObjectsMatchTheStory(t *testing.T) {
	s := demo(t)
	p := poolObject(s.Pools[0])
	if p.Spec.Min != 2 || p.Spec.Max != 4 || p.Spec.Provider.ExternalGRPC.NodeGroup != s.Pools[0].Name || p.Spec.MIG.BootLayout[0]["3g.40gb"] != 2 || p.Spec.PricePerHour.String() != "9840m" {
		t.Errorf("pool %+v", p.Spec)
	}
	if poolObject(s.Pools[1]).Spec.MIG != nil {
		t.Error("a pool without MIG has MIG rules")
	}
	for _, w := range s.Workloads {
		d := deployment(w)
		q := d.Spec.Template.Spec.Containers[0].Resources.Limits[corev1.ResourceName(w.Resource)]
		if q.Value() != int64(w.Count) || *d.Spec.Replicas != int32(w.Replicas) {
			t.Errorf("%s/%s: asks %v", w.Namespace, w.Name, q.Value())
		}
	}
	h := hpa(s.HPAs[0])
	m := h.Spec.Metrics[0].Object
	if m.Metric.Name != "queue_depth" || m.DescribedObject.Kind != "Deployment" || m.Target.AverageValue.Value() != 8 || h.Spec.MaxReplicas != 10 {
		t.Errorf("hpa %+v", h.Spec)
	}
}

func TestManifestsAreAdaptedToTheLoopback(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.yaml")
	text := "kind: Deployment\napiVersion: apps/v1\n---\n# nothing\n---\nkind: Service\napiVersion: v1\nspec: {ports: [{port: 443}]}\n---\n" +
		"kind: APIService\napiVersion: apiregistration.k8s.io/v1\nspec: {insecureSkipTLSVerify: true, service: {name: a, namespace: b, port: 443}}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := readManifest(file)
	if err != nil || len(objects) != 3 {
		t.Fatalf("%d objects, %v", len(objects), err)
	}
	a := aggregated{port: 1234, caBundle: []byte("ca")}
	if adapt(objects[0], a) {
		t.Error("a Deployment is created: programs are processes here")
	}
	if !adapt(objects[1], a) || objects[1].Object["spec"].(map[string]any)["externalName"] != "localhost" {
		t.Errorf("service %v", objects[1].Object)
	}
	if !adapt(objects[2], a) {
		t.Fatal("the APIService is dropped")
	}
	got, _ := json.Marshal(objects[2].Object["spec"])
	want := `{"caBundle":"Y2E=","service":{"name":"a","namespace":"b","port":1234}}`
	if string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestRepositoryManifestsCanBeRead(t *testing.T) {
	root, err := build.FindRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"deploy/chart/gpuscale/files/crds", "deploy/manifests"} {
		files, _ := filepath.Glob(filepath.Join(root, folder, "*.yaml"))
		for _, f := range files {
			if _, err := readManifest(f); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestTargetsAreWrittenOnlyWhenTheyChange(t *testing.T) {
	w := targets{dir: t.TempDir()}
	one := []cluster.TargetGroup{{Targets: []string{"127.0.0.1:1"}, Labels: map[string]string{"job": "x"}}}
	if err := w.write(one); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(w.dir, targetsFile)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := w.write([]cluster.TargetGroup{{Targets: []string{"127.0.0.1:1"}, Labels: map[string]string{"job": "x"}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the same list was written twice")
	}
	if err := w.write(nil); err != nil {
		t.Fatal(err)
	}
	if text, _ := os.ReadFile(path); string(text) != "[]" {
		t.Errorf("no targets is written as %q", text)
	}
}

func TestServersFollowTheirPods(t *testing.T) {
	s := demo(t)
	now := time.Unix(0, 0)
	g := model.NewGateway(model.Chat13B(), 20, func() time.Time { return now })
	p, err := newPages(slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop()
	srv := newServers(s, g, p, slog.New(slog.DiscardHandler))
	product := func(string) string { return "NVIDIA-H100-80GB-HBM3" }
	pod := func(uid string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "chat", Name: "vllm-1-a", UID: types.UID(uid), Labels: map[string]string{appLabel: "vllm"}},
			Spec:       corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning},
		}
	}
	pending := pod("1")
	pending.Status.Phase = corev1.PodPending
	srv.sync([]*corev1.Pod{pending}, product)
	if len(srv.running()) != 0 {
		t.Error("a pending pod serves")
	}
	srv.sync([]*corev1.Pod{pod("1")}, product)
	if len(srv.running()) != 1 {
		t.Fatal("a running pod does not serve")
	}
	if err := g.Play(trace.Trace{Requests: make([]trace.Request, 0)}); err != nil {
		t.Fatal(err)
	}
	allocated := []node.Holding{
		{Namespace: "chat", Pod: "vllm-1-a", UID: "1", ID: "MIG-1"},
		{Namespace: "search", Pod: "embed-5-b", UID: "2", ID: "MIG-2"},
		{Namespace: "other", Pod: "x", UID: "3", ID: "MIG-3"},
	}
	now = now.Add(10 * time.Second)
	l := srv.loads(allocated, now)
	if l["MIG-1"].MemoryBytes < 30<<30 || l["MIG-2"].Busy != 0.3 || l["MIG-3"].Busy != 0 {
		t.Errorf("loads %+v", l)
	}
	srv.sync([]*corev1.Pod{pod("other")}, product) // the same name, another pod
	if got, _ := g.Load("chat/vllm-1-a"); got.Ready {
		t.Error("the new pod's model is loaded at once")
	}
	srv.sync(nil, product)
	if _, ok := g.Load("chat/vllm-1-a"); ok || len(srv.running()) != 0 {
		t.Error("a server outlives its pod")
	}
}

func TestSliceOf(t *testing.T) {
	got, err := sliceOf("NVIDIA-H100-80GB-HBM3", "nvidia.com/mig-3g.40gb", 1)
	if err != nil || got.Compute != 3 || got.GPUCompute != 7 || got.Memory != 4 || got.GPUMemory != 8 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := sliceOf("NVIDIA-L40S", "nvidia.com/mig-3g.40gb", 1); err == nil {
		t.Error("an L40S has instances")
	}
	if got, err := sliceOf("NVIDIA-L40S", "nvidia.com/gpu", 1); err != nil || got.Bytes < 40<<30 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestOwnedBy(t *testing.T) {
	for pod, want := range map[string]bool{"embed-1-2": true, "embed": false, "embedded-1": false, "embed-": false} {
		if got := ownedBy(pod, "embed"); got != want {
			t.Errorf("%s: %v", pod, got)
		}
	}
}

func TestPrometheusAsksTheAdapterProperly(t *testing.T) {
	type job struct {
		Name   string `json:"job_name"`
		Scheme string `json:"scheme"`
		TLS    struct {
			CA   string `json:"ca_file"`
			Name string `json:"server_name"`
			Skip bool   `json:"insecure_skip_verify"`
		} `json:"tls_config"`
		Authorization struct {
			File string `json:"credentials_file"`
		} `json:"authorization"`
	}
	var config struct {
		Jobs []job `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal(prometheusConfig("127.0.0.1:1234"), &config); err != nil || len(config.Jobs) != 2 {
		t.Fatalf("%+v, %v", config, err)
	}
	a := config.Jobs[1]
	if a.Name != jobAdapter || a.Scheme != "https" || a.TLS.CA == "" || a.TLS.Name != "gpuscale-adapter.gpuscale-system.svc" || a.TLS.Skip || a.Authorization.File == "" {
		t.Errorf("%+v", a)
	}
	config.Jobs = nil
	if err := yaml.Unmarshal(prometheusConfig(""), &config); err != nil || len(config.Jobs) != 1 {
		t.Errorf("before the adapter has an address: %+v, %v", config, err)
	}
}
