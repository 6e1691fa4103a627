package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/gpu/mig"
)

// LayoutAnnotation on a node is its agent's report of the GPUs.
const LayoutAnnotation = "gpuscale.io/mig-layout"

// An unchanged report is written again after ReportEvery, as the kubelet does with a node's status,
// and is stale after ReportMaxAge, which tolerates one late report.
const (
	ReportEvery  = 5 * time.Minute
	ReportMaxAge = 12 * time.Minute
)

// Report is an agent's view of a node's GPUs.
type Report struct {
	// At is when the GPUs were last read, on the node's clock, to within ReportEvery: a new time
	// alone causes no write.
	At time.Time `json:"at,omitzero"`
	// Node is the UID of the Node object and Boot the machine's boot ID that the report is about:
	// instances do not outlive a boot.
	Node string `json:"node,omitempty"`
	Boot string `json:"boot,omitempty"`

	Driver string      `json:"driver,omitempty"`
	GPUs   []GPUReport `json:"gpus"`
	// Problem keeps the agent from changing anything; empty for none.
	Problem string `json:"problem,omitempty"`
}

// GPUReport is one GPU.
type GPUReport struct {
	Index int    `json:"index"` // the driver's index
	UUID  string `json:"uuid,omitempty"`
	Model string `json:"model,omitempty"`
	MIG   bool   `json:"mig,omitempty"`
	// Instances by their first memory slice.
	Instances []InstanceReport `json:"instances,omitempty"`
	// Problem with the GPU: the rest is then unknown, not empty.
	Problem string `json:"problem,omitempty"`
}

// InstanceReport is one GPU instance.
type InstanceReport struct {
	// Place in slices, as mig.Placement prints it: "3g@0:4".
	Place string `json:"place"`
	UUID  string `json:"uuid,omitempty"`
}

// Bounds of an annotation.
const (
	maxReportBytes        = 64 << 10
	maxReportGPUs         = 64
	maxReportRepartitions = 16
)

// ParseReport reads the annotation's text. The error names the GPU.
func ParseReport(text string) (Report, error) {
	var r Report
	if err := parseJSON(LayoutAnnotation, text, maxReportBytes, &r); err != nil {
		return Report{}, err
	}
	if len(r.GPUs) > maxReportGPUs {
		return Report{}, fmt.Errorf("annotation %s: %d GPUs, at most %d", LayoutAnnotation, len(r.GPUs), maxReportGPUs)
	}
	seen := map[int]bool{}
	for i, c := range r.GPUs {
		if c.Index < 0 || c.Index >= maxReportGPUs || seen[c.Index] || len(c.Instances) > maxReportRepartitions {
			return Report{}, fmt.Errorf("annotation %s: GPUs[%d]: index %d with %d instances: want each index once, below %d, with at most %d",
				LayoutAnnotation, i, c.Index, len(c.Instances), maxReportGPUs, maxReportRepartitions)
		}
		seen[c.Index] = true
		if _, _, err := c.Layout(nil); err != nil {
			return Report{}, fmt.Errorf("annotation %s: GPUs[%d]: %w", LayoutAnnotation, i, err)
		}
	}
	return r, nil
}

// Layout of the GPU, empty for one without instances; known is false for a GPU with a Problem. tables are those that
// nodes have published. The error is why no GPU can have the layout. For an unknown product only the slices are
// checked.
func (c GPUReport) Layout(tables mig.Tables) (l mig.Layout, known bool, err error) {
	if c.Problem != "" {
		return nil, false, nil
	}
	if !c.MIG {
		if len(c.Instances) > 0 {
			return nil, false, errors.New("instances on a GPU that is not in MIG mode")
		}
		return nil, true, nil
	}
	var words []byte
	for _, i := range c.Instances {
		words = append(append(words, i.Place...), ' ')
	}
	if l, err = mig.ParseSlices(string(words)); err != nil {
		return nil, false, err
	}
	if len(l) != len(c.Instances) {
		return nil, false, fmt.Errorf("%d instances at %d places", len(c.Instances), len(l))
	}
	if table, ok := tables.ForModel(c.Model); ok {
		err = table.Legal(l)
	}
	return l, err == nil, err
}

// driverLabel is GFD's node label of the driver's version, from its version 0.15 on.
const driverLabel = "nvidia.com/cuda.driver-version.full"

// Stale returns why a report on node is not valid at now, nil if it is: it is old, or about another
// Node object, boot or driver.
func (r Report) Stale(node *corev1.Node, now time.Time) error {
	stale := func(format string, args ...any) error {
		return fmt.Errorf("annotation %s: %s", LayoutAnnotation, fmt.Sprintf(format, args...))
	}
	boot, driver := node.Status.NodeInfo.BootID, node.Labels[driverLabel]
	switch age := now.Sub(r.At); {
	case r.Node != string(node.UID):
		return stale("is about node UID %q, not %q", r.Node, node.UID)
	case boot != "" && r.Boot != boot:
		return stale("is about boot %q, not %q", r.Boot, boot)
	case driver != "" && r.Driver != "" && r.Driver != driver:
		return stale("is about driver %s, not %s", r.Driver, driver)
	case age > ReportMaxAge || age < -ReportMaxAge:
		return stale("is of %s, more than %s from now", r.At.UTC().Format(time.RFC3339), ReportMaxAge)
	}
	return nil
}

