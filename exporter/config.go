package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/node"
)

// config is the command line and the environment, checked.
type config struct {
	configFile     string
	countersFile   string
	configMap      string // "namespace:name" or "none"
	address        string
	intervalMS     int
	remote         string
	dcgmLog        bool
	dcgmLogLevel   string
	kubernetes     bool
	kubeletSocket  string
	gpuIDType      string
	resources      list
	podLabels      bool
	podUID         bool
	allowlist      list
	virtualGPUs    bool
	enableDRA      bool
	fractionalGPUs bool
	jobsDir        string

	devices, switches, cpus string
	noHostname              bool
	oldNamespace            bool
	dashedModel             bool
	xidWindowMS             int
	clockWindowMS           int

	webConfigFile   string
	systemdSocket   bool
	readTimeout     string
	writeTimeout    string
	maxScrapes      int
	exporterMetrics bool
	requireGPUs     bool
	pprof           bool
	dump            dumpOptions
	// Bounds of what is served, and what is done beside serving.
	maxSeries                        int
	gzip                             bool
	quiesceSocket                    string
	quiesceAnnotation, nodeCondition bool

	debug     bool
	logFormat string

	source string
	replay string
	node   string
	compat string

	// Of the texts above, checked.
	allowed  []*regexp.Regexp
	selected struct{ devices, switches, cpus collect.Selection }
	timeouts struct{ read, write time.Duration }
	fields   []counters.Field // of the configuration file; nil: of countersFile
	groups   []watchGroup
	// warnings name options without effect.
	warnings []string
}

// complete takes the environment where no flag was given and checks the result.
// It returns all problems at once.
func complete(f *pflag.FlagSet, env func(string) (string, bool), c *config) error {
	var problems []error
	for _, o := range c.options() {
		if value, ok := env(o.env); ok && value != "" && !f.Changed(o.name) {
			if err := f.Set(o.name, value); err != nil {
				problems = append(problems, fmt.Errorf("%s=%q: %w", o.env, value, err))
				_ = f.Set(o.name, f.Lookup(o.name).DefValue) // or zero would be a second problem
			}
		}
	}
	if c.configFile != "" {
		problems = append(problems, c.readConfigFile(f.Changed))
	}
	c.warnings = append(c.warnings, noEffect(f)...)
	if c.node == "" {
		name, err := os.Hostname()
		if err != nil {
			problems = append(problems, fmt.Errorf("--node: not given, and the host has no name: %w", err))
		}
		c.node = name
	}
	problems = append(problems, c.validate()...)
	problems = slices.DeleteFunc(problems, func(err error) bool { return err == nil })
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

// validate returns all problems, each with its flag.
func (c *config) validate() []error {
	var problems []error
	problem := func(flag, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--"+flag+": "+format, args...))
	}
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			problem(flag, "%q is not one of %s", value, strings.Join(allowed, ", "))
		}
	}
	oneOf("source", c.source, "auto", "dcgm", "nvml", "replay")
	oneOf("compat", c.compat, "true", "once", "false")
	oneOf("kubernetes-gpu-id-type", c.gpuIDType, "uid", "device-name")
	oneOf("log-format", c.logFormat, "text", "json")
	oneOf("dcgm-log-level", c.dcgmLogLevel, "NONE", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "VERB")
	if c.base() < node.MinInterval {
		problem("collect-interval", "%d ms, at least %d", c.intervalMS, node.MinInterval.Milliseconds())
	}
	for flag, ms := range map[string]int{"xid-count-window-size": c.xidWindowMS, "clock-events-count-window-size": c.clockWindowMS} {
		if ms <= 0 {
			problem(flag, "%d ms, want more than 0", ms)
		}
	}
	for flag, n := range map[string]int{"max-concurrent-scrapes": c.maxScrapes, "max-series": c.maxSeries} {
		if n < 0 {
			problem(flag, "%d, want 0 (any number) or more", n)
		}
	}
	if c.dump.retentionHours < 0 {
		problem("dump-retention", "%d hours, want 0 (for ever) or more", c.dump.retentionHours)
	}
	if c.source == "replay" && c.replay == "" {
		problem("source replay", "needs --replay FILE")
	}
	if (c.source == "dcgm" || c.source == "nvml") && c.replay != "" {
		problem("replay", "cannot be used with --source %s", c.source)
	}
	if c.source == "nvml" && c.remote != "" {
		problem("remote-hostengine-info", "cannot be used with --source nvml")
	}
	if c.pprof && c.webConfigFile == "" {
		problem("enable-pprof", "needs --web-config-file: profiles must not be served without TLS or a password")
	}
	return append(problems, c.parse()...)
}

