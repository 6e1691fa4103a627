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
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/gpuscale/gpuscale/agent/hardware"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/buildinfo/versioncmd"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/serve"
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
		Use:           program,
		Short:         "Experimental: repartition this node's MIG GPUs as the autoscaler decides, without disturbing allocated instances",
		Version:       buildinfo.Version(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := LoadConfig(f.config)
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
	cmd.AddCommand(versioncmd.New(program))
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
	cluster, err := NewCluster(rc, f.node)
	if err != nil {
		return err
	}
	kubelet, err := DialKubelet(c.KubeletSocket, f.pod)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	a := New(Options{
		Cluster: cluster, Hardware: hardware.New(c.Library, c.CallTimeout.Duration), Kubelet: kubelet,
		Config: c, Boot: bootID(log), Metrics: NewMetrics(registry), Log: log,
	})
	log.Info("starting", "version", buildinfo.Version(), "node", f.node, "freeze", c.Freeze)
	together, ctx := errgroup.WithContext(ctx)
	if f.listen != "" {
		server, err := serve.New(serve.Options{Address: f.listen, Metrics: serve.Metrics(registry, log), Ready: a.Health.Ready, Live: a.Health.Live, Log: log})
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
	logged := false
	release, err := Lock(ctx, c.LockFile, func() {
		a.Health.Waiting()
		if !logged {
			log.Warn("waiting for another agent on this machine to end", "file", c.LockFile)
		}
		logged = true
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
