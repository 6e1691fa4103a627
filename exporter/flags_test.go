package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// A dcgmFlag is a flag of dcgm-exporter 4.8.4 and what giving it does here:
// value is set by flag and by environment, and read gives what became of it.
type dcgmFlag struct {
	name, short, env string
	value            string
	read             func(c *config) any
	want             any
	// warned is a word of the warning where there is no effect.
	warned string
	// needs is a further argument without which the flag is refused.
	needs string
}

func dcgmFlags() []dcgmFlag {
	return []dcgmFlag{
		{name: "collectors", short: "f", env: "DCGM_EXPORTER_COLLECTORS", value: "/x.csv", read: func(c *config) any { return c.countersFile }, want: "/x.csv"},
		{name: "address", short: "a", env: "DCGM_EXPORTER_LISTEN", value: "[::1]:1", read: func(c *config) any { return c.address }, want: "[::1]:1"},
		{name: "collect-interval", short: "c", env: "DCGM_EXPORTER_INTERVAL", value: "30000", read: func(c *config) any { return c.interval() }, want: 30 * time.Second},
		{name: "kubernetes", short: "k", env: "DCGM_EXPORTER_KUBERNETES", value: "true", read: func(c *config) any { return c.kubernetes }, want: true},
		{name: "kubernetes-enable-pod-labels", env: "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", value: "1", read: func(c *config) any { return c.podLabels }, want: true},
		{name: "kubernetes-enable-pod-uid", env: "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", value: "T", read: func(c *config) any { return c.podUID }, want: true},
		{name: "kubernetes-gpu-id-type", env: "DCGM_EXPORTER_KUBERNETES_GPU_ID_TYPE", value: "device-name", read: func(c *config) any { return c.gpuIDType }, want: "device-name"},
		{name: "kubernetes-pod-label-allowlist-regex", env: "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", value: `^app$, "q"`, read: func(c *config) any {
			return allows(c.allowed, "app") && allows(c.allowed, `a"q"b`) && !allows(c.allowed, "other")
		}, want: true},
		{name: "kubernetes-virtual-gpus", env: "KUBERNETES_VIRTUAL_GPUS", value: "true", read: func(c *config) any { return c.compatOptions(nil).VirtualGPUs }, want: true},
		{name: "kubernetes-enable-dra", env: "KUBERNETES_ENABLE_DRA", value: "true", read: func(c *config) any { return c.enableDRA }, want: true},
		{name: "nvidia-resource-names", env: "NVIDIA_RESOURCE_NAMES", value: "nvidia.com/a100, nvidia.com/a10", read: func(c *config) any { return []string(c.resources) }, want: []string{"nvidia.com/a100", "nvidia.com/a10"}},
		{name: "pod-resources-kubelet-socket", env: "DCGM_POD_RESOURCES_KUBELET_SOCKET", value: "/s", read: func(c *config) any { return c.kubeletSocket }, want: "/s"},
		{name: "use-old-namespace", short: "o", env: "DCGM_EXPORTER_USE_OLD_NAMESPACE", value: "true", read: func(c *config) any { return c.compatOptions(nil).OldNamespace }, want: true},
		{name: "configmap-data", short: "m", env: "DCGM_EXPORTER_CONFIGMAP_DATA", value: "ns:name", read: func(c *config) any { return c.configMap }, want: "ns:name"},
		{name: "remote-hostengine-info", short: "r", env: "DCGM_REMOTE_HOSTENGINE_INFO", value: "engine:5555", read: func(c *config) any { return c.remote + " " + c.compatOptions(nil).Hostname }, want: "engine:5555 engine"},
		{name: "devices", short: "d", env: "DCGM_EXPORTER_DEVICES_STR", value: "g:0,2-3+i", read: func(c *config) any {
			d := c.compatOptions(nil).Devices
			return d.Major(3) && !d.Major(1) && d.Minor(9)
		}, want: true},
		{name: "switch-devices", short: "s", env: "DCGM_EXPORTER_OTHER_DEVICES_STR", value: "g:1", read: func(c *config) any {
			s := c.compatOptions(nil).Switches
			return s.Major(1) && !s.Major(0) && !s.Minor(1)
		}, want: true},
		{name: "cpu-devices", short: "p", env: "DCGM_EXPORTER_CPU_DEVICES_STR", value: "i:4", read: func(c *config) any { s := c.compatOptions(nil).CPUs; return s.Minor(4) && !s.Minor(5) && !s.Major(4) }, want: true},
		{name: "no-hostname", short: "n", env: "DCGM_EXPORTER_NO_HOSTNAME", value: "true", read: func(c *config) any { return c.compatOptions(nil).Hostname }, want: ""},
		{name: "web-config-file", env: "DCGM_EXPORTER_WEB_CONFIG_FILE", value: "w.yml", read: func(c *config) any { return c.webConfigFile }, want: "w.yml"},
		{name: "web-systemd-socket", env: "DCGM_EXPORTER_SYSTEMD_SOCKET", value: "true", read: func(c *config) any { return c.systemdSocket }, want: true},
		{name: "web-read-timeout", env: "DCGM_EXPORTER_WEB_READ_TIMEOUT", value: "3s", read: func(c *config) any { return c.timeouts.read }, want: 3 * time.Second},
		{name: "web-write-timeout", env: "DCGM_EXPORTER_WEB_WRITE_TIMEOUT", value: "soon", read: func(c *config) any { return c.timeouts.write }, want: 10 * time.Second, warned: `"soon" is no duration`},
		{name: "max-concurrent-scrapes", env: "DCGM_EXPORTER_MAX_CONCURRENT_SCRAPES", value: "4", read: func(c *config) any { return c.maxScrapes }, want: 4},
		{name: "enable-pprof", env: "DCGM_EXPORTER_ENABLE_PPROF", value: "true", needs: "--web-config-file=w.yml", read: func(c *config) any { return c.pprof }, want: true},
		{name: "enable-exporter-metrics", env: "DCGM_EXPORTER_ENABLE_EXPORTER_METRICS", value: "true", read: func(c *config) any { return c.exporterMetrics }, want: true},
		{name: "health-require-gpus", env: "DCGM_EXPORTER_HEALTH_REQUIRE_GPUS", value: "true", read: func(c *config) any { return c.requireGPUs }, want: true},
		{name: "xid-count-window-size", short: "x", env: "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", value: "60000", read: func(c *config) any { return c.compatOptions(nil).XIDWindow }, want: time.Minute},
		{name: "clock-events-count-window-size", env: "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", value: "0x3e8", read: func(c *config) any { return c.compatOptions(nil).ClockEventsWindow }, want: time.Second},
		{name: "replace-blanks-in-model-name", env: "DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME", value: "true", read: func(c *config) any { return c.compatOptions(nil).DashedModel }, want: true},
		{name: "debug", env: "DCGM_EXPORTER_DEBUG", value: "true", read: func(c *config) any { return c.debug }, want: true},
		{name: "enable-dcgm-log", env: "DCGM_EXPORTER_ENABLE_DCGM_LOG", value: "true", read: func(c *config) any { return c.dcgmLog }, want: true},
		{name: "dcgm-log-level", env: "DCGM_EXPORTER_DCGM_LOG_LEVEL", value: "VERB", read: func(c *config) any { return c.dcgmLogLevel }, want: "VERB"},
		{name: "log-format", env: "DCGM_EXPORTER_LOG_FORMAT", value: "json", read: func(c *config) any { return c.logFormat }, want: "json"},
		{name: "hpc-job-mapping-dir", env: "DCGM_HPC_JOB_MAPPING_DIR", value: "/jobs", read: func(c *config) any { return c.jobsDir }, want: "/jobs"},
		{name: "dump-enabled", env: "DCGM_EXPORTER_DUMP_ENABLED", value: "true", read: func(c *config) any { return c.dump.enabled }, want: true},
		{name: "dump-directory", env: "DCGM_EXPORTER_DUMP_DIRECTORY", value: "/d", read: func(c *config) any { return c.dump.directory }, want: "/d"},
		{name: "dump-retention", env: "DCGM_EXPORTER_DUMP_RETENTION", value: "0", read: func(c *config) any { return c.dump.retentionHours }, want: 0},
		{name: "dump-compression", env: "DCGM_EXPORTER_DUMP_COMPRESSION", value: "false", read: func(c *config) any { return c.dump.compress }, want: false},
		{name: "fake-gpus", env: "DCGM_EXPORTER_USE_FAKE_GPUS", value: "true", warned: "--replay"},
		{name: "disable-startup-validate", env: "DISABLE_STARTUP_VALIDATE", value: "true", warned: "nothing is validated"},
		{name: "enable-gpu-bind-unbind-watch", env: "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", value: "true", warned: "always seen"},
		{name: "gpu-bind-unbind-poll-interval", env: "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", value: "5s", warned: "next sample"},
		{name: "watch-max-keep-age", env: "DCGM_EXPORTER_WATCH_MAX_KEEP_AGE", value: "90s", warned: "keeps few"},
		{name: "watch-max-keep-samples", env: "DCGM_EXPORTER_WATCH_MAX_KEEP_SAMPLES", value: "8", warned: "keeps few"},
		{name: "container-labels", env: "DCGM_EXPORTER_CONTAINER_LABELS", value: "true", warned: "outside Kubernetes"},
		{name: "container-runtime-socket", env: "DCGM_CONTAINER_RUNTIME_SOCKET", value: "/run/c.sock", warned: "kubelet is"},
	}
}