// parse reads the texts that have a syntax of their own.
func (c *config) parse() []error {
	var problems []error
	for _, s := range []struct {
		flag, text string
		into       *collect.Selection
	}{
		{"devices", c.devices, &c.selected.devices},
		{"switch-devices", c.switches, &c.selected.switches},
		{"cpu-devices", c.cpus, &c.selected.cpus},
	} {
		selection, err := collect.ParseSelection(s.text)
		if err != nil {
			problems = append(problems, fmt.Errorf("--%s: %w", s.flag, err))
		}
		*s.into = selection
	}
	c.timeouts.read = c.timeout("web-read-timeout", c.readTimeout)
	c.timeouts.write = c.timeout("web-write-timeout", c.writeTimeout)
	c.allowed = nil
	for _, text := range c.allowlist {
		re, err := regexp.Compile(text)
		if err != nil {
			problems = append(problems, fmt.Errorf("--kubernetes-pod-label-allowlist-regex: %w", err))
			continue
		}
		c.allowed = append(c.allowed, re)
	}
	if c.configMap == "none" || c.configMap == "" {
		c.configMap = ""
	} else if namespace, name, ok := strings.Cut(c.configMap, ":"); !ok || namespace == "" || name == "" || strings.ContainsAny(name, ":/") || strings.Contains(namespace, "/") {
		problems = append(problems, fmt.Errorf("--configmap-data: %q, want NAMESPACE:NAME or none", c.configMap))
	}
	return problems
}

// timeout reads a duration; as in dcgm-exporter a text that is none gives the
// default and a warning.
func (c *config) timeout(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err == nil && d >= 0 {
		return d
	}
	c.warnings = append(c.warnings, fmt.Sprintf("--%s: %q is no duration such as 10s; it is %s", flag, text, defaultTimeout))
	return defaultTimeout
}

// defaultTimeout of a request's reading and its answer's writing.
const defaultTimeout = 10 * time.Second

func (c *config) compatOptions(fields []counters.Field) collect.CompatOptions {
	return collect.CompatOptions{
		Mode: collect.Compat(c.compat), Counters: fields, Hostname: c.hostname(),
		OldNamespace: c.oldNamespace, DashedModel: c.dashedModel, VirtualGPUs: c.virtualGPUs,
		Devices: c.selected.devices, Switches: c.selected.switches, CPUs: c.selected.cpus,
		XIDWindow:         time.Duration(c.xidWindowMS) * time.Millisecond,
		ClockEventsWindow: time.Duration(c.clockWindowMS) * time.Millisecond,
	}
}

// hostname is the value of the DCGM series' hostname label: as in dcgm-exporter the host of a
// remote host engine's address, unless that is this machine, as always under Kubernetes: there
// the address is a Service's, or the node's.
func (c *config) hostname() string {
	if c.noHostname {
		return ""
	}
	address := strings.TrimPrefix(c.remote, "tcp://")
	if c.kubernetes || c.compat != "true" || strings.HasPrefix(address, "/") || strings.Contains(address, "://") {
		return c.node
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil { // it has no port
		host = address
	}
	ip, _ := netip.ParseAddr(strings.Trim(host, "[]"))
	if host == "" || strings.EqualFold(host, "localhost") || ip.IsLoopback() {
		return c.node
	}
	return host
}

// eventWindow is how long a source keeps single events for the windowed counts.
func (c *config) eventWindow() time.Duration {
	return time.Duration(max(c.xidWindowMS, c.clockWindowMS)) * time.Millisecond
}
