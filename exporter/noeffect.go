package main

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// option is a flag of dcgm-exporter that is known here and does nothing.
type option struct {
	name, env string
	def       string // dcgm-exporter's default, which passes in silence
	isBool    bool
	why       string
}

// withoutEffect are accepted with a warning: their function is provided in
// another way, always on, or absent.
func withoutEffect() []option {
	return []option{
		{"fake-gpus", "DCGM_EXPORTER_USE_FAKE_GPUS", "false", true,
			"DCGM's fake GPUs are shown like any other; without DCGM there is --replay FILE"},
		{"disable-startup-validate", "DISABLE_STARTUP_VALIDATE", "false", true,
			"nothing is validated at the start that could be left out; gpuscale-exporter check does it on request"},
		{"enable-gpu-bind-unbind-watch", "DCGM_EXPORTER_ENABLE_GPU_BIND_UNBIND_WATCH", "false", true,
			"GPUs that come and go are always seen, with the next sample"},
		{"gpu-bind-unbind-poll-interval", "DCGM_EXPORTER_GPU_BIND_UNBIND_POLL_INTERVAL", "1s", false,
			"GPUs that come and go are seen with the next sample, every --collect-interval"},
		{"watch-max-keep-age", "DCGM_EXPORTER_WATCH_MAX_KEEP_AGE", "10m0s", false,
			"every sample is read as it is taken, so DCGM keeps few: those of three intervals, at least 10 s"},
		{"watch-max-keep-samples", "DCGM_EXPORTER_WATCH_MAX_KEEP_SAMPLES", "0", false,
			"every sample is read as it is taken, so DCGM keeps few: those of three intervals, at least 10 s"},
		{"container-labels", "DCGM_EXPORTER_CONTAINER_LABELS", "false", true,
			"labels of containers outside Kubernetes are not read; under Kubernetes there is --kubernetes-enable-pod-labels"},
		{"container-runtime-socket", "DCGM_CONTAINER_RUNTIME_SOCKET", "", false,
			"the container runtime is not asked; the kubelet is, with --kubernetes"},
	}
}

// refusedOptions cannot be ignored: the series served would differ from those
// requested.
func refusedOptions() []option {
	return []option{
		{"config-file", "DCGM_EXPORTER_CONFIG_FILE", "", false,
			"dcgm-exporter's YAML configuration is not read; use -f FILE for metrics.file or metrics.fields (as CSV), -c MILLISECONDS for collection.interval, and flags or environment variables for the rest"},
	}
}

// addNoEffect declares them hidden.
func addNoEffect(f *pflag.FlagSet) {
	for _, o := range withoutEffect() {
		o.declare(f)
	}
}

func addRefused(f *pflag.FlagSet) {
	for _, o := range refusedOptions() {
		o.declare(f)
	}
}

func (o *option) declare(f *pflag.FlagSet) {
	if o.isBool {
		f.Bool(o.name, o.def == "true", o.why)
	} else {
		f.String(o.name, o.def, o.why)
	}
	f.Lookup(o.name).Hidden = true
}

// asked reports whether an option is given with a value other than
// dcgm-exporter's default.
func (o *option) asked(f *pflag.FlagSet) bool {
	flag := f.Lookup(o.name)
	return flag.Changed && !strings.EqualFold(flag.Value.String(), o.def)
}

// noEffect returns a warning for each such option given.
func noEffect(f *pflag.FlagSet) []string {
	var warnings []string
	for _, o := range withoutEffect() {
		if o.asked(f) {
			warnings = append(warnings, fmt.Sprintf("--%s has no effect: %s", o.name, o.why))
		}
	}
	return warnings
}

// refused returns a problem for each such option given.
func refused(f *pflag.FlagSet) []error {
	var problems []error
	for _, o := range refusedOptions() {
		if o.asked(f) {
			problems = append(problems, fmt.Errorf("--%s (%s): %s", o.name, o.env, o.why))
		}
	}
	return problems
}
