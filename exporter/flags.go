package main

import (
	"strings"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/pods"
)

// defaultCountersFile is used where it exists and -f is not given: it is where
// dcgm-exporter's image and chart put it.
const defaultCountersFile = "/etc/dcgm-exporter/default-counters.csv"

func addFlags(f *pflag.FlagSet, c *config) {
	f.SortFlags = false
	f.SetNormalizeFunc(alias)
	addSourceFlags(f, c)
	addKubernetesFlags(f, c)
	addSeriesFlags(f, c)
	addServingFlags(f, c)
	addSideFlags(f, c)
	addNoEffect(f)
	addRefused(f)
}

// alias gives dcgm-exporter's one alias that is neither short nor long.
func alias(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "rbmn" {
		name = "replace-blanks-in-model-name"
	}
	return pflag.NormalizedName(name)
}

func addSourceFlags(f *pflag.FlagSet, c *config) {
	f.StringVarP(&c.countersFile, "collectors", "f", "", "counters file (default: "+defaultCountersFile+" where it exists, else built in)")
	f.StringVarP(&c.configMap, "configmap-data", "m", "none", "ConfigMap with the counters instead of a file, NAMESPACE:NAME, under the key metrics")
	f.IntVarP(&c.intervalMS, "collect-interval", "c", 1000, "milliseconds between samples, at least 100")
	f.StringVarP(&c.remote, "remote-hostengine-info", "r", "", "host engine to connect to (host, host:port, tcp://host:port or unix:///path; port 5555 where none is given); embedded where not given")
	f.BoolVar(&c.dcgmLog, "enable-dcgm-log", false, "let DCGM's library log to standard output")
	f.StringVar(&c.dcgmLogLevel, "dcgm-log-level", "NONE", "what it logs: NONE, FATAL, ERROR, WARN, INFO, DEBUG or VERB")
	f.StringVar(&c.source, "source", "auto", "dcgm, nvml, replay, or auto: replay where --replay is given, else dcgm, else nvml where there is no libdcgm.so.4")
	f.StringVar(&c.replay, "replay", "", "recording to play instead of reading a GPU")
	f.StringVar(&c.node, "node", "", "name of the Kubernetes node (default: NODE_NAME, else the host's name)")
}

func addKubernetesFlags(f *pflag.FlagSet, c *config) {
	f.BoolVarP(&c.kubernetes, "kubernetes", "k", false, "ask the kubelet which GPUs are allocated to which pods")
	f.StringVar(&c.kubeletSocket, "pod-resources-kubelet-socket", pods.DefaultSocket, "the kubelet's PodResources socket")
	f.StringVar(&c.gpuIDType, "kubernetes-gpu-id-type", "uid", "uid or device-name; both kinds of id are always understood")
	f.Var(&c.resources, "nvidia-resource-names", "further resource names that are GPUs, beside nvidia.com/*, separated by commas")
	f.BoolVar(&c.podLabels, "kubernetes-enable-pod-labels", false, "the pod's Kubernetes labels on the DCGM series (asks the API server for this node's pods)")
	f.BoolVar(&c.podUID, "kubernetes-enable-pod-uid", false, "the pod's pod_uid on the DCGM series (asks the API server for this node's pods)")
	f.Var(&c.allowlist, "kubernetes-pod-label-allowlist-regex", "only pod labels whose name matches one of these, separated by commas; all where empty")
	f.BoolVar(&c.virtualGPUs, "kubernetes-virtual-gpus", false, "name the shares of time-sliced and MPS GPUs (vgpu), and give each container its own part where the driver measures it (needs hostPID; asks the API server for this node's pods)")
	f.BoolVar(&c.enableDRA, "kubernetes-enable-dra", false, "attribute GPUs allocated by dynamic resource allocation (asks the API server for this node's ResourceSlices)")
	f.BoolVar(&c.fractionalGPUs, "kubernetes-fractional-gpus", false, "attribute GPUs to pods of gpushare, HAMi, vCUDA, qGPU and Elastic GPU by their annotations (asks the API server for this node's pods)")
	f.StringVar(&c.jobsDir, "hpc-job-mapping-dir", "", "folder with a file for each GPU (0) or instance (0.1) whose lines are the jobs on it")
}

func addSeriesFlags(f *pflag.FlagSet, c *config) {
	f.StringVarP(&c.devices, "devices", "d", "f", "GPUs and instances with DCGM series: f (instances of a partitioned GPU, else the GPU), g, i, g:0,2-4, i:0, g+i")
	f.StringVarP(&c.switches, "switch-devices", "s", "f", "the same of NvSwitches (g) and their links (i)")
	f.StringVarP(&c.cpus, "cpu-devices", "p", "f", "the same of CPUs (g) and their cores (i)")
	f.BoolVarP(&c.noHostname, "no-hostname", "n", false, "leave the hostname label out of the DCGM series")
	f.BoolVarP(&c.oldNamespace, "use-old-namespace", "o", false, "old label names in the DCGM series: pod_name, pod_namespace, container_name, uuid")
	f.BoolVar(&c.dashedModel, "replace-blanks-in-model-name", false, "dashes for blanks in the DCGM series' modelName (also --rbmn)")
	f.IntVarP(&c.xidWindowMS, "xid-count-window-size", "x", 300_000, "milliseconds that DCGM_EXP_XID_ERRORS_COUNT looks back")
	f.IntVar(&c.clockWindowMS, "clock-events-count-window-size", 300_000, "milliseconds that DCGM_EXP_CLOCK_EVENTS_COUNT looks back")
	f.StringVar(&c.compat, "compat", "true", "the DCGM_* series: true (as dcgm-exporter has them), once (a MIG GPU's own quantities on the GPU only) or false")
	f.Lookup("compat").NoOptDefVal = "true"
}

