package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/agent"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// defaultCountersFile is used where it exists and -f is not given: it is where
// dcgm-exporter's image and chart put it.
const defaultCountersFile = "/etc/dcgm-exporter/default-counters.csv"

// option is a flag.
type option struct {
	into             any // *string, *int, *bool or *list; nil without effect
	name, short, env string
	def              any
	usage            string // without effect: why
}

// defaultMaxSeries is ten times what eight GPUs of seven instances have with
// every field that dcgm-exporter's documentation lists.
const defaultMaxSeries = 50_000

// options are all flags, with their environment variables as dcgm-exporter has them.
func (c *config) options() []option {
	return []option{
		// What is read.
		{&c.configFile, "config-file", "", "DCGM_EXPORTER_CONFIG_FILE", "", "dcgm-exporter's YAML configuration: counters, and intervals by group; flags and variables override it"},
		{&c.countersFile, "collectors", "f", "DCGM_EXPORTER_COLLECTORS", "", "counters file (default: " + defaultCountersFile + " where it exists, else built in)"},
		{&c.configMap, "configmap-data", "m", "DCGM_EXPORTER_CONFIGMAP_DATA", "none", "ConfigMap with the counters instead of a file, NAMESPACE:NAME, under the key metrics"},
		{&c.intervalMS, "collect-interval", "c", "DCGM_EXPORTER_INTERVAL", 1000, "milliseconds between samples, at least 100"},
		{&c.remote, "remote-hostengine-info", "r", "DCGM_REMOTE_HOSTENGINE_INFO", "", "host engine to connect to (host, host:port, tcp://host:port or unix:///path; port 5555 where none is given); embedded where not given"},
		{&c.dcgmLog, "enable-dcgm-log", "", "DCGM_EXPORTER_ENABLE_DCGM_LOG", false, "make DCGM's library log to standard output"},
		{&c.dcgmLogLevel, "dcgm-log-level", "", "DCGM_EXPORTER_DCGM_LOG_LEVEL", "NONE", "log level of DCGM's library: NONE, FATAL, ERROR, WARN, INFO, DEBUG or VERB"},
		{&c.source, "source", "", "", "auto", "dcgm, nvml, replay, or auto: replay where --replay is given, else dcgm, else nvml where there is no libdcgm.so.4"},
		{&c.replay, "replay", "", "", "", "recording to play instead of reading a GPU"},
		{&c.node, "node", "", "NODE_NAME", "", "name of the Kubernetes node (default: NODE_NAME, else the host's name)"},
		// Allocation to pods.
		{&c.kubernetes, "kubernetes", "k", "DCGM_EXPORTER_KUBERNETES", false, "ask the kubelet which GPUs are allocated to which pods"},
		{&c.kubeletSocket, "pod-resources-kubelet-socket", "", "DCGM_POD_RESOURCES_KUBELET_SOCKET", pods.DefaultSocket, "the kubelet's PodResources socket"},
		{&c.gpuIDType, "kubernetes-gpu-id-type", "", "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", "uid", "uid or device-name; the exporter understands both whatever is given"},
		{&c.resources, "nvidia-resource-names", "", "NVIDIA_RESOURCE_NAMES", nil, "names of resources that are GPUs, besides nvidia.com/*, separated by commas"},
		{&c.podLabels, "kubernetes-enable-pod-labels", "", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", false, "put the pod's Kubernetes labels on the DCGM series (asks the API server for this node's pods)"},
		{&c.podUID, "kubernetes-enable-pod-uid", "", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", false, "put the pod's pod_uid on the DCGM series (asks the API server for this node's pods)"},
		{&c.allowlist, "kubernetes-pod-label-allowlist-regex", "", "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", nil, "pod labels to serve: regular expressions of their names, separated by commas; all where empty"},
		{&c.series.VirtualGPUs, "kubernetes-virtual-gpus", "", "KUBERNETES_VIRTUAL_GPUS", false, "name the shares of time-sliced and MPS GPUs (vgpu), and give each container its own part where the driver measures it (needs hostPID; asks the API server for this node's pods)"},
		{&c.enableDRA, "kubernetes-enable-dra", "", "KUBERNETES_ENABLE_DRA", false, "attribute GPUs allocated by dynamic resource allocation (asks the API server for this node's ResourceSlices)"},
		{&c.fractionalGPUs, "kubernetes-fractional-gpus", "", "KUBERNETES_FRACTIONAL_GPUS", false, "attribute GPUs to pods of gpushare, HAMi, vCUDA, qGPU, Elastic GPU and KAI by their annotations (asks the API server for this node's pods)"},
		{&c.jobsDir, "hpc-job-mapping-dir", "", "DCGM_HPC_JOB_MAPPING_DIR", "", "folder with a file for each GPU (0) or MIG instance (0.1); each line of it is a job"},
		// Which series, and their labels.
		{&c.devices, "devices", "d", "DCGM_EXPORTER_DEVICES_STR", "f", "GPUs and MIG instances with DCGM series: f (instances of a partitioned GPU, else the GPU), g, i, g:0,2-4, i:0, g+i"},
		{&c.switches, "switch-devices", "s", "DCGM_EXPORTER_OTHER_DEVICES_STR", "f", "the same for NvSwitches (g) and their links (i)"},
		{&c.cpus, "cpu-devices", "p", "DCGM_EXPORTER_CPU_DEVICES_STR", "f", "the same for CPUs (g) and their cores (i)"},
		{&c.noHostname, "no-hostname", "n", "DCGM_EXPORTER_NO_HOSTNAME", false, "leave the hostname label out of the DCGM series"},
		{&c.series.OldNamespace, "use-old-namespace", "o", "DCGM_EXPORTER_USE_OLD_NAMESPACE", false, "use the old label names in the DCGM series: pod_name, pod_namespace, container_name, uuid"},
		{&c.series.DashedModel, "replace-blanks-in-model-name", "", "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME", false, "write dashes instead of blanks in the DCGM series' modelName (also --rbmn)"},
		{&c.xidWindowMS, "xid-count-window-size", "x", "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", 300_000, "window of DCGM_EXP_XID_ERRORS_COUNT, in milliseconds"},
		{&c.clockWindowMS, "clock-events-count-window-size", "", "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", 300_000, "window of DCGM_EXP_CLOCK_EVENTS_COUNT, in milliseconds"},
		{&c.compat, "compat", "", "", "true", "the DCGM_* series: true (as dcgm-exporter 4.8.4 has them), once (a MIG GPU's own quantities on the GPU only) or false"},
		// Serving, files and logs.
		{&c.address, "address", "a", "DCGM_EXPORTER_LISTEN", ":9400", "address to serve on"},
		{&c.webConfigFile, "web-config-file", "", "DCGM_EXPORTER_WEB_CONFIG_FILE", "", "exporter-toolkit web config: TLS and basic auth"},
		{&c.systemdSocket, "web-systemd-socket", "", "DCGM_EXPORTER_SYSTEMD_SOCKET", false, "serve on the socket that systemd passes, not on --address"},
		{&c.readTimeout, "web-read-timeout", "", "DCGM_EXPORTER_WEB_READ_TIMEOUT", "10s", "limit on the time to read a request; 0s for none"},
		{&c.writeTimeout, "web-write-timeout", "", "DCGM_EXPORTER_WEB_WRITE_TIMEOUT", "10s", "limit on the time to write an answer; 0s for none"},
		{&c.maxScrapes, "max-concurrent-scrapes", "", "DCGM_EXPORTER_MAX_CONCURRENT_SCRAPES", 0, "limit on concurrent scrapes, others get 503; 0 for none"},
		{&c.exporterMetrics, "enable-exporter-metrics", "", "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS", false, "serve the metrics of the Go runtime and the process too"},
		{&c.requireGPUs, "health-require-gpus", "", "DCGM_EXPORTER_HEALTH_REQUIRE_GPUS", false, "/health answers 503 while no GPU is seen"},
		{&c.pprof, "enable-pprof", "", "DCGM_EXPORTER_ENABLE_PPROF", false, "serve /debug/pprof/ (needs --web-config-file)"},
		{&c.dump.enabled, "dump-enabled", "", "DCGM_EXPORTER_DUMP_ENABLED", false, "write readings to files, for debugging"},
		{&c.dump.directory, "dump-directory", "", "DCGM_EXPORTER_DUMP_DIRECTORY", "/tmp/dcgm-exporter-debug", "folder for these files"},
		{&c.dump.retentionHours, "dump-retention", "", "DCGM_EXPORTER_DUMP_RETENTION", 24, "hours after which these files are removed; 0 keeps them"},
		{&c.dump.compress, "dump-compression", "", "DCGM_EXPORTER_DUMP_COMPRESSION", true, "compress these files with gzip"},
		{&c.debug, "debug", "", "DCGM_EXPORTER_DEBUG", false, "log at level debug"},
		{&c.logFormat, "log-format", "", "DCGM_EXPORTER_LOG_FORMAT", "text", "text or json"},
		// Options that dcgm-exporter does not have.
		{&c.maxSeries, "max-series", "", "", defaultMaxSeries, "limit on the GPU series served; the others are counted and left out; 0 for none"},
		{&c.gzip, "web-gzip", "", "", false, "compress answers for scrapers that accept it: fewer bytes for several times the CPU"},
		{&c.quiesceSocket, "quiesce-socket", "", "", "", "unix socket on which processes of this node may request the release of GPUs (alone: " + agent.DefaultSocket + ")"},
		{&c.quiesceAnnotation, "quiesce-annotation", "", "", false, "release GPUs on request of this Node's annotation " + agent.AnnotationRequest},
		{&c.nodeCondition, "node-condition", "", "", false, "report the GPUs' health on this Node: condition " + agent.ConditionType + " and Events"},
		// Options of dcgm-exporter that have no effect here: the function is provided in another
		// way, always on, or absent. dcgm-exporter's default value gives no warning.
		{nil, "fake-gpus", "", "DCGM_EXPORTER_USE_FAKE_GPUS", false, "DCGM's fake GPUs are shown like any other; without DCGM there is --replay FILE"},
		{nil, "disable-startup-validate", "", "DISABLE_STARTUP_VALIDATE", false, "the start validates only what is necessary; gpuscale-exporter check validates on request"},
		{nil, "enable-gpu-bind-unbind-watch", "", "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", false, "with DCGM GPUs that come and go are always seen, with the next sample"},
		{nil, "gpu-bind-unbind-poll-interval", "", "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", "1s", "GPUs that come and go are seen with the next sample, every --collect-interval"},
		{nil, "watch-max-keep-age", "", "DCGM_EXPORTER_WATCH_MAX_KEEP_AGE", "10m0s", "every sample is read as it is taken, so DCGM keeps few: those of three intervals, at least 10 s"},
		{nil, "watch-max-keep-samples", "", "DCGM_EXPORTER_WATCH_MAX_KEEP_SAMPLES", "0", "every sample is read as it is taken, so DCGM keeps few: those of three intervals, at least 10 s"},
		{nil, "container-labels", "", "DCGM_EXPORTER_CONTAINER_LABELS", false, "labels of containers outside Kubernetes are not read; under Kubernetes there is --kubernetes-enable-pod-labels"},
		{nil, "container-runtime-socket", "", "DCGM_CONTAINER_RUNTIME_SOCKET", "", "the container runtime is not asked; the kubelet is, with --kubernetes"},
	}
}

