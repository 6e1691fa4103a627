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
	"github.com/gpuscale/gpuscale/exporter/dcgm"
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
	enableDRA      bool
	fractionalGPUs bool
	jobsDir        string

	devices, switches, cpus string
	noHostname              bool
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

	// The texts above, parsed.
	allowed  []*regexp.Regexp
	series   collect.CompatOptions // without the counters and the host name
	timeouts struct{ read, write time.Duration }
	fields   []counters.Field // of the configuration file; nil: of countersFile
	groups   []watchGroup
	// warnings name options without effect, and those whose values were replaced.
	warnings []string
}

// problems are mistakes, each with the flag, the variable or the field that it is in.
type problems []error

func (p *problems) add(at, format string, args ...any) {
	*p = append(*p, fmt.Errorf("%s: %w", at, fmt.Errorf(format, args...)))
}

// complete takes the environment where no flag was given and checks the result.
// It returns all problems at once.
func complete(f *pflag.FlagSet, env func(string) (string, bool), c *config) error {
	var found problems
	for _, o := range c.options() {
		if value, ok := env(o.env); ok && value != "" && !f.Changed(o.name) {
			if err := f.Set(o.name, value); err != nil {
				found.add(fmt.Sprintf("%s=%q", o.env, value), "%w", wanted(err))
				_ = f.Set(o.name, f.Lookup(o.name).DefValue) // or zero would be a second problem
			}
		}
	}
	if c.configFile != "" {
		if err := c.readConfigFile(f.Changed); err != nil {
			found = append(found, err)
		}
	}
	c.warnings = append(c.warnings, noEffect(f)...)
	if c.node == "" {
		var err error
		if c.node, err = os.Hostname(); err != nil {
			found.add("--node", "not given, and the host name cannot be read: %w", err)
		}
	}
	c.validate(&found)
	slices.SortFunc(found, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(found...)
}

// validate checks the values, and reads the texts that have a syntax of their own.
func (c *config) validate(found *problems) {
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			found.add(flag, "%q is not one of %s", value, strings.Join(allowed, ", "))
		}
	}
	oneOf("--source", c.source, "auto", "dcgm", "nvml", "replay")
	oneOf("--compat", c.compat, "true", "once", "false")
	oneOf("--kubernetes-gpu-id-type", c.gpuIDType, "uid", "device-name")
	oneOf("--log-format", c.logFormat, "text", "json")
	oneOf("--dcgm-log-level", c.dcgmLogLevel, "NONE", "FATAL", "ERROR", "WARN", "INFO", "DEBUG", "VERB")
	atLeast := func(flag string, n, least int, unit string) {
		if n < least {
			found.add(flag, "%d%s is too small, want at least %d", n, unit, least)
		}
	}
	atLeast("--collect-interval", c.intervalMS, int(node.MinInterval.Milliseconds()), " ms")
	atLeast("--xid-count-window-size", c.xidWindowMS, 1, " ms")
	atLeast("--clock-events-count-window-size", c.clockWindowMS, 1, " ms")
	c.series.XIDWindow = time.Duration(c.xidWindowMS) * time.Millisecond
	c.series.ClockEventsWindow = time.Duration(c.clockWindowMS) * time.Millisecond
	atLeast("--max-concurrent-scrapes", c.maxScrapes, 0, "")
	atLeast("--max-series", c.maxSeries, 0, "")
	atLeast("--dump-retention", c.dump.retentionHours, 0, " hours")
	if c.source == "replay" && c.replay == "" {
		found.add("--source replay", "needs --replay FILE")
	}
	if (c.source == "dcgm" || c.source == "nvml") && c.replay != "" {
		found.add("--replay", "cannot be used with --source %s", c.source)
	}
	if c.source == "nvml" && c.remote != "" {
		found.add("--remote-hostengine-info", "cannot be used with --source nvml")
	}
	if c.pprof && c.webConfigFile == "" {
		found.add("--enable-pprof", "needs --web-config-file: profiles must not be served without TLS or a password")
	}
	if _, _, err := net.SplitHostPort(c.address); err != nil && !c.systemdSocket && !strings.HasPrefix(c.address, "unix:") {
		found.add("--address", "%w, want HOST:PORT, :PORT or unix:/PATH", err)
	}
	selection := func(flag, text string) collect.Selection {
		s, err := collect.ParseSelection(text)
		if err != nil {
			found.add(flag, "%w", err)
		}
		return s
	}
	c.series.Devices = selection("--devices", c.devices)
	c.series.Switches = selection("--switch-devices", c.switches)
	c.series.CPUs = selection("--cpu-devices", c.cpus)
	c.timeouts.read = c.timeout("web-read-timeout", c.readTimeout)
	c.timeouts.write = c.timeout("web-write-timeout", c.writeTimeout)
	c.allowed = nil
	for _, text := range c.allowlist {
		re, err := regexp.Compile(text)
		if err != nil {
			found.add("--kubernetes-pod-label-allowlist-regex", "%w", err)
			continue
		}
		c.allowed = append(c.allowed, re)
	}
	if c.configMap == "none" {
		c.configMap = ""
	}
	if c.configMap != "" && !configMapName.MatchString(c.configMap) {
		found.add("--configmap-data", "%q, want NAMESPACE:NAME or none", c.configMap)
	}
}

var configMapName = regexp.MustCompile(`^[^:/]+:[^:/]+$`)

// timeout reads a duration; as in dcgm-exporter a text that is none gives the
// default and a warning.
func (c *config) timeout(flag, text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err == nil && d >= 0 {
		return d
	}
	c.warnings = append(c.warnings, fmt.Sprintf("--%s: %q is not a duration such as 10s; %s is used", flag, text, defaultTimeout))
	return defaultTimeout
}

// defaultTimeout of a request's reading and its answer's writing.
const defaultTimeout = 10 * time.Second

func (c *config) compatOptions(fields []counters.Field) collect.CompatOptions {
	o := c.series
	o.Mode, o.Counters, o.Hostname = collect.Compat(c.compat), fields, c.hostname()
	return o
}

// hostname is the value of the DCGM series' hostname label. As in dcgm-exporter it is the host
// of a remote host engine's address, unless that is this machine. Under Kubernetes it is
// always the node: the address there is a Service's or the node's.
func (c *config) hostname() string {
	if c.noHostname {
		return ""
	}
	address, unix, err := dcgm.Options{Address: c.remote}.Endpoint()
	if c.kubernetes || c.compat != "true" || unix || err != nil { // no address is an error too
		return c.node
	}
	host, _, _ := net.SplitHostPort(address)
	if ip, _ := netip.ParseAddr(host); strings.EqualFold(host, "localhost") || ip.IsLoopback() {
		return c.node
	}
	return host
}

// eventWindow is how long a source keeps single events for the windowed counts.
func (c *config) eventWindow() time.Duration {
	return max(c.series.XIDWindow, c.series.ClockEventsWindow)
}
