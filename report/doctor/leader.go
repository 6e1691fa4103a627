package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// config is the part of the autoscaler's configuration that checks read.
type config struct {
	LeaderElection struct {
		Enabled       *bool            `json:"enabled"`
		Namespace     string           `json:"namespace"`
		Name          string           `json:"name"`
		LeaseDuration *metav1.Duration `json:"leaseDuration"`
	} `json:"leaderElection"`
	Policy struct {
		Freeze bool `json:"freeze"`
	} `json:"policy"`
}

// maxConfig bounds the bytes read of a file.
const maxConfig = 1 << 20

// parseConfig reads the autoscaler's file; strictly is for the autoscaler.
func parseConfig(text string) (config, error) {
	var c config
	if len(text) > maxConfig {
		return c, fmt.Errorf("it has %d bytes", len(text))
	}
	if err := yaml.Unmarshal([]byte(text), &c); err != nil {
		return config{}, fmt.Errorf("reading it: %w", err)
	}
	return c, nil
}

// config returns an autoscaler's configuration; known is false where it cannot be read.
func (l *look) config(p Program) (c config, known bool) {
	if p.ConfigMap == "" || !l.use(ConfigMaps) {
		return config{}, p.ConfigMap == ""
	}
	m := find(l.f.ConfigMaps, p.Namespace, p.ConfigMap)
	if m == nil {
		return config{}, true // its absence shows in the pods
	}
	c, err := parseConfig(m.Data["config.yaml"])
	if err != nil {
		l.cannot("ConfigMap %s/%s: %v", m.Namespace, m.Name, err)
	}
	return c, err == nil
}

func leader(l *look) {
	programs := l.programs("autoscaler")
	if len(programs) == 0 {
		if l.has(Deployments) {
			l.skip("no autoscaler of gpuscale was found")
		}
		return
	}
	for _, p := range programs {
		if slices.ContainsFunc(p.Args, isDryRun) {
			continue // it has no Lease, and pool-frozen reports it
		}
		if p.Wanted == 0 {
			l.warn(Finding{
				Object: p.Object(), Seen: "spec.replicas is 0",
				Fix: "Scale it up, unless this is intended.", Commands: []string{l.in(p.Namespace, "scale", p.Ref(), "--replicas=2")},
			})
			continue
		}
		if !l.lease(p) {
			l.lastReconcile(p)
		}
	}
}

// lease checks the leader by its Lease, and reports whether there is a finding.
func (l *look) lease(p Program) bool {
	c, known := l.config(p)
	if !known || c.LeaderElection.Enabled != nil && !*c.LeaderElection.Enabled {
		return false
	}
	if !l.use(Leases) {
		return false
	}
	name := c.LeaderElection.Name
	if name == "" {
		name = "gpuscale-autoscaler"
	}
	f := Finding{
		Object: "Lease " + p.Namespace + "/" + name, Means: "no replica leads: nothing is scaled, repartitioned or explained",
		Fix:      "Check why no replica acquires it.",
		Commands: []string{l.in(p.Namespace, "get", "pods", "-l", selectorText(p)), l.in(p.Namespace, "describe", p.Ref()), l.in(p.Namespace, "logs", p.Ref(), "--tail=50")},
	}
	if c.LeaderElection.Namespace != "" && c.LeaderElection.Namespace != p.Namespace {
		l.cannot("the Lease is in namespace %s, which was not read", c.LeaderElection.Namespace)
		return false
	}
	found := find(l.f.Leases, p.Namespace, name)
	if found == nil {
		f.Seen = "it does not exist, and " + p.Object() + " is"
		l.fault(f)
		return true
	}
	spec := found.Spec
	switch {
	case spec.HolderIdentity == nil || *spec.HolderIdentity == "":
		f.Seen = "holderIdentity is empty"
	case spec.RenewTime == nil:
		f.Seen = "renewTime is empty"
	case l.f.Now.Add(l.f.Took).Sub(spec.RenewTime.Time) > 2*leaseDuration(spec):
		f.Seen = fmt.Sprintf("%s renewed it %s ago, and it lasts %s", *spec.HolderIdentity, l.f.Now.Add(l.f.Took).Sub(spec.RenewTime.Time).Round(time.Second), leaseDuration(spec))
	default:
		return false
	}
	l.fault(f)
	return true
}

func leaseDuration(s coordinationv1.LeaseSpec) time.Duration {
	if s.LeaseDurationSeconds == nil || *s.LeaseDurationSeconds <= 0 {
		return 15 * time.Second
	}
	return time.Duration(*s.LeaseDurationSeconds) * time.Second
}

func selectorText(p Program) string {
	if p.Selector == nil {
		return labelName + "=" + p.PodLabels[labelName]
	}
	var words []string
	for name, v := range p.Selector.MatchLabels {
		words = append(words, name+"="+v)
	}
	slices.Sort(words)
	return strings.Join(words, ",")
}

// reconcileLate is how old the last reconcile may be: the longest pause is ten seconds.
const reconcileLate = time.Minute

// lastReconcile checks the age of the last reconcile, by the autoscaler's own series.
func (l *look) lastReconcile(p Program) {
	f := Finding{Object: p.Object(), Commands: []string{l.in(p.Namespace, "logs", p.Ref(), "--tail=50")}}
	if v, known := l.answer(Leaders); known && len(v) > 0 && v[0].Value > 1 {
		f.Seen = fmt.Sprintf("gpuscale_autoscaler_leader adds up to %s", number(v[0].Value))
		f.Means = "two replicas act as leader; one loses the Lease"
		f.Fix = "If it lasts, check whether two releases share one Prometheus (--match), or leader election is off."
		l.warn(f)
	}
	v, known := l.answer(LastReconcile)
	if !known || len(v) == 0 || !(v[0].Value > 0) || v[0].Value > 1e11 {
		return // without series: scrape-missing
	}
	if age := l.f.Now.Sub(time.UnixMilli(int64(v[0].Value * 1000))); age > reconcileLate {
		f.Seen = fmt.Sprintf("gpuscale_autoscaler_last_reconcile_timestamp_seconds is %s ago", age.Round(time.Second))
		f.Means = "it leads and completes no reconcile: nothing is scaled, repartitioned or explained"
		f.Fix = "Check why its reconciles fail."
		l.fault(f)
	}
}
