package docs

import "regexp"

// substitutions fill in what the pages leave to the reader, by objects of
// testdata/world.yaml and of the chart, in this order.
var substitutions = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`hpa (?:NS|NAMESPACE)/NAME`), "hpa chat/vllm"},
	{regexp.MustCompile(`-n (?:NS|NAMESPACE) (.*)hpa NAME`), "-n chat ${1}hpa vllm"},
	{regexp.MustCompile(`pod (?:NS|NAMESPACE)/(?:NAME|POD)`), "pod chat/vllm-2"},
	{regexp.MustCompile(`-n (?:NS|NAMESPACE) (.*)\bPOD\b`), "-n chat ${1}vllm-2"},
	{regexp.MustCompile(`/(?:NS|NAMESPACE)/pods/\*/METRIC`), "/chat/pods/*/queue_depth"},
	{regexp.MustCompile(`\bNODE\b`), "gpu-1"},
	{regexp.MustCompile(`\bURL\b`), "http://localhost:9090"},
	{regexp.MustCompile(`--config FILE\b`), "--config config.yaml"},
	{regexp.MustCompile(`\bPOOL\b`), "h100"},
	{regexp.MustCompile(`-n gpuscale-system (logs|exec|describe pod|delete pod) POD\b`), `-n gpuscale-system $1 "$$(kubectl -n gpuscale-system get pod -l app.kubernetes.io/name=gpuscale-exporter -o jsonpath='{.items[0].metadata.name}')"`},
	// The program's place in the image; a container's root is not this machine's.
	{regexp.MustCompile(`( exec .* -- )/(gpuscale-[a-z]+)`), "${1}BIN/$2"},
	{regexp.MustCompile(`kubectl create token …`), "kubectl -n monitoring create token default"},
}

// files that readers are expected to have, beside those of docs/install.md and those
// that a page shows.
var files = map[string]string{
	"config.yaml":             "prometheus: {url: http://prometheus:9090}\n",
	"counters.csv":            "DCGM_FI_DEV_GPU_UTIL, gauge, GPU utilization (in %).\n",
	"prometheus-adapter.yaml": "rules: []\n",
	// A node of two cards and three pods for replay; the lists themselves are not ours.
	"openb_node_list_gpu_node.csv": "sn,cpu_milli,memory_mib,gpu,model\nnode-1,96000,786432,2,G2\n",
	"openb_pod_list_default.csv":   "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\na,1000,1024,1,500,\nb,1000,1024,1,1000,\nc,1000,1024,0,0,\n",
	"hpa.yaml": `apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {namespace: chat, name: vllm}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: vllm}
  maxReplicas: 3
  metrics:
  - {type: Pods, pods: {metric: {name: queue_depth}, target: {type: AverageValue, averageValue: "4"}}}
`,
}

// answer is what a command is expected to end with, where that is not 0.
type answer struct {
	page, text string // without a page: a pattern of commands in any
	status     int
	says       string // part of what is printed
	why        string
}

const (
	noCard   = "no card here, which the exporter says of it"
	noReport = "Prometheus is seconds old here; the report has tests of its own"
	noDoctor = "programs run beside their pods here, which doctor sees; sandbox/doctor has a cluster that is well"
)

var answers = []answer{
	{"", `^gpuscale-report doctor( --namespace gpuscale-system)? --prometheus http://localhost:9090$`, 4, "fault", noDoctor},
	{"docs/runbooks/GpuscalePlannerPanicked.md", "curl --fail http://localhost:9402/debug/panic", 22, "503", "the planner has not panicked"},
	{"docs/runbooks/GpuscaleConfigRejected.md", "gpuscale-exporter check --collectors counters.csv", 1, "counters  ok", noCard},
	{"docs/exporter.md", "gpuscale-exporter check -k", 1, "counters  ok", noCard},
	{"docs/migrate-from-dcgm-exporter.md", "kubectl -n gpuscale-system exec daemonset/gpuscale-exporter -- /gpuscale-exporter check -k", 1, "counters  ok", noCard},
	{"docs/runbooks/GpuscaleExporterSourceDown.md", "kubectl -n gpuscale-system exec POD -- /gpuscale-exporter check", 1, "counters  ok", noCard},
	{"docs/report.md", "gpuscale-report --prometheus http://localhost:9090 --since 30d > report.html", 1, "in the window", noReport},
}

const (
	noNetwork = "no network leads from the API server to a pod or node of KWOK's"
	notBuilt  = "there is no release to check or to build: internal/release has tests of its own"
	noRelease = "no chart of prometheus-adapter is installed: sandbox/e2e runs both programs side by side"
)

// unrun is what cannot be run, and why. Flags of our own programs are checked all
// the same.
var unrun = []struct{ page, text, why string }{
	{"docs/runbooks/GpuscaleAttributionFailing.md", "kubectl get --raw /api/v1/nodes/NODE/proxy/healthz", noNetwork},
	{"docs/runbooks/GpuscaleSeriesMissing.md", "kubectl get --raw /api/v1/namespaces/gpuscale-system/pods/POD:9400/proxy/metrics", noNetwork},
	{"docs/adapter.md", "gpuscale-adapter --config FILE             # serves", "it goes on; the bed runs it"},
	{"docs/releasing.md", "sha256sum --check --ignore-missing SHA256SUMS", notBuilt},
	{"docs/releasing.md", "git checkout COMMIT", notBuilt},
	{"docs/migrate-from-prometheus-adapter.md", "helm -n monitoring get values prometheus-adapter > prometheus-adapter-values.yaml", noRelease},
	{"docs/migrate-from-prometheus-adapter.md", "helm -n monitoring uninstall prometheus-adapter", noRelease},
}
