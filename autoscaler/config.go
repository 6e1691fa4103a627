package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	// Interval between reconciles.
	Interval metav1.Duration `json:"interval"`
	// IdleInterval between reconciles while no pod is pending, no operation is under way
	// and no node leaves; a change ends it. Where no provider gives notices of interruptions it
	// is three times that. Prometheus is queried less often then, too. While pods wait and
	// nothing is under way it is five times Interval, at most IdleInterval.
	// A value not above Interval turns all three off.
	IdleInterval metav1.Duration `json:"idleInterval"`
	// Settle is how long a reconcile waits after a pod became unschedulable, since
	// others often follow: up to three times that while more come, and up to 1s while
	// hundreds are pending. At most 1s.
	Settle metav1.Duration `json:"settle"`
	// Nominate writes status.nominatedNodeName of a pod for which others are evicted, so
	// that kube-scheduler reserves the capacity for it. It needs the right to patch
	// pods/status.
	Nominate   bool             `json:"nominate"`
	Prometheus PrometheusConfig `json:"prometheus"`
	// ExporterNamespaces are the namespaces of GPU exporters: of GPU series, only those of
	// targets there are used. Only administrators should create pods there. "*" trusts
	// every target; an empty list trusts none, and allocations are unknown.
	ExporterNamespaces []string         `json:"exporterNamespaces"`
	Election           ElectionConfig   `json:"leaderElection"`
	MIGManager         MIGManagerConfig `json:"migManager"`
	Debug              DebugConfig      `json:"debug"`
	// ExternalGRPC are the providers that pools name in spec.provider.externalGRPC.
	ExternalGRPC map[string]externalgrpc.Config `json:"externalGRPC"`
	Policy       PolicyConfig                   `json:"policy"`
	// ProvisioningClasses are the classes of ProvisioningRequests (autoscaling.x-k8s.io) to serve, none by
	// default: another autoscaler may serve them.
	ProvisioningClasses []string `json:"provisioningClasses"`
	// Forecasts of workloads, for which nodes are added ahead of demand. 0s stands for a horizon of 10m, a history of 168h,
	// steps of 1m.
	Forecasts []observe.Series `json:"forecasts"`
	// Holidays are the days on which they follow earlier holidays.
	Holidays *HolidaysConfig `json:"holidays"`
}

// PrometheusConfig is the source of the exporters' series. Without a URL allocations are
// known by bound pods alone, so for whole GPUs: none in use is repartitioned.
type PrometheusConfig struct {
	prom.Config
	// Interval between readings; Timeout of a query.
	Interval metav1.Duration `json:"interval"`
	Timeout  metav1.Duration `json:"timeout"`
	// MaxAge of an exporter's sample, scrape included; older ones are unknown.
	MaxAge metav1.Duration `json:"maxAge"`
}

// ElectionConfig is the leader election.
type ElectionConfig struct {
	Enabled       bool            `json:"enabled"`
	Namespace     string          `json:"namespace"`
	Name          string          `json:"name"`
	LeaseDuration metav1.Duration `json:"leaseDuration"`
	RenewDeadline metav1.Duration `json:"renewDeadline"`
	RetryPeriod   metav1.Duration `json:"retryPeriod"`
}

// MIGManagerConfig is the ConfigMap that the GPU Operator's mig-manager reads.
type MIGManagerConfig struct {
	Namespace string `json:"namespace"`
	ConfigMap string `json:"configMap"`
	// ConfigDelay is the time between publishing a new config and selecting it: kubelet
	// updates the ConfigMap in mig-manager's pod with a delay, 1 to 71 s in 24 samples
	// of a kubelet 1.37.1. 100s is safe. With the default 0s a first attempt may fail
	// and be rolled back.
	ConfigDelay metav1.Duration `json:"configDelay"`
}