func addServingFlags(f *pflag.FlagSet, c *config) {
	f.StringVarP(&c.address, "address", "a", ":9400", "address to serve on")
	f.StringVar(&c.webConfigFile, "web-config-file", "", "exporter-toolkit web config: TLS and basic auth")
	f.BoolVar(&c.systemdSocket, "web-systemd-socket", false, "serve on the socket that systemd hands over, not on --address")
	f.StringVar(&c.readTimeout, "web-read-timeout", "10s", "time a request may take to be read; 0s is any")
	f.StringVar(&c.writeTimeout, "web-write-timeout", "10s", "time an answer may take to be written; 0s is any")
	f.IntVar(&c.maxScrapes, "max-concurrent-scrapes", 0, "scrapes at once, others get 503; 0 is any number")
	f.BoolVar(&c.exporterMetrics, "enable-exporter-metrics", false, "the Go runtime's and the process' own metrics too")
	f.BoolVar(&c.requireGPUs, "health-require-gpus", false, "/health answers 503 while no GPU is seen")
	f.BoolVar(&c.pprof, "enable-pprof", false, "serve /debug/pprof/ (needs --web-config-file)")
	f.BoolVar(&c.dump.enabled, "dump-enabled", false, "write readings to files, for looking into a problem")
	f.StringVar(&c.dump.directory, "dump-directory", "/tmp/dcgm-exporter-debug", "folder for them")
	f.IntVar(&c.dump.retentionHours, "dump-retention", 24, "hours after which they are removed; 0 keeps them")
	f.BoolVar(&c.dump.compress, "dump-compression", true, "compress them with gzip")
	f.BoolVar(&c.debug, "debug", false, "log more")
	f.StringVar(&c.logFormat, "log-format", "text", "text or json")
}

// environment maps variables to flags, as dcgm-exporter does.
func environment() map[string]string {
	variables := map[string]string{
		"DCGM_EXPORTER_COLLECTORS":                           "collectors",
		"DCGM_EXPORTER_CONFIGMAP_DATA":                       "configmap-data",
		"DCGM_EXPORTER_LISTEN":                               "address",
		"DCGM_EXPORTER_INTERVAL":                             "collect-interval",
		"DCGM_REMOTE_HOSTENGINE_INFO":                        "remote-hostengine-info",
		"DCGM_EXPORTER_ENABLE_DCGM_LOG":                      "enable-dcgm-log",
		"DCGM_EXPORTER_DCGM_LOG_LEVEL":                       "dcgm-log-level",
		"DCGM_EXPORTER_KUBERNETES":                           "kubernetes",
		"DCGM_POD_RESOURCES_KUBELET_SOCKET":                  "pod-resources-kubelet-socket",
		"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE":               "kubernetes-gpu-id-type",
		"NVIDIA_RESOURCE_NAMES":                              "nvidia-resource-names",
		"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS":         "kubernetes-enable-pod-labels",
		"DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID":            "kubernetes-enable-pod-uid",
		"DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX": "kubernetes-pod-label-allowlist-regex",
		"KUBERNETES_VIRTUAL_GPUS":                            "kubernetes-virtual-gpus",
		"KUBERNETES_ENABLE_DRA":                              "kubernetes-enable-dra",
		"KUBERNETES_FRACTIONAL_GPUS":                         "kubernetes-fractional-gpus",
		"DCGM_HPC_JOB_MAPPING_DIR":                           "hpc-job-mapping-dir",
		"DCGM_EXPORTER_DEVICES_STR":                          "devices",
		"DCGM_EXPORTER_OTHER_DEVICES_STR":                    "switch-devices",
		"DCGM_EXPORTER_CPU_DEVICES_STR":                      "cpu-devices",
		"DCGM_EXPORTER_NO_HOSTNAME":                          "no-hostname",
		"DCGM_EXPORTER_USE_OLD_NAMESPACE":                    "use-old-namespace",
		"DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME":         "replace-blanks-in-model-name",
		"DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE":                "xid-count-window-size",
		"DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE":       "clock-events-count-window-size",
		"DCGM_EXPORTER_WEB_CONFIG_FILE":                      "web-config-file",
		"DCGM_EXPORTER_SYSTEMD_SOCKET":                       "web-systemd-socket",
		"DCGM_EXPORTER_WEB_READ_TIMEOUT":                     "web-read-timeout",
		"DCGM_EXPORTER_WEB_WRITE_TIMEOUT":                    "web-write-timeout",
		"DCGM_EXPORTER_MAX_CONCURRENT_SCRAPES":               "max-concurrent-scrapes",
		"DCGM_EXPORTER_ENABLE_EXPORTER_METRICS":              "enable-exporter-metrics",
		"DCGM_EXPORTER_HEALTH_REQUIRE_GPUS":                  "health-require-gpus",
		"DCGM_EXPORTER_ENABLE_PPROF":                         "enable-pprof",
		"DCGM_EXPORTER_DUMP_ENABLED":                         "dump-enabled",
		"DCGM_EXPORTER_DUMP_DIRECTORY":                       "dump-directory",
		"DCGM_EXPORTER_DUMP_RETENTION":                       "dump-retention",
		"DCGM_EXPORTER_DUMP_COMPRESSION":                     "dump-compression",
		"DCGM_EXPORTER_DEBUG":                                "debug",
		"DCGM_EXPORTER_LOG_FORMAT":                           "log-format",
		"NODE_NAME":                                          "node",
	}
	for _, o := range append(withoutEffect(), refusedOptions()...) {
		variables[o.env] = o.name
	}
	return variables
}

// twoDashes rewrites arguments to the spelling that pflag wants: dcgm-exporter
// takes long flags behind one dash and short ones behind two.
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
