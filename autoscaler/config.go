package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/gpuscale/gpuscale/autoscaler/observe"
	"github.com/gpuscale/gpuscale/autoscaler/observe/foreign"
	"github.com/gpuscale/gpuscale/autoscaler/pools/externalgrpc"
	"github.com/gpuscale/gpuscale/gpu/trust"
	"github.com/gpuscale/gpuscale/internal/prom"
	"github.com/gpuscale/gpuscale/internal/strict"
	"github.com/gpuscale/gpuscale/plan"
)

// Config is the program's configuration file. Durations are written "30s".
type Config struct {
	// Interval between reconciles, at most 1m.
	Interval time.Duration `json:"interval"`
	// IdleInterval between reconciles while no pod is pending, no operation is under way
	// and no node leaves; a change ends it. Where no provider gives notices of interruptions it
	// is three times as long. Prometheus is queried less often then, too. While pods are pending
	// and nothing is under way, the interval is five times Interval, at most IdleInterval. Only a
	// pod that becomes unschedulable, or a changed spec, ends that early. A value not above
	// Interval turns all three off. At most 1m.
	IdleInterval time.Duration `json:"idleInterval"`
	// Settle is how long a reconcile waits after a pod became unschedulable, since
	// others often follow: up to three times that while more come, and up to 1.8s while
	// a burst goes on. At most 1s.
	Settle time.Duration `json:"settle"`
	// Nominate writes status.nominatedNodeName of a pod for which others are evicted, or
	// which waits for a node that is coming up, so that kube-scheduler reserves the capacity
	// for it. It needs the right to patch pods/status.
	Nominate   bool             `json:"nominate"`
	Prometheus PrometheusConfig `json:"prometheus"`
	// ExporterNamespaces are the namespaces of GPU exporters. Only GPU series of targets in
	// them are used. Only administrators should create pods there. "*" trusts
	// every target; an empty list trusts none, and allocations are unknown.
	ExporterNamespaces []string         `json:"exporterNamespaces"`
	Election           ElectionConfig   `json:"leaderElection"`
	MIGManager         MIGManagerConfig `json:"migManager"`
	Debug              DebugConfig      `json:"debug"`
	// ExternalGRPC are the providers that pools name in spec.provider.externalGRPC.
	ExternalGRPC map[string]externalgrpc.Config `json:"externalGRPC"`
	Policy       plan.Policy                    `json:"policy"`
	// ProvisioningClasses are the classes of ProvisioningRequests (autoscaling.x-k8s.io) to serve, none by
	// default: another autoscaler may serve them.
	ProvisioningClasses []string `json:"provisioningClasses"`
	// Forecasts of workloads, for which nodes are added ahead of demand. 0s stands for a horizon of 10m, a history of 168h,
	// steps of 1m.
	Forecasts []observe.Series `json:"forecasts"`
	// Holidays are the days on which forecasts follow earlier holidays.
	Holidays *HolidaysConfig `json:"holidays"`
}

// PrometheusConfig is the source of the exporters' series. Without a URL allocations are known by
// bound pods alone, so only those of whole GPUs, and no GPU in use is repartitioned.
type PrometheusConfig struct {
	prom.Config
	// Interval between readings.
	Interval time.Duration `json:"interval"`
	// MaxAge of an exporter's sample, scrape included; older ones are unknown.
	MaxAge time.Duration `json:"maxAge"`
}

// ElectionConfig is the leader election.
type ElectionConfig struct {
	Enabled       bool          `json:"enabled"`
	Namespace     string        `json:"namespace"`
	Name          string        `json:"name"`
	LeaseDuration time.Duration `json:"leaseDuration"`
	RenewDeadline time.Duration `json:"renewDeadline"`
	RetryPeriod   time.Duration `json:"retryPeriod"`
}

// MIGManagerConfig is the ConfigMap that the GPU Operator's mig-manager reads.
type MIGManagerConfig struct {
	Namespace string `json:"namespace"`
	ConfigMap string `json:"configMap"`
	// ConfigDelay is the time between publishing a new config and selecting it: kubelet
	// updates the ConfigMap in mig-manager's pod with a delay, 1 to 71 s in 24 samples
	// of a kubelet 1.37.1. 100s is safe. With the default 0s a first attempt may fail
	// and be rolled back.
	ConfigDelay time.Duration `json:"configDelay"`
}

// defaultConfig is the configuration of an empty file.
func defaultConfig() Config {
	return Config{
		Interval: time.Second, IdleInterval: 10 * time.Second, Settle: 200 * time.Millisecond,
		Nominate: true,

		Prometheus: PrometheusConfig{Config: prom.Config{Timeout: 5 * time.Second}, Interval: 2 * time.Second, MaxAge: 30 * time.Second},

		ExporterNamespaces: []string{"gpuscale-system"},
		Election: ElectionConfig{
			Enabled: true, Namespace: "gpuscale-system", Name: "gpuscale-autoscaler",
			LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		},
		MIGManager: MIGManagerConfig{Namespace: "gpu-operator", ConfigMap: "gpuscale-mig-config"},
		Policy:     plan.DefaultPolicy(),
	}
}