// managerLabel makes the GPU Operator's DaemonSet of mig-manager run on a node. The operator sets it to "true" on each
// node with MIG-capable GPUs that does not have it, even if it deploys no mig-manager.
const managerLabel = "nvidia.com/gpu.deploy.mig-manager"

// ManagerActs returns why mig-manager may change the node's GPUs too, nil if it may not: it applies
// the config that ConfigLabel selects whenever it starts.
func ManagerActs(node *corev1.Node) error {
	deploy, config := node.Labels[managerLabel], node.Labels[ConfigLabel]
	if deploy == "" || deploy == "false" || config == "" {
		return nil
	}
	return fmt.Errorf("mig-manager runs there too (label %s is %q) and applies %s=%s whenever it starts: set the first label to \"false\"",
		managerLabel, deploy, ConfigLabel, config)
}

// upgraded are the drivers that NVIDIA's operators upgrade (k8s-operator-libs, pkg/upgrade, as gpu-operator a22dbf6 has
// it). A label of the node has the state: the driver's name with upgradeState at its end. idleStates are the states
// before and after an upgrade.
var (
	upgraded   = []string{"nvidia.com/gpu", "nvidia.com/ofed"}
	idleStates = []string{"", "upgrade-required", "upgrade-done"}
)

const upgradeState = "-driver-upgrade-state"

// UpgradeFailed is the state in which the operator leaves a node cordoned until the driver's pod works again.
const UpgradeFailed = "upgrade-failed"

// Upgrade returns the label and the state of a driver's upgrade on a node that is under way or has failed; empty for
// none. An upgrade is under way from the operator's cordon on.
func Upgrade(node *corev1.Node) (label, state string) {
	for _, name := range upgraded {
		label = name + upgradeState
		if state = node.Labels[label]; !slices.Contains(idleStates, state) {
			return label, state
		}
	}
	return "", ""
}

// Upgrading reports whether a driver of a node is being upgraded.
func Upgrading(node *corev1.Node) bool {
	return slices.ContainsFunc(upgraded, func(name string) bool {
		state := node.Labels[name+upgradeState]
		return state != UpgradeFailed && !slices.Contains(idleStates, state)
	})
}

// NVSentinel's marks on a node that it has cordoned for a fault (3b7f639), until it lifts the cordon: a label with the
// state, and annotations of its fault-quarantine.
const (
	quarantineState = "dgxc.nvidia.com/nvsentinel-state"
	quarantined     = "quarantineHealthEventIsCordoned"
	// quarantinedBefore records that the node was cordoned before: NVSentinel does not lift such a cordon.
	quarantinedBefore = "quarantineHealthEventCordonPreExisting"
)

// Quarantine returns the label and the state of a node that NVSentinel has cordoned; empty for none.
func Quarantine(node *corev1.Node) (label, state string) {
	if _, ok := node.Annotations[quarantined]; !ok {
		return "", ""
	}
	return quarantineState, node.Labels[quarantineState]
}

// Uncordon lifts a cordon of gpuscale's, unless others need the node cordoned:
//
//   - While a driver is upgraded, the cordon is left to its operator, which lifts it at the end. The operator's note
//     that the node was cordoned before is removed, since the operator would leave that cordon.
//   - After an upgrade that began under gpuscale's cordon and failed, the cordon stays.
//   - While NVSentinel quarantines the node, the cordon stays, since NVSentinel ends the quarantine of a node that
//     others uncordon. Its note that the node was cordoned before is removed too.
func Uncordon(node *corev1.Node) {
	_, stays := node.Annotations[quarantined]
	delete(node.Annotations, quarantinedBefore)
	stays = stays || Upgrading(node)
	for _, name := range upgraded {
		before := name + "-driver-upgrade.node-initial-state.unschedulable"
		_, began := node.Annotations[before]
		stays = stays || began && node.Labels[name+upgradeState] == UpgradeFailed
		delete(node.Annotations, before)
	}
	node.Spec.Unschedulable = node.Spec.Unschedulable && stays
}

// syncedLabels is an annotation of Cluster API: the labels that it keeps equal to those of a node's Machine (v1.12.0,
// api/core/v1beta2: LabelsFromMachineAnnotation).
const syncedLabels = "cluster.x-k8s.io/labels-from-machine"

// Synced returns why ConfigLabel of a node cannot be used, nil if it can: Cluster API would write the
// Machine's value back in the middle of an operation.
func Synced(node *corev1.Node) error {
	for _, key := range strings.Split(node.Annotations[syncedLabels], ",") {
		if strings.TrimSpace(key) == ConfigLabel {
			return fmt.Errorf("Cluster API writes label %s of the Machine to node %s in each of its reconciles: remove the label from the machine template", ConfigLabel, node.Name)
		}
	}
	return nil
}

