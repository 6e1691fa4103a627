package foreign

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// HyperNode is a network topology domain of Volcano: nodes, and other HyperNodes of lower tiers. The lower its tier,
// the nearer its nodes are to each other (v1.16.0-alpha.1, pkg/scheduler/api/hyper_node_info.go).
type HyperNode struct {
	Tier     int
	TierName string
	nodes    []func(*corev1.Node) bool
	parts    []string
}

// Labels that stand for the HyperNode of a node up to a tier, by the tier's number or name. Real nodes do not have
// them.
const (
	hyperNodeTier = "hypernode.volcano.sh/tier-"
	hyperNodeName = "hypernode.volcano.sh/tier-name-"
)

// hyperNodeLabel is the label of which all nodes of a pod group must have the same value, by its network topology. It
// is empty for a soft topology, which requires nothing.
func hyperNodeLabel(f fields, at string) string {
	tier, name := f.count(at+"highestTierAllowed", -1), f.text(at+"highestTierName")
	switch mode := f.text(at + "mode"); {
	case mode != "" && mode != "hard":
		return ""
	case tier >= 0:
		return hyperNodeTier + strconv.Itoa(tier)
	case name != "":
		return hyperNodeName + name
	}
	return ""
}

func parseHyperNode(f fields, o *Object) {
	o.HyperNode = &HyperNode{Tier: f.count("spec.tier", 0), TierName: f.text("spec.tierName")}
	for _, member := range f.list("spec.members") {
		if name := member.text("selector.exactMatch.name"); member.text("type") == "HyperNode" {
			o.HyperNode.parts = append(o.HyperNode.parts, name)
		} else if name != "" {
			o.HyperNode.nodes = append(o.HyperNode.nodes, func(n *corev1.Node) bool { return n.Name == name })
		}
		if pattern := member.text("selector.regexMatch.pattern"); pattern != "" {
			names, err := regexp.Compile(pattern)
			if err != nil {
				member.fail("selector.regexMatch.pattern", err)
				return
			}
			o.HyperNode.nodes = append(o.HyperNode.nodes, func(n *corev1.Node) bool { return names.MatchString(n.Name) })
		}
		if member.value("selector.labelMatch") != nil {
			with := into[metav1.LabelSelector](member, "selector.labelMatch")
			selector, err := metav1.LabelSelectorAsSelector(&with)
			if err != nil {
				member.fail("selector.labelMatch", err)
				return
			}
			o.HyperNode.nodes = append(o.HyperNode.nodes, func(n *corev1.Node) bool { return selector.Matches(labels.Set(n.Labels)) })
		}
	}
}

// Network knows in which HyperNodes nodes are, for the PodGroups with a network topology.
type Network struct {
	allowed    map[string]int // the highest tier, by the label that stands for it
	hyperNodes []*Object
	above      map[string]*Object // by the name of a part
	top        int                // the highest tier there is
}

// Network returns nil where no PodGroup has a network topology.
func (all Objects) Network() *Network {
	w := &Network{allowed: map[string]int{}, hyperNodes: all.Sorted(VolcanoHyperNode), above: map[string]*Object{}}
	for _, o := range all[VolcanoPodGroup] {
		if o.Group != nil && o.Group.Near.Label != "" {
			w.allowed[o.Group.Near.Label] = math.MaxInt
		}
	}
	if len(w.allowed) == 0 {
		return nil
	}
	w.hyperNodes = slices.DeleteFunc(w.hyperNodes, func(o *Object) bool { return o.HyperNode == nil || o.DeletionTimestamp != nil })
	for _, o := range w.hyperNodes {
		for _, part := range o.HyperNode.parts {
			w.above[part] = o
		}
		w.top = max(w.top, o.HyperNode.Tier)
		if named := hyperNodeName + o.HyperNode.TierName; w.allowed[named] != 0 {
			w.allowed[named] = o.HyperNode.Tier
		}
	}
	for label := range w.allowed {
		if tier, err := strconv.Atoi(strings.TrimPrefix(label, hyperNodeTier)); err == nil {
			w.allowed[label] = tier
		}
	}
	return w
}

// With returns labels with those added that stand for a node's HyperNodes. For each highest tier that a PodGroup
// allows, the value is the node's HyperNode with the highest tier up to that. All nodes have the same value where a
// PodGroup allows a tier above all existing ones, or names a tier that does not exist. A node outside all HyperNodes
// has no other of these labels.
func (w *Network) With(has map[string]string, n *corev1.Node) map[string]string {
	if w == nil {
		return has
	}
	out, at := map[string]string{}, map[string]int{} // and the tier of each value
	for label, tier := range w.allowed {
		if tier > w.top {
			out[label] = "cluster"
		}
	}
	for _, o := range w.hyperNodes {
		if !slices.ContainsFunc(o.HyperNode.nodes, func(has func(*corev1.Node) bool) bool { return has(n) }) {
			continue
		}
		for range w.hyperNodes { // it, and those above it; bounded, since there may be a cycle
			for label, tier := range w.allowed {
				if own := o.HyperNode.Tier; own <= tier && tier <= w.top && own >= at[label] {
					out[label], at[label] = o.Name, own
				}
			}
			if o = w.above[o.Name]; o == nil {
				break
			}
		}
	}
	maps.Copy(out, has)
	return out
}

// WithNew returns the labels of a pool's new nodes with those added that stand for their HyperNodes. New nodes of a
// pool are taken to be in one HyperNode without other nodes, unless their labels tell which it is.
func (w *Network) WithNew(has map[string]string, pool string) map[string]string {
	out := w.With(has, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: has}})
	if w != nil {
		for label := range w.allowed {
			if _, known := out[label]; !known {
				out[label] = "new nodes of " + pool
			}
		}
	}
	return out
}
