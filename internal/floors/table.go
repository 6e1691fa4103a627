package floors

// module is the path every package of the house begins with.
const module = "github.com/gpuscale/gpuscale/"

// Floor says what the packages at or below a folder may import.
type Floor struct {
	// Path of the folder inside the module.
	Path string
	// House packages that may be imported, transitively: folder prefixes.
	House []string
	// Outside modules or packages that may be imported directly: prefixes.
	// "*" allows any.
	Outside []string
	// Why, printed when the rule is broken.
	Why string
}

// ground is what every floor above it may use.
var ground = []string{"gpu"}

// middle is what the programs that decide or explain may use.
var middle = []string{"gpu", "plan"}

var plumbing = []string{"internal/kube", "internal/prom", "internal/serve", "internal/buildinfo"}

// Table lists the floors. The longest matching Path rules a package. A package
// that no row matches fails the test: a new room needs a floor.
var Table = []Floor{
	{Path: "gpu", Why: "what things are: standard library only"},
	{Path: "gpu/mig", House: []string{"gpu"}, Why: "slices and layouts need the model of a card, nothing else"},
	{Path: "gpu/demand", House: []string{"gpu"}, Why: "dialects work on plain name → amount lists"},
	{Path: "gpu/quota", Why: "quota arithmetic is arithmetic"},
	{Path: "gpu/sample", Why: "a value is a number, an age and whether it is known"},
	{Path: "gpu/metric", Why: "the catalogue is data"},

	{Path: "plan", House: []string{"gpu", "plan/pack", "plan/forecast"}, Why: "decisions are pure functions of a Snapshot"},
	{Path: "plan/pack", House: ground, Why: "packing knows cards, not clusters"},
	{Path: "plan/forecast", House: []string{"gpu/sample"}, Outside: []string{"gonum.org/v1/gonum"}, Why: "a forecast is made from samples"},
	{Path: "plan/capacity", House: middle, Why: "supply and demand are counted from Snapshots"},
	{Path: "plan/replay", House: []string{"gpu", "plan/pack"}, Why: "a replay packs nodes: no snapshots, no clusters"},
	{Path: "plan/sim", House: middle, Why: "the small world applies Actions"},
	{Path: "plan/scenario", House: middle, Why: "the language is ours and free of test libraries: the autoscaler emits and reads it"},

	{Path: "exporter", House: []string{"gpu", "exporter", "internal/serve", "internal/buildinfo"}, Outside: []string{"*"}, Why: "programs do not import one another"},
	{Path: "exporter/collect", House: []string{"gpu", "exporter/pods"}, Outside: []string{"github.com/prometheus/"}, Why: "families are made from a Reading, whatever took it"},
	{Path: "exporter/dcgm", House: []string{"gpu", "exporter/collect", "exporter/pods", "exporter/dcgm"}, Outside: []string{"github.com/NVIDIA/"}, Why: "the only room with DCGM in it"},
	{Path: "exporter/nvml", House: []string{"gpu", "exporter/collect", "exporter/pods", "exporter/nvml"}, Outside: []string{"github.com/NVIDIA/"}, Why: "the only room with NVML in it"},
	{Path: "exporter/replay", House: []string{"gpu", "exporter/collect", "exporter/pods"}, Why: "a recording needs no driver"},
	{Path: "exporter/pods", House: []string{"gpu", "exporter/collect"}, Outside: []string{"k8s.io/kubelet", "google.golang.org/grpc"}, Why: "who holds what, from the kubelet's socket alone"},

	{Path: "adapter", House: []string{"gpu", "adapter", "internal"}, Outside: []string{"*"}, Why: "programs do not import one another"},
	{Path: "adapter/bench", House: []string{"gpu", "adapter", "internal", "sandbox/build"}, Outside: []string{"*"}, Why: "it measures programs that the sandbox builds"},
	{Path: "adapter/signal", House: ground, Outside: []string{"github.com/prometheus/", "k8s.io/apimachinery"}, Why: "rules and PromQL are pure"},
	{Path: "adapter/cache", House: []string{"gpu", "adapter/signal", "internal/prom"}, Outside: []string{"github.com/prometheus/", "golang.org/x/sync"}, Why: "the cache asks Prometheus and nothing else"},

	{Path: "autoscaler", House: []string{"gpu", "plan", "autoscaler", "internal"}, Outside: []string{"*"}, Why: "programs do not import one another"},
	{Path: "autoscaler/bench", House: []string{"gpu", "plan", "autoscaler", "internal", "sandbox/build", "sandbox/cluster", "sandbox/neighbours", "sandbox/proc"}, Outside: []string{"*"}, Why: "it measures a program on the sandbox's control plane"},
	{Path: "autoscaler/api", Outside: []string{"k8s.io/apimachinery"}, House: []string{"autoscaler/api"}, Why: "API types are imported by users: apimachinery only"},
	{Path: "autoscaler/api/scheme", Outside: []string{"k8s.io/apimachinery", "k8s.io/client-go/kubernetes/scheme"}, House: []string{"autoscaler/api"}, Why: "what our clients read and write, and no client"},
	{Path: "autoscaler/observe", House: append([]string{"gpu", "plan", "autoscaler/api", "autoscaler/observe", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"*"}, Why: "observing only reads"},
	{Path: "autoscaler/observe/foreign", Outside: []string{"k8s.io/"}, Why: "it reads other people's objects into plain data"},
	{Path: "autoscaler/observe/gangs", House: []string{"gpu", "plan", "autoscaler/observe/foreign", "internal/kube"}, Outside: []string{"k8s.io/"}, Why: "a pure function of pods and objects"},
	{Path: "autoscaler/observe/ledger", House: []string{"gpu", "plan", "autoscaler/api", "autoscaler/observe/foreign"}, Outside: []string{"k8s.io/"}, Why: "a pure function of quotas"},
	{Path: "autoscaler/act", House: append([]string{"gpu", "plan", "autoscaler/api", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"*"}, Why: "acting never decides: no observe, no loop"},
	{Path: "autoscaler/fleet", House: append([]string{"gpu", "plan", "autoscaler/act", "autoscaler/api", "autoscaler/observe", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"github.com/prometheus/client_golang"}, Why: "it shows what rounds tell and does nothing"},
	{Path: "autoscaler/pools", House: append([]string{"gpu", "plan", "autoscaler/api", "autoscaler/partition"}, plumbing...), Outside: []string{"*"}, Why: "a provider makes and removes nodes"},
	{Path: "autoscaler/partition", House: append([]string{"gpu", "plan", "autoscaler/api"}, plumbing...), Outside: []string{"*"}, Why: "an actuator changes layouts"},

	{Path: "report", House: append([]string{"gpu", "plan", "report", "autoscaler/observe", "autoscaler/api", "autoscaler/partition", "autoscaler/pools"}, plumbing...), Outside: []string{"*"}, Why: "the report reads; only autoscaler/observe is shared"},
	{Path: "report/query", House: []string{"gpu", "internal/prom"}, Why: "it knows what is asked, not what it means"},
	{Path: "report/ledger", House: []string{"gpu", "internal/prom", "report/query"}, Why: "where time went is a pure function of answers"},
	{Path: "report/prices", House: ground, Outside: []string{"go.yaml.in/yaml"}, Why: "a price list is a file"},
	{Path: "report/model", House: []string{"gpu", "plan/forecast", "internal/prom", "report/query", "report/ledger", "report/prices"}, Outside: []string{"gonum.org/v1/gonum"}, Why: "a report is a pure function of answers and prices"},
	{Path: "report/render", House: []string{"gpu", "plan/forecast", "internal/prom", "report"}, Why: "forms know figures, not where they come from"},
	{Path: "report/top", House: []string{"gpu", "plan/forecast", "internal/prom", "report"}, Outside: []string{"sigs.k8s.io/yaml"}, Why: "rows are made from vectors"},
	{Path: "report/fixture", House: []string{"gpu", "internal/prom"}, Outside: []string{"github.com/prometheus/"}, Why: "a double of a cluster and a Prometheus, for tests"},
	{Path: "report/doctor", House: []string{"gpu", "autoscaler/api", "internal/prom", "report/doctor"}, Outside: []string{"k8s.io/api", "k8s.io/apimachinery", "sigs.k8s.io/yaml"}, Why: "findings are a pure function of facts"},
	{Path: "report/doctor/gather", House: []string{"gpu", "autoscaler/api", "internal/prom", "report/doctor"}, Outside: []string{"k8s.io/api", "k8s.io/apimachinery", "k8s.io/client-go"}, Why: "facts are gathered with GET and judged elsewhere"},
	{Path: "sandbox", House: []string{""}, Outside: []string{"*"}, Why: "the sandbox may import anything"},
	{Path: "sandbox/chart/schemas", Why: "it turns one text into another: standard library only"},
	{Path: "dashboards", House: []string{"gpu", "dashboards", "internal/prom", "internal/serve"}, Outside: []string{"*"}, Why: "boards read names from gpu/metric; the preview asks Prometheus"},
	{Path: "dashboards/alerts", House: ground, Outside: []string{"github.com/prometheus/common", "sigs.k8s.io/yaml"}, Why: "alerts are data: names from gpu/metric"},
	{Path: "dashboards/board", House: ground, Outside: []string{"github.com/grafana/grafana-foundation-sdk"}, Why: "the words that boards are written in"},
	{Path: "dashboards/boards", House: []string{"gpu", "dashboards/board", "dashboards/rules"}, Why: "a board is data: names from gpu/metric and dashboards/rules, words from dashboards/board"},
	{Path: "dashboards/states", House: []string{""}, Outside: []string{"*"}, Why: "for tests only: it runs all programs to record what they emit"},

	{Path: "deploy/chart", House: []string{"deploy/chart"}, Outside: []string{"k8s.io/apimachinery", "sigs.k8s.io/yaml"}, Why: "it runs helm and reads what that renders"},
	{Path: "deploy/chart/gen", House: []string{"gpu", "dashboards"}, Outside: []string{"github.com/prometheus/common", "go.yaml.in/yaml"}, Why: "the chart's files are written from where they are at home"},

	{Path: "internal", House: []string{"internal"}, Outside: []string{"*"}, Why: "plumbing has no domain in it"},
	{Path: "internal/release", House: []string{"internal/release"}, Why: "a release must be possible with Go and git alone"},
	{Path: "internal/gendocs", House: []string{"gpu", "plan", "adapter/signal", "report/doctor", "autoscaler/api", "internal/prom"}, Why: "docs are generated from the tables themselves"},
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
	{Dependency: "sigs.k8s.io/controller-runtime", Owners: []string{"autoscaler", "sandbox", "internal/kube", "dashboards/states"}, Why: "the exporter runs on every node and must stay small"},
	{Dependency: "k8s.io/client-go/informers", Owners: []string{"autoscaler", "adapter", "sandbox", "report", "internal/kube", "dashboards/states"}, Why: "node agents must not list or watch the cluster"},
	{Dependency: "github.com/prometheus/prometheus/tsdb/wlog", Owners: []string{"dashboards", "report", "sandbox"}, Why: "programs ask Prometheus, they are not one"},
}