func addFlags(f *pflag.FlagSet, c *config) {
	f.SortFlags = false
	f.SetNormalizeFunc(alias)
	for _, o := range c.options() {
		switch into := o.into.(type) {
		case *string:
			f.StringVarP(into, o.name, o.short, o.def.(string), o.usage)
		case *int:
			f.IntVarP(into, o.name, o.short, o.def.(int), o.usage)
		case *bool:
			f.BoolVarP(into, o.name, o.short, o.def.(bool), o.usage)
		case *list:
			f.VarP(into, o.name, o.short, o.usage)
		default:
			if def, isBool := o.def.(bool); isBool {
				f.Bool(o.name, def, o.usage)
			} else {
				f.String(o.name, o.def.(string), o.usage)
			}
			f.Lookup(o.name).Hidden = true
		}
	}
	f.Lookup("quiesce-socket").NoOptDefVal = agent.DefaultSocket
}

// noEffect returns a warning for each option without effect that is given with a value other
// than dcgm-exporter's default.
func noEffect(f *pflag.FlagSet) []string {
	var warnings []string
	for _, o := range new(config).options() {
		if flag := f.Lookup(o.name); o.into == nil && flag.Changed && !strings.EqualFold(flag.Value.String(), fmt.Sprint(o.def)) {
			warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", o.name, o.usage))
		}
	}
	return warnings
}

