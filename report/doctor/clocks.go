package doctor

import (
	"fmt"
	"time"
)

// skews that are reported, and that are faults.
const (
	skewed = 5 * time.Second
	broken = 30 * time.Second
)

func clockSkew(l *look) {
	if l.f.Now.IsZero() {
		l.cannot("the API server reported no time")
		return
	}
	if d := l.f.Now.Sub(l.f.Local); d.Abs() > skewed {
		l.warn(Finding{Object: "This machine", Seen: fmt.Sprintf("its clock is %s the API server's", behind(-d)),
			Means: "ages in this report are wrong; the cluster is not affected", Fix: "Set the clock of this machine (NTP)."})
	}
	v, known := l.answer(Clock)
	if known && len(v) > 0 && v[0].Value > 0 && v[0].Value < 1e11 {
		at := time.UnixMilli(int64(v[0].Value * 1000))
		l.skew("Prometheus", at.Sub(l.f.Asked)-l.f.Now.Sub(l.f.Local), "samples look older, or younger, than they are: the adapter drops those beyond maxAge, and HPAs do not scale")
	}
	l.nodeClocks()
}

// skew adds a finding for a wrong clock.
func (l *look) skew(object string, ahead time.Duration, means string) {
	if ahead.Abs() <= skewed {
		return
	}
	f := Finding{Object: object, Seen: fmt.Sprintf("its clock is %s the API server's", behind(ahead)), Means: means, Fix: "Set the clock there (NTP, chrony)."}
	if ahead.Abs() > broken {
		l.fault(f)
	} else {
		l.warn(f)
	}
}

func behind(ahead time.Duration) string {
	if ahead < 0 {
		return (-ahead).Round(time.Second).String() + " behind"
	}
	return ahead.Round(time.Second).String() + " ahead of"
}

// nodeClocks reads the kubelets' clocks from their Leases, which they renew every ten
// seconds. A clock ahead is certain; one behind may be a late renewal, so only what no
// ready node could have is reported.
func (l *look) nodeClocks() {
	nodes := l.nodes()
	if !l.use(NodeLeases) {
		return
	}
	gpu := map[string]bool{}
	for _, n := range nodes {
		if isGPU(n) && isReady(n) {
			gpu[n.Name] = true
		}
	}
	for _, lease := range l.f.NodeLeases {
		if lease.Spec.RenewTime == nil || !gpu[lease.Name] {
			continue
		}
		if ahead := lease.Spec.RenewTime.Sub(l.f.Now.Add(l.f.Took)); ahead > skewed {
			l.skew("Node "+lease.Name, ahead, "its exporter's times are in the future, and Leases held by its pods last longer than others assume")
		}
	}
}
