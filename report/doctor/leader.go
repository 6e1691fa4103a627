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

// config is the part of the autoscaler's file that is looked at.
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

// maxConfig bounds what a file is believed to say.
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

// config returns what an autoscaler is configured with; known is false where it cannot
// be read.
func (l *look) config(p Program) (c config, known bool) {
	if p.ConfigMap == "" || !l.use(ConfigMaps) {
		return config{}, p.ConfigMap == ""
	}
	for i := range l.f.ConfigMaps {
		m := &l.f.ConfigMaps[i]
		if m.Namespace != p.Namespace || m.Name != p.ConfigMap {
			continue
		}
		c, err := parseConfig(m.Data["config.yaml"])
		if err != nil {
			l.cannot("ConfigMap %s/%s: %v", m.Namespace, m.Name, err)
		}
		return c, err == nil
	}
	return config{}, true // it is not there: the pods say so
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
			continue // it leads nobody, and pool-frozen says so
		}
		if p.Wanted == 0 {
			l.warn(Finding{
				Object: p.Object(), Seen: "spec.replicas is 0", Means: "nothing is bought, given back, cut or explained",
				Fix: "Scale it up, unless it is meant.", Commands: []string{l.in(p.Namespace, "scale", p.Ref(), "--replicas=2")},
			})
			continue
		}
		if !l.lease(p) {
			l.rounds(p)
		}
	}
}

// lease judges who leads, by the lease, and reports whether there is a finding.
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
		Object: "Lease " + p.Namespace + "/" + name, Means: "nobody decides: nothing is bought, given back, cut or explained",
		Fix:      "See why no replica takes it.",
		Commands: []string{l.in(p.Namespace, "get", "pods", "-l", selectorText(p)), l.in(p.Namespace, "describe", p.Ref()), l.in(p.Namespace, "logs", p.Ref(), "--tail=50")},
	}
	if c.LeaderElection.Namespace != "" && c.LeaderElection.Namespace != p.Namespace {
		l.cannot("the lease is in namespace %s, which was not looked at", c.LeaderElection.Namespace)
		return false
	}
	at := slices.IndexFunc(l.f.Leases, func(one coordinationv1.Lease) bool { return one.Namespace == p.Namespace && one.Name == name })
	if at < 0 {
		f.Seen = "it is not there, and " + p.Object() + " is"
		l.fault(f)
		return true
	}
	spec := l.f.Leases[at].Spec
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

// roundLate is how old the last round may be: the longest pause is ten seconds.
const roundLate = time.Minute

// rounds judges how long ago the last round was, by the autoscaler's own series.
func (l *look) rounds(p Program) {
	f := Finding{Object: p.Object(), Commands: []string{l.in(p.Namespace, "logs", p.Ref(), "--tail=50")}}
	if v, known := l.answer(Leaders); known && len(v) > 0 && v[0].Value > 1 {
		f.Seen = fmt.Sprintf("gpuscale_autoscaler_leader adds up to %s", number(v[0].Value))
		f.Means = "two replicas believe that they lead; the lease refuses the writes of one"
		f.Fix = "If it lasts, see whether two releases share one Prometheus (--match), or an election is switched off."
		l.warn(f)
	}
	v, known := l.answer(LastRound)
	if !known || len(v) == 0 || !(v[0].Value > 0) || v[0].Value > 1e11 {
		return // without series: scrape-missing
	}
	if age := l.f.Now.Sub(time.UnixMilli(int64(v[0].Value * 1000))); age > roundLate {
		f.Seen = fmt.Sprintf("gpuscale_autoscaler_last_round_timestamp_seconds is %s ago", age.Round(time.Second))
		f.Means = "it leads and does not get through a round: nothing is bought, given back, cut or explained"
		f.Fix = "See what its rounds fail on."
		l.fault(f)
	}
}