// load reads, parses and validates a file; an empty name stands for the defaults.
func load(file string) (Config, error) {
	if file == "" {
		return defaultConfig(), defaultConfig().Validate()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return parse(file, text)
}

// parse reads a file over the defaults and validates it.
func parse(file string, text []byte) (Config, error) {
	c := defaultConfig()
	err := strict.Read(file, text, &c, func() error { return c.Validate() })
	return c, err
}

// maxInterval bounds interval and idleInterval. The alerts GpuscaleAutoscalerDown and GpuscaleSnapshotStale take longer
// pauses between reconciles for a failure: an idle autoscaler pauses for three times idleInterval.
const maxInterval = time.Minute

// Validate returns all problems, each with its field's path.
func (c Config) Validate() error {
	var p problems
	if c.Prometheus.URL != "" {
		p.under("prometheus", c.Prometheus.Config.Validate())
	}
	p.positive("prometheus.interval", c.Prometheus.Interval)
	p.positive("prometheus.timeout", c.Prometheus.Timeout)
	p.positive("prometheus.maxAge", c.Prometheus.MaxAge)
	p = append(p, trust.Validate("exporterNamespaces", c.ExporterNamespaces)...)
	if c.Interval <= 0 || c.Interval > maxInterval {
		p.add("interval", "%s: want above 0s, at most %s", c.Interval, maxInterval)
	}
	if c.IdleInterval < 0 || c.IdleInterval > maxInterval {
		p.add("idleInterval", "%s: want 0s to %s", c.IdleInterval, maxInterval)
	}
	if c.Settle < 0 || c.Settle > time.Second {
		p.add("settle", "%s: want 0s to 1s", c.Settle)
	}
	c.Election.validate(&p)
	p.given("migManager.namespace", c.MIGManager.Namespace)
	p.given("migManager.configMap", c.MIGManager.ConfigMap)
	for _, name := range slices.Sorted(maps.Keys(c.ExternalGRPC)) {
		p.under("externalGRPC."+name, c.ExternalGRPC[name].Validate())
	}
	for i, class := range c.ProvisioningClasses {
		if class != foreign.AtomicScaleUp && class != foreign.CheckCapacity {
			p.add(fmt.Sprintf("provisioningClasses[%d]", i), "%q: want %s or %s", class, foreign.AtomicScaleUp, foreign.CheckCapacity)
		}
	}
	p.under("policy", c.Policy.Check())
	for _, of := range []struct {
		field string
		d     time.Duration
	}{{"repartitionTimeout", c.Policy.RepartitionTimeout}, {"nodeLife", c.Policy.NodeLife}, {"nodeOverdue", c.Policy.NodeOverdue},
		{"drainTimeout", c.Policy.DrainTimeout}, {"replaceInterval", c.Policy.ReplaceInterval}} {
		if of.d == 0 {
			p.positive("policy."+of.field, of.d)
		}
	}
	validateForecasts(c.Forecasts, c.Prometheus.URL, &p)
	c.Holidays.read(&p)
	if d := c.MIGManager.ConfigDelay; d < 0 || d >= c.Policy.RepartitionTimeout {
		p.add("migManager.configDelay", "%s: must be 0s or more, and shorter than policy.repartitionTimeout, %s", d, c.Policy.RepartitionTimeout)
	}
	return errors.Join(p...)
}

func (e ElectionConfig) validate(p *problems) {
	if !e.Enabled {
		return
	}
	p.given("leaderElection.namespace", e.Namespace)
	p.given("leaderElection.name", e.Name)
	lease, renew, retry := e.LeaseDuration, e.RenewDeadline, e.RetryPeriod
	if lease < time.Second || lease <= renew || renew.Seconds() <= leaderelection.JitterFactor*retry.Seconds() || retry <= 0 {
		p.add("leaderElection", "want leaseDuration > renewDeadline > %v × retryPeriod > 0s, and a leaseDuration of a second or more, got %s, %s, %s",
			leaderelection.JitterFactor, lease, renew, retry)
	}
}

// problems of a configuration, each with its field's path.
type problems []error

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

// under adds joined problems, with path before the path of each.
func (p *problems) under(path string, err error) { *p = append(*p, strict.Under(path, err)...) }

func (p *problems) given(field, value string) {
	if value == "" {
		p.add(field, "is required")
	}
}

func (p *problems) positive(field string, d time.Duration) {
	if d <= 0 {
		p.add(field, "%s: must be above 0s", d)
	}
}

func (p *problems) notNegative(field string, d time.Duration) {
	if d < 0 {
		p.add(field, "%s: must not be below 0s", d)
	}
}
