package plan

import (
	"slices"

	"github.com/gpuscale/gpuscale/gpu/quota"
)

// Problem is what is wrong with an object of a snapshot.
type Problem struct {
	// Kind and Name of the object. Name is empty for the tree of tenants. Both are empty for the snapshot's own fields.
	Kind Kind
	Name string
	// Err has the path of the field. Of several problems of one object it is the first.
	Err error
	at  int // index of the object in its list, -1 for the tree of tenants
}

// Contain returns the snapshot with each object that fails Check set apart, so that it misleads no decision about
// others, and the problems that it found:
//
//   - a pool is left out, and its nodes are of no pool: they are never changed;
//   - a node stays, cordoned, of no pool, with GPUs of unknown allocation: it is no supply and never changed;
//   - a pod stays with an unreadable demand, and a node that it is on is set apart too; one that exists twice,
//     or is on no node of the snapshot, is left out;
//   - a tenant may use nothing more: its pods stay pending;
//   - a forecast is left out, and so are records of State.
//
// A valid snapshot is returned as it is.
func (s Snapshot) Contain() (Snapshot, []Problem) {
	problems := slices.CompactFunc(s.problems(), func(a, b Problem) bool { return a.Kind == b.Kind && a.at == b.at })
	if len(problems) == 0 {
		return s, nil
	}
	bad := map[Kind]map[int]error{KindPool: {}, KindNode: {}, KindPod: {}, KindTenant: {}, KindForecast: {}, "": {}} // by index
	for _, p := range problems {
		bad[p.Kind][p.at] = p.Err
	}
	out := s
	out.Pools = well(s.Pools, bad[KindPool])
	pools := map[string]bool{"": true}
	for i := range out.Pools {
		pools[out.Pools[i].Name] = true
	}
	nodes := map[string]int{}
	out.Nodes = nil
	for i := range s.Nodes {
		n := s.Nodes[i]
		if _, twice := nodes[n.Name]; twice || n.Name == "" {
			continue
		}
		if bad[KindNode][i] != nil {
			n = setApart(n)
		}
		if !pools[n.Pool] {
			n.Pool = ""
		}
		nodes[n.Name] = len(out.Nodes)
		out.Nodes = append(out.Nodes, n)
	}
	pods := map[string]bool{"": true}
	out.Pods = nil
	for i := range s.Pods {
		p := s.Pods[i]
		err := bad[KindPod][i]
		at, known := nodes[p.Node]
		if err != nil {
			if known {
				out.Nodes[at] = setApart(out.Nodes[at])
			}
			p = unreadable(&p, err)
		}
		if key := p.Key(); !pods[key] && (known || p.Node == "") && isKey(key) {
			pods[key] = true
			out.Pods = append(out.Pods, p)
		}
	}
	out.Tenants = closed(s.Tenants, bad[KindTenant])
	out.Forecasts = well(s.Forecasts, bad[KindForecast])
	out.State.Grown, out.State.Removed = counted(s.State.Grown), counted(s.State.Removed)
	out.State.Failures = kept(s.State.Failures, func(_ string, f Failure) bool { return f.Count >= 0 })
	return out, problems
}

// well returns the objects of a list that have no problem.
func well[T any](list []T, bad map[int]error) []T {
	var out []T
	for i := range list {
		if bad[i] == nil {
			out = append(out, list[i])
		}
	}
	return out
}

// setApart returns a node that is no supply and that nothing is done to. What is under way on it is continued
// once the node can be read.
func setApart(n Node) Node {
	n.Pool, n.Cordoned, n.NoScaleDown = "", true, true
	n.CordonedBy, n.Operation, n.Drain = "", nil, nil
	n.CPUMilli, n.MemoryMi, n.Others, n.Allocatable = 0, 0, nil, nil
	gpus := make([]GPU, len(n.GPUs))
	for i := range gpus {
		gpus[i].Device = n.GPUs[i].Device
		gpus[i].Index = i
	}
	n.GPUs = gpus
	return n
}

// unreadable returns a pod of unknown demand, of which only its identity, node, tenant, gang and times are known.
func unreadable(p *Pod, why error) Pod {
	out := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Owner: p.Owner, Node: p.Node, Tenant: p.Tenant, Priority: p.Priority,
		Created: p.Created, PendingSince: p.PendingSince, DaemonSet: p.DaemonSet, Unmade: p.Unmade && p.Node == "", Unreadable: why.Error(),
	}
	if isKey(p.Gang) {
		out.Gang, out.GangMin = p.Gang, max(p.GangMin, 1)
	}
	return out
}

// closed returns tenants that form a valid tree. A tenant with a problem may use nothing more and shares with no
// other. Where the tree itself has a problem, this holds for all of them.
func closed(tenants []Tenant, bad map[int]error) []Tenant {
	all := bad[-1] != nil
	shut := map[string]bool{}
	var out []Tenant
	for i, t := range tenants {
		if all || bad[i] != nil {
			if t.Name == "" || shut[t.Name] {
				continue
			}
			shut[t.Name] = true
			t = Tenant{Tenant: quota.Tenant{Name: t.Name}}
		}
		out = append(out, t)
	}
	for i := range out {
		if shut[out[i].Parent] {
			out[i].Parent = ""
		}
	}
	return out
}

func counted(all map[string][]Growth) map[string][]Growth {
	return kept(all, func(_ string, list []Growth) bool {
		return !slices.ContainsFunc(list, func(g Growth) bool { return g.Nodes < 0 })
	})
}