// AgentReady returns why the agent of a node cannot be given an operation on a GPU at now, nil if it can. The agent has
// not reported lately, it reports a problem that keeps it from changing anything, or mig-manager may act on the node
// too.
func AgentReady(node *corev1.Node, uuid string, now time.Time) error {
	text := node.Annotations[LayoutAnnotation]
	if text == "" {
		return errors.New("no agent has reported on it: does gpuscale-agent run there?")
	}
	r, err := ParseReport(text)
	if err != nil {
		return err
	}
	if err := r.Stale(node, now); err != nil {
		return err
	}
	if r.Problem != "" {
		return fmt.Errorf("its agent may not change anything: %s", r.Problem)
	}
	if err := ManagerActs(node); err != nil {
		return err
	}
	for _, c := range r.GPUs {
		switch {
		case c.UUID != uuid:
		case c.Problem != "":
			return fmt.Errorf("GPU %d: %s", c.Index, c.Problem)
		default:
			return nil
		}
	}
	return fmt.Errorf("its agent has no GPU %q", uuid)
}

// Same reports whether two reports have the same content; At may differ.
func (r Report) Same(o Report) bool {
	r.At, o.At = time.Time{}, time.Time{}
	return r.String() == o.String()
}

// String renders the annotation's text; equal reports give equal bytes.
func (r Report) String() string { return renderJSON(r) }

// TableAnnotation on a Node has the MIG geometry of its GPUs, read by its agent: FormatTables
// writes it, ParseTables reads it.
const TableAnnotation = "gpuscale.io/mig-table"

// Bounds of the annotation. No node is known with more than two products, and a product's line is
// about a kilobyte.
const (
	maxTableBytes  = 64 << 10
	maxTableModels = 8
)

// FormatTables returns the annotation's value: a JSON list with one line for each product of the
// node, as mig.Spec.String renders it, in the given order.
func FormatTables(specs []mig.Spec) (string, error) {
	lines := make([]string, len(specs))
	for i, s := range specs {
		if _, err := mig.NewTable(s); err != nil {
			return "", err
		}
		lines[i] = s.String()
	}
	text, err := json.Marshal(lines)
	switch {
	case err != nil:
		return "", fmt.Errorf("writing MIG tables: %w", err)
	case len(specs) > maxTableModels || len(text) > maxTableBytes:
		return "", fmt.Errorf("writing MIG tables: %d products in %d bytes, at most %d in %d", len(specs), len(text), maxTableModels, maxTableBytes)
	}
	return string(text), nil
}

// ParseTables reads a node's annotation, nil for an empty one. Each result makes a table. The error
// names the wrong line.
func ParseTables(text string) ([]mig.Spec, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	if len(text) > maxTableBytes {
		return nil, fmt.Errorf("annotation %s: %d bytes, at most %d", TableAnnotation, len(text), maxTableBytes)
	}
	var lines []string
	if err := json.Unmarshal([]byte(text), &lines); err != nil {
		return nil, fmt.Errorf("annotation %s: want a JSON list of strings: %w", TableAnnotation, err)
	}
	if len(lines) > maxTableModels {
		return nil, fmt.Errorf("annotation %s: %d products, at most %d", TableAnnotation, len(lines), maxTableModels)
	}
	var specs []mig.Spec
	for i, line := range lines {
		s, err := mig.ParseSpec(line)
		if err == nil {
			_, err = mig.NewTable(s)
		}
		if err != nil {
			return nil, fmt.Errorf("annotation %s: [%d]: %w", TableAnnotation, i, err)
		}
		specs = append(specs, s)
	}
	return specs, nil
}

// Publication is one text that nodes have published, and one of those nodes.
type Publication struct{ Text, Node string }

// Publications are the distinct texts in the nodes' annotations, sorted.
func Publications(nodes []corev1.Node) []Publication {
	from := map[string]string{} // the first node with the text, by text
	for i := range nodes {
		if text := nodes[i].Annotations[TableAnnotation]; text != "" {
			if had, ok := from[text]; !ok || nodes[i].Name < had {
				from[text] = nodes[i].Name
			}
		}
	}
	out := make([]Publication, 0, len(from))
	for text, node := range from {
		out = append(out, Publication{Text: text, Node: node})
	}
	slices.SortFunc(out, func(a, b Publication) int { return strings.Compare(a.Text, b.Text) })
	return out
}

// TablesOf builds the tables of publications. The error names the nodes with a problem; the other tables are used.
func TablesOf(all []Publication) (mig.Tables, error) {
	var specs []mig.Spec
	var errs []error
	for _, p := range all {
		read, err := ParseTables(p.Text)
		if err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", p.Node, err))
		}
		for _, s := range read {
			if !slices.ContainsFunc(specs, func(had mig.Spec) bool { return had.String() == s.String() }) {
				specs = append(specs, s)
			}
		}
	}
	tables, err := mig.NewTables(specs...)
	return tables, errors.Join(append(errs, err)...)
}
