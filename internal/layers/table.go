package layers

// module is the path every package of gpuscale begins with.
const module = "github.com/gpuscale/gpuscale/"

// Layer says what the packages at or below a folder may import.
type Layer struct {
	// Path of the folder inside the module.
	Path string
	// Ours packages that may be imported, transitively: folder prefixes.
	Ours []string
	// Outside modules or packages that may be imported directly: prefixes.
	// "*" allows any.
	Outside []string
	// Why, printed when the rule is broken.
	Why string
}

// ground is what every layer above it may use.
var ground = []string{"gpu"}

// middle is what the programs that decide or explain may use.
var middle = []string{"gpu", "plan"}

var plumbing = []string{"internal/kube", "internal/prom", "internal/promflags", "internal/serve", "internal/buildinfo", "internal/command", "internal/strict", "internal/text"}

// Table lists the layers. The longest matching Path rules a package. A package
// that no row matches fails the test: a new package needs a row.
var Table = []Layer{
	{Path: "gpu", Why: "what things are: standard library only"},
	{Path: "gpu/mig", Ours: []string{"gpu"}, Why: "slices and layouts need the model of a GPU, nothing else"},
	{Path: "gpu/demand", Ours: []string{"gpu"}, Why: "dialects work on plain name → amount lists"},
	{Path: "gpu/quota", Why: "quota arithmetic is arithmetic"},
	{Path: "gpu/sample", Why: "a value is a number, an age and whether it is known"},
	{Path: "gpu/metric", Why: "the catalogue is data"},
	{Path: "gpu/trust", Ours: []string{"gpu/metric"}, Why: "which targets are believed is a list of namespaces and the text of a query"},

	{Path: "plan", Ours: []string{"gpu", "plan/pack", "plan/forecast"}, Why: "decisions are pure functions of a Snapshot"},
	{Path: "plan/pack", Ours: ground, Why: "packing knows GPUs, not clusters"},
	{Path: "plan/forecast", Ours: []string{"gpu/sample"}, Outside: []string{"gonum.org/v1/gonum", "github.com/teambition/rrule-go"}, Why: "a forecast is made from samples"},
	{Path: "plan/sim", Ours: middle, Why: "the small world applies Actions"},
	{Path: "plan/replay", Ours: middle, Outside: []string{"gonum.org/v1/gonum"}, Why: "a replay plays a trace through plan.Make in the small world"},
	{Path: "plan/scenario", Ours: middle, Why: "the language is ours and free of test libraries: the autoscaler emits and reads it"},

	{Path: "exporter", Ours: []string{"gpu", "exporter", "internal/serve", "internal/buildinfo", "internal/command", "internal/strict", "internal/text"}, Outside: []string{"*"}, Why: "programs do not import one another"},
	{Path: "exporter/collect", Ours: []string{"gpu", "exporter/pods", "internal/text"}, Outside: []string{"github.com/prometheus/"}, Why: "families are made from a Reading, whatever took it"},
	{Path: "exporter/dcgm", Ours: []string{"gpu", "exporter/collect", "exporter/pods", "exporter/nvml", "exporter/dcgm", "internal/text"}, Outside: []string{"github.com/NVIDIA/"}, Why: "the only package with DCGM in it"},
	{Path: "exporter/dcgm/fakedcgm", Ours: []string{"gpu", "internal/cbuild", "internal/fakenvml"}, Why: "a fake is embedded C and the machine it shows"},
	{Path: "exporter/nvml", Ours: []string{"gpu", "exporter/collect", "exporter/pods", "exporter/nvml", "internal/text"}, Outside: []string{"github.com/NVIDIA/"}, Why: "the only package with NVML in it"},
	{Path: "exporter/replay", Ours: []string{"gpu", "exporter/collect", "exporter/pods", "internal/text"}, Outside: []string{"sigs.k8s.io/yaml"}, Why: "a recording needs no driver"},
	{Path: "exporter/pods", Ours: []string{"gpu", "exporter/collect", "internal/text"}, Outside: []string{"k8s.io/kubelet", "google.golang.org/grpc", "k8s.io/api", "k8s.io/client-go", "k8s.io/apimachinery"}, Why: "who holds what, from the kubelet's socket and the own node's objects"},

	{Path: "adapter", Ours: []string{"gpu", "adapter", "internal"}, Outside: []string{"*"}, Why: "programs do not import one another"},
	{Path: "adapter/certificate", Outside: []string{"k8s.io/"}, Why: "a certificate and where its CA is trusted"},
	{Path: "adapter/signal", Ours: ground, Outside: []string{"github.com/prometheus/", "k8s.io/apimachinery"}, Why: "rules and PromQL are pure"},
	{Path: "adapter/cache", Ours: []string{"gpu", "adapter/signal", "internal/prom"}, Outside: []string{"github.com/prometheus/", "golang.org/x/sync"}, Why: "the cache asks Prometheus and nothing else"},

	{Path: "autoscaler", Ours: []string{"gpu", "plan", "autoscaler", "internal"}, Outside: []string{"*"}, Why: "programs do not import one another"},
	{Path: "autoscaler/api", Outside: []string{"k8s.io/api", "k8s.io/apimachinery"}, Ours: []string{"autoscaler/api"}, Why: "API types are imported by users: with Kubernetes' own types only"},
	{Path: "autoscaler/api/scheme", Outside: []string{"k8s.io/apimachinery", "k8s.io/client-go/kubernetes/scheme"}, Ours: []string{"autoscaler/api"}, Why: "what our clients read and write, and no client"},
	{Path: "autoscaler/observe", Ours: append([]string{"gpu", "plan", "autoscaler/api", "autoscaler/observe", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"*"}, Why: "observing only reads"},
	{Path: "autoscaler/observe/foreign", Ours: []string{"autoscaler/api/amount"}, Outside: []string{"k8s.io/"}, Why: "it reads objects of other projects into plain data"},
	{Path: "autoscaler/observe/gangs", Ours: []string{"gpu", "plan", "autoscaler/api/amount", "autoscaler/observe/foreign", "internal/kube"}, Outside: []string{"k8s.io/"}, Why: "a pure function of pods and objects"},
	{Path: "autoscaler/observe/ledger", Ours: []string{"gpu", "plan", "autoscaler/api", "autoscaler/observe/foreign", "autoscaler/observe/gangs", "internal/kube"}, Outside: []string{"k8s.io/"}, Why: "a pure function of quotas"},
	{Path: "autoscaler/act", Ours: append([]string{"gpu", "plan", "autoscaler/api", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"*"}, Why: "acting never decides: no observe, no loop"},
	{Path: "autoscaler/fleet", Ours: append([]string{"gpu", "plan", "autoscaler/act", "autoscaler/api", "autoscaler/observe", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"github.com/prometheus/client_golang", "k8s.io/api", "k8s.io/utils/ptr"}, Why: "it publishes metrics of reconciles and does nothing"},
	{Path: "autoscaler/pools/externalgrpc", Outside: []string{"google.golang.org/grpc", "google.golang.org/protobuf"}, Why: "a client of a protocol: it decides nothing"},
	{Path: "autoscaler/pools", Ours: append([]string{"gpu", "plan", "autoscaler/api", "autoscaler/partition", "autoscaler/pools/externalgrpc"}, plumbing...), Outside: []string{"*"}, Why: "a provider makes and removes nodes"},
	{Path: "autoscaler/partition/contract", Ours: ground, Outside: []string{"k8s.io/api"}, Why: "what stands on a node is data: the agent links it"},
	{Path: "autoscaler/partition", Ours: append([]string{"gpu", "plan", "autoscaler/api"}, plumbing...), Outside: []string{"*"}, Why: "an actuator changes layouts"},

	{Path: "agent", Ours: append([]string{"gpu", "agent", "autoscaler/partition/contract"}, plumbing...), Outside: []string{"*"}, Why: "a privileged program on each node links no planner and no provider; what stands on its Node is shared"},
	{Path: "agent/hardware", Ours: ground, Outside: []string{"github.com/NVIDIA/"}, Why: "it calls NVML and nothing else"},

	{Path: "report", Ours: append([]string{"gpu", "plan", "report", "autoscaler/observe", "autoscaler/api", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"*"}, Why: "the report reads; only autoscaler/observe is shared"},
	{Path: "report/query", Ours: []string{"gpu", "internal/prom"}, Outside: []string{"golang.org/x/sync"}, Why: "it knows what is asked, not what it means"},
	{Path: "report/ledger", Ours: []string{"gpu", "internal/prom", "report/query"}, Why: "where time went is a pure function of answers"},
	{Path: "report/prices", Ours: []string{"gpu", "internal/strict"}, Why: "a price list is a file"},
	{Path: "report/model", Ours: []string{"gpu", "plan/forecast", "internal/prom", "internal/text", "internal/strict", "report/query", "report/ledger", "report/prices"}, Outside: []string{"gonum.org/v1/gonum"}, Why: "a report is a pure function of answers and prices"},
	{Path: "report/render", Ours: []string{"gpu", "plan/forecast", "internal/prom", "internal/strict", "internal/text", "report"}, Why: "forms know figures, not where they come from"},
	{Path: "report/top", Ours: []string{"gpu", "plan/forecast", "internal/prom", "internal/strict", "internal/text", "report"}, Outside: []string{"k8s.io/apimachinery/pkg/util/duration", "sigs.k8s.io/yaml"}, Why: "rows are made from vectors"},
	{Path: "report/doctor", Ours: []string{"gpu", "autoscaler/api", "autoscaler/partition/contract", "internal/kube", "internal/prom", "internal/text", "report/query", "report/doctor"}, Outside: []string{"github.com/prometheus/common", "k8s.io/api", "k8s.io/apiextensions-apiserver", "k8s.io/kube-aggregator", "k8s.io/apimachinery", "k8s.io/client-go", "k8s.io/component-helpers/auth", "k8s.io/pod-security-admission", "sigs.k8s.io/yaml", "golang.org/x/sync"}, Why: "facts are gathered with GET; findings are a pure function of them"},
	{Path: "sandbox", Ours: []string{""}, Outside: []string{"*"}, Why: "the sandbox may import anything"},
	{Path: "dashboards", Ours: append([]string{"gpu", "dashboards"}, plumbing...), Outside: []string{"*"}, Why: "boards read names from gpu/metric and the chart holds them; the preview asks Prometheus"},
	{Path: "dashboards/alerts", Ours: []string{"gpu", "dashboards/sources"}, Outside: []string{"github.com/prometheus/common"}, Why: "alerts are data: names from gpu/metric"},
	{Path: "dashboards/board", Ours: ground, Why: "the words that boards are written in, and Grafana's JSON of them"},
	{Path: "dashboards/boards", Ours: []string{"gpu", "dashboards/board", "dashboards/rules", "dashboards/sources"}, Outside: []string{"github.com/prometheus/prometheus"}, Why: "a board is data: names from gpu/metric and dashboards/rules, words from dashboards/board"},
	{Path: "dashboards/sources", Ours: ground, Outside: []string{"github.com/prometheus/prometheus"}, Why: "which targets' series an expression reads is a change of its text"},
	{Path: "dashboards/states", Why: "tests alone: they run all programs to record what they emit"},

	{Path: "deploy/chart", Ours: []string{"deploy/chart"}, Outside: []string{"k8s.io/apimachinery", "sigs.k8s.io/yaml"}, Why: "it runs helm and reads what that renders"},

	{Path: "internal", Ours: []string{"internal"}, Outside: []string{"*"}, Why: "plumbing has no domain in it"},
	{Path: "internal/cbuild", Why: "it runs gcc"},
	{Path: "internal/fakenvml", Ours: []string{"gpu", "internal/cbuild"}, Why: "the simulated machine knows GPUs and MIG"},
	{Path: "internal/gendocs", Ours: []string{"gpu", "plan", "adapter/signal", "report/query", "report/doctor", "autoscaler/api", "autoscaler/partition/contract", "internal/kube", "internal/prom", "internal/text"}, Outside: []string{"sigs.k8s.io/yaml"}, Why: "docs are generated from the tables themselves"},
}

// Ban keeps a dependency out of everything but the packages that own it,
// transitively: what a program links, its users carry.
type Ban struct {
	Dependency string   // import path prefix
	Owners     []string // folders that may link it
	Why        string
}

// Bans hold for non-test code.
var Bans = []Ban{
	{Dependency: "github.com/NVIDIA/go-dcgm", Owners: []string{"exporter/dcgm", "exporter"}, Why: "it binds a C library at run time"},
	{Dependency: "sigs.k8s.io/controller-runtime", Owners: []string{"autoscaler", "sandbox", "internal/kube"}, Why: "the exporter runs on every node and must stay small"},
	{Dependency: "k8s.io/client-go/informers", Owners: []string{"autoscaler", "adapter", "sandbox", "report", "internal/kube"}, Why: "node agents must not list or watch the cluster"},
	{Dependency: "github.com/prometheus/prometheus/tsdb/wlog", Owners: []string{"dashboards", "report", "sandbox"}, Why: "programs ask Prometheus, they are not one"},
}
