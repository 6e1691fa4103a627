package plan

import (
	"slices"
	"strconv"
	"strings"
)

// hostPort begins what lacks returns for a host port that is taken.
const hostPort = "host port "

// String is "TCP/8080", or "TCP/8080/10.0.0.1" for a port of one address.
func (h HostPort) String() string {
	text := h.Protocol + "/" + strconv.Itoa(h.Port)
	if h.IP != "" {
		text += "/" + h.IP
	}
	return text
}

// conflicts reports whether one node cannot have both.
func (h HostPort) conflicts(o HostPort) bool {
	return h.Protocol == o.Protocol && h.Port == o.Port && (h.IP == o.IP || h.IP == "" || o.IP == "")
}

// takenPort names the first of a pod's host ports that is taken, empty for none.
func (r *capacity) takenPort(p *Pod) string {
	for _, h := range p.HostPorts {
		if slices.ContainsFunc(r.ports, h.conflicts) {
			return hostPort + h.String()
		}
	}
	return ""
}

// releasePorts releases the host ports of a running pod.
func (r *capacity) releasePorts(p *Pod) {
	for _, h := range p.HostPorts {
		if i := slices.Index(r.ports, h); i >= 0 {
			r.ports = slices.Delete(slices.Clone(r.ports), i, i+1)
		}
	}
}

// lackText is what a node lacks: "not enough cpu", "host port TCP/8080 is taken".
func lackText(lack string) string {
	if strings.HasPrefix(lack, hostPort) {
		return lack + " is taken"
	}
	return "not enough " + lack
}

// ConflictsOnHost reports whether two pods take the same host port.
func ConflictsOnHost(a, b Pod) bool {
	return slices.ContainsFunc(a.HostPorts, func(h HostPort) bool { return slices.ContainsFunc(b.HostPorts, h.conflicts) })
}
