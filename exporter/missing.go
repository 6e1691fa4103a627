package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// missingFlag is a flag of dcgm-exporter that does nothing here yet. Its
// default is accepted: a chart that spells defaults out must work.
type missingFlag struct{ name, short, env, def string }

func missingFlags() []missingFlag {
	return []missingFlag{
		{"configmap-data", "m", "DCGM_EXPORTER_CONFIGMAP_DATA", "none"},
		{"devices", "d", "DCGM_EXPORTER_DEVICES_STR", "f"},
		{"switch-devices", "s", "DCGM_EXPORTER_OTHER_DEVICES_STR", "f"},
		{"cpu-devices", "p", "DCGM_EXPORTER_CPU_DEVICES_STR", "f"},
		{"xid-count-window-size", "x", "DCGM_EXPORTER_XID_COUNT_WINDOW_SIZE", "300000"},
		{"clock-events-count-window-size", "", "DCGM_EXPORTER_CLOCK_EVENTS_COUNT_WINDOW_SIZE", "300000"},
		{"kubernetes-enable-pod-labels", "", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_LABELS", "false"},
		{"kubernetes-enable-pod-uid", "", "DCGM_EXPORTER_KUBERNETES_ENABLE_POD_UID", "false"},
		{"kubernetes-pod-label-allowlist-regex", "", "DCGM_EXPORTER_KUBERNETES_POD_LABEL_ALLOWLIST_REGEX", ""},
		{"kubernetes-virtual-gpus", "", "KUBERNETES_VIRTUAL_GPUS", "false"},
		{"kubernetes-enable-dra", "", "KUBERNETES_ENABLE_DRA", "false"},
		{"fake-gpus", "", "DCGM_EXPORTER_USE_FAKE_GPUS", "false"},
		{"web-systemd-socket", "", "DCGM_EXPORTER_SYSTEMD_SOCKET", "false"},
		{"enable-dcgm-log", "", "DCGM_EXPORTER_ENABLE_DCGM_LOG", "false"},
		{"dcgm-log-level", "", "DCGM_EXPORTER_DCGM_LOG_LEVEL", "NONE"},
		{"hpc-job-mapping-dir", "", "DCGM_HPC_JOB_MAPPING_DIR", ""},
		{"dump-enabled", "", "DCGM_EXPORTER_DUMP_ENABLED", "false"},
		{"dump-directory", "", "DCGM_EXPORTER_DUMP_DIRECTORY", "/tmp/dcgm-exporter-debug"},
		{"dump-retention", "", "DCGM_EXPORTER_DUMP_RETENTION", "24"},
		{"dump-compression", "", "DCGM_EXPORTER_DUMP_COMPRESSION", "true"},
		{"disable-startup-validate", "", "DISABLE_STARTUP_VALIDATE", "false"},
		{"enable-gpu-bind-unbind-watch", "", "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", "false"},
		{"gpu-bind-unbind-poll-interval", "", "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", "1s"},
		{"enable-pprof", "", "DCGM_EXPORTER_ENABLE_PPROF", "false"},
	}
}

// addMissing declares them hidden, so that one in use gets our message and not
// "unknown flag".
func addMissing(f *pflag.FlagSet) {
	for _, m := range missingFlags() {
		f.StringP(m.name, m.short, m.def, "not available yet")
		flag := f.Lookup(m.name)
		flag.Hidden = true
		if m.def == "false" || m.def == "true" {
			flag.NoOptDefVal = "true"
		}
	}
}

// missing returns a problem for each of them that is asked for.
func missing(f *pflag.FlagSet, env func(string) (string, bool)) []error {
	var problems []error
	for _, m := range missingFlags() {
		flag := f.Lookup(m.name)
		if flag.Changed && !strings.EqualFold(flag.Value.String(), m.def) {
			problems = append(problems, fmt.Errorf("--%s: a dcgm-exporter flag that gpuscale-exporter does not have yet; remove it to go on without", m.name))
			continue
		}
		if value, ok := env(m.env); ok && value != "" && !flag.Changed && !strings.EqualFold(value, m.def) {
			problems = append(problems, fmt.Errorf("%s=%q: stands for dcgm-exporter's --%s, which gpuscale-exporter does not have yet; remove it to go on without", m.env, value, m.name))
		}
	}
	return problems
}

// doubleDashes rewrites arguments to the spelling that pflag wants: dcgm-exporter
// takes long flags behind one dash and short ones behind two.
func doubleDashes(f *pflag.FlagSet, args []string) []string {
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