// Default is the configuration of an empty file.
func Default() Config {
	return Config{
		Interval: seconds(1),
		Settle:   duration(200 * time.Millisecond),
		Nominate: true,

		IdleInterval: seconds(10),
		Prometheus:   PrometheusConfig{Interval: seconds(2), Timeout: seconds(5), MaxAge: seconds(30)},

		ExporterNamespaces: []string{"gpuscale-system"},
		Election: ElectionConfig{
			Enabled: true, Namespace: "gpuscale-system", Name: "gpuscale-autoscaler",
			LeaseDuration: seconds(15), RenewDeadline: seconds(10), RetryPeriod: seconds(2),
		},
		MIGManager: MIGManagerConfig{Namespace: "gpu-operator", ConfigMap: "gpuscale-mig-config"},
		Policy:     policyConfig(plan.DefaultPolicy()),
	}
}

func seconds(n int) metav1.Duration { return duration(time.Duration(n) * time.Second) }

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }

// Load reads, parses and validates a file; an empty name stands for Default.
func Load(file string) (Config, error) {
	if file == "" {
		return Default(), Default().Validate()
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return Parse(file, text)
}

// Parse reads a file over the defaults and validates it.
func Parse(file string, text []byte) (Config, error) {
	c := Default()
	if err := strict.Read(file, text, &c, func() error { return c.Validate() }); err != nil {
		return Config{}, err
	}
	c.Prometheus.Config.Timeout = c.Prometheus.Timeout.Duration
	return c, nil
}

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
	p.positive("interval", c.Interval)
	p.notNegative("idleInterval", c.IdleInterval)
	if s := c.Settle.Duration; s < 0 || s > time.Second {
		p.add("settle", "%s: want 0s to 1s", s)
	}
	c.Election.validate(&p)
	p.given("migManager.namespace", c.MIGManager.Namespace)
	p.given("migManager.configMap", c.MIGManager.ConfigMap)
	p.notNegative("migManager.configDelay", c.MIGManager.ConfigDelay)
	for _, name := range slices.Sorted(maps.Keys(c.ExternalGRPC)) {
		p.under("externalGRPC."+name, c.ExternalGRPC[name].Validate())
	}
	for i, class := range c.ProvisioningClasses {
		if class != foreign.AtomicScaleUp && class != foreign.CheckCapacity {
			p.add(fmt.Sprintf("provisioningClasses[%d]", i), "%q: want %s or %s", class, foreign.AtomicScaleUp, foreign.CheckCapacity)
		}
	}
	p.under("policy", c.Policy.Plan().Check())
	for _, of := range []struct {
		field string
		d     metav1.Duration
	}{{"repartitionTimeout", c.Policy.RepartitionTimeout}, {"nodeLife", c.Policy.NodeLife}, {"nodeOverdue", c.Policy.NodeOverdue},
		{"drainTimeout", c.Policy.DrainTimeout}, {"replaceInterval", c.Policy.ReplaceInterval}} {
		if of.d.Duration == 0 {
			p.positive("policy."+of.field, of.d)
		}
	}
	validateForecasts(c.Forecasts, c.Prometheus.URL, &p)
	c.Holidays.read(&p)
	if c.MIGManager.ConfigDelay.Duration >= c.Policy.RepartitionTimeout.Duration {
		p.add("migManager.configDelay", "%s: must be shorter than policy.repartitionTimeout, %s",
			c.MIGManager.ConfigDelay.Duration, c.Policy.RepartitionTimeout.Duration)
	}
	return errors.Join(p...)
}

