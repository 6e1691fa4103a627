package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/client-go/discovery"
	"k8s.io/metrics/pkg/client/custom_metrics"

	"github.com/gpuscale/gpuscale/adapter/cache"
	"github.com/gpuscale/gpuscale/adapter/config"
	"github.com/gpuscale/gpuscale/adapter/explain"
	"github.com/gpuscale/gpuscale/adapter/explain/hpa"
	"github.com/gpuscale/gpuscale/internal/buildinfo"
	"github.com/gpuscale/gpuscale/internal/command"
	"github.com/gpuscale/gpuscale/internal/kube"
	"github.com/gpuscale/gpuscale/internal/prom"
)

const reachHelp = `
It reads the API server with your kubeconfig and queries Prometheus directly:
run it on your machine with, for example,
  kubectl -n monitoring port-forward svc/prometheus-operated 9090 &
  --prometheus-url http://localhost:9090
Rules, Prometheus' address and credentials come from --config; without it the
rules are the built-in ones.`

// lookFlags are the flags that explain and simulate share.
type lookFlags struct {
	explain.Options
	config, kubeconfig, context string
	server                      paFlags
	hpaFile                     string
	sets                        []string
	timeout                     time.Duration
	output                      string
}

func (f *lookFlags) add(flags *pflag.FlagSet, outputs string) {
	flags.StringVar(&f.config, "config", "", "the adapter's YAML configuration file")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "kubeconfig file; empty means the pod's service account in a pod, else $KUBECONFIG, then ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig file")
	f.server.addServer(flags)
	flags.Lookup("prometheus-url").Usage = "query this Prometheus for every rule, in place of the configuration's; without --config, $PROMETHEUS_URL if empty"
	flags.StringVar(&f.hpaFile, "hpa", "", "YAML file of an HPA to use in place of the cluster's")
	flags.StringArrayVar(&f.sets, "set", nil, "try a change, such as minReplicas=2 or metrics[0].target.averageValue=12 (repeatable)")
	flags.Float64Var(&f.Tolerance, "tolerance", hpa.DefaultTolerance, "the controller manager's --horizontal-pod-autoscaler-tolerance")
	flags.DurationVar(&f.Window, "downscale-stabilization", hpa.DefaultWindow, "the controller manager's --horizontal-pod-autoscaler-downscale-stabilization")
	flags.DurationVar(&f.timeout, "timeout", 30*time.Second, "of one query, and of one request to the API server")
	flags.StringVarP(&f.output, "output", "o", "text", outputs)
}

func explainCommand() *cobra.Command {
	var f lookFlags
	var viaAPI bool
	cmd := &cobra.Command{
		Use:   "explain hpa NAMESPACE/NAME",
		Short: "Show what an HPA requests, the samples used, and the replicas",
		Long:  "Show what an HPA requests, the adapter's answers and their samples, and the replicas\nthat follow.\n" + reachHelp,
		Args:  hpaArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.output != "text" && f.output != "json" {
				return command.Usage(fmt.Errorf("--output %q is neither text nor json", f.output))
			}
			w, client, err := f.look(cmd.Context(), args[1])
			if err != nil {
				return err
			}
			// The version that the HPA controller uses.
			f.APIVersion = "v1beta2"
			if v, err := custom_metrics.NewAvailableAPIsGetter(client).PreferredVersion(); err == nil {
				f.APIVersion = v.Version
			}
			if viaAPI {
				f.ViaAPI = func(ctx context.Context, path string) string {
					raw, err := client.RESTClient().Get().RequestURI(path).DoRaw(ctx)
					if err != nil {
						return "error: " + err.Error() + " " + strings.TrimSpace(string(raw))
					}
					return strings.TrimSpace(string(raw))
				}
			}
			r := explain.Explain(cmd.Context(), w, f.Options)
			if f.output == "text" {
				return r.Text(cmd.OutOrStdout())
			}
			return explain.WriteJSON(cmd.OutOrStdout(), r)
		},
	}
	f.add(cmd.Flags(), "text or json")
	cmd.Flags().BoolVar(&viaAPI, "via-api", false, "also ask the aggregated metrics API, as the HPA controller does, and show its answers")
	return cmd
}

var namespaced = regexp.MustCompile("^[^/]+/[^/]+$")

func hpaArgs(_ *cobra.Command, args []string) error {
	if len(args) != 2 || args[0] != "hpa" || !namespaced.MatchString(args[1]) {
		return command.Usage(errors.New("name the HPA as in: hpa NAMESPACE/NAME"))
	}
	return nil
}

