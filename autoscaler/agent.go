package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/autoscaler/partition/agent"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/serve"
)

// agentFlags are what newAgentCommand is told.
type agentFlags struct {
	config, kubeconfig, node, pod, listen, logLevel string
	check                                           bool
}

// newAgentCommand is the program on each node whose pool has mig.actuator agent.
func newAgentCommand(out, errs io.Writer) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Cut this node's MIG cards as the autoscaler says, around busy instances",
		Args:  noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := agent.LoadConfig(f.config)
			if err != nil {
				return err
			}
			if f.check {
				fmt.Fprintln(out, "the configuration is valid")
				return nil
			}
			return runAgent(cmd.Context(), c, f, errs)
		},
	}
	fs := cmd.Flags()
	fs.StringVar(&f.config, "config", "", "configuration file; empty means defaults")
	fs.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account")
	fs.StringVar(&f.node, "node-name", os.Getenv("NODE_NAME"), "name of the node (default: the environment's NODE_NAME)")
	fs.StringVar(&f.pod, "pod", ownPod(), "the agent's own pod, namespace/name; empty: a kubelet that has just been started is not recognised (default: the environment's POD_NAMESPACE and POD_NAME)")
	fs.StringVar(&f.listen, "listen", ":9404", "address of /metrics, /livez and /readyz; empty serves nothing")
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.BoolVar(&f.check, "check", false, "check the configuration and end")
	return cmd
}

func ownPod() string {
	namespace, name := os.Getenv("POD_NAMESPACE"), os.Getenv("POD_NAME")
	if namespace == "" || name == "" {
		return ""
	}
	return namespace + "/" + name
}

func runAgent(ctx context.Context, c agent.Config, f agentFlags, errs io.Writer) error {
	if f.node == "" {
		return usage{fmt.Errorf("--node-name: want the node's name; in a pod, set NODE_NAME from spec.nodeName")}
	}
	log, err := newLog(errs, f.logLevel)
	if err != nil {
		return err
	}
	rc, err := kube.Config(kube.Options{Kubeconfig: f.kubeconfig, UserAgent: component + "-agent/" + buildinfo.Version()})
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return fmt.Errorf("connecting to the cluster: %w", err)
	}
	kubelet, err := agent.DialKubelet(c.KubeletSocket, f.pod)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cluster := agent.NewCluster(client, f.node)
	a := agent.New(agent.Options{
		Cluster: cluster, Hardware: hardware.New(c.Library, c.CallTimeout.Duration), Holders: kubelet,
		Exporter: agent.NewExporter(c.Exporter, cluster), Config: c, Boot: bootID(log), Metrics: agent.NewMetrics(registry), Log: log,
	})
	log.Info("starting", "version", buildinfo.Version(), "node", f.node, "freeze", c.Freeze)
	if f.listen == "" {
		return lead(ctx, c, a, log)
	}
	server, err := serve.New(serve.Options{Address: f.listen, Metrics: serve.Metrics(registry, log), Ready: a.Health.Ready, Live: a.Health.Live, Log: log})
	if err != nil {
		return err
	}
	return serveWhile(ctx, server, func(ctx context.Context) error { return lead(ctx, c, a, log) })
}

// serveWhile runs work beside a server; either's end is the other's.
func serveWhile(ctx context.Context, server *serve.Server, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving := make(chan error, 1)
	go func() {
		defer cancel() // nobody could see the agent any more
		serving <- server.Run(ctx)
	}()
	err := work(ctx)
	cancel()
	if served := <-serving; served != nil {
		return served // why the work was ended too
	}
	return err
}

// lead runs the agent while no other one runs on the machine.
func lead(ctx context.Context, c agent.Config, a *agent.Agent, log *slog.Logger) error {
	said := false
	release, err := agent.Lock(ctx, c.LockFile, func() {
		a.Health.Waiting()
		if !said {
			log.Warn("another agent runs on this machine; this one waits for its end", "file", c.LockFile)
		}
		said = true
	})
	if err != nil {
		return err
	}
	defer release()
	a.Run(ctx)
	return ctx.Err()
}

// bootID is what kubelet writes into the node's status, which does not outlive a
// boot. Without it the autoscaler believes no report.
func bootID(log *slog.Logger) string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		log.Warn("the boot ID cannot be read; the autoscaler will not believe what is reported", "err", err)
	}
	return strings.TrimSpace(string(text))
}
