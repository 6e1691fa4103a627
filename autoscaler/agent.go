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

// agentFlags are the flags of newAgentCommand.
type agentFlags struct {
	config, kubeconfig, node, pod, listen, logLevel string
	check                                           bool
}

// newAgentCommand returns the command that runs on each node of pools with mig.actuator
// agent.
func newAgentCommand(out, errs io.Writer) *cobra.Command {
	var f agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Experimental: repartition this node's MIG GPUs as the autoscaler decides, without disturbing allocated instances",
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
	fs.StringVar(&f.pod, "pod", ownPod(), "the agent's own pod, namespace/name; empty: a restart of kubelet is not recognised (default: the environment's POD_NAMESPACE and POD_NAME)")
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
		Cluster: cluster, Hardware: hardware.New(c.Library, c.CallTimeout.Duration), PodResources: kubelet,
		Exporter: agent.NewExporter(c.Exporter), Config: c, Boot: bootID(log), Metrics: agent.NewMetrics(registry), Log: log,
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

// serveWhile runs a server and work; when one of them ends, so does the other.
func serveWhile(ctx context.Context, server *serve.Server, work func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	serving := make(chan error, 1)
	go func() {
		defer cancel() // without the server there are no probes
		serving <- server.Run(ctx)
	}()
	err := work(ctx)
	cancel()
	if served := <-serving; served != nil {
		return served // it has ended work, too
	}
	return err
}

// lead runs the agent once it holds the machine's lock.
func lead(ctx context.Context, c agent.Config, a *agent.Agent, log *slog.Logger) error {
	logged := false
	release, err := agent.Lock(ctx, c.LockFile, func() {
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