// parse runs a command line as the program does.
func parse(t *testing.T, args []string, env map[string]string) (*config, error) {
	t.Helper()
	var c config
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(f, &c)
	if err := f.Parse(twoDashes(f, args)); err != nil {
		return &c, err
	}
	return &c, complete(f, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, &c)
}

// Every flag of dcgm-exporter is one here, by each of its names and by its
// environment variable, and does what it says or says why it does not.
func TestDCGMFlags(t *testing.T) {
	for _, flag := range dcgmFlags() {
		t.Run(flag.name, func(t *testing.T) {
			check := func(way string, args []string, env map[string]string) {
				t.Helper()
				if flag.needs != "" {
					args = append(args, flag.needs)
				}
				c, err := parse(t, args, env)
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				if flag.read != nil && !reflect.DeepEqual(flag.read(c), flag.want) {
					t.Errorf("%s: %v, want %v", way, flag.read(c), flag.want)
				}
				warned := slices.ContainsFunc(c.warnings, func(w string) bool { return strings.Contains(w, "--"+flag.name) && strings.Contains(w, flag.warned) })
				if warned != (flag.warned != "") {
					t.Errorf("%s: warnings %q", way, c.warnings)
				}
			}
			check("two dashes", []string{"--" + flag.name + "=" + flag.value}, nil)
			check("one dash", []string{"-" + flag.name + "=" + flag.value}, nil)
			if flag.short != "" {
				check("short", []string{"-" + flag.short + "=" + flag.value}, nil)
				check("short behind two dashes", []string{"--" + flag.short + "=" + flag.value}, nil)
			}
			check("environment", nil, map[string]string{flag.env: flag.value})
			other := map[string]string{flag.env: "nonsense"}
			check("a flag wins", []string{"--" + flag.name + "=" + flag.value}, other)
			if c, err := parse(t, nil, map[string]string{flag.env: ""}); err != nil || len(c.warnings) > 0 {
				t.Errorf("an empty variable: %v, %q", err, c.warnings)
			}
		})
	}
}

