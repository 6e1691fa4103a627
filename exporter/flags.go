package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/collect"
	"github.com/gpuscale/gpuscale/exporter/collect/counters"
	"github.com/gpuscale/gpuscale/exporter/node"
	"github.com/gpuscale/gpuscale/exporter/pods"
)

// config is the command line and the environment, checked.
type config struct {
	countersFile  string
	address       string
	intervalMS    int
	kubernetes    bool
	kubeletSocket string
	gpuIDType     string
	resources     []string
	remote        string
	noHostname    bool
	oldNamespace  bool
	dashedModel   bool
	webConfigFile string
	debug         bool
	logFormat     string

	source string
	replay string
	node   string
	compat string
}

// defaultCountersFile is used where it exists and -f is not given: it is where
// dcgm-exporter's image and chart put it.
const defaultCountersFile = "/etc/dcgm-exporter/default-counters.csv"

func addFlags(f *pflag.FlagSet, c *config) {
	f.SortFlags = false
	f.StringVarP(&c.countersFile, "collectors", "f", "", "counters file (default: "+defaultCountersFile+" where it exists, else built in)")
	f.StringVarP(&c.address, "address", "a", ":9400", "address to serve on")
	f.IntVarP(&c.intervalMS, "collect-interval", "c", 1000, "milliseconds between samples, at least 100")
	f.BoolVarP(&c.kubernetes, "kubernetes", "k", false, "ask the kubelet which pod holds which GPU")
	f.StringVar(&c.kubeletSocket, "pod-resources-kubelet-socket", pods.DefaultSocket, "the kubelet's PodResources socket")
	f.StringVar(&c.gpuIDType, "kubernetes-gpu-id-type", "uid", "uid or device-name; both kinds of id are understood whatever is said here")
	f.StringSliceVar(&c.resources, "nvidia-resource-names", nil, "further resource names that are GPUs, beside nvidia.com/*")
	f.StringVarP(&c.remote, "remote-hostengine-info", "r", "", "host engine to connect to (host:port or unix:///path); embedded where not given")
	f.BoolVarP(&c.noHostname, "no-hostname", "n", false, "leave the hostname label out of the DCGM series")
	f.BoolVarP(&c.oldNamespace, "use-old-namespace", "o", false, "old label names in the DCGM series: pod_name, pod_namespace, container_name, uuid")
	f.BoolVar(&c.dashedModel, "replace-blanks-in-model-name", false, "dashes for blanks in the DCGM series' modelName")
	f.StringVar(&c.webConfigFile, "web-config-file", "", "exporter-toolkit web config: TLS and basic auth")
	f.BoolVar(&c.debug, "debug", false, "log more")
	f.StringVar(&c.logFormat, "log-format", "text", "text or json")

	f.StringVar(&c.source, "source", "auto", "dcgm, replay, or auto: replay where --replay is given, else dcgm")
	f.StringVar(&c.replay, "replay", "", "recording to play instead of reading a GPU")
	f.StringVar(&c.node, "node", "", "name of the Kubernetes node (default: NODE_NAME, else the host's name)")
	f.StringVar(&c.compat, "compat", "true", "the DCGM_* series: true (as dcgm-exporter has them), once (a MIG card's own quantities on the card only) or false")
	f.Lookup("compat").NoOptDefVal = "true"
	addMissing(f)
}

// environment maps variables to flags, as dcgm-exporter does.
func environment() map[string]string {
	return map[string]string{
		"DCGM_EXPORTER_COLLECTORS":                   "collectors",
		"DCGM_EXPORTER_LISTEN":                       "address",
		"DCGM_EXPORTER_INTERVAL":                     "collect-interval",
		"DCGM_EXPORTER_KUBERNETES":                   "kubernetes",
		"DCGM_POD_RESOURCES_KUBELET_SOCKET":          "pod-resources-kubelet-socket",
		"DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE":       "kubernetes-gpu-id-type",
		"NVIDIA_RESOURCE_NAMES":                      "nvidia-resource-names",
		"DCGM_REMOTE_HOSTENGINE_INFO":                "remote-hostengine-info",
		"DCGM_EXPORTER_NO_HOSTNAME":                  "no-hostname",
		"DCGM_EXPORTER_USE_OLD_NAMESPACE":            "use-old-namespace",
		"DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME": "replace-blanks-in-model-name",
		"DCGM_EXPORTER_WEB_CONFIG_FILE":              "web-config-file",
		"DCGM_EXPORTER_DEBUG":                        "debug",
		"DCGM_EXPORTER_LOG_FORMAT":                   "log-format",
		"NODE_NAME":                                  "node",
	}
}

// complete takes the environment where no flag was given and checks the result.
// It returns all problems at once.
func complete(f *pflag.FlagSet, env func(string) (string, bool), c *config) error {
	var problems []error
	for variable, name := range environment() {
		value, ok := env(variable)
		if !ok || value == "" || f.Changed(name) {
			continue
		}
		if err := f.Set(name, value); err != nil {
			problems = append(problems, fmt.Errorf("%s=%q: %w", variable, value, err))
		}
	}
	problems = append(problems, missing(f, env)...)
	if c.node == "" {
		name, err := os.Hostname()
		if err != nil {
			problems = append(problems, fmt.Errorf("--node: not given, and the host has no name: %w", err))
		}
		c.node = name
	}
	problems = append(problems, c.validate()...)
	slices.SortFunc(problems, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(problems...)
}

func (c *config) validate() []error {
	var problems []error
	oneOf := func(flag, value string, allowed ...string) {
		if !slices.Contains(allowed, value) {
			problems = append(problems, fmt.Errorf("--%s: %q is not one of %s", flag, value, strings.Join(allowed, ", ")))
		}
	}
	oneOf("source", c.source, "auto", "dcgm", "replay")
	oneOf("compat", c.compat, "true", "once", "false")
	oneOf("kubernetes-gpu-id-type", c.gpuIDType, "uid", "device-name")
	oneOf("log-format", c.logFormat, "text", "json")
	if c.interval() < node.MinInterval {
		problems = append(problems, fmt.Errorf("--collect-interval: %d ms, at least %d", c.intervalMS, node.MinInterval.Milliseconds()))
	}
	if c.source == "replay" && c.replay == "" {
		problems = append(problems, errors.New("--source replay needs --replay FILE"))
	}
	if c.source == "dcgm" && c.replay != "" {
		problems = append(problems, errors.New("--replay cannot be used with --source dcgm"))
	}
	return problems
}

func (c *config) interval() time.Duration { return time.Duration(c.intervalMS) * time.Millisecond }

func (c *config) compatOptions(fields []counters.Field) collect.CompatOptions {
	o := collect.CompatOptions{
		Mode: collect.CompatExact, Counters: fields, Hostname: c.node,
		OldNamespace: c.oldNamespace, DashedModel: c.dashedModel,
	}
	switch c.compat {
	case "once":
		o.Mode = collect.CompatOnce
	case "false":
		o.Mode = collect.CompatOff
	}
	if c.noHostname {
		o.Hostname = ""
	}
	return o
}
