package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuscale/gpuscale/autoscaler/partition/agent"
	"github.com/gpuscale/gpuscale/autoscaler/partition/agent/hardware"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/kube"
)

// agentFlags are what newAgentCommand is told.
type agentFlags struct {
	config, kubeconfig, node, logLevel string
	check                              bool
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
	fs.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fs.BoolVar(&f.check, "check", false, "check the configuration and end")
	return cmd
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
	kubelet, err := agent.DialKubelet(c.KubeletSocket)
	if err != nil {
		return err
	}
	cluster := agent.NewCluster(client, f.node)
	log.Info("starting", "version", buildinfo.Version(), "node", f.node, "freeze", c.Freeze)
	agent.New(agent.Options{
		Cluster: cluster, Hardware: hardware.New(c.Library, c.CallTimeout.Duration), Holders: kubelet,
		Exporter: agent.NewExporter(c.Exporter, cluster), Config: c, Log: log,
	}).Run(ctx)
	return ctx.Err()
}