// The table above is complete: what is declared with a variable of the
// environment is in it, is refused, or is ours.
func TestNoFlagIsForgotten(t *testing.T) {
	var c config
	f := pflag.NewFlagSet("test", pflag.ContinueOnError)
	addFlags(f, &c)
	variables := environment()
	for _, flag := range dcgmFlags() {
		if got := f.Lookup(flag.name).Shorthand; got != flag.short {
			t.Errorf("--%s: short %q, want %q", flag.name, got, flag.short)
		}
		if variables[flag.env] != flag.name {
			t.Errorf("%s stands for %q, want %q", flag.env, variables[flag.env], flag.name)
		}
		delete(variables, flag.env)
	}
	delete(variables, "DCGM_EXPORTER_CONFIG_FILE") // TestConfigFile
	for variable := range variables {
		if !slices.Contains([]string{"NODE_NAME", "KUBERNETES_FRACTIONAL_GPUS"}, variable) {
			t.Errorf("%s is not in the table", variable)
		}
	}
}

// The defaults that dcgm-exporter's chart and operator spell out pass in silence.
func TestDefaultsSpelledOut(t *testing.T) {
	c, err := parse(t, []string{
		"-f", "/etc/dcgm-exporter/default-counters.csv", "-a", ":9400", "-c", "30000", "-d", "f", "-s", "f", "-p", "f", "-m", "none",
		"-x", "300000", "--fake-gpus=false", "--gpu-bind-unbind-poll-interval", "1s", "--dcgm-log-level", "NONE",
		"--watch-max-keep-age=10m0s", "--watch-max-keep-samples=0", "--dump-retention", "24", "--config-file=", "--container-runtime-socket=",
	}, nil)
	if err != nil || len(c.warnings) > 0 || c.configMap != "" || !c.selected.devices.Flexible() {
		t.Errorf("%v, warnings %q, %+v", err, c.warnings, c)
	}
}

