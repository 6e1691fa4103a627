package observe

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuscale/gpuscale/plan"
)

// hostPorts returns the host ports that a pod takes, sorted: those of its containers and sidecars.
func hostPorts(s *corev1.PodSpec) []plan.HostPort {
	var out []plan.HostPort
	add := func(ports []corev1.ContainerPort) {
		for _, p := range ports {
			if p.HostPort <= 0 {
				continue
			}
			h := plan.HostPort{Protocol: string(cmp.Or(p.Protocol, corev1.ProtocolTCP)), Port: int(p.HostPort), IP: p.HostIP}
			if h.IP == "0.0.0.0" {
				h.IP = ""
			}
			out = append(out, h)
		}
	}
	for i := range s.InitContainers {
		if policy := s.InitContainers[i].RestartPolicy; policy != nil && *policy == corev1.ContainerRestartPolicyAlways {
			add(s.InitContainers[i].Ports)
		}
	}
	for i := range s.Containers {
		add(s.Containers[i].Ports)
	}
	return sortedPorts(out)
}

func sortedPorts(ports []plan.HostPort) []plan.HostPort {
	slices.SortFunc(ports, func(a, b plan.HostPort) int {
		return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Port, b.Port), cmp.Compare(a.IP, b.IP))
	})
	return slices.Compact(ports)
}

// learnPorts fills in the host ports of pools' new nodes: those that pods of DaemonSets take on more
// than half of the pool's ready nodes. On one that has just come up, not all of them run yet.
func learnPorts(pools []plan.Pool, nodes []plan.Node, bound map[string][]*plan.Pod) {
	ready, taken := map[string]int{}, map[string]map[plan.HostPort]int{}
	for i := range nodes {
		n := &nodes[i]
		if !n.Ready || n.Pool == "" {
			continue
		}
		ready[n.Pool]++
		var ports []plan.HostPort
		for _, p := range bound[n.Name] {
			if p.DaemonSet {
				ports = append(ports, p.HostPorts...)
			}
		}
		for _, h := range sortedPorts(ports) {
			if taken[n.Pool] == nil {
				taken[n.Pool] = map[plan.HostPort]int{}
			}
			taken[n.Pool][h]++
		}
	}
	for i := range pools {
		p := &pools[i]
		for h, on := range taken[p.Name] {
			if 2*on > ready[p.Name] {
				p.Template.HostPorts = append(p.Template.HostPorts, h)
			}
		}
		p.Template.HostPorts = sortedPorts(p.Template.HostPorts)
	}
}
