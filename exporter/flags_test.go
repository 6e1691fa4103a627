package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/gpuscale/gpuscale/exporter/collect"
)

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

// Every flag of dcgm-exporter is one here, by each of its names and by its environment variable. It sets what it is
// for, or reports why it does not. TestPageHasEveryFlag compares the list of flags.
func TestDCGMFlags(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	write(t, file, "version: 1\n")
	syntax := map[string]string{
		"config-file": file, "address": ":777", "kubernetes-gpu-id-type": "device-name", "configmap-data": "ns:name", "devices": "g:0,2-3+i", "switch-devices": "g:1", "cpu-devices": "i:4",
		"web-config-file": "w.yml", "web-read-timeout": "3s", "web-write-timeout": "3s", "dcgm-log-level": "VERB", "log-format": "json",
	}
	for i, o := range new(config).options() {
		if o.env == "" {
			continue
		}
		t.Run(o.name, func(t *testing.T) {
			value := cmp.Or(syntax[o.name], "777")
			if on, isBool := o.def.(bool); isBool {
				value = fmt.Sprint(!on)
			}
			check := func(way string, args []string, env map[string]string) {
				t.Helper()
				c, err := parse(t, append(args, "--web-config-file=w.yml"), env) // which --enable-pprof needs
				if err != nil {
					t.Fatalf("%s: %v", way, err)
				}
				into := reflect.ValueOf(c.options()[i].into)
				if o.into != nil && strings.Trim(fmt.Sprint(into.Elem()), "[]") != value {
					t.Errorf("%s: %v, want %s", way, into.Elem(), value)
				}
				warned := slices.ContainsFunc(c.warnings, func(w string) bool { return strings.Contains(w, "--"+o.name+" has no effect: "+o.usage) })
				if warned != (o.into == nil) {
					t.Errorf("%s: warnings %q", way, c.warnings)
				}
			}
			check("two dashes", []string{"--" + o.name + "=" + value}, nil)
			check("one dash", []string{"-" + o.name + "=" + value}, nil)
			if o.short != "" {
				check("short", []string{"-" + o.short + "=" + value}, nil)
				check("short behind two dashes", []string{"--" + o.short + "=" + value}, nil)
			}
			if o.name != "web-config-file" { // which is a flag too, here
				check("environment", nil, map[string]string{o.env: value})
			}
			check("a flag wins", []string{"--" + o.name + "=" + value}, map[string]string{o.env: "nonsense"})
			if c, err := parse(t, nil, map[string]string{o.env: ""}); err != nil || len(c.warnings) > 0 {
				t.Errorf("an empty variable: %v, %q", err, c.warnings)
			}
		})
	}
}

// The meaning of a flag's text.
func TestWhatFlagsMean(t *testing.T) {
	for args, read := range map[string]func(c *config, o collect.CompatOptions) bool{
		`--kubernetes-pod-label-allowlist-regex=^app$, "q"`: func(c *config, _ collect.CompatOptions) bool {
			return allows(c.allowed, "app") && allows(c.allowed, `a"q"b`) && !allows(c.allowed, "other")
		},
		"-c=30000":                  func(c *config, _ collect.CompatOptions) bool { return c.interval() == 30*time.Second },
		"--kubernetes-virtual-gpus": func(_ *config, o collect.CompatOptions) bool { return o.VirtualGPUs },
		"-o":                        func(_ *config, o collect.CompatOptions) bool { return o.OldNamespace },
		"-n":                        func(_ *config, o collect.CompatOptions) bool { return o.Hostname == "" },
		"-r=engine:5555":            func(_ *config, o collect.CompatOptions) bool { return o.Hostname == "engine" },
		"-d=g:0,2-3+i": func(_ *config, o collect.CompatOptions) bool {
			return o.Devices.Major(3) && !o.Devices.Major(1) && o.Devices.Minor(9)
		},
		"-s=g:1": func(_ *config, o collect.CompatOptions) bool {
			return o.Switches.Major(1) && !o.Switches.Major(0) && !o.Switches.Minor(1)
		},
		"-p=i:4": func(_ *config, o collect.CompatOptions) bool {
			return o.CPUs.Minor(4) && !o.CPUs.Minor(5) && !o.CPUs.Major(4)
		},
		"-x=60000":                 func(_ *config, o collect.CompatOptions) bool { return o.XIDWindow == time.Minute },
		"-rbmn":                    func(_ *config, o collect.CompatOptions) bool { return o.DashedModel },
		"--rbmn":                   func(_ *config, o collect.CompatOptions) bool { return o.DashedModel },
		"--rbmn=true":              func(_ *config, o collect.CompatOptions) bool { return o.DashedModel },
		"--web-read-timeout=3s":    func(c *config, _ collect.CompatOptions) bool { return c.timeouts.read == 3*time.Second },
		"--dump-compression=false": func(c *config, _ collect.CompatOptions) bool { return !c.dump.compress },
		"--web-write-timeout=soon": func(c *config, _ collect.CompatOptions) bool {
			return c.timeouts.write == 10*time.Second && strings.Contains(c.warnings[0], `"soon" is not a duration`)
		},
		"--clock-events-count-window-size=0x3e8": func(_ *config, o collect.CompatOptions) bool { return o.ClockEventsWindow == time.Second },
	} {
		if c, err := parse(t, []string{args}, nil); err != nil || !read(c, c.compatOptions(nil)) {
			t.Errorf("%s: %v, %+v", args, err, c)
		}
	}
}

// Defaults that dcgm-exporter's chart and operator pass explicitly cause no warning.
func TestDefaultsSpelledOut(t *testing.T) {
	c, err := parse(t, []string{
		"-f", "/etc/dcgm-exporter/default-counters.csv", "-a", ":9400", "-c", "30000", "-d", "f", "-s", "f", "-p", "f", "-m", "none",
		"-x", "300000", "--fake-gpus=false", "--gpu-bind-unbind-poll-interval", "1s", "--dcgm-log-level", "NONE",
		"--watch-max-keep-age=10m0s", "--watch-max-keep-samples=0", "--dump-retention", "24", "--config-file=", "--container-runtime-socket=",
	}, nil)
	if err != nil || len(c.warnings) > 0 || c.configMap != "" || !c.series.Devices.Flexible() {
		t.Errorf("%v, warnings %q, %+v", err, c.warnings, c)
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
	if c, err := parse(t, []string{"--rbmn=false"}, map[string]string{"DCGM_EXPORTER_REPLACE_BLANKS_IN_MODEL_NAME": "true"}); err != nil || c.series.DashedModel {
		t.Errorf("an alias does not win over the environment: %v", err)
	}
	if _, err := parse(t, nil, map[string]string{"DCGM_EXPORTER_KUBERNETES": "yes"}); err == nil || !strings.Contains(err.Error(), `DCGM_EXPORTER_KUBERNETES="yes"`) {
		t.Errorf("yes: %v", err)
	}
}

// The hostname label is the remote host's, as in dcgm-exporter from 4.8.3 on. It is our own if the remote host is this
// machine, if our name is requested, if the address has no host, and with -k: the GPU Operator's host engine is
// "nvidia-dcgm:5555" on every node.
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