func (e ElectionConfig) validate(p *problems) {
	if !e.Enabled {
		return
	}
	p.given("leaderElection.namespace", e.Namespace)
	p.given("leaderElection.name", e.Name)
	lease, renew, retry := e.LeaseDuration.Duration, e.RenewDeadline.Duration, e.RetryPeriod.Duration
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

func (p *problems) positive(field string, d metav1.Duration) {
	if d.Duration <= 0 {
		p.add(field, "%s: must be above 0s", d.Duration)
	}
}

func (p *problems) notNegative(field string, d metav1.Duration) {
	if d.Duration < 0 {
		p.add(field, "%s: must not be below 0s", d.Duration)
	}
}

// PolicyConfig is plan.Policy, which has the fields' meanings, as it is configured. A share is 0 … 1,
// money is in the currency of the pools' prices. Fields are copied by name.
type PolicyConfig struct {
	Freeze                       bool            `json:"freeze"`
	MaxActionsPerReconcile       int             `json:"maxActionsPerReconcile"`
	MaxNodesPerScaleUp           int             `json:"maxNodesPerScaleUp"`
	MaxNodesPerHour              int             `json:"maxNodesPerHour"`
	MaxRemovalsPerReconcile      int             `json:"maxRemovalsPerReconcile"`
	MaxRemovalShare              float64         `json:"maxRemovalShare"`
	MaxRemovalsPerTenMinutes     int             `json:"maxRemovalsPerTenMinutes"`
	SoftTaints                   bool            `json:"softTaints"`
	RemovalInterval              metav1.Duration `json:"removalInterval"`
	ScaleDownCooldown            metav1.Duration `json:"scaleDownCooldown"`
	RepartitionCooldown          metav1.Duration `json:"repartitionCooldown"`
	RepartitionTimeout           metav1.Duration `json:"repartitionTimeout"`
	MaxUnready                   float64         `json:"maxUnready"`
	OKUnready                    int             `json:"okUnready"`
	MaxIdleAtOnce                float64         `json:"maxIdleAtOnce"`
	IdleHold                     metav1.Duration `json:"idleHold"`
	OKIdle                       int             `json:"okIdle"`
	WaitCostPerHour              float64         `json:"waitCostPerHour"`
	DisruptionCost               float64         `json:"disruptionCost"`
	NodeLife                     metav1.Duration `json:"nodeLife"`
	NodeOverdue                  metav1.Duration `json:"nodeOverdue"`
	ScaleUpBorrowed              bool            `json:"scaleUpBorrowed"`
	ReclaimBorrowed              bool            `json:"reclaimBorrowed"`
	MaxEvictionsPerReconcile     int             `json:"maxEvictionsPerReconcile"`
	EvictionCost                 float64         `json:"evictionCost"`
	SkipNodesWithLocalStorage    bool            `json:"skipNodesWithLocalStorage"`
	ExpendablePodsPriorityCutoff int             `json:"expendablePodsPriorityCutoff"`
	BalanceSimilarNodeGroups     bool            `json:"balanceSimilarNodeGroups"`
	MaxDrains                    int             `json:"maxDrains"`
	DrainTimeout                 metav1.Duration `json:"drainTimeout"`
	DrainCooldown                metav1.Duration `json:"drainCooldown"`
	Headroom                     plan.Headroom   `json:"headroom"`
	HeadroomWeight               float64         `json:"headroomWeight"`
	SickAfter                    metav1.Duration `json:"sickAfter"`
	ReplaceInterval              metav1.Duration `json:"replaceInterval"`
	MaxSickShare                 float64         `json:"maxSickShare"`
}

// Plan converts to the planner's policy.
func (c PolicyConfig) Plan() (p plan.Policy) {
	copyFields(reflect.ValueOf(c), reflect.ValueOf(&p).Elem())
	return p
}

// policyConfig is the inverse of Plan.
func policyConfig(p plan.Policy) (c PolicyConfig) {
	copyFields(reflect.ValueOf(p), reflect.ValueOf(&c).Elem())
	return c
}

// copyFields copies the fields of one struct to those of the other by name. Only durations
// differ in type. TestPolicyThereAndBack finds missing fields.
func copyFields(from, to reflect.Value) {
	for i := range from.NumField() {
		value, field := from.Field(i), to.FieldByName(from.Type().Field(i).Name)
		switch d := value.Interface().(type) {
		case metav1.Duration:
			field.SetInt(int64(d.Duration))
		case time.Duration:
			field.Set(reflect.ValueOf(duration(d)))
		default:
			field.Set(value)
		}
	}
}
