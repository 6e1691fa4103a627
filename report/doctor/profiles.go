package doctor

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/autoscaler/api/v1alpha1"
	"github.com/gpuscale/gpuscale/autoscaler/partition/contract"
	"github.com/gpuscale/gpuscale/gpu"
	"github.com/gpuscale/gpuscale/gpu/mig"
)

// tables are ours and those that nodes have published. One that cannot be read is left
// out: the autoscaler reports it.
func (l *look) tables() mig.Tables {
	var all []contract.Publication
	seen := map[string]bool{}
	for _, n := range l.f.Nodes {
		if text := n.Annotations[contract.TableAnnotation]; !seen[text] {
			seen[text] = true
			all = append(all, contract.Publication{Text: text, Node: n.Name})
		}
	}
	tables, _ := contract.TablesOf(all)
	return tables
}

func profileImpossible(l *look) {
	offered := map[string]bool{}
	for _, n := range l.f.Nodes {
		for name, q := range n.Status.Capacity {
			if q.Sign() > 0 {
				offered[string(name)] = true
			}
		}
	}
	tables := l.tables()
	for _, p := range l.f.Pods {
		if p.Status.Phase != corev1.PodPending || p.Spec.NodeName != "" {
			continue
		}
		for _, r := range slices.Sorted(maps.Keys(gpuResources(&p.Spec))) {
			profile, ok := mig.ProfileOfResource(r)
			if !ok || offered[r] {
				continue
			}
			l.profile(p, r, profile, tables)
		}
	}
}

// profile reports a pod whose profile no pool can provide.
func (l *look) profile(p *corev1.Pod, resource, profile string, tables mig.Tables) {
	var near []string
	for _, pool := range l.f.Pools {
		can, known, others := givesProfile(pool, profile, tables)
		if can {
			return
		}
		if !known {
			l.cannot("the profiles of %s of GPUNodePool %s are unknown", pool.Spec.Template.Product, pool.Name)
			return
		}
		near = append(near, others...)
	}
	slices.Sort(near)
	near = slices.Compact(near)
	f := Finding{
		Object: "Pod " + p.Namespace + "/" + p.Name, Seen: "it requests " + resource + ", which no node offers and no pool's GPU can be partitioned into",
		Fix:      "Request an existing profile, or make a pool of GPUs that have this one (docs/mig.md).",
		Commands: []string{l.in(p.Namespace, "get", "pod", p.Name, "-o", "jsonpath={.spec.containers[*].resources.limits}")},
	}
	if len(near) > 0 {
		f.Fix = "Request an existing profile (" + several(near) + "), or make a pool of GPUs that have this one (docs/mig.md)."
	}
	l.fault(f)
}

// givesProfile reports whether a pool's GPUs have a profile, or can be repartitioned for
// it; known is false where their profiles are unknown. others are the profiles that they
// may have.
func givesProfile(pool *v1alpha1.GPUNodePool, profile string, tables mig.Tables) (can, known bool, others []string) {
	m := pool.Spec.MIG
	if m == nil {
		return false, true, nil
	}
	for _, layout := range m.BootLayout {
		if layout[profile] > 0 {
			return true, true, nil
		}
		for name, n := range layout {
			if n > 0 {
				others = append(others, name)
			}
		}
	}
	if m.Actuator == "none" {
		return false, true, others
	}
	table, ok := tables.ForModel(gpu.ProductName(pool.Spec.Template.Product))
	if !ok {
		_, withoutMIG := gpu.ParseProduct(pool.Spec.Template.Product)
		return false, withoutMIG, others
	}
	for _, p := range table.Profiles() {
		name := table.Name(p)
		if len(m.AllowedProfiles) > 0 && !slices.Contains(m.AllowedProfiles, name) {
			continue
		}
		if name == profile {
			return true, true, nil
		}
		others = append(others, name)
	}
	return false, true, others
}