// look reads what explain and simulate are about, and the adapter's rules.
func (f *lookFlags) look(ctx context.Context, name string) (w explain.World, client discovery.DiscoveryInterface, err error) {
	if f.Tolerance < 0 || f.Window < 0 || f.timeout <= 0 {
		return w, nil, command.Usage(errors.New("--tolerance and --downscale-stabilization must not be negative, and --timeout must be positive"))
	}
	if f.config == "" { // as in gpuscale-report
		f.server.url = cmp.Or(f.server.url, os.Getenv("PROMETHEUS_URL"))
	}
	kube.AwaitForward(ctx, f.server.url)
	namespace, name, _ := strings.Cut(name, "/")
	if f.Rules, f.Elsewhere, err = f.rules(namespace); err != nil {
		return w, nil, err
	}
	rc, err := kube.Config(kube.Options{Kubeconfig: f.kubeconfig, Context: f.context, UserAgent: "gpuscale-adapter/" + buildinfo.Version()})
	if err != nil {
		return w, nil, err
	}
	rc.Timeout = f.timeout
	cluster, err := explain.NewCluster(rc)
	if err != nil {
		return w, nil, err
	}
	var given *autoscaling.HorizontalPodAutoscaler
	if f.hpaFile != "" {
		raw, err := os.ReadFile(f.hpaFile)
		if err != nil {
			return w, nil, fmt.Errorf("reading --hpa: %w", err)
		}
		if given, err = explain.ReadHPA(f.hpaFile, raw); err != nil {
			return w, nil, err
		}
	}
	w, err = cluster.Read(ctx, namespace, name, given, f.sets)
	return w, cluster.Kube.Discovery(), err
}

// file returns the configuration with the flags applied. --prometheus-url replaces every
// backend.
func (f *lookFlags) file() (*config.File, error) {
	overlay, err := f.server.overlay()
	if err != nil {
		return nil, err
	}
	override := func(c *config.Config) {
		given := f.server.url != ""
		if given {
			c.Prometheus.Config = prom.Config{}
			c.Backends = slices.DeleteFunc(c.Backends, func(b config.Backend) bool { return b.Name == cache.DefaultBackend })
		}
		overlay(c)
		for i := range c.Backends {
			if given {
				c.Backends[i].Prometheus = c.Prometheus // its own credentials may be missing on this machine
			}
		}
	}
	switch {
	case f.config == "" && f.server.url == "":
		return nil, command.Usage(errors.New("--prometheus-url is required, such as http://localhost:9090 behind kubectl port-forward, or --config with the adapter's configuration file"))
	case f.config == "":
		return config.Read("--prometheus-url", nil, override)
	}
	return load(f.config, override)
}

// rules returns the adapter's rules, each with the Prometheus to query about a namespace.
// others names the sources of metrics without a rule; "" if there is none.
func (f *lookFlags) rules(namespace string) (rules []explain.Rule, others string, err error) {
	file, err := f.file()
	if err != nil {
		return nil, "", err
	}
	clients := map[string]*prom.Client{}
	for _, b := range file.Config.All() {
		c := b.Config
		c.Timeout = f.timeout
		if b.NamespaceParameter != "" {
			c.Parameters = map[string]string{b.NamespaceParameter: namespace}
			maps.Copy(c.Parameters, b.Parameters)
		}
		if clients[b.Name], err = prom.New(c); err != nil {
			return nil, "", fmt.Errorf("backend %s: %w", b.Name, err)
		}
	}
	var unless string
	var elsewhere []string
	if theirs := file.Config.PrometheusAdapter; theirs.Enabled() {
		unless = ", unless " + theirs.ConfigFile + " declares a metric of this name: compare --via-api"
		elsewhere = append(elsewhere, "the rules of "+theirs.ConfigFile+" (prometheus-adapter's format, not explained here) may serve it")
	}
	if file.Config.Forward.External != nil {
		elsewhere = append(elsewhere, "the adapter forwards the external ones it does not know")
	}
	for _, r := range file.Rules {
		rules = append(rules, explain.Rule{Rule: r.Rule, Source: r.At(f.config) + unless, Querier: clients[cmp.Or(r.Rule.Backend, cache.DefaultBackend)]})
	}
	return rules, strings.Join(elsewhere, ", or "), nil
}
