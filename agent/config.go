package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/internal/kube"
)

// Config of an agent. Durations are written "30s".
type Config struct {
	// Freeze starts no operation; the layout is still reported. The annotation
	// gpuscale.io/mig-agent-off does the same for one node.
	Freeze bool `json:"freeze"`
	// AllowUnfixedDriver allows repartitioning under a driver that has CVE-2026-24197 or may have
	// it.
	AllowUnfixedDriver bool `json:"allowUnfixedDriver"`
	// FixedDrivers are fixed versions in addition to the built-in ones: "570.240.01" stands for
	// itself and for newer versions of its branch.
	FixedDrivers []string `json:"fixedDrivers"`
	// AllowModeChange allows enabling MIG on a GPU that is not in MIG mode. On Ampere this resets
	// the GPU, and is done only while no GPU of the node is in use.
	AllowModeChange bool `json:"allowModeChange"`
	// Library of the driver; empty for the loader's choice.
	Library string `json:"library"`
	// CallTimeout bounds a call into the driver, Period is the time between reads of the GPUs,
	// PluginTimeout bounds the restart of a device plugin.
	CallTimeout   metav1.Duration `json:"callTimeout"`
	Period        metav1.Duration `json:"period"`
	PluginTimeout metav1.Duration `json:"pluginTimeout"`
	// LockFile excludes a second agent on the machine; empty disables the lock.
	LockFile string `json:"lockFile"`
	// KubeletSocket is the PodResources socket.
	KubeletSocket string         `json:"kubeletSocket"`
	Exporter      ExporterConfig `json:"exporter"`
	// DevicePlugin is restarted after a change.
	DevicePlugin Pods `json:"devicePlugin"`
}

// ExporterConfig defines how the exporter of the node is asked to release a GPU.
type ExporterConfig struct {
	// By is "socket", or "none" where no exporter with NVML or DCGM runs on the node.
	By     string `json:"by"`
	Socket string `json:"socket"`
	// Timeout of an answer.
	Timeout metav1.Duration `json:"timeout"`
}

// Pods are selected by namespace and labels.
type Pods struct {
	Namespace string `json:"namespace"`
	Selector  string `json:"selector"`
}

// DefaultConfig is for a cluster with the GPU Operator.
func DefaultConfig() Config {
	return Config{
		CallTimeout: seconds(30), Period: seconds(10), PluginTimeout: seconds(60),
		LockFile:      "/run/gpuscale/agent.lock",
		KubeletSocket: "/var/lib/kubelet/pod-resources/kubelet.sock",
		Exporter:      ExporterConfig{By: bySocket, Socket: "/run/gpuscale/exporter.sock", Timeout: seconds(15)},
		DevicePlugin:  Pods{Namespace: "gpu-operator", Selector: "app=nvidia-device-plugin-daemonset"},
	}
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

// maxConfigBytes bounds the configuration file.
const maxConfigBytes = 1 << 20

// LoadConfig reads a file; an empty path is DefaultConfig.
func LoadConfig(path string) (Config, error) {
	if path == "" {
		return DefaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	c, err := ParseConfig(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// ParseConfig reads a configuration; fields that are not set are as in DefaultConfig.
func ParseConfig(text []byte) (Config, error) {
	c := DefaultConfig()
	if len(text) > maxConfigBytes {
		return Config{}, fmt.Errorf("%d bytes, at most %d are read", len(text), maxConfigBytes)
	}
	if err := kube.Strict(text, &c); err != nil {
		return Config{}, err
	}
	return c, c.Validate()
}

// driverVersion is NVIDIA's format of driver versions.
var driverVersion = regexp.MustCompile(`^[0-9]{1,5}(\.[0-9]{1,5}){1,2}$`)

// Validate returns all problems, each with its field.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	for i, v := range c.FixedDrivers {
		if !driverVersion.MatchString(v) {
			wrong("fixedDrivers[%d]: %q: want a version as in 570.240.01", i, v)
		}
	}
	for _, d := range []struct {
		field string
		is    metav1.Duration
	}{{"callTimeout", c.CallTimeout}, {"period", c.Period}, {"pluginTimeout", c.PluginTimeout}, {"exporter.timeout", c.Exporter.Timeout}} {
		if d.is.Duration < time.Second || d.is.Duration > 10*time.Minute {
			wrong("%s: %s: want 1s to 10m", d.field, d.is.Duration)
		}
	}
	switch by := c.Exporter.By; {
	case by != bySocket && by != byNothing:
		wrong("exporter.by: %q: want %s or %s", by, bySocket, byNothing)
	case by == bySocket && c.Exporter.Socket == "":
		wrong("exporter.socket: want a path, or exporter.by: %s", byNothing)
	}
	if strings.TrimSpace(c.KubeletSocket) == "" {
		wrong("kubeletSocket: want a path: allocations cannot be read without it")
	}
	if c.DevicePlugin.Namespace == "" {
		wrong("devicePlugin.namespace: want the namespace of the NVIDIA device plugin")
	}
	if s, err := labels.Parse(c.DevicePlugin.Selector); err != nil || s.Empty() {
		wrong("devicePlugin.selector: %q: want a label selector that matches the device plugin's pods only", c.DevicePlugin.Selector)
	}
	return errors.Join(errs...)
}
