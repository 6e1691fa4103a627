// Command gpuscale-agent changes the MIG layout of the GPUs of the node that it runs on. It is
// experimental until it has met a GPU.
//
// Its input is the node's annotation gpuscale.io/repartition, where the autoscaler records an
// operation. It works on one GPU at a time: it destroys idle instances, creates new ones at exact
// placements, and leaves busy ones. Each step is recorded in the annotation gpuscale.io/mig-agent
// before it is done, and the next step always follows from the GPU's state, so the agent may be
// killed at any point: after a restart it finishes or undoes the operation. Before a change the
// exporter releases the GPU; afterwards the device plugin is restarted. The agent reports the
// layout that it reads. It never decides what a layout should be, and writes to no other node.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/serve"
	"github.com/gpuscale/gpuscale/internal/strict"
)

const program = "gpuscale-agent"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := newCommand(os.Stdout, os.Stderr).ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, program+":", err)
		stop()
		os.Exit(1)
	}
}

// flags of the program; everything else is in the configuration file.
type flags struct {
	config, kubeconfig, node, pod, listen string
	logLevel                              slog.LevelVar
	check                                 bool
}

// newCommand returns the program, which runs on each node of pools with mig.actuator agent.
func newCommand(out, errs io.Writer) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:     program,
		Short:   "Experimental: repartition this node's MIG GPUs as the autoscaler decides",
		Version: buildinfo.Version(),
		Args:    command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := loadConfig(f.config)
			if err != nil {
				return err
			}
			if f.check {
				fmt.Fprintln(out, "the configuration is valid")
				return nil
			}
			return run(cmd.Context(), c, &f, slog.New(slog.NewTextHandler(errs, &slog.HandlerOptions{Level: &f.logLevel})))
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file; empty means defaults")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account")
	fs.StringVar(&f.node, "node-name", os.Getenv("NODE_NAME"), "name of the node (default: the environment's NODE_NAME)")
	fs.StringVar(&f.pod, "pod", ownPod(), "the agent's own pod, namespace/name; empty: a restart of kubelet is not recognised (default: the environment's POD_NAMESPACE and POD_NAME)")
	fs.StringVar(&f.listen, "listen", ":9404", "address of /metrics, /livez and /readyz; empty serves nothing")
	fs.TextVar(&f.logLevel, "log-level", &f.logLevel, "debug, info, warn or error")
	fs.BoolVar(&f.check, "check", false, "check the configuration and end")
	command.Setup(cmd, program)
	cmd.CompletionOptions.DisableDefaultCmd = true
	cmd.SetOut(out)
	cmd.SetErr(errs)
	return cmd
}

func ownPod() string {
	namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME")
	if namespace == "" || name == "" {
		return ""
	}
	return namespace + "/" + name
}

func run(ctx context.Context, c Config, f *flags, log *slog.Logger) error {
	if f.node == "" {
		return errors.New("--node-name: want the node's name; in a pod, set NODE_NAME from spec.nodeName")
	}
	rc, err := kube.Config(kube.Options{Kubeconfig: f.kubeconfig, UserAgent: program + "/" + buildinfo.Version()})
	if err != nil {
		return err
	}
	cluster, err := newCluster(rc, f.node)
	if err != nil {
		return err
	}
	kubelet, err := dialKubelet(c.KubeletSocket, f.pod)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a := New(Options{
		Cluster: cluster, Hardware: hardware.New(c.Library, c.CallTimeout.Duration), Kubelet: kubelet,
		Config: c, Boot: bootID(log), Metrics: newMetrics(registry), Log: log,
	})
	log.Info("starting", "version", buildinfo.Version(), "node", f.node, "freeze", c.Freeze)
	together, ctx := errgroup.WithContext(ctx)
	if f.listen != "" {
		server, err := serve.New(serve.Options{Address: f.listen, Metrics: serve.Metrics(registry, log), Ready: a.Health.Ready, Log: log})
		if err != nil {
			return err
		}
		together.Go(func() error { return server.Run(ctx) }) // without it there are no probes
	}
	together.Go(func() error { return lead(ctx, c, a, log) })
	return together.Wait()
}

// lead runs the agent once it holds the machine's lock.
func lead(ctx context.Context, c Config, a *Agent, log *slog.Logger) error {
	var once sync.Once
	release, err := lock(ctx, c.LockFile, func() {
		a.Health.Waiting()
		once.Do(func() { log.Warn("waiting for another agent on this machine to end", "file", c.LockFile) })
	})
	if err != nil {
		return err
	}
	defer release()
	a.Run(ctx)
	return ctx.Err()
}

// bootID is the boot ID that kubelet writes to the node's status too; it changes at each
// boot. Without it the autoscaler rejects the agent's reports.
func bootID(log *slog.Logger) string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		log.Warn("reading boot ID failed; the autoscaler will reject reports", "err", err)
	}
	return strings.TrimSpace(string(text))
}

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

// defaultConfig is for a cluster with the GPU Operator.
func defaultConfig() Config {
	return Config{
		CallTimeout: seconds(30), Period: seconds(10), PluginTimeout: seconds(60),
		LockFile:      "/run/gpuscale/agent.lock",
		KubeletSocket: "/var/lib/kubelet/pod-resources/kubelet.sock",
		Exporter:      ExporterConfig{By: bySocket, Socket: "/run/gpuscale/exporter.sock", Timeout: seconds(15)},
		DevicePlugin:  Pods{Namespace: "gpu-operator", Selector: "app=nvidia-device-plugin-daemonset"},
	}
}

func seconds(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }

// loadConfig reads a file; an empty path means defaultConfig.
func loadConfig(path string) (Config, error) {
	if path == "" {
		return defaultConfig(), nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("reading the configuration: %w", err)
	}
	return parseConfig(path, text)
}

// parseConfig reads a configuration over defaultConfig.
func parseConfig(file string, text []byte) (Config, error) {
	c := defaultConfig()
	return c, strict.Read(file, text, &c, func() error { return c.Validate() })
}

// driverVersion is NVIDIA's format of driver versions.
var driverVersion = regexp.MustCompile(`^[1-9][0-9]{0,4}(\.[0-9]{1,5}){1,2}$`)

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