// wanted returns an error that says what to type. pflag's own error names the function that
// parses the value.
func wanted(err error) error {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err
	}
	flag := invalid.GetFlag()
	what, ok := map[string]string{"int": "a whole number", "bool": "true or false"}[flag.Value.Type()]
	if !ok {
		return invalid.Unwrap()
	}
	unit, _, _ := strings.Cut(flag.Usage, " ")
	if in := map[string]time.Duration{"milliseconds": time.Millisecond, "hours": time.Hour}[unit]; in > 0 {
		if d, err := time.ParseDuration(invalid.GetValue()); err == nil {
			what += fmt.Sprintf(", here %d", d/in)
		}
	}
	return fmt.Errorf("want %s (%s)", what, flag.Usage)
}

// alias gives dcgm-exporter's one alias that is neither short nor long.
func alias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "rbmn" {
		name = "replace-blanks-in-model-name"
	}
	return pflag.NormalizedName(name)
}

// twoDashes rewrites arguments to pflag's spelling: dcgm-exporter takes long
// flags behind one dash and short ones behind two.
func twoDashes(f *pflag.FlagSet, args []string) []string {
	out := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(out, args[i:]...)
		}
		name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		dashes := len(arg) - len(strings.TrimLeft(arg, "-"))
		switch {
		case dashes == 1 && len(name) > 1 && f.Lookup(name) != nil:
			arg = "-" + arg
		case dashes == 2 && len(name) == 1 && f.ShorthandLookup(name) != nil:
			arg = arg[1:]
		}
		out = append(out, arg)
	}
	return out
}

// list is a flag whose values are separated by commas and that may be given
// several times: both add up, as in dcgm-exporter. Quotes have no meaning.
type list []string

// Set adds the values of one text.
func (l *list) Set(text string) error {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}

// String joins the values by commas.
func (l *list) String() string { return strings.Join(*l, ",") }

// Type is what the help calls a value.
func (l *list) Type() string { return "list" }