func TestAlias(t *testing.T) {
	for _, arg := range []string{"-rbmn", "--rbmn", "--rbmn=true"} {
		if c, err := parse(t, []string{arg}, nil); err != nil || !c.dashedModel {
			t.Errorf("%s: %v, %v", arg, c.dashedModel, err)
		}
	}
	if c, err := parse(t, []string{"--rbmn=false"}, map[string]string{"DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME": "true"}); err != nil || c.dashedModel {
		t.Errorf("an alias does not win over the environment: %v", err)
	}
}

// Values are read as urfave/cli reads them.
func TestForms(t *testing.T) {
	lists := []string{"--nvidia-resource-names=a,b", "--nvidia-resource-names", "c", "-k=false", "-n"}
	c, err := parse(t, lists, map[string]string{"DCGM_EXPORTER_KUBERNETES": "true"})
	if err != nil || !slices.Equal(c.resources, []string{"a", "b", "c"}) || c.kubernetes || !c.noHostname {
		t.Errorf("%v: %+v", err, c)
	}
	for _, word := range []string{"1", "t", "T", "TRUE", "true", "True"} {
		if c, err := parse(t, nil, map[string]string{"DCGM_EXPORTER_KUBERNETES": word}); err != nil || !c.kubernetes {
			t.Errorf("%q is not true: %v", word, err)
		}
	}
	if _, err := parse(t, nil, map[string]string{"DCGM_EXPORTER_KUBERNETES": "yes"}); err == nil || !strings.Contains(err.Error(), `DCGM_EXPORTER_KUBERNETES="yes"`) {
		t.Errorf("yes: %v", err)
	}
}

// The hostname label is the remote host's, as in dcgm-exporter from 4.8.3 on; not where that is
// this machine, where ours is asked for, where the address has no host, or with -k: that of the
// GPU Operator's host engine is "nvidia-dcgm:5555" on every node.
func TestHostname(t *testing.T) {
	if got := (&config{remote: "nvidia-dcgm:5555", compat: "true", kubernetes: true, node: "node-1"}).hostname(); got != "node-1" {
		t.Errorf("-k: %q", got)
	}
	for _, c := range []struct{ remote, compat, want string }{
		{"", "true", "node-1"},
		{"localhost:5556", "true", "node-1"},
		{"LOCALHOST", "true", "node-1"},
		{"127.8.0.1:5555", "true", "node-1"},
		{"[::1]:5555", "true", "node-1"},
		{"[::1]", "true", "node-1"},
		{"[fd00::1]:5555", "true", "fd00::1"},
		{"0.0.0.0:5555", "true", "0.0.0.0"},
		{"tcp://10.0.0.1:5555", "true", "10.0.0.1"},
		{"engine", "true", "engine"},
		{":5555", "true", "node-1"},
		{"unix:///run/nv.sock", "true", "node-1"},
		{"/run/nv.sock", "true", "node-1"},
		{"engine:5555", "once", "node-1"},
	} {
		if got := (&config{remote: c.remote, compat: c.compat, node: "node-1"}).hostname(); got != c.want {
			t.Errorf("-r %q --compat=%s: %q, want %q", c.remote, c.compat, got, c.want)
		}
	}
}
