package boards

import (
	"fmt"

	"github.com/gpuscale/gpuscale/dashboards/board"
	"github.com/gpuscale/gpuscale/dashboards/rules"
	"github.com/gpuscale/gpuscale/gpu/metric"
)

// UIDs of the boards. They never change: users' links point at them.
const (
	OverviewUID   = "gpuscale-overview"
	WorkloadUID   = "gpuscale-workload"
	MIGUID        = "gpuscale-mig"
	HealthUID     = "gpuscale-health"
	AutoscalerUID = "gpuscale-autoscaler"
)

// All returns every board, the overview first.
func All() []board.Board {
	return []board.Board{Overview(), Workload(), MIG(), Health(), Autoscaler()}
}

// Reasons for a missing value that many panels share.
const (
	noAutoscaler = "Prometheus scrapes no autoscaler, or none of its replicas leads (see Overview)."
	noExporter   = "Prometheus scrapes no exporter that has this value (see Overview)."
	noAdapter    = "Prometheus scrapes no adapter (see Overview)."
	noPrice      = "the pool has no price."
	notYet       = "this did not happen in the selected time, or Prometheus does not scrape the autoscaler (see Overview)."
)

// noRules is one more reason for a missing value, for panels that read recording rules.
const noRules = " Or Prometheus has not loaded the recording rules (see Overview)."

// recorded selects the series of a rule of dashboards/rules in the selected cluster. Scraped series always
// have an instance label, on any target's page; recorded series have none, even after federation. So a page
// cannot imitate a rule. The lint checks rules like the catalogue.
func recorded(record string, matchers ...string) string {
	return board.Named(record, append([]string{`instance=""`}, matchers...)...)
}

// Matchers for the board's variables.
var (
	inPool  = board.In(metric.LabelPool, "pool")
	inModel = board.In(metric.LabelModel, "model")
)

// where returns the variables of every board: data source and cluster. The values of cluster come from the
// series of any of our programs.
func where() []board.Var {
	programs := fmt.Sprintf("{__name__=~%q}", metric.ExporterBuildInfo.Name+"|"+metric.AdapterBuildInfo.Name+"|"+metric.AutoscalerBuildInfo.Name)
	return []board.Var{
		{Name: board.Datasource, Title: "Data source", About: "The Prometheus to query."},
		{Name: "cluster", Title: "Cluster", About: "The label cluster, where several clusters share a Prometheus.", Series: programs, Label: "cluster"},
	}
}

// byLabel is a variable with the values of a label.
func byLabel(name, title, about string, series metric.Desc, label string) board.Var {
	return board.Var{Name: name, Title: title, About: about, Series: board.Of(series), Label: label}
}

func poolVar(series metric.Desc) board.Var {
	return byLabel("pool", "Node pool", "GPUNodePools; (none) has the nodes without a pool.", series, metric.LabelPool)
}

func nodeVar(series metric.Desc) board.Var {
	return byLabel("node", "Node", "Kubernetes nodes.", series, metric.LabelNode)
}

func namespaceVar(series metric.Desc) board.Var {
	return board.Var{Name: "namespace", Title: "Namespace", About: "Namespaces of pods that have GPUs.", Series: board.Of(series), Label: metric.LabelNamespace, Moved: true}
}

// scaling marks the autoscaler's actions on nodes and GPUs.
func scaling() board.Mark {
	return board.Mark{
		Name: "Scaling", Colour: board.Plain, Title: "{{verb}} {{pool}}: {{reason}}",
		Expr: "sum by (verb,pool,reason) (" + board.Happened(board.Of(metric.AutoscalerActions, board.Is(metric.LabelResult, "ok")), "$__interval") + ") > 0",
	}
}

// xids marks XID errors.
func xids() board.Mark {
	return board.Mark{
		Name: "XID errors", Colour: board.Bad, Title: "XID {{xid}} on {{node}}, GPU {{gpu}}",
		Expr: "sum by (node,gpu,xid) (" + board.Happened(board.Of(metric.GPUXIDErrorsTotal), "$__interval") + ") > 0",
	}
}

// stat shows one current value.
func stat(width int, title, about, absent, expr string, unit board.Unit, scale board.Scale) board.Panel {
	return board.Panel{Kind: board.Stat, Title: title, About: about, Absent: absent, Unit: unit, Scale: scale, W: width, Queries: []board.Query{{Expr: expr}}}
}

// from is a scale that has no colour below a value.
func from(value float64, colour board.Colour) board.Scale {
	return board.Scale{{Colour: board.Ink}, {From: value, Colour: colour}}
}

// column is a column of labels, and gpuColumns name a GPU.
func column(label, title string) board.Column { return board.Column{Label: label, Title: title} }

func gpuColumns(more ...board.Column) []board.Column {
	return append([]board.Column{column("cluster", "Cluster"), column(metric.LabelNode, "Node"), {Label: metric.LabelGPU, Title: "GPU", Width: 60}}, more...)
}

// Labels that identify GPUs, and labels that identify what can be allocated.
var device, thing = rules.Device, rules.Thing

// allocatedPlaces are the states and places in which a GPU is allocated to a pod.
var allocatedPlaces = []string{"busy", "slack", "idle", "unmeasured"}
